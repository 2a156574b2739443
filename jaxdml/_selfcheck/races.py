"""Set each operator against the obvious way to write it in stock JAX."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._selfcheck.data import (
    Arguments,
    Array,
    any_bits,
)


@dataclass(frozen=True)
class Race:
    """A call of a size that occurs in practice, and the obvious way to write it in stock JAX."""

    operator: str
    dtype: str
    size: str
    draw: Callable[[np.random.Generator], Arguments]
    options: Mapping[str, Any]
    stock: Callable[..., Any]
    rows: int | None
    """How many rows of the first argument the oracle, being slow, is asked for; None means all."""


def _numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    """Draw plain numbers: given NaNs, the stock forms would do other work."""
    if np.dtype(dtype).kind in "iu":
        return any_bits(rng, shape, np.dtype(dtype))
    return rng.standard_normal(shape, np.float32).astype(dtype)


def race_top_k(dtype: str, rows: int, n: int, k: int) -> Race:
    def draw(rng: np.random.Generator) -> Arguments:
        return (_numbers(rng, (rows, n), dtype),)

    return Race("top_k", dtype, f"{rows}x{n} k={k}", draw, {"k": k}, lambda x: lax.top_k(x, k), rows=2)


def race_scatter(
    operator: str, rows: int, columns: int, count: int, address: Callable[[Array], Array], stock: Callable[..., Any]
) -> Race:
    def draw(rng: np.random.Generator) -> Arguments:
        # No place twice: which update stock JAX would leave there is not known.
        places = address(rng.permutation(rows)[:count, None].astype(np.int32))
        return _numbers(rng, (rows, columns), "float32"), places, _numbers(rng, (count, columns), "float32")

    return Race(operator, "float32", f"{rows}x{columns} <- {count}x{columns}", draw, {}, stock, rows=None)


def race_product(m: int, k: int, n: int) -> Race:
    def draw(rng: np.random.Generator) -> Arguments:
        a, b = _numbers(rng, (m, k), "uint8"), _numbers(rng, (k, n), "int8")
        # A random product then fills most of the range and saturates now and then.
        scales = map(np.float32, (0.021, 0.013, 0.021 * 0.013 * 100 * np.sqrt(k)))
        flat = zip(scales, (np.uint8(128), np.int8(3), np.uint8(120)), strict=True)
        (a_scale, a_zero), (b_scale, b_zero), output = (tuple(map(np.asarray, pair)) for pair in flat)
        return a, a_scale, a_zero, b, b_scale, b_zero, *output

    size = f"{m}x{k} @ {k}x{n}"
    rows = min(m, 4)
    return Race("quantized_linear_matrix_multiply", "uint8 x int8 -> uint8", size, draw, {}, _stock_product, rows)


def _stock_product(*operands: jax.Array) -> jax.Array:
    a, a_scale, a_zero, b, b_scale, b_zero, output_scale, output_zero = operands
    wide = [part.astype(jnp.int32) for part in (a, a_zero, b, b_zero, output_zero)]
    total = lax.dot_general(wide[0] - wide[1], wide[2] - wide[3], (((1,), (0,)), ((), ())))
    real = total.astype(jnp.float32) * (a_scale * b_scale / output_scale)
    return jnp.clip(jnp.round(real).astype(jnp.int32) + wide[4], 0, 255).astype(jnp.uint8)


RACES = (
    race_top_k("float32", 64, 2**17, 10),
    race_top_k("float16", 1, 2**20, 64),
    race_top_k("int32", 1, 2**20, 64),
    race_top_k("uint8", 1, 2**20, 64),
    race_scatter("scatter_nd", 65_536, 128, 16_384, lambda rows: rows, lambda x, i, u: x.at[i[:, 0]].set(u)),
    race_scatter(
        *("scatter_elements", 2048, 2048, 256),
        # Every column another rotation of the rows.
        lambda rows: (rows + np.arange(2048, dtype=np.int32)) % 2048,
        lambda x, i, u: x.at[i, jnp.arange(x.shape[1])[None]].set(u),
    ),
    race_product(512, 512, 512),
    race_product(1, 2048, 2048),
)
