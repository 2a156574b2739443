"""Sharded calls of every operator, by what is sharded, and the bounds on what they send."""

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

import jaxdml
from benchmarks.cases.shardings import NOTHING, ONE, TWO, Axes, Bound, ByName, Shape, Sharded, block, shards
from jaxdml._cases._accumulating import stock_rounded, stock_sums

_LONGEST_SUM = 33_025
"""The deepest product with any zero points whose sum fits int32."""


def top_k(sharding: str, shape: tuple[int, ...], k: int, *over: Any, axis: int = -1, axes: Axes = ONE) -> Sharded:
    """Return a selection along ``axis`` of a float32 array with the dimensions sharded over the mesh axes ``over``."""
    entries = [*over, *[None] * (len(shape) - len(over))]
    along, axis = entries[axis], axis % len(shape)
    ours, stock = partial(jaxdml.top_k, k=k, axis=axis), partial(lax.top_k, k=k, axis=axis)
    spec = P(*entries)
    here = block(axes, shape, tuple(entries))
    entries[axis] = None
    results: Any = (P(*entries), P(*entries))
    arguments = (Shape(shape, "float32"),)
    common = "top_k", sharding, axes, arguments, (spec,), jaxdml.TopK(*results), ours, stock
    if along is None:
        return Sharded(*common)
    sequences = math.prod(here) // here[axis]
    sent = 2 * shards(axes, along) * min(k, here[axis])
    bound = Bound("2 * shards * k for each sequence", sent * sequences, 1)
    # XLA does not tell how many of the devices share a sequence when a program is lowered. The values come with one
    # more collective.
    at_most = (2 * math.prod(axes.values()) + 1) * k
    under_auto = Bound("(2 * devices + 1) * k for each sequence", at_most * sequences, None)

    def gathered(x: jax.Array) -> jaxdml.TopK:
        return jaxdml.TopK(*stock(lax.all_gather(x, along, axis=axis, tiled=True)))

    return Sharded(*common, bound, ByName(partial(ours, axis_name=along), gathered), under_auto)


def argmax(sharding: str, shape: tuple[int, ...], *over: Any, axis: int = -1, axes: Axes = ONE) -> Sharded:
    """Return a search along ``axis`` of a float32 array with the dimensions sharded over the mesh axes ``over``."""
    entries = [*over, *[None] * (len(shape) - len(over))]
    here, axis = block(axes, shape, tuple(entries)), axis % len(shape)
    ours, stock = partial(jaxdml.argmax, axis=axis), partial(jnp.argmax, axis=axis)
    along, spec = entries.pop(axis), P(*entries)
    common = "argmax", sharding, axes, (Shape(shape, "float32"),), (P(*over),), spec, ours, stock
    if along is None:
        return Sharded(*common)
    sequences = math.prod(here) // here[axis]
    rule, most = "2 * shards for each sequence", 2 * shards(axes, along) * sequences

    def gathered(x: jax.Array) -> jax.Array:
        return stock(lax.all_gather(x, along, axis=axis, tiled=True))

    by_name = ByName(partial(ours, axis_name=along), gathered)
    return Sharded(*common, Bound(rule, most, 1), by_name, Bound(rule, most, None))


def scatter_nd(
    sharding: str,
    shape: tuple[int, ...],
    count: int,
    *over: Any,
    depth: int = 1,
    updates_over: Any = None,
    duplicates: Any = "unspecified",
    axes: Axes = ONE,
) -> Sharded:
    """Return a write of ``count`` slices, each at ``depth`` indices, into a float32 array."""
    entries = (*over, *[None] * (len(shape) - len(over)))
    arguments = Shape(shape, "float32"), Shape((count, depth), "int32"), Shape((count, *shape[depth:]), "float32")
    specs = P(*entries), P(updates_over), P(updates_over, *entries[depth:])
    ours = partial(jaxdml.scatter_nd, duplicates=duplicates)

    def stock(x: jax.Array, indices: jax.Array, updates: jax.Array) -> jax.Array:
        return x.at[tuple(indices[:, d] for d in range(depth))].set(updates, mode="drop")

    common = "scatter_nd", sharding, axes, arguments, specs, specs[0], ours, stock
    if updates_over is not None:
        gathered = count * depth + math.prod(block(axes, arguments[2].shape, (None, *entries[depth:])))
        return Sharded(*common, Bound("indices and updates", gathered, 2))
    rows = entries[0]
    if rows is None or any(entries[1:depth]):
        return Sharded(*common)

    def shifted(x: jax.Array, indices: jax.Array, updates: jax.Array) -> jax.Array:
        first = indices[:, 0] - lax.axis_index(rows) * x.shape[0]
        first = jnp.where((first >= 0) & (first < x.shape[0]), first, x.shape[0])
        return stock(x, indices.at[:, 0].set(first), updates)

    return Sharded(*common, NOTHING, ByName(partial(ours, axis_name=rows), shifted))


