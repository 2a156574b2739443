"""Recurrent networks: the steps of each, and one scan over time.

Most of the time that XLA takes to compile such a network it takes for the fusions of a step. So a step computes all
directions at once, and what does not change with time is computed before.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

Activation = Callable[[Any], Any]
"""A function of gates, [directions, batch, n]."""

Step = Callable[[Any, tuple[Any, ...]], tuple[Any, ...]]
"""From what the inputs of one time give to the gates, and states, to next states; all are [directions, batch, n]."""


def by_direction(functions: Sequence[Activation]) -> Activation:
    """Return the function of each direction as one of all; equal ones are computed at once."""
    return functions[0] if len(set(functions)) == 1 else partial(_each, functions)


def _each(functions: Sequence[Activation], x: Any) -> Any:
    return jnp.stack([function(part) for function, part in zip(functions, x, strict=True)])


def lstm_step(
    functions: Sequence[Activation],
    recurrent: Callable[[Any], Any],
    peepholes: Any,
    coupled: bool,
    x: Any,
    states: tuple[Any, ...],
) -> tuple[Any, ...]:
    """Return the next hidden state and cell of a long short-term memory; gates are input, output, forget, cell.

    Args:
      functions: of gates, of a cell's input and of the cell.
      recurrent: multiplies the hidden state with its weights.
      peepholes: [directions, 3 * size]; None for none. That of the output sees the new cell.
      coupled: whether the cell forgets as much as it takes in.
      x: see ``Step``.
      states: see ``Step``.
    """
    f, g, h = functions
    hidden, cell = states
    size = cell.shape[-1]
    gates = x + recurrent(hidden)
    new = g(gates[..., 3 * size :])
    if peepholes is None:
        i, o, forget = jnp.split(f(gates[..., : 3 * size]), 3, axis=-1)
        cell = (1 - i if coupled else forget) * cell + i * new
        return o * h(cell), cell
    i, o, forget = jnp.split(gates[..., : 3 * size], 3, axis=-1)
    p_i, p_o, p_f = jnp.split(peepholes[:, None], 3, axis=-1)
    i = f(i + p_i * cell)
    cell = (1 - i if coupled else f(forget + p_f * cell)) * cell + i * new
    return f(o + p_o * cell) * h(cell), cell


def gru(functions: Sequence[Activation], weights: Any, biases: Any, linear_before_reset: bool) -> tuple[Step, Any]:
    """Return the step of gated recurrent units, and the bias of what the inputs give; gates are update, reset, hidden.

    Args:
      functions: of gates and of the hidden state.
      weights: of the states, [directions, 3 * size, size].
      biases: [directions, 6 * size]; None for none.
      linear_before_reset: whether what is reset is the product of the state, and not the state.
    """
    size = weights.shape[-1]
    bias = None if biases is None else both_biases(biases)
    if not linear_before_reset:
        return partial(_gru_step, functions, weights[:, : 2 * size], weights[:, 2 * size :]), bias
    last = 0
    if biases is not None:  # What is reset has a bias of its own.
        last = biases[:, None, 5 * size :]
        bias = jnp.concatenate([both_biases(biases)[:, : 2 * size], biases[:, 2 * size : 3 * size]], axis=-1)
    return partial(_linear_gru_step, functions, weights, last), bias


def _gru_step(
    functions: Sequence[Activation], of_gates: Any, of_hidden: Any, x: Any, states: tuple[Any, ...]
) -> tuple[Any, ...]:
    f, g = functions
    (hidden,) = states
    size = hidden.shape[-1]
    z, r = jnp.split(f(x[..., : 2 * size] + product(of_gates, hidden)), 2, axis=-1)
    return ((1 - z) * g(x[..., 2 * size :] + product(of_hidden, r * hidden)) + z * hidden,)


def _linear_gru_step(
    functions: Sequence[Activation], weights: Any, last: Any, x: Any, states: tuple[Any, ...]
) -> tuple[Any, ...]:
    f, g = functions
    (hidden,) = states
    size = hidden.shape[-1]
    products = product(weights, hidden)
    z, r = jnp.split(f(x[..., : 2 * size] + products[..., : 2 * size]), 2, axis=-1)
    recurrent = r * (products[..., 2 * size :] + last)
    return ((1 - z) * g(x[..., 2 * size :] + recurrent) + z * hidden,)


def rnn_step(function: Activation, weights: Any, x: Any, states: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the next state of a simple recurrent network."""
    return (function(x + product(weights, states[0])),)


