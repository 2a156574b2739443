"""What the peers of all matrix products share."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import jaxdml
from benchmarks.cases import Arguments, Array, Case
from benchmarks.peers import with_jax
from benchmarks.peers.contender import Contender

_ROWS, _COLUMNS = 4, 256
"""So many rows, and columns, of a result are compared."""


def part(a: Array, b: Array) -> tuple[Array, Array]:
    """Choose some rows of ``a`` and some columns of ``b``."""
    rows = np.unique(np.linspace(0, a.shape[-2] - 1, _ROWS).astype(int))
    columns = np.unique(np.linspace(0, b.shape[-1] - 1, _COLUMNS).astype(int))
    return rows, columns


def packed(place: int, arguments: Arguments) -> Any:
    """Return the arguments with a packed right matrix, the one at ``place``."""
    return (*arguments[:place], jaxdml.prepack(arguments[place]), *arguments[place + 1 :])


def prepacked(place: int, case: Case, draws: Sequence[Arguments]) -> Contender:
    """Prepare jaxdml's own product with a right matrix that was packed beforehand."""
    return with_jax.prepare(with_jax.ours(case), case, [packed(place, draw) for draw in draws])


def int_mm(left: Any, right: Any) -> Any:
    """Multiply signed matrices in PyTorch; the sums are int32."""
    import torch

    if not left.is_cuda:
        return torch._int_mm(left, right)
    # Here _int_mm wants more than 16 rows and sizes that are multiples of 8, and is much quicker with the right matrix
    # transposed, even with the time that transposing takes.
    pad = torch.nn.functional.pad
    (rows, length), columns = left.shape, right.shape[1]
    padded = pad(left, (0, -length % 16, 0, max(0, 17 - rows)))
    transposed = pad(right, (0, -columns % 16, 0, -length % 16)).t().contiguous().t()
    return torch._int_mm(padded, transposed)[:rows, :columns]


def torch_sums(
    a: Any, a_zero: Any, b: Any, b_zero: Any, product: Callable[[Any, Any], Any] = int_mm
) -> Callable[[], Any]:
    """Return what multiplies the differences from the zero points, by a product of signed matrices and corrections."""
    import torch

    shifts = [128 if x.dtype == torch.uint8 else 0 for x in (a, b)]
    zeros = [zero if isinstance(zero, int) else zero.to(torch.int32) for zero in (a_zero, b_zero)]
    zero_points = [zero - shift for zero, shift in zip(zeros, shifts, strict=True)]
    length = a.shape[-1]

    def signed(x: Any) -> Any:
        return (x ^ 128).view(torch.int8) if x.dtype == torch.uint8 else x

    def sums() -> Any:
        left, right = signed(a), signed(b)
        left_sums = left.sum(-1, keepdim=True, dtype=torch.int32)
        right_sums = right.sum(-2, keepdim=True, dtype=torch.int32)
        corrections = zero_points[1] * (left_sums - length * zero_points[0]) + zero_points[0] * right_sums
        return product(left, right) - corrections

    return sums
