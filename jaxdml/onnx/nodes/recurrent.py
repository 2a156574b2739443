"""LSTM, GRU and RNN."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from jaxdml._networks import recurrence
from jaxdml._networks.recurrence import Activation, both_biases, input_products, lstm_step, product, rnn_step
from jaxdml.onnx.nodes._checks import lengths_within
from jaxdml.onnx.nodes._handler import Handler, NodeCall, Table
from jaxdml.onnx.nodes._recurrence import functions_of, refuses, run, time_first


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
    step = partial(lstm_step, gates, partial(product, R), P, bool(input_forget))
    products = input_products(time_first(X, layout), W, None if B is None else both_biases(B))
    return run(step, products, (initial_h, initial_c), size, sequence_lens, direction, layout)


def lstm_gates(
    names: Sequence[str], alphas: Sequence[float], betas: Sequence[float], clip: float | None, directions: int
) -> tuple[Activation, ...]:
    """Return the functions of gates, of a cell's input and of the cell. As in onnxruntime, nothing clips the cell."""
    return functions_of(names or ("Sigmoid", "Tanh", "Tanh"), alphas, betas, (clip, clip, None), directions)


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
    step, bias = recurrence.gru(functions, R, B, bool(linear_before_reset))
    products = input_products(time_first(X, layout), W, bias)
    return run(step, products, (initial_h,), size, sequence_lens, direction, layout)


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
    products = input_products(time_first(X, layout), W, None if B is None else both_biases(B))
    return run(partial(rnn_step, function, R), products, (initial_h,), size, sequence_lens, direction, layout)


TABLE: Table = {
    "GRU": (Handler(7, gru, refuses=refuses),),
    "LSTM": (Handler(7, lstm, refuses=refuses),),
    "RNN": (Handler(7, rnn, refuses=refuses),),
}
