"""Draw the cases that the self-check compares with the oracle."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxdml
from jaxdml import reference
from jaxdml._lowerings import selection as thresholds
from jaxdml._selfcheck.data import (
    KINDS,
    Answers,
    Arguments,
    Array,
    answers,
    any_bits,
    mixed,
    stacked,
)


@dataclass(frozen=True)
class Batch:
    """Cases of one shape with the same options, stacked along a leading axis, so that one program serves them all."""

    operator: str
    arguments: Arguments
    options: Mapping[str, Any]
    call: str
    """How the cases reach the operator: a name in ``_CALLS``."""

    @property
    def first(self) -> Array:
        """Return the first argument of all cases."""
        assert self.arguments[0] is not None
        return self.arguments[0]

    def case(self, number: int) -> Arguments:
        """Return the arguments of one case."""
        return tuple(None if argument is None else argument[number] for argument in self.arguments)

    def ours(self) -> Answers:
        """Ask the library."""
        return _CALLS[self.call](partial(getattr(jaxdml, self.operator), **self.options), self)

    def oracle(self) -> Answers:
        """Ask the oracle."""
        function = partial(getattr(reference, self.operator), **self.options)
        return (_rows if self.call == "rows" else _each)(function, self)


def _rows(function: Callable[..., Any], batch: Batch) -> Answers:
    return answers(function(*batch.arguments))


def _each(function: Callable[..., Any], batch: Batch) -> Answers:
    return stacked([function(*batch.case(number)) for number in range(len(batch.first))])


def _jitted_rows(function: Callable[..., Any], batch: Batch) -> Answers:
    return _rows(jax.jit(function), batch)


def _vmapped(function: Callable[..., Any], batch: Batch) -> Answers:
    return _rows(jax.jit(jax.vmap(function)), batch)


_CALLS: Mapping[str, Callable[[Callable[..., Any], Batch], Answers]] = {
    "rows": _jitted_rows,
    "jit(vmap)": _vmapped,
    # What jit would cut to 32 bits before the library could look at it goes in eagerly, case by case.
    "eager": _each,
}


@dataclass(frozen=True)
class Check:
    """One row of the table: an operator and dtype, and how to draw its batches for a number of cases."""

    operator: str
    dtype: str
    draw: Callable[[np.random.Generator, int], Iterator[Batch]]


_SEQUENCES = (
    *((1, 1, 0.1), (7, 7, 0.1), (64, 5, 0.1)),
    # On both sides of each length, and k, at which the method changes somewhere; the last has a ragged end.
    *((length - 1, 9, 0.02) for length, _ in thresholds.PRUNINGS),
    *((length, length // per_k + more, 0.02) for length, per_k in thresholds.PRUNINGS for more in (0, 1)),
    *((length * 3 // 2 - 1, 3, 0.02) for length, _ in thresholds.PRUNINGS),
)
"""n, k and their share of the cases in each direction."""


def _draw_top_k(dtype: np.dtype[Any], rng: np.random.Generator, cases: int) -> Iterator[Batch]:
    for n, k, share in _SEQUENCES:
        for direction in ("decreasing", "increasing"):
            count = max(len(KINDS), round(share * cases))
            rows = np.empty((count, n), dtype)
            for place, kind in enumerate(KINDS):
                rows[place :: len(KINDS)] = kind(rng, rows[place :: len(KINDS)].shape, dtype)
            yield Batch("top_k", (rows,), {"k": k, "direction": direction}, "rows")


def _indices(rng: np.random.Generator, shape: tuple[int, ...], sizes: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Draw indices that repeat themselves, count from the end, miss by one, or lie at the ends of their dtype."""
    info = np.iinfo(dtype)
    limits = np.array(sizes)
    near = rng.integers(np.maximum(-limits - 1, info.min), limits + 1, shape)
    # Cut to 32 bits, or taken for signed, each of these would be in range.
    wild = [value for value in (info.min, info.max, 2**32, 2**32 + 1, -(2**32)) if info.min <= value <= info.max]
    return np.where(rng.random(shape) < 0.06, rng.choice(np.array(wild, dtype), shape), near.astype(dtype))


_SCATTERS: Mapping[str, tuple[tuple[str, tuple[int, ...], tuple[int, ...], int, str], ...]] = {
    "scatter_nd": (
        ("int32", (5, 4, 3), (7, 2), 0, "jit(vmap)"),
        ("uint32", (9,), (2, 6, 1), 0, "jit(vmap)"),
        ("int8", (2, 3, 2), (8, 3), 0, "jit(vmap)"),
        ("int64", (6, 2), (5, 1), 0, "eager"),
    ),
    "scatter_elements": (
        ("int32", (5, 4), (7, 4), 0, "jit(vmap)"),
        ("uint32", (3, 6), (2, 9), 1, "jit(vmap)"),
        ("int8", (3, 4, 2), (3, 6, 1), 1, "jit(vmap)"),
        ("int64", (6, 3), (5, 3), -2, "eager"),
    ),
}
"""The dtype of the indices, the shapes of x and of the indices, the axis, and how the call is made."""


