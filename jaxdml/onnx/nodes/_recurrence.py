"""What recurrent networks share: the functions of their gates, directions and layouts."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax

from jaxdml._networks import recurrence
from jaxdml._networks.recurrence import Activation, Step, by_direction
from jaxdml.onnx._graph import Node

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
    return tuple(by_direction(same) for same in zip(*sets, strict=True))


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
    """Run a network; see ``jaxdml._networks.recurrence``.

    Args:
      step: from one time to the next.
      products: what the inputs give to the gates, [time, batch, directions, n].
      initial: states as the operator gets them; None for zeros.
      size: of a state.
      lengths: of the sequences; None where all are as long as there are times.
      direction: a key of ``DIRECTIONS``.
      layout: whether the batch comes first in states and results.
    """
    states = tuple(None if state is None else time_first(state, layout) for state in initial)
    Y, *lasts = recurrence.run(step, products, states, size, lengths, DIRECTIONS[direction])
    if layout:
        return Y.transpose(2, 0, 1, 3), *(jnp.swapaxes(last, 0, 1) for last in lasts)
    return Y, *lasts
