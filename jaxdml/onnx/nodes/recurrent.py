"""LSTM, GRU and RNN: a scan over time."""

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml.onnx.nodes._handler import Handler, NodeCall, Table

Activation = Callable[[Any], Any]

ACTIVATIONS: dict[str, tuple[Callable[..., Any], tuple[float | None, float | None]]] = {
    "affine": (lambda x, alpha, beta: alpha * x + beta, (1.0, 0.0)),
    "elu": (lambda x, alpha: jnp.where(x < 0, alpha * jnp.expm1(jnp.minimum(x, 0)), x), (1.0, None)),
    "hardsigmoid": (lambda x, alpha, beta: jnp.clip(alpha * x + beta, 0, 1), (0.2, 0.5)),
    "leakyrelu": (lambda x, alpha: jnp.where(x < 0, alpha * x, x), (0.01, None)),
    "relu": (lambda x: jnp.maximum(x, 0), (None, None)),
    "scaledtanh": (lambda x, alpha, beta: alpha * jnp.tanh(beta * x), (1.0, 1.0)),
    "sigmoid": (lax.logistic, (None, None)),
    "softplus": (lambda x: jnp.logaddexp(x, 0), (None, None)),
    "softsign": (lambda x: x / (1 + jnp.abs(x)), (None, None)),
    "tanh": (jnp.tanh, (None, None)),
    "thresholdedrelu": (lambda x, alpha: jnp.where(x >= alpha, x, 0), (1.0, None)),
}
"""By name in small letters: the function, and the defaults of its alpha and beta where it has them."""

DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
"""For each direction that an operator runs: whether time goes backwards."""


class Weights(NamedTuple):
    """What one direction computes with.

    Attributes:
      R: recurrent weights, [gates * size, size].
      Wb: the bias that belongs to the inputs, [gates * size].
      Rb: the bias that belongs to R.
      P: peepholes, [3 * size]; None for none.
    """

    R: Any
    Wb: Any
    Rb: Any
    P: Any


Step = Callable[[Weights, tuple[Activation, ...], Any, tuple[Any, ...]], tuple[Any, ...]]
"""From weights, activations, the product of the input with its weights, and states to the next states."""


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
    """Run a long short-term memory; gates are input, output, forget, cell.

    As in onnxruntime, ``clip`` bounds the gates and not the cell state.
    """
    functions = _activations(
        activations or ("Sigmoid", "Tanh", "Tanh"), activation_alpha, activation_beta, (clip, clip, None)
    )
    step = partial(_lstm_step, coupled=bool(input_forget))
    return _run(step, functions, 3, X, W, R, B, P, sequence_lens, (initial_h, initial_c), direction, layout)


def _lstm_step(
    weights: Weights, functions: tuple[Activation, ...], x: Any, states: tuple[Any, ...], *, coupled: bool
) -> tuple[Any, ...]:
    f, g, h = functions
    hidden, cell = states
    gates = x + weights.Wb + _product(hidden, weights.R) + weights.Rb
    i, o, forget, c = jnp.split(gates, 4, axis=-1)
    p_i, p_o, p_f = (0, 0, 0) if weights.P is None else jnp.split(weights.P, 3)
    i = f(i + p_i * cell)
    forget = 1 - i if coupled else f(forget + p_f * cell)
    cell = forget * cell + i * g(c)
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
    functions = _activations(activations or ("Sigmoid", "Tanh"), activation_alpha, activation_beta, (clip,))
    step = partial(_gru_step, linear=bool(linear_before_reset))
    return _run(step, functions, 2, X, W, R, B, None, sequence_lens, (initial_h,), direction, layout)


def _gru_step(
    weights: Weights, functions: tuple[Activation, ...], x: Any, states: tuple[Any, ...], *, linear: bool
) -> tuple[Any, ...]:
    f, g = functions
    (hidden,) = states
    size = hidden.shape[-1]
    x = x + weights.Wb
    both = f(x[..., : 2 * size] + _product(hidden, weights.R[: 2 * size]) + weights.Rb[: 2 * size])
    z, r = both[..., :size], both[..., size:]
    last, bias = weights.R[2 * size :], weights.Rb[2 * size :]
    recurrent = r * (_product(hidden, last) + bias) if linear else _product(r * hidden, last) + bias
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
    functions = _activations(activations or ("Tanh",), activation_alpha, activation_beta, (clip,))
    return _run(_rnn_step, functions, 1, X, W, R, B, None, sequence_lens, (initial_h,), direction, layout)