def _draw_scatter(operator: str, dtype: np.dtype[Any], rng: np.random.Generator, cases: int) -> Iterator[Batch]:
    layouts = _SCATTERS[operator]
    count = -(-cases // (2 * len(layouts)))
    for index_dtype, shape, index_shape, axis, call in layouts:
        for mode in ("drop", "clip"):
            whole = operator == "scatter_elements"
            sizes = (shape[axis],) if whole else shape[: index_shape[-1]]
            update_shape = index_shape if whole else (*index_shape[:-1], *shape[index_shape[-1] :])
            arguments = (
                mixed(rng, (count, *shape), dtype),
                _indices(rng, (count, *index_shape), sizes, np.dtype(index_dtype)),
                mixed(rng, (count, *update_shape), dtype),
            )
            options = {"mode": mode, "duplicates": "last"} | ({"axis": axis} if whole else {})
            yield Batch(operator, arguments, options, call)


_Parameters = tuple[tuple[int, ...] | None, tuple[int, ...] | None]
_PRODUCTS: tuple[tuple[tuple[int, int, int], float, _Parameters, _Parameters, _Parameters], ...] = (
    ((3, 5, 4), 0.4, ((), ()), ((), ()), ((), ())),
    ((4, 16, 3), 0.3, ((4,), (4,)), ((3,), (3,)), ((4,), (4,))),
    ((2, 2, 2), 0.3, ((2, 1), None), ((1,), (1, 2)), ((2,), None)),
    # Deeper than one int32 sum holds.
    ((1, 33_100, 2), 0.002, ((), ()), ((2,), (2,)), ((), ())),
)
"""M, K, N, the share of the cases, and the shapes of scale and zero point of a, of b and of the output."""


def _draw_products(dtypes: tuple[str, str, str], rng: np.random.Generator, cases: int) -> Iterator[Batch]:
    for (m, k, n), share, *parameters in _PRODUCTS:
        count = max(3, round(share * cases))
        # Narrow spreads and powers of two put every other quotient on a true tie; the others come near one or fall
        # anywhere, products of scales outside float32 among them.
        fractions = np.arange(count) % 3
        spread = np.array([3, 30, 256])[np.arange(count) // 3 % 3]
        reach = np.maximum(1, np.log2(spread**2 * np.sqrt(k)).astype(int) - 6 + rng.integers(0, 3, count))
        output_exponent, a_exponent = rng.integers(-126, 127, (2, count))
        b_exponent = np.clip(output_exponent - reach - a_exponent, -126, 126)
        operands: list[Array | None] = []
        for dtype, shape, exponent, (scale_shape, zero_shape) in zip(
            map(np.dtype, dtypes),
            ((m, k), (k, n), None),
            (a_exponent, b_exponent, output_exponent),
            parameters,
            strict=True,
        ):
            zero = None if zero_shape is None else any_bits(rng, (count, *zero_shape), dtype)
            if shape is not None:
                middle = 0 if zero is None else zero.reshape(count, -1)[:, :1, None].astype(int)
                drawn = middle + rng.integers(-spread, spread + 1, (*shape, count)).transpose(2, 0, 1)
                operands.append(np.clip(drawn, *_ends(dtype)).astype(dtype))
            operands += [_scales(rng, exponent, fractions, scale_shape or ()), zero]
        yield Batch("quantized_linear_matrix_multiply", tuple(operands), {"output_dtype": dtypes[2]}, "jit(vmap)")


def _ends(dtype: np.dtype[Any]) -> tuple[int, int]:
    return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)


def _scales(rng: np.random.Generator, exponent: Array, kind: Array, shape: tuple[int, ...]) -> Array:
    """Compose normal float32 numbers: powers of two, their neighbours, or any, some of them negative."""
    whole = (len(exponent), *shape)
    exponent, kind = (part.reshape(-1, *[1] * len(shape)) for part in (exponent, kind))
    near = rng.choice(np.array([0, 1, 2**23 - 1]), whole)
    fraction = np.select([kind == 0, kind == 1], [np.zeros_like(near), near], rng.integers(0, 2**23, whole))
    biased = np.clip(exponent + rng.integers(0, 2, whole), -126, 127) + 127
    negative = rng.random(whole) < 0.1
    return (negative.astype(np.uint32) << 31 | (biased << 23 | fraction).astype(np.uint32)).view(np.float32)


_SELECTED = ("float32", "float16", "bfloat16", "int32", "int16", "int8", "uint32", "uint16", "uint8")
_WRITTEN = ("float32", "float16", "int32", "int8", "uint8")
_QUANTIZED = [(a, b, output) for a in ("int8", "uint8") for b in ("int8", "uint8") for output in ("int8", "uint8")]

CHECKS = (
    *(Check("top_k", dtype, partial(_draw_top_k, jnp.dtype(dtype))) for dtype in _SELECTED),
    *(
        Check(operator, dtype, partial(_draw_scatter, operator, np.dtype(dtype)))
        for operator in _SCATTERS
        for dtype in _WRITTEN
    ),
    *(
        Check("quantized_linear_matrix_multiply", "{} x {} -> {}".format(*dtypes), partial(_draw_products, dtypes))
        for dtypes in _QUANTIZED
    ),
)
