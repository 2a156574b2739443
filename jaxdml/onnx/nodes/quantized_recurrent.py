"""DynamicQuantizeLSTM of com.microsoft, which onnxruntime's quantizer makes of every LSTM.

As in onnxruntime on one thread, all inputs are quantized together, and the hidden states of each step and direction. So
an answer depends on what else is in the batch. States of sequences that have ended do not count.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

import jaxdml
from jaxdml._networks.recurrence import both_biases, lstm_step
from jaxdml.onnx.nodes._handler import SCALING, Handler, NodeCall, Table
from jaxdml.onnx.nodes._recurrence import refuses, run
from jaxdml.onnx.nodes.recurrent import lstm_gates
from jaxdml.onnx.values.kinds import channels_first, right_matrix
from jaxdml.onnx.values.stored import on_device


def dynamic_quantize_lstm(
    call: NodeCall,
    X: Any,
    W: Any,
    R: Any,
    B: Any,
    sequence_lens: Any,
    initial_h: Any,
    initial_c: Any,
    P: Any,
    W_scale: Any,
    W_zero_point: Any,
    R_scale: Any,
    R_zero_point: Any,
    *,
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    activations: Sequence[str] = (),
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    input_forget: int = 0,
) -> tuple[Any, ...]:
    """Run a long short-term memory whose products are those of integers."""
    given = {"X": X, "B": B, "sequence_lens": sequence_lens, "initial_h": initial_h, "initial_c": initial_c, "P": P}
    arrays: dict[str, Any] = {
        name: None if value is None else on_device(channels_first(value)) for name, value in given.items()
    }
    W, R = right_matrix(W), right_matrix(R)
    directions, size, columns = R.shape
    of_inputs = (W, *(_by_column(directions, value) for value in (W_scale, W_zero_point)))
    of_states = (R, *(_by_column(directions, value) for value in (R_scale, R_zero_point)))
    x, lengths = arrays["X"], arrays["sequence_lens"]
    time, batch, inputs = x.shape
    if lengths is not None:  # What no sequence reaches does not count for the range.
        x = jnp.where((jnp.arange(time) < lengths.max(initial=0))[:, None, None], x, 0)
    products = _product(of_inputs, x.reshape(1, time * batch, inputs))
    if arrays["B"] is not None:
        products = products + both_biases(arrays["B"])[:, None]
    products = jnp.moveaxis(products.reshape(directions, time, batch, columns), 0, 2)
    gates = lstm_gates(activations, activation_alpha, activation_beta, clip, directions)
    step = partial(lstm_step, gates, partial(_product, of_states), arrays["P"], bool(input_forget))
    return run(step, products, (arrays["initial_h"], arrays["initial_c"]), size, lengths, direction)


def _by_column(directions: int, value: Any) -> jax.Array:
    """Return scales or zero points as [directions, 1, 1 or columns]."""
    return on_device(channels_first(value)).reshape(directions, 1, -1)


def _product(weights: tuple[Any, jax.Array, jax.Array], x: Any) -> jax.Array:
    """Quantize [directions, rows, size], each direction by its range, and multiply by weights of each direction."""
    output, scale, zero_point = jax.vmap(jaxdml.dynamic_quantize_linear)(x)
    left = output, scale[:, None, None], zero_point[:, None, None]
    return jaxdml.matrix_multiply_integer_to_float(*left, *weights)


TABLE: Table = {
    "DynamicQuantizeLSTM": (
        Handler(
            1,
            dynamic_quantize_lstm,
            raw=True,
            constant=SCALING,
            optional="B sequence_lens initial_* P",
            refuses=refuses,
            matrices="W R",
        ),
    ),
}