def scatter_elements(
    sharding: str,
    shape: tuple[int, int],
    index_shape: tuple[int, int],
    *over: Any,
    axis: int = 0,
    gathers: bool = False,
    duplicates: Any = "unspecified",
) -> Sharded:
    """Return a write of elements along ``axis`` of a float32 matrix, its indices and updates sharded as the matrix.

    With ``gathers`` indices and updates may be gathered, because one of a shard may belong to another.
    """
    arguments = Shape(shape, "float32"), Shape(index_shape, "int32"), Shape(index_shape, "float32")
    bound = Bound("indices and updates", 2 * math.prod(index_shape), 2) if gathers else NOTHING

    def stock(x: jax.Array, indices: jax.Array, updates: jax.Array) -> jax.Array:
        grid = list(jnp.ogrid[tuple(slice(size) for size in indices.shape)])
        grid[axis] = indices
        return x.at[tuple(grid)].set(updates, mode="drop")

    ours = partial(jaxdml.scatter_elements, axis=axis, duplicates=duplicates)
    spec = P(*over)
    return Sharded("scatter_elements", sharding, ONE, arguments, (spec,) * 3, spec, ours, stock, bound)


def gather(
    sharding: str,
    shape: tuple[int, ...],
    index_shape: tuple[int, ...],
    *over: Any,
    axis: int = 0,
    indices_over: tuple[Any, ...] = (),
    axes: Axes = ONE,
) -> Sharded:
    """Return a read along ``axis`` of a float32 array with the dimensions sharded over the mesh axes ``over``."""
    entries = [*over, *[None] * (len(shape) - len(over))]
    of_indices = [*indices_over, *[None] * (len(index_shape) - len(indices_over))]
    arguments = Shape(shape, "float32"), Shape(index_shape, "int32")
    result = [*entries[:axis], *of_indices, *entries[axis + 1 :]]
    ours = partial(jaxdml.gather, axis=axis)

    def stock(x: jax.Array, indices: jax.Array) -> jax.Array:
        return jnp.take(x, indices, axis=axis, mode="clip")

    common = "gather", sharding, axes, arguments, (P(*entries), P(*of_indices)), P(*result), ours, stock
    along = entries[axis]
    if along is None:
        return Sharded(*common)
    here = block(axes, (*shape[:axis], *index_shape, *shape[axis + 1 :]), tuple(result))

    def summed(x: jax.Array, indices: jax.Array) -> jax.Array:
        local = indices - lax.axis_index(along) * x.shape[axis]
        read = jnp.take(x, jnp.where(local < 0, x.shape[axis], local), axis=axis, mode="fill", fill_value=0)
        return lax.psum(read, along)

    return Sharded(*common, Bound("the result", math.prod(here), 1), ByName(partial(ours, axis_name=along), summed))


def product(
    sharding: str,
    size: tuple[int, int, int],
    *,
    rows: Any = None,
    depth: Any = None,
    columns: Any = None,
    batch: tuple[int, Any] | None = None,
    dtype: str = "int8",
    by_axis: bool = False,
    packed: bool = False,
    axes: Axes = ONE,
) -> Sharded:
    """Return a product of M x K by K x N with the mesh axes of M, K, N and of the batch.

    ``by_axis`` gives each row and each column a scale and a zero point, sharded as the rows and the columns. With
    ``packed`` the two arrays of a packed matrix stand for the right one, and every device has the sums of the whole K.
    """
    m, k, n = size
    leading, first = ((batch[0],), (batch[1],)) if batch else ((), ())
    of_row, of_column = ((m, 1), (1, n)) if by_axis else ((), ())
    in_rows, in_columns = (P(rows), P(None, columns)) if by_axis else (P(), P())
    row, column = ((Shape(of, "float32"), Shape(of, dtype)) for of in (of_row, of_column))
    right: tuple[Shape, ...] = (Shape((*leading, k, n), dtype),)
    in_right: tuple[P, ...] = (P(*first, depth, columns),)
    ours, stock = partial(jaxdml.quantized_linear_matrix_multiply), _rounded_product
    if packed:
        right = Shape((*leading, n, k), dtype), Shape((*leading, n), "int32")
        in_right = P(*first, columns, depth), P(*first, columns)
        ours, stock = partial(_packed_product, k), _product_of_columns
    arguments = Shape((*leading, m, k), dtype), *row, *right, *column, *row
    specs = (
        *(P(*first, rows, depth), in_rows, in_rows),
        *(*in_right, in_columns, in_columns),
        *(in_rows, in_rows),
    )
    name = "quantized_linear_matrix_multiply"
    common = name, sharding, axes, arguments, specs, P(*first, rows, columns), ours, stock
    if depth is None:
        return Sharded(*common)
    sums = 1 if k <= _LONGEST_SUM else 2
    # Beside the accumulator, the sums over K of each row of a and of each column of b.
    *batches, here, across = block(axes, (*leading, m, n), (*first, rows, columns))
    bound = Bound("one sum" if sums == 1 else "two sums", sums * math.prod(batches) * (here + 1) * (across + 1), sums)
    by_name = ByName(partial(ours, axis_name=depth), partial(stock, axis_name=depth))
    return Sharded(*common, bound, by_name)


