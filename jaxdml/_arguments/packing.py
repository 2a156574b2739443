"""Prepare the right matrix of products once, and check it where a product takes it."""

from dataclasses import replace
from functools import partial
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from jaxdml._arguments import quantized
from jaxdml._arguments.call import Call
from jaxdml._base.dtypes import QUANTIZED
from jaxdml._kernels.integer_product import PackedMatrix, Right, pack, storage, stored_as


def prepack(b: Any, *, transposed: bool = False) -> PackedMatrix:
    """Prepare a right matrix for many products: store it as they read it, and sum its columns.

    A product that takes the result returns the same bits as with ``b``. It is faster, because it neither transposes
    ``b`` nor sums its columns. Call ``prepack`` outside of the ``jax.jit`` that multiplies: inside, it runs with each
    call.

    Args:
      b: int8 or uint8, ``[..., K, N]``, or ``[..., N, K]`` if ``transposed``.
      transposed: whether ``b`` is given with the columns as rows, as ``torch.nn.Linear`` and ONNX's ``Gemm`` with
        ``transB=1`` store weights. Static.

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
    given = quantized.matrix(call, "b")
    call.static("transposed", transposed)
    if not isinstance(transposed, bool | np.bool_):
        call.fail(TypeError, f"transposed must be a bool; got {type(transposed).__name__}.", "Pass True or False.")
    return _pack(given, bool(transposed), jnp.dtype(storage(_is_on_cpu(given))))


@partial(jax.jit, static_argnums=(1, 2), inline=True)
def _pack(b: jax.Array, transposed: bool, stored: np.dtype[Any]) -> PackedMatrix:
    packed, _ = stored_as(stored, pack(b if transposed else jnp.swapaxes(b, -1, -2), b.dtype), None)
    return packed


def _is_on_cpu(x: jax.Array) -> bool:
    """Tell whether an array is on CPUs; False for a traced one, which is on no device yet."""
    return not isinstance(x, jax.core.Tracer) and all(device.platform == "cpu" for device in x.devices())


def right_matrix(call: Call, name: str, shards: int) -> Right:
    """Return an operand as a JAX array, or as a ``PackedMatrix`` whose fields fit one another.

    Args:
      call: the call that has the operand.
      name: the name of the operand.
      shards: into how many blocks K is sharded. A block may have the sums of the whole K.
    """
    packed = call.operands[name]
    if not isinstance(packed, PackedMatrix):
        return quantized.matrix(call, name)
    of_fields = Call(call.function, **{f"{name}.matrix": packed.matrix, f"{name}.sums": packed.sums})

    def fail(rule: str, advice: str = "Pass jaxdml.prepack of the matrix, or the fields that it returned.") -> NoReturn:
        of_fields.fail(TypeError, rule, advice)

    matrix, sums = of_fields.array(f"{name}.matrix"), of_fields.array(f"{name}.sums")
    listed = ", ".join(QUANTIZED)
    for field, dtype in ((f"{name}.matrix", matrix.dtype), (f"{name}.dtype", packed.dtype)):
        if str(dtype) not in QUANTIZED:
            fail(f"{field} must be one of {listed}; got {dtype}.")
    if matrix.ndim < 2:
        fail(f"{name}.matrix must have at least two dimensions; got {matrix.ndim}.")
    if sums.dtype != jnp.int32:
        fail(f"{name}.sums must be int32; got {sums.dtype}.")
    if sums.shape != matrix.shape[:-1]:
        fail(
            f"{name}.sums must have the shape of {name}.matrix without K, {[*matrix.shape[:-1]]}; got {[*sums.shape]}."
        )
    k = matrix.shape[-1]
    if packed.k not in (k, k * shards):
        allowed = f"{k}" if shards == 1 else f"{k} or {k * shards}"
        rule = f"{name}.sums must add up K numbers each, {allowed}; got {name}.k = {packed.k}."
        advice = "Pass axis_name for a block of a matrix whose K is sharded, or prepack the matrix anew."
        fail(rule, advice)
    call.operands[name] = replace(packed, matrix=matrix, sums=sums)
    return call.operands[name]
