"""Arrays of a fixed size of which only a part counts, and the bounds that a call gives."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import checkify
from jax.sharding import AxisType

from jaxdml._base import errors
from jaxdml._base.scoped import scoped
from jaxdml.onnx._graph import Graph, Node
from jaxdml.onnx.values.lengths import Length, atom, bounds, true


class Padded(NamedTuple):
    """An output whose shape depends on values, or an input of any length, in an array of a fixed size.

    Attributes:
      array: its elements, followed along each dimension by zeros in an output, and by anything in an input.
      lengths: the size of each dimension: int32 in an output, numbers in an input.
    """

    array: Any
    lengths: Any


@dataclass(frozen=True, eq=False)
class Bounded:
    """A value of which only the first elements count along some dimensions; what the others are, nobody says.

    Attributes:
      value: any other value, of the size of the bounds.
      sizes: of what counts: numbers, and lengths.
    """

    value: Any
    sizes: tuple[Any, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return tuple(self.value.shape)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.sizes)

    @property
    def dtype(self) -> Any:
        """The dtype."""
        return self.value.dtype


def bounded(value: Any, sizes: Sequence[Any]) -> Any:
    """Return a value of such sizes, as it is where all are numbers."""
    return Bounded(value, tuple(sizes)) if any(isinstance(size, Length) for size in sizes) else value


def sizes_of(value: Any) -> tuple[Any, ...]:
    """Return the sizes of a value, lengths among them."""
    return value.sizes if isinstance(value, Bounded) else tuple(value.shape)


def inner(value: Any) -> Any:
    """Return what a bounded value has in it, and any other value as it is."""
    return value.value if isinstance(value, Bounded) else value


def counts(sizes: Sequence[Any], dimensions: Sequence[int] | None = None) -> Any:
    """Return which elements count, as an array that broadcasts to the padded one; True where all do.

    Args:
      sizes: of all dimensions.
      dimensions: those that are looked at; None for all.
    """
    found: Any = True
    shape = bounds(sizes)
    for d in range(len(sizes)) if dimensions is None else dimensions:
        if isinstance(sizes[d], Length):
            places = lax.broadcasted_iota(jnp.int32, tuple(n if i == d else 1 for i, n in enumerate(shape)), d)
            found = found & (places < sizes[d].true)
    return found


def filled(array: Any, sizes: Sequence[Any], value: Any, dimensions: Sequence[int] | None = None) -> Any:
    """Return an array with a value where no element counts."""
    valid = counts(sizes, dimensions)
    return array if valid is True else jnp.where(valid, array, jnp.asarray(value, array.dtype))


def padded(array: Any, sizes: Sequence[Any]) -> Padded:
    """Return an output of the model."""
    lengths = [jnp.asarray(true(size), jnp.int32) for size in sizes]
    return Padded(filled(array, sizes, 0), jnp.stack(lengths))


@dataclass(frozen=True)
class Bounds:
    """What a call gives.

    Attributes:
      given: by name of a node, of a value or of a dimension.
      symbols: names of dimensions that the model declares, by name of a value.
      active: whether sizes may depend on values: the call gives bounds, or arrays that are longer than what counts.
    """

    given: Mapping[str, int] = field(default_factory=dict)
    symbols: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    active: bool = False

    def of(self, node: Node, value: str = "") -> int | None:
        """Return the bound that is given for what a node makes, or for a value that it reads."""
        shapes = [self.symbols.get(name, ()) for name in node.outputs]
        names = [node.name, value, *node.outputs, *(size for shape in shapes for size in shape)]
        return next((self.given[name] for name in names if name in self.given), None)


NONE = Bounds()


def must_be_bounds(graph: Graph, given: Mapping[str, Any] | None) -> Bounds:
    """Return the bounds of a call; refuse numbers that are none, and names that the model does not have."""
    if not given:
        return Bounds({}, graph.symbols)
    known = {name for node in graph.walk() for name in (node.name, *node.outputs)}
    known |= {size for shape in graph.symbols.values() for size in shape if isinstance(size, str)}
    for name, bound in given.items():
        if name not in known:
            rule = f"bounds has '{name}', which names no node, no value of one and no dimension of the model."
            raise ValueError(errors.compose("onnx.Model", rule, "print(model) lists nodes and values."))
        if not isinstance(bound, int) or isinstance(bound, bool) or not 1 <= bound < 2**31:
            rule = f"bounds has {bound!r} for '{name}'."
            raise ValueError(errors.compose("onnx.Model", rule, "Give a positive number."))
    return Bounds(dict(given), graph.symbols, True)


def needs_bound(node: Node, most: int | None = None) -> tuple[str, str]:
    """Say why a bound is missing, and what to write."""
    enough = "" if most is None else f"; {most} is always enough"
    way = f"give a bound: model.apply(params, *inputs, bounds={{{node.name!r}: n}}){enough}"
    return "Shapes depend on it, so it must be known while tracing, or how many there are has to have a bound.", way


def length_of(node: Node, key: Hashable, found: Any, bound: int) -> Length:
    """Return how many a node has found; more than its bound is reported."""
    found = jnp.asarray(found, jnp.int32).reshape(())
    message = f"{node} has a length of {{found}}, more than its bound, {bound}"
    report(found <= bound, message, found=found)
    return atom((key, bound), f"length of '{node.name}'", jnp.clip(found, 0, bound), bound)


_CHECKING = ContextVar("checking", default=False)


def checking(wanted: bool) -> AbstractContextManager[None]:
    """Report what does not pass while a call is traced, or do not."""
    return scoped(_CHECKING, wanted)


def report(passed: Any, message: str, **numbers: Any) -> None:
    """Have ``checkify`` report what does not pass, where the call asks for checks: a program with them is not exported.

    On a mesh of Explicit axes nothing is reported: JAX cannot map a check over a batch that is sharded there.
    """
    if _CHECKING.get() and AxisType.Explicit not in jax.sharding.get_abstract_mesh().axis_types:
        checkify.debug_check(passed, message, **numbers)


class Identical:
    """A key that is equal for one value only."""

    def __init__(self, value: Any):
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identical) and self.value is other.value


def is_of_a_trace(key: Hashable) -> bool:
    """Whether a key means nothing in another trace."""
    return isinstance(key, Identical) or (isinstance(key, tuple) and any(map(is_of_a_trace, key)))


def on_inner(value: Any, change: Callable[[Any], Any]) -> Any:
    """Change what a bounded value has in it, or any other value."""
    return replace(value, value=change(value.value)) if isinstance(value, Bounded) else change(value)


def is_bounded_in(sizes: Sequence[Any], dimensions: Sequence[int]) -> bool:
    """Whether one of the dimensions has a length."""
    return any(isinstance(sizes[d], Length) for d in dimensions)