def both_biases(biases: Any) -> Any:
    """Return the sum of the bias that belongs to the inputs and of that which belongs to the states."""
    of_inputs, of_states = jnp.split(biases, 2, axis=-1)
    return of_inputs + of_states


def input_products(x: Any, weights: Any, bias: Any) -> jax.Array:
    """Multiply the inputs of all times, [time, batch, inputs], to [time, batch, directions, gates], and add a bias."""
    directions, gates, inputs = weights.shape
    rows = weights.reshape(directions * gates, inputs)  # Otherwise XLA's CPU backend copies them.
    products = lax.dot_general(x, rows, (((2,), (1,)), ((), ())), precision=lax.Precision.HIGHEST)
    products = products.reshape(*x.shape[:2], directions, gates)
    return products if bias is None else products + bias[None, None]


def product(weights: Any, x: Any) -> jax.Array:
    """Multiply [directions, batch, size] by the rows of [directions, gates, size]."""
    return lax.dot_general(x, weights, (((2,), (2,)), ((0,), (0,))), precision=lax.Precision.HIGHEST)


def run(
    step: Step, products: Any, initial: Sequence[Any], size: int, lengths: Any, backwards: Sequence[bool]
) -> tuple[Any, ...]:
    """Run a network. Past a sequence's length outputs and states are 0; what is returned is its last state.

    Args:
      step: from one time to the next.
      products: what the inputs give to the gates, [time, batch, directions, n].
      initial: states, [directions, batch, size]; None for zeros.
      size: of a state.
      lengths: of the sequences; None where all are as long as there are times.
      backwards: for each direction whether time goes backwards.
    """
    products = _in_own_order(backwards, lengths, jnp.swapaxes(products, 1, 2))
    zeros = jnp.zeros((*products.shape[1:3], size), products.dtype)
    states = tuple(zeros if state is None else state for state in initial)
    if lengths is None:
        lasts, outputs = lax.scan(lambda states, x: _twice(step(x, states)), states, products)
    else:
        inside = (jnp.arange(products.shape[0])[:, None] < lengths[None])[:, None, :, None]
        body = partial(_within, step)
        (_, lasts), outputs = lax.scan(body, (states, (zeros,) * len(states)), (inside, products))
    return _in_own_order(backwards, lengths, outputs), *lasts


def _twice(states: tuple[Any, ...]) -> tuple[tuple[Any, ...], Any]:
    return states, states[0]


def _within(step: Step, carry: tuple[Any, Any], of_time: tuple[Any, Any]) -> tuple[tuple[Any, Any], Any]:
    """Do a step of the sequences that have not ended, of which the last states go along with the states."""
    states, lasts = carry
    inside, x = of_time
    found = step(x, states)
    lasts = tuple(jnp.where(inside, new, last) for new, last in zip(found, lasts, strict=True))
    found = tuple(jnp.where(inside, new, 0) for new in found)
    return (found, lasts), found[0]


def _in_own_order(backwards: Sequence[bool], lengths: Any, x: Any) -> jax.Array:
    """Return [time, directions, batch, n] with the times in the order of each direction, or those back in time's."""
    if not any(backwards):
        return x
    parts = [_reversed(x[:, number], lengths) if back else x[:, number] for number, back in enumerate(backwards)]
    return jnp.stack(parts, axis=1)


def _reversed(x: Any, lengths: Any) -> jax.Array:
    """Reverse the times within the length of each sequence, [time, batch, n]."""
    if lengths is None:
        return jnp.flip(x, 0)
    times, lengths = jnp.arange(x.shape[0])[:, None], lengths[None]
    sources = jnp.where(times < lengths, jnp.minimum(lengths, x.shape[0]) - 1 - times, times)
    return jnp.take_along_axis(x, sources[..., None], axis=0, mode="clip")