def _rnn_step(weights: Weights, functions: tuple[Activation, ...], x: Any, states: tuple[Any, ...]) -> tuple[Any, ...]:
    (hidden,) = states
    return (functions[0](x + weights.Wb + _product(hidden, weights.R) + weights.Rb),)


def _activations(
    names: Sequence[str], alphas: Sequence[float], betas: Sequence[float], clips: Sequence[float | None]
) -> tuple[Activation, ...]:
    """Return functions of one argument; those that have an alpha or a beta take the next one given."""
    given = (iter(alphas), iter(betas))
    functions = []
    for name, clip in zip(names, itertools.cycle(clips), strict=False):
        function, defaults = ACTIVATIONS[name.lower()]
        constants = [
            next(values, default) for values, default in zip(given, defaults, strict=True) if default is not None
        ]
        functions.append(partial(_clipped, function, constants, clip))
    return tuple(functions)


def _clipped(function: Callable[..., Any], constants: Sequence[float], clip: float | None, x: Any) -> Any:
    return function(x if clip is None else jnp.clip(x, -clip, clip), *constants)


def _run(
    step: Step,
    functions: tuple[Activation, ...],
    each: int,
    X: Any,
    W: Any,
    R: Any,
    B: Any,
    P: Any,
    lengths: Any,
    initial: tuple[Any, ...],
    direction: str,
    layout: int,
) -> tuple[Any, ...]:
    """Run each direction, with ``each`` of the functions, and stack what they return."""
    if layout:  # batch before time
        X = jnp.swapaxes(X, 0, 1)
        initial = tuple(None if state is None else jnp.swapaxes(state, 0, 1) for state in initial)
    size = R.shape[-1]
    zeros = jnp.zeros((R.shape[0], X.shape[1], size), X.dtype)
    initial = tuple(zeros if state is None else state for state in initial)
    if B is None:
        B = jnp.zeros((R.shape[0], 2 * R.shape[1]), X.dtype)
    results = []
    for number, backwards in enumerate(DIRECTIONS[direction]):
        of_inputs, of_states = jnp.split(B[number], 2)
        weights = Weights(R[number], of_inputs, of_states, None if P is None else P[number])
        chosen = functions[number * each : (number + 1) * each] or functions
        states = tuple(state[number] for state in initial)
        results.append(_scan(partial(step, weights, chosen), _product(X, W[number]), states, lengths, backwards))
    outputs, *lasts = zip(*results, strict=True)
    Y = jnp.stack(outputs, axis=1)
    stacked = (jnp.stack(last) for last in lasts)
    if layout:
        return Y.transpose(2, 0, 1, 3), *(jnp.swapaxes(state, 0, 1) for state in stacked)
    return Y, *stacked


def _scan(step: Callable[..., Any], products: Any, initial: tuple[Any, ...], lengths: Any, backwards: bool) -> Any:
    """Run one direction. Past a sequence's length its states stay as they are, and outputs are 0."""

    def body(states: tuple[Any, ...], of_time: Any) -> tuple[tuple[Any, ...], Any]:
        time, x = of_time
        found = step(x, states)
        if lengths is None:
            return found, found[0]
        inside = (time < lengths)[:, None]
        kept = tuple(jnp.where(inside, new, old) for new, old in zip(found, states, strict=True))
        return kept, jnp.where(inside, found[0], 0)

    times = jnp.arange(products.shape[0], dtype=np.int32)
    states, outputs = lax.scan(body, initial, (times, products), reverse=backwards)
    if lengths is not None:  # what never ran has no last state
        states = tuple(jnp.where((lengths > 0)[:, None], state, 0) for state in states)
    return outputs, *states


def _product(x: Any, weights: Any) -> jax.Array:
    return jnp.matmul(x, weights.T, precision=lax.Precision.HIGHEST)


TABLE: Table = {
    "GRU": (Handler(7, gru),),
    "LSTM": (Handler(7, lstm),),
    "RNN": (Handler(7, rnn),),
}
