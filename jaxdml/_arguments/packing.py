"""Check what was packed before: the right matrix of a product, or the filters of a convolution."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NoReturn

import jax
import jax.numpy as jnp

from jaxdml._arguments.call import Call
from jaxdml._base.dtypes import QUANTIZED
from jaxdml._kernels.integer_convolution import PackedFilters
from jaxdml._kernels.integer_product import PackedMatrix


def right_matrix(call: Call, name: str, packed: PackedMatrix, shards: int) -> PackedMatrix:
    """Require the fields of a packed matrix to fit one another, and return it with JAX arrays, without its chain.

    Args:
      call: the call that has the operand.
      name: the name of the operand.
      packed: the operand.
      shards: into how many blocks K is sharded. A block may have the sums of the whole K.
    """
    matrix, sums, fail = _arrays(
        call, name, "matrix", "Pass jaxdml.prepack of the matrix, or the fields that it returned."
    )
    if matrix.ndim < 2:
        fail(f"{name}.matrix must have at least two dimensions; got {matrix.ndim}.")
    if sums.shape != matrix.shape[:-1]:
        want = [*matrix.shape[:-1]]
        fail(f"{name}.sums must have the shape of {name}.matrix without K, {want}; got {[*sums.shape]}.")
    k = matrix.shape[-1]
    if packed.k not in (k, k * shards):
        allowed = f"{k}" if shards == 1 else f"{k} or {k * shards}"
        rule = f"{name}.sums must add up K numbers each, {allowed}; got {name}.k = {packed.k}."
        fail(rule, "Pass axis_name for a block of a matrix whose K is sharded, or prepack the matrix anew.")
    call.operands[name] = replace(packed, matrix=matrix, sums=sums)
    return replace(call.operands[name], chain=())


def filters(call: Call, name: str, packed: PackedFilters, shards: int) -> PackedFilters:
    """Require the fields of packed filters to fit one another, and return them with JAX arrays, without a chain.

    Args:
      call: the call that has the operand.
      name: the name of the operand.
      packed: the operand.
      shards: into how many blocks the channels are sharded. A block may have the sums of all channels.
    """
    advice = "Pass jaxdml.prepack_filters of the filters, or the fields that it returned."
    stored, sums, fail = _arrays(call, name, "filters", advice)
    if str(stored.dtype) != "int8":
        fail(f"{name}.filters must be int8; got {stored.dtype}.")
    if sorted(packed.dimensions) != [*range(stored.ndim)]:
        fail(f"{name}.dimensions must say where the {stored.ndim} dimensions of w are; got {packed.dimensions}.")
    features = stored.shape[0 if packed.by_rows else -1]
    if sums.shape != (features,):
        fail(f"{name}.sums must have one number for each filter, {[features]}; got {[*sums.shape]}.")
    k = stored.size // max(1, features)
    if features and packed.k not in (k, k * shards):
        rule = f"{name}.sums must add up the numbers of a filter, {k}; got {name}.k = {packed.k}."
        fail(rule, "Pass axis_name for a block of filters whose channels are sharded, or prepack the filters anew.")
    edges: Any = packed.edges
    if not isinstance(edges, tuple) or edges:
        edges = Call(call.function, **{f"{name}.edges": edges}).array(f"{name}.edges")
        if edges.dtype != jnp.int32 or edges.ndim != stored.ndim - 1:
            fail(f"{name}.edges must be () or int32 [*spatial, M]; got {edges.dtype} {[*edges.shape]}.")
    call.operands[name] = replace(packed, filters=stored, sums=sums, edges=edges)
    return replace(call.operands[name], chain=(), runs=())


def _arrays(call: Call, name: str, field: str, advice: str) -> tuple[jax.Array, jax.Array, Callable[..., NoReturn]]:
    """Return the arrays of what is packed, with their dtypes checked, and what raises an error about them."""
    packed = call.operands[name]
    of_fields = Call(call.function, **{f"{name}.{part}": getattr(packed, part) for part in (field, "sums")})

    def fail(rule: str, advice: str = advice) -> NoReturn:
        of_fields.fail(TypeError, rule, advice)

    stored, sums = of_fields.array(f"{name}.{field}"), of_fields.array(f"{name}.sums")
    for part, dtype in ((field, stored.dtype), ("dtype", packed.dtype)):
        if str(dtype) not in QUANTIZED:
            fail(f"{name}.{part} must be one of {', '.join(QUANTIZED)}; got {dtype}.")
    if sums.dtype != jnp.int32:
        fail(f"{name}.sums must be int32; got {sums.dtype}.")
    return stored, sums, fail
