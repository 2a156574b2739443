"""What the cases of both scatters share."""

import numpy as np

from jaxdml._cases.data import plain
from jaxdml._cases.records import Array, NamedCall

DTYPES = ("float32", "float16", "int32", "int8", "uint8")

MODES = ("drop", "clip")


def scatter(
    operator: str,
    group: str,
    shape: tuple[int, int],
    count: int,
    dtype: str,
    *,
    memory: str,
    duplicates: str | None = None,
    origin: str = "the grid",
) -> NamedCall:
    """Return the call that writes ``count`` rows into a copy (``copied``) or into the buffer itself (``donated``).

    No index occurs twice: which update stock JAX leaves then is not known. ``duplicates`` is the option all the same.
    """
    rows, columns = shape
    kind = np.dtype(dtype)

    def draw(rng: np.random.Generator) -> tuple[Array, ...]:
        indices: Array = rng.permutation(rows)[:count, None].astype(np.int32)
        if operator == "scatter_elements":
            # Every column is another rotation of the rows, so that no column can be written like its neighbour.
            indices = (indices + np.arange(columns, dtype=np.int32)) % rows
        return plain(rng, shape, kind), indices, plain(rng, (count, columns), kind)

    written = 2 * count * columns * kind.itemsize + 4 * count * (columns if operator == "scatter_elements" else 1)
    return NamedCall(
        *(operator, group, f"{rows}x{columns} <- {count}", dtype, "random", origin),
        draw=draw,
        bytes=written + (2 * rows * columns * kind.itemsize if memory == "copied" else 0),
        options={"memory": memory} | ({"duplicates": duplicates} if duplicates else {}),
    )
