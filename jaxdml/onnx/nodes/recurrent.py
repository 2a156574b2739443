"""LSTM, GRU and RNN."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from jaxdml.onnx.nodes._checks import lengths_within
from jaxdml.onnx.nodes._handler import Handler, NodeCall, Table
from jaxdml.onnx.nodes._recurrence import Activation, Step, functions_of, refuses, run, time_first


def lstm(
    call: NodeCall,
    X: Any,
    W: Any,
    R: Any,
    B: Any = None,
    sequence_lens: Any = None,
    initial_h: Any = None,
    initial_c: Any = None,
    P: Any = None,
    *,
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    activations: Sequence[str] = (),
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    input_forget: int = 0,
    layout: int = 0,
) -> tuple[Any, ...]:
    """Run a long short-term memory; gates are input, output, forget, cell."""
    size = R.shape[-1]
    lengths_within(call.node, sequence_lens, X.shape[layout])
    gates = lstm_gates(activations, activation_alpha, activation_beta, clip, len(R))
    step = partial(lstm_step, gates, partial(_product, R), P, bool(input_forget))
    products = _input_products(time_first(X, layout), W, None if B is None else both_biases(B))
    return run(step, products, (initial_h, initial_c), size, sequence_lens, direction, layout)


def lstm_gates(
    names: Sequence[str], alphas: Sequence[float], betas: Sequence[float], clip: float | None, directions: int
) -> tuple[Activation, ...]:
    """Return the functions of gates, of a cell's input and of the cell. As in onnxruntime, nothing clips the cell."""
    return functions_of(names or ("Sigmoid", "Tanh", "Tanh"), alphas, betas, (clip, clip, None), directions)


def lstm_step(
    functions: tuple[Activation, ...],
    recurrent: Callable[[Any], Any],
    P: Any,
    coupled: bool,
    x: Any,
    states: tuple[Any, ...],
) -> tuple[Any, ...]:
    """Return the next hidden state and cell.

    Args:
      functions: of ``lstm_gates``.
      recurrent: multiplies the hidden state with its weights.
      P: peepholes, [directions, 3 * size]; None for none.
      coupled: whether the cell forgets as much as it takes in.
      x: see ``Step``.
      states: see ``Step``.
    """
    f, g, h = functions
    hidden, cell = states
    size = cell.shape[-1]
    gates = x + recurrent(hidden)
    new = g(gates[..., 3 * size :])
    if P is None:
        i, o, forget = jnp.split(f(gates[..., : 3 * size]), 3, axis=-1)
        cell = (1 - i if coupled else forget) * cell + i * new
        return o * h(cell), cell
    i, o, forget = jnp.split(gates[..., : 3 * size], 3, axis=-1)
    p_i, p_o, p_f = jnp.split(P[:, None], 3, axis=-1)
    i = f(i + p_i * cell)
    cell = (1 - i if coupled else f(forget + p_f * cell)) * cell + i * new
    return f(o + p_o * cell) * h(cell), cell


def gru(
    call: NodeCall,
    X: Any,
    W: Any,
    R: Any,
    B: Any = None,
    sequence_lens: Any = None,
    initial_h: Any = None,
    *,
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    activations: Sequence[str] = (),
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
    linear_before_reset: int = 0,
) -> tuple[Any, ...]:
    """Run gated recurrent units; gates are update, reset, hidden."""
    size = R.shape[-1]
    lengths_within(call.node, sequence_lens, X.shape[layout])
    names = activations or ("Sigmoid", "Tanh")
    functions = functions_of(names, activation_alpha, activation_beta, (clip, clip), len(R))
    bias = None if B is None else both_biases(B)
    step: Step = partial(_gru_step, functions, R[:, : 2 * size], R[:, 2 * size :])
    if linear_before_reset:
        last = 0
        if B is not None:  # What is reset has a bias of its own.
            last = B[:, None, 5 * size :]
            bias = jnp.concatenate([both_biases(B)[:, : 2 * size], B[:, 2 * size : 3 * size]], axis=-1)
        step = partial(_linear_gru_step, functions, R, last)
    products = _input_products(time_first(X, layout), W, bias)
    return run(step, products, (initial_h,), size, sequence_lens, direction, layout)


def _gru_step(
    functions: tuple[Activation, ...], of_gates: Any, of_hidden: Any, x: Any, states: tuple[Any, ...]
) -> tuple[Any, ...]:
    f, g = functions
    (hidden,) = states
    size = hidden.shape[-1]
    z, r = jnp.split(f(x[..., : 2 * size] + _product(of_gates, hidden)), 2, axis=-1)
    return ((1 - z) * g(x[..., 2 * size :] + _product(of_hidden, r * hidden)) + z * hidden,)


def _linear_gru_step(
    functions: tuple[Activation, ...], R: Any, last: Any, x: Any, states: tuple[Any, ...]
) -> tuple[Any, ...]:
    f, g = functions
    (hidden,) = states
    size = hidden.shape[-1]
    products = _product(R, hidden)
    z, r = jnp.split(f(x[..., : 2 * size] + products[..., : 2 * size]), 2, axis=-1)
    recurrent = r * (products[..., 2 * size :] + last)
    return ((1 - z) * g(x[..., 2 * size :] + recurrent) + z * hidden,)


def rnn(
    call: NodeCall,
    X: Any,
    W: Any,
    R: Any,
    B: Any = None,
    sequence_lens: Any = None,
    initial_h: Any = None,
    *,
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    activations: Sequence[str] = (),
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
) -> tuple[Any, ...]:
    """Run a simple recurrent network."""
    size = R.shape[-1]
    lengths_within(call.node, sequence_lens, X.shape[layout])
    (function,) = functions_of(activations or ("Tanh",), activation_alpha, activation_beta, (clip,), len(R))
    products = _input_products(time_first(X, layout), W, None if B is None else both_biases(B))
    return run(partial(_rnn_step, function, R), products, (initial_h,), size, sequence_lens, direction, layout)


def _rnn_step(function: Activation, R: Any, x: Any, states: tuple[Any, ...]) -> tuple[Any, ...]:
    return (function(x + _product(R, states[0])),)


def both_biases(B: Any) -> Any:
    """Return the sum of the bias that belongs to the inputs and of that which belongs to the states."""
    of_inputs, of_states = jnp.split(B, 2, axis=-1)
    return of_inputs + of_states


def _input_products(X: Any, W: Any, bias: Any) -> jax.Array:
    """Multiply the inputs of all times, [time, batch, inputs], to [time, batch, directions, gates], and add a bias."""
    directions, gates, inputs = W.shape
    rows = W.reshape(directions * gates, inputs)  # Otherwise XLA's CPU backend copies them.
    products = lax.dot_general(X, rows, (((2,), (1,)), ((), ())), precision=lax.Precision.HIGHEST)
    products = products.reshape(*X.shape[:2], directions, gates)
    return products if bias is None else products + bias


def _product(weights: Any, x: Any) -> jax.Array:
    """Multiply [directions, batch, size] by the rows of [directions, gates, size]."""
    return lax.dot_general(x, weights, (((2,), (2,)), ((0,), (0,))), precision=lax.Precision.HIGHEST)


TABLE: Table = {
    "GRU": (Handler(7, gru, refuses=refuses),),
    "LSTM": (Handler(7, lstm, refuses=refuses),),
    "RNN": (Handler(7, rnn, refuses=refuses),),
}
