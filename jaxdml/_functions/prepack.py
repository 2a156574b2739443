"""Prepare the right matrix of products once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxdml._arguments import quantized
from jaxdml._arguments.call import Call
from jaxdml._arguments.chains import with_chain
from jaxdml._arithmetic.magnitudes import bound_of, greatest_magnitude
from jaxdml._kernels.integer_product import PackedMatrix, pack, storage
from jaxdml._placement.from_host import from_host
from jaxdml._placement.processor import is_on_cpu, is_on_gpu


def prepack(
    b: ArrayLike, *, transposed: bool = False, parameters: Mapping[str, ArrayLike | None] | None = None
) -> PackedMatrix:
    """Prepare a right matrix for many products: store it as they read it, and sum its columns.

    A product that takes the result returns the same bits as with ``b``. It is faster, because it neither transposes
    ``b`` nor sums its columns. Call ``prepack`` outside of the ``jax.jit`` that multiplies: inside, it runs with each
    call.

    Args:
      b: int8 or uint8, ``[..., K, N]``, or ``[..., N, K]`` if ``transposed``.
      transposed: whether ``b`` is given with the columns as rows, as ``torch.nn.Linear`` and ONNX's ``Gemm`` with
        ``transB=1`` store weights. Static.
      parameters: the scales, the zero points and the bias of calls of ``quantized_linear_matrix_multiply`` that will
        take the result, by their names, as numbers or NumPy arrays; None if they are not known. On a GPU such calls
        round in the kernel of the product. All others return the same bits as without. Static.

    Returns:
      A ``PackedMatrix``: ``b`` as ``[..., N, K]`` and the sums over K as int32 ``[..., N]``. It is a pytree: pass it to
      functions, map or scan over its leading dimensions, save it. The matrix is stored as int8, or as uint8 if ``b`` is
      on a CPU that multiplies unsigned by signed numbers only. Products with it give the same bits on every device.

    Raises:
      TypeError: ``b`` is not an int8 or uint8 array of at least two dimensions, or ``transposed`` is not a bool.

    Source:
      ``DML_TENSOR_FLAG_OWNED_BY_DML``: an operator is given such a tensor when it is initialized, and may keep it in
      another layout.

    Example:
      >>> a, b = jnp.array([[100, 28]], jnp.uint8), jnp.array([[3], [-4]], jnp.int8)
      >>> packed = jaxdml.prepack(b)
      >>> packed.shape, packed.matrix.shape  # The columns are stored as rows.
      ((2, 1), (1, 2))
      >>> jaxdml.quantized_linear_matrix_multiply(a, 0.5, 128, packed, 0.25, None, 2.0, 10)
      Array([[30]], dtype=uint8)
    """
    call = Call("prepack", b=b)
    given: Any = quantized.matrix(call, "b", call.stored)
    transposed = call.flag("transposed", transposed)
    on_host = isinstance(given, np.ndarray)
    where = jax.device_put(np.zeros(1, np.int8)) if on_host else given
    stored = jnp.dtype(storage(is_on_cpu(where)))
    packed, greatest = (_packed if on_host else _pack)(given, transposed, stored)
    packed = replace(packed, bound=bound_of(greatest))
    return from_host(with_chain(call, ("a", "b"), packed, parameters, is_on_gpu(where)))


def _packed(b: Any, transposed: bool, stored: np.dtype[Any]) -> tuple[PackedMatrix, Any]:
    """Return a packed matrix, and the greatest sum of the magnitudes of a column."""
    columns = b if transposed else b.swapaxes(-1, -2)
    return pack(columns, b.dtype, stored), greatest_magnitude(columns, (columns.ndim - 1,))


_pack = jax.jit(_packed, static_argnums=(1, 2), inline=True)
