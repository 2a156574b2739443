"""What recurrent networks share: the functions of their gates, and one scan over time.

Most of the time that XLA takes to compile such a network it takes for the fusions of a step. So a step computes all
directions at once, and what does not change with time is computed before.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jaxdml.onnx._graph import Node

Activation = Callable[[Any], Any]
"""A function of gates, [directions, batch, n]."""

Step = Callable[[Any, tuple[Any, ...]], tuple[Any, ...]]
"""From what the inputs of one time give to the gates, and states, to next states; all are [directions, batch, n]."""

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


class _Gate(NamedTuple):
    """A function of the table with its constants, of what is clipped before."""

    function: Callable[..., Any]
    constants: tuple[float, ...]
    clip: float | None

    def __call__(self, x: Any) -> Any:
        return self.function(x if self.clip is None else jnp.clip(x, -self.clip, self.clip), *self.constants)


def functions_of(
    names: Sequence[str],
    alphas: Sequence[float],
    betas: Sequence[float],
    clips: Sequence[float | None],
    directions: int,
) -> tuple[Activation, ...]:
    """Return functions of one argument; those that have an alpha or a beta take the next one given.

    Args:
      names: of the functions of each direction, or of the first one only.
      alphas: in the order of the functions.
      betas: in the order of the functions.
      clips: what bounds the argument of each function of a direction; None for nothing.
      directions: how many there are.
    """
    given = (iter(alphas), iter(betas))
    gates = []
    for name, clip in zip(names, itertools.cycle(clips), strict=False):
        function, defaults = ACTIVATIONS[name.lower()]
        constants = tuple(
            next(values, default) for values, default in zip(given, defaults, strict=True) if default is not None
        )
        gates.append(_Gate(function, constants, clip))
    each = len(clips)
    sets = [gates[number * each : (number + 1) * each] or gates[:each] for number in range(directions)]
    return tuple(same[0] if len(set(same)) == 1 else partial(_by_direction, same) for same in zip(*sets, strict=True))


def _by_direction(functions: Sequence[Activation], x: Any) -> Any:
    return jnp.stack([function(part) for function, part in zip(functions, x, strict=True)])


def refuses(node: Node, dtypes: Mapping[str, Any]) -> str | None:
    """Say which attribute no network has."""
    direction = node.attributes.get("direction", "forward")
    if direction not in DIRECTIONS:
        return f"direction is {direction!r}, not one of {', '.join(DIRECTIONS)}"
    names = node.attributes.get("activations", ())
    unknown = [name for name in names if name.lower() not in ACTIVATIONS]
    if unknown:
        return f"activation {unknown[0]!r} is not one of {', '.join(ACTIVATIONS)}"
    functions = {"RNN": 1, "GRU": 2}.get(node.op_type, 3)
    if len(names) not in (0, functions, functions * len(DIRECTIONS[direction])):
        return f"it has {len(names)} activations; each direction has {functions}"
    return None


def time_first(x: Any, layout: int) -> Any:
    """Return inputs or states with time, or the direction, first."""
    return jnp.swapaxes(x, 0, 1) if layout else x


def run(
    step: Step,
    products: Any,
    initial: tuple[Any, ...],
    size: int,
    lengths: Any,
    direction: str,
    layout: int = 0,
) -> tuple[Any, ...]:
    """Run a network. Past a sequence's length outputs and states are 0; what is returned is its last state.

    Args:
      step: from one time to the next.
      products: what the inputs give to the gates, [time, batch, directions, n].
      initial: states as the operator gets them; None for zeros.
      size: of a state.
      lengths: of the sequences; None where all are as long as there are times.
      direction: a key of ``DIRECTIONS``.
      layout: whether the batch comes first in states and results.
    """
    backwards = DIRECTIONS[direction]
    products = _in_own_order(backwards, lengths, jnp.swapaxes(products, 1, 2))
    zeros = jnp.zeros((*products.shape[1:3], size), products.dtype)
    states = tuple(zeros if state is None else time_first(state, layout) for state in initial)
    if lengths is None:
        lasts, outputs = lax.scan(lambda states, x: _twice(step(x, states)), states, products)
    else:
        inside = (jnp.arange(products.shape[0])[:, None] < lengths)[:, None, :, None]
        body = partial(_within, step)
        (_, lasts), outputs = lax.scan(body, (states, (zeros,) * len(states)), (inside, products))
    Y = _in_own_order(backwards, lengths, outputs)
    if layout:
        return Y.transpose(2, 0, 1, 3), *(jnp.swapaxes(last, 0, 1) for last in lasts)
    return Y, *lasts


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


def _in_own_order(backwards: tuple[bool, ...], lengths: Any, x: Any) -> jax.Array:
    """Return [time, directions, batch, n] with the times in the order of each direction, or those back in time's."""
    if not any(backwards):
        return x
    parts = [_reversed(x[:, number], lengths) if back else x[:, number] for number, back in enumerate(backwards)]
    return jnp.stack(parts, axis=1)


def _reversed(x: Any, lengths: Any) -> jax.Array:
    """Reverse the times within the length of each sequence, [time, batch, n]."""
    if lengths is None:
        return jnp.flip(x, 0)
    times = jnp.arange(x.shape[0])[:, None]
    sources = jnp.where(times < lengths, jnp.minimum(lengths, x.shape[0]) - 1 - times, times)
    return jnp.take_along_axis(x, sources[..., None], axis=0, mode="clip")
