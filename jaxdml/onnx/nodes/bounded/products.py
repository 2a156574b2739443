"""Products of matrices: where a dimension that is summed over has a length, what does not count is 0."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp

from jaxdml.onnx.nodes.bounded._fitting import must_not_have_lengths, stretched
from jaxdml.onnx.nodes.bounded._masking import masked
from jaxdml.onnx.nodes.bounded._task import Rule, Rules, Task
from jaxdml.onnx.values.bounded import bounded, inner, sizes_of
from jaxdml.onnx.values.kinds import Dequantized, Value, channels_first
from jaxdml.onnx.values.lengths import Length, LengthError
from jaxdml.onnx.values.promises import broadcast, equal


class _Factors(NamedTuple):
    """Positions of the operands of a product; None for one that an operator does not have.

    Attributes:
      left: of the left matrix.
      right: of the right matrix.
      zero: of the zero point of the left matrix.
      added: of what is added to the result, and broadcasts to it.
    """

    left: int = 0
    right: int = 1
    zero: int | None = None
    added: int | None = None


def _product(places: _Factors) -> Rule:
    """Return the rule of a product of two matrices."""

    def run(task: Task, *operands: Value) -> tuple[Value, ...]:
        given = list(operands)
        must_not_have_lengths(x for at, x in enumerate(given) if at not in (places.left, places.right, places.added))
        turns = _turns(task, "transA"), _turns(task, "transB")
        a, b = (_swapped(sizes_of(given[at]), turned) for at, turned in zip(places[:2], turns, strict=True))
        inside = equal(task.call.node, a[-1], b[-2:][0])
        batch = broadcast(task.call.node, a[:-2], b[:-2])
        rows, columns = a[-2:-1], b[-1:] if len(b) > 1 else ()
        sizes = (*batch, *rows, *columns)
        given[places.left] = stretched(given[places.left], _swapped((*batch, *rows, inside), turns[0]))
        given[places.right] = stretched(given[places.right], _swapped((*batch, inside, *columns), turns[1]))
        if isinstance(inside, Length):
            given[places.left] = _zeroed(given[places.left], _zero_point(given, places.zero))
            if not _is_finite(given[places.right]):
                given[places.right] = _zeroed(given[places.right])
        if places.added is not None and given[places.added :] and given[places.added] is not None:
            given[places.added] = stretched(given[places.added], sizes)
        return tuple(bounded(y, sizes) for y in task.compute(*map(inner, given)))

    return run


def _zeroed(value: Value, zero: Any = 0) -> Value:
    """Return a value without lengths, with 0 where no element counts, or what stands for it."""
    return masked(value, sizes_of(value), zero)


def _is_finite(value: Value) -> bool:
    """Whether a value counts for nothing beside what is 0."""
    return isinstance(inner(value), Dequantized) or not jnp.issubdtype(value.dtype, jnp.inexact)


def _zero_point(operands: Sequence[Value], place: int | None) -> Any:
    """Return a zero point, which may be one for each row, as it broadcasts to a matrix; 0 if there is none."""
    zero = None if place is None or len(operands) <= place else channels_first(operands[place])
    if zero is None or zero.ndim != 1:
        return 0 if zero is None else zero
    return zero.reshape((-1, 1) if zero.size > 1 else ())


def _turns(task: Task, name: str) -> bool:
    """Whether a matrix is multiplied as its transpose."""
    if task.takes("transBatchA") and (task.attribute("transBatchA") or task.attribute("transBatchB")):
        raise LengthError("a batch that stands between rows and columns")
    return task.takes(name) and bool(task.attribute(name))


def _swapped(sizes: tuple[Any, ...], turned: bool) -> tuple[Any, ...]:
    """Return sizes with the last two the other way round, where they are turned; a vector stays as it is."""
    return (*sizes[:-2], *sizes[:-3:-1]) if turned else sizes


def dynamic(task: Task, a: Value, *others: Value) -> tuple[Value, ...]:
    """Quantize by the range of what counts, which contains 0, and multiply."""
    return _product(_Factors())(task, bounded(_zeroed(a), sizes_of(a)), *others)


def by_row(task: Task, a: Value, *others: Value) -> tuple[Value, ...]:
    """Multiply each row by a matrix that is packed."""
    sizes = sizes_of(a)
    must_not_have_lengths(others)
    if isinstance(sizes[-1], Length):
        raise LengthError(f"the result for sizes {list(sizes)}")
    return tuple(bounded(y, (*sizes[:-1], y.shape[-1])) for y in task.compute(inner(a), *others))


def einsum(task: Task, *operands: Value) -> tuple[Value, ...]:
    """Sum products over letters; what does not count is 0 where a letter with a length is summed over."""
    terms, _, result = task.attribute("equation").replace(" ", "").partition("->")
    names = [_letters(term, x.ndim) for term, x in zip(terms.split(","), operands, strict=True)]
    found: dict[str, Any] = {}
    for letters, x in zip(names, operands, strict=True):
        for letter, size in zip(letters, sizes_of(x), strict=True):
            before = found.get(letter, size)
            both = (
                broadcast(task.call.node, [before], [size])
                if letter.isdigit()
                else [equal(task.call.node, before, size)]
            )
            (found[letter],) = both
    rank = sum(letter.isdigit() for letter in found)
    if "->" not in task.attribute("equation"):
        once = sorted(letter for letter in found if sum(letters.count(letter) for letters in names) == 1)
        result = "..." + "".join(letter for letter in once if not letter.isdigit())
    kept = _letters(result, len(result.replace("...", "")) + (rank if "..." in result else 0))
    fitting = [stretched(x, [found[letter] for letter in letters]) for letters, x in zip(names, operands, strict=True)]
    summed = [letter for letter in found if letter not in kept]
    if any(isinstance(found[letter], Length) for letter in summed):
        fitting = [_zeroed(x) for x in fitting]
    return tuple(bounded(y, [found[letter] for letter in kept]) for y in task.compute(*map(inner, fitting)))


def _letters(term: str, rank: int) -> list[str]:
    """Return a name of each dimension: a letter, or its number from the end of those that "..." stands for."""
    first, dots, last = term.partition("...")
    more = rank - len(first) - len(last) if dots else 0
    return [*first, *(str(number) for number in range(more, 0, -1)), *last]


RULES: Rules = {
    "Einsum": einsum,
    "Gemm": _product(_Factors(added=2)),
    "MatMul": _product(_Factors()),
    "MatMulInteger": _product(_Factors(zero=2)),
    "QLinearMatMul": _product(_Factors(right=3, zero=2)),
}

MICROSOFT: Rules = {
    "DynamicQuantizeMatMul": dynamic,
    "FusedGemm": _product(_Factors(added=2)),
    "FusedMatMul": _product(_Factors()),
    "MatMulBnb4": by_row,
    "MatMulIntegerToFloat": _product(_Factors(zero=4)),
    "MatMulNBits": by_row,
    "QGemm": _product(_Factors(right=3, zero=2)),
    "TransposeMatMul": _product(_Factors()),
}
"""Of the domain com.microsoft."""