def _packed_product(k: int, *operands: jax.Array, **options: Any) -> jax.Array:
    """Multiply by a packed matrix with columns of ``k`` numbers in all, given as its two arrays."""
    a, a_scale, a_zero, matrix, sums, *rest = operands
    b = jaxdml.PackedMatrix(matrix=matrix, sums=sums, dtype=matrix.dtype, k=k)
    return jaxdml.quantized_linear_matrix_multiply(a, a_scale, a_zero, b, *rest, **options)


def _product_of_columns(*operands: jax.Array, axis_name: Any = None) -> jax.Array:
    """Multiply as ``_rounded_product`` does by a matrix that is stored by columns."""
    a, a_scale, a_zero, matrix, _, *rest = operands
    return _rounded_product(a, a_scale, a_zero, jnp.swapaxes(matrix, -1, -2), *rest, axis_name=axis_name)


def _rounded_product(*operands: jax.Array, axis_name: Any = None) -> jax.Array:
    """Multiply in int32, scale in float32 and round, as one writes it in stock JAX."""
    a, a_scale, a_zero, b, b_scale, b_zero, output_scale, output_zero = operands
    total = stock_sums(a, a_zero, b, b_zero)
    if axis_name is not None:
        total = lax.psum(total, axis_name)
    return stock_rounded(total.astype(jnp.float32) * (a_scale * b_scale / output_scale), output_zero)


CALLS = (
    top_k("the axis, 1-D", (2**20,), 64, "d"),
    top_k("the axis, 3-D", (4, 8, 1024), 8, None, None, "d"),
    top_k("the axis, not the last one", (2, 4096, 16), 8, None, "d", axis=1),
    top_k("the axis over two mesh axes", (4, 8192), 16, None, ("d", "e"), axes=TWO),
    top_k("the axis and the batch", (4, 8192), 16, "d", "e", axes=TWO),
    top_k("k above a shard's length", (4, 128), 40, None, "d"),
    top_k("the first dimension", (8, 4, 1024), 8, "d"),
    top_k("the middle dimension", (4, 8, 1024), 8, None, "d"),
    top_k("two dimensions of the batch", (4, 8, 1024), 8, "d", "e", axes=TWO),
    top_k("the dimension after the axis", (2, 1024, 64), 8, None, None, "d", axis=1),
    scatter_nd("rows", (2**16, 128), 1024, "d"),
    scatter_nd("rows, the last duplicate wins", (2**16, 128), 1024, "d", duplicates="last"),
    scatter_nd("rows over two mesh axes", (2**16, 128), 1024, ("d", "e"), axes=TWO),
    scatter_nd("rows and slices", (2**16, 128), 1024, "d", "e", axes=TWO),
    scatter_nd("slices", (2**16, 128), 1024, None, "d"),
    scatter_nd("slices, the last duplicate wins", (2**16, 128), 1024, None, "d", duplicates="last"),
    scatter_nd("rows, indices and updates", (2**16, 128), 1024, "d", updates_over="d"),
    scatter_nd("indices and updates", (2**16, 128), 1024, updates_over="d"),
    scatter_nd("the first of two indexed dimensions", (256, 256, 32), 1024, "d", depth=2),
    scatter_nd("both indexed dimensions", (256, 256, 32), 1024, "d", "e", depth=2, axes=TWO),
    scatter_elements("columns", (4096, 512), (1024, 512), None, "d"),
    scatter_elements("columns, the last duplicate wins", (4096, 512), (1024, 512), None, "d", duplicates="last"),
    scatter_elements("rows, along the columns", (4096, 512), (4096, 64), "d", axis=1),
    scatter_elements("the axis", (4096, 512), (1024, 512), "d", gathers=True),
    scatter_elements("columns, fewer of them indexed", (4096, 512), (1024, 256), None, "d", gathers=True),
    product("rows", (512, 1024, 256), rows="d"),
    product("columns", (512, 1024, 256), columns="d"),
    product("batch", (64, 1024, 128), batch=(8, "d")),
    product("rows and columns", (512, 1024, 256), rows="d", columns="e", axes=TWO),
    product(
        "rows and columns, uint8 by row and column",
        (512, 1024, 256),
        rows="d",
        columns="e",
        axes=TWO,
        dtype="uint8",
        by_axis=True,
    ),
    product("rows, K = 80,000", (64, 80_000, 48), rows="d"),
    product("K", (64, 8192, 128), depth="d"),
    product("K, uint8 by row and column", (64, 8192, 128), depth="d", dtype="uint8", by_axis=True),
    product("K over two mesh axes", (64, 8192, 128), depth=("d", "e"), axes=TWO),
    product("rows and K", (64, 8192, 128), rows="d", depth="e", axes=TWO),
    product("K = 80,000", (64, 80_000, 48), depth="d"),
    product("columns, packed", (512, 1024, 256), columns="d", packed=True),
    product("batch, packed", (64, 1024, 128), batch=(8, "d"), packed=True),
    product("K, packed, uint8 by row and column", (64, 8192, 128), depth="d", dtype="uint8", by_axis=True, packed=True),
    product("K = 80,000, packed", (64, 80_000, 48), depth="d", packed=True),
)
"""The rows of the table."""
