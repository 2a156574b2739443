"""What a model promises of lengths that programs get as numbers: those that an operator wants equal are equal.

A program is compiled before lengths are there, so it relies on the promise. Where it was not kept, a call of a model
raises an error, and ``checkify`` reports it where the caller asks for checks.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import export

from jaxdml._base import errors
from jaxdml._base.scoped import scoped
from jaxdml.onnx._graph import Node
from jaxdml.onnx.values.bodies import may_not_run
from jaxdml.onnx.values.bounded import report
from jaxdml.onnx.values.lengths import Length, LengthError, atom, limits, same, true


@dataclass(frozen=True, eq=False)
class Promise:
    """A promise as a result of a program, a pytree.

    Attributes:
      kept: whether it was.
      sizes: the two of which it says something.
      node: what wants it, as text.
      relation: what the sizes must be.
    """

    kept: Any
    sizes: tuple[Any, Any]
    node: str
    relation: str


jax.tree_util.register_dataclass(Promise, data_fields=["kept", "sizes"], meta_fields=["node", "relation"])
export.register_pytree_node_serialization(
    Promise,
    serialized_name="jaxdml.onnx.Promise",
    serialize_auxdata=lambda static: json.dumps(static).encode(),
    deserialize_auxdata=lambda text: tuple(json.loads(text)),
)

_TAKEN: ContextVar[list[Promise] | None] = ContextVar("taken", default=None)


@contextmanager
def collected() -> Iterator[list[Promise]]:
    """Collect the promises on which a program relies, which then returns them."""
    found: list[Promise] = []
    with scoped(_TAKEN, found):
        yield found


def must_be_kept(promises: Sequence[Promise]) -> None:
    """Raise an error for the first promise that was not."""
    for promise in promises:
        if not promise.kept:
            a, b = map(int, promise.sizes)
            raise _broken(promise.node, a, b, promise.relation)


def _broken(node: object, a: Any, b: Any, relation: str) -> ValueError:
    first, second = (f"{size} (at most {size.bound})" if isinstance(size, Length) else size for size in (a, b))
    rule = f"{node} has sizes {first} and {second}, {relation}."
    return ValueError(errors.compose("onnx.Model", rule, "Operands of one node have to fit one another."))


def _rely(node: Node, relation: str, kept: Any, a: Any, b: Any) -> None:
    """Rely on what a model promises of two sizes."""
    promises = _TAKEN.get()
    if promises is None:
        report(kept, f"{node} has sizes {{a}} and {{b}}, {relation}", a=jnp.asarray(true(a)), b=jnp.asarray(true(b)))
    elif may_not_run():
        raise LengthError(f"two sizes, {a} and {b}, {relation}")
    else:
        promises.append(Promise(kept, (true(a), true(b)), str(node), relation))


_EQUAL, _AT_MOST = "which must be equal", "of which the first must not be the larger one"
_BROADCAST = "of which one must be 1, or both equal"


def equal(node: Node, *sizes: Any) -> Any:
    """Return the one size of dimensions that an operator wants equal: a number, or the length of the least bound."""
    chosen = min(sizes, key=lambda size: (limits(size).bound, isinstance(size, Length)))
    for size in sizes:
        if not same(size, chosen):
            if limits(size).low > limits(chosen).bound:
                raise _broken(node, size, chosen, _EQUAL)
            _rely(node, _EQUAL, true(size) == true(chosen), size, chosen)
    return chosen


def equal_shapes(node: Node, *shapes: Sequence[Any]) -> tuple[Any, ...]:
    """Return the one shape of operands that an operator wants equal."""
    return tuple(equal(node, *sizes) for sizes in zip(*shapes, strict=True))


def at_most(node: Node, size: Any, most: Any) -> None:
    """Rely on a size that is not larger than another one."""
    if limits(size).bound > limits(most).low and not same(size, most):
        if limits(size).low > limits(most).bound:
            raise _broken(node, size, most, _AT_MOST)
        _rely(node, _AT_MOST, true(size) <= true(most), size, most)


def broadcast(node: Node, *shapes: Sequence[Any]) -> tuple[Any, ...]:
    """Return the sizes that all of these broadcast to."""
    rank = max(map(len, shapes), default=0)
    found: list[Any] = [1] * rank
    for shape in shapes:
        for d, size in enumerate(shape, rank - len(shape)):
            found[d] = _either(node, found[d], size)
    return tuple(found)


def may_be_one(size: Any) -> bool:
    """Whether a dimension may be one that is repeated."""
    return limits(size).low <= 1 <= limits(size).bound


def _either(node: Node, a: Any, b: Any) -> Any:
    """Return what two sizes broadcast to: if one of them is 1 the other one."""
    if same(a, b) or same(b, 1):
        return a
    if same(a, 1):
        return b
    if not may_be_one(a) and not may_be_one(b):
        return equal(node, a, b)
    if not may_be_one(b):
        a, b = b, a
    kept = (true(a) == true(b)) | (true(b) == 1)
    if not may_be_one(a):
        _rely(node, _BROADCAST, kept, a, b)
        return a
    _rely(node, _BROADCAST, kept | (true(a) == 1), a, b)
    (low, bound), (least, most) = limits(a), limits(b)
    found = jnp.where(true(a) == 1, true(b), true(a))
    return atom(("broadcast", a.key, b.key), f"broadcast({a}, {b})", found, max(bound, most), min(low, least))
