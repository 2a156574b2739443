"""Choose how to cut int8 products on a GPU, so that they have enough tiles."""

import math
from typing import NamedTuple

import jax

from jaxdml._kernels.integer_product.operands import ALIGNMENT, product_shape, row_count
from jaxdml._kernels.integer_product.packed_matrix import PackedMatrix, Right

_US_OF_STEP, _US_OF_SUM, _US_OF_KERNEL = 0.3, 1.25e-6, 1.5
"""What an H200 takes for one step along K of an int8 product whose tiles are computed at once; to write a sum, or to
read one; and for another kernel. ``benchmarks/results/trials-h200.json`` has what these are taken from."""

_STEPS = 128, 64, 32
"""How long a step is: mostly the first that divides a section."""

_TILES_AT_ONCE, _SIDE, _MOST_SECTIONS = 132, 64, 32
"""How many tiles an H200 computes at once; how many rows and columns each has, about; and the most sections."""

_ROWS_OF_PART, _MOST_IN_PARTS = range(64, 47, -1), 2**20
"""How many rows a part has, in the order of preference: most of a tile. Larger products are not cut."""


class Cut(NamedTuple):
    """Say into how many parts of equal size a product is cut, which are a batch dimension of it. Static."""

    parts_of_rows: int = 1
    sections: int = 1
    """Of K."""


WHOLE = Cut()


def cut_in_tiles(a: jax.Array, b: Right, adds_a_kernel: bool, min_rows: int = 1) -> Cut:
    """Return how to cut an int8 product in a program where XLA splits no K.

    Few tiles leave a GPU idle, and sections of K make more of them. But they are added up by another kernel. Rows are
    cut where K is not: whole models are faster so, it is not known why.

    Args:
      a: the rows.
      b: the matrix. If it is not packed, only K is cut.
      adds_a_kernel: whether that kernel would do nothing else. What follows a product may add up sections, too.
      min_rows: that the rows are padded to.
    """
    shape, (depth, columns) = product_shape(a, b), b.shape[-2:]
    merged = math.prod(b.shape[:-2]) == 1
    rows, products = max(min_rows, row_count(a, b)), 1 if merged else math.prod(shape[:-2])
    outputs = products * rows * columns
    if rows == 1 or not outputs:
        return WHOLE  # A single row is computed as a reduction.
    tiles = products * math.ceil(rows / _SIDE) * math.ceil(columns / _SIDE)

    def microseconds(sections: int) -> float:
        section = depth // sections
        step = next((step for step in _STEPS if section % step == 0), _STEPS[-1])
        product = math.ceil(section / step) * _US_OF_STEP * max(1, sections * tiles / _TILES_AT_ONCE)
        sums = sections * outputs * _US_OF_SUM
        if sections == 1:
            return product
        return product + (2 * sums + _US_OF_KERNEL if adds_a_kernel else sums)

    possible = (n for n in range(1, _MOST_SECTIONS + 1) if n == 1 or depth % (n * _STEPS[-1]) == 0)
    sections = min(possible, key=microseconds)
    by_rows = isinstance(b, PackedMatrix) and adds_a_kernel and merged
    if sections > 1 or not by_rows or outputs > _MOST_IN_PARTS or depth % ALIGNMENT:
        return Cut(sections=sections)
    return Cut(parts_of_rows=next((rows // part for part in _ROWS_OF_PART if rows % part == 0 and rows > part), 1))
