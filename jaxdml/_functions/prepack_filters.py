"""Prepare the filters of convolutions once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import jax
import numpy as np
from jax.typing import ArrayLike

from jaxdml._arguments import dimensions, quantized
from jaxdml._arguments.call import Call
from jaxdml._arguments.chains import with_chain
from jaxdml._arithmetic.magnitudes import bound_of
from jaxdml._kernels.integer_convolution import PackedFilters, edge_sums, has_edges, in_rows, pack, runs
from jaxdml._placement.from_host import from_host
from jaxdml._placement.processor import is_on_gpu


def prepack_filters(
    w: ArrayLike, *, dimension_numbers: str | None = None, parameters: Mapping[str, ArrayLike | None] | None = None
) -> PackedFilters:
    """Prepare filters for many convolutions: store them as these read them, and sum them.

    A convolution that takes the result returns the same bits as with ``w``. It is faster, because it neither transposes
    ``w`` nor sums it. Call ``prepack_filters`` outside of the ``jax.jit`` that convolves: inside, it runs with each
    call.

    Args:
      w: int8 or uint8, ``[M, C / group_count, *spatial]``, with at least one spatial dimension.
      dimension_numbers: the order of the dimensions of ``w``, such as ``"HWIO"``, the second of the three strings that
        a convolution takes; None means ``w`` is as above. Static.
      parameters: the scales, the zero points and the bias of calls of ``quantized_linear_convolution`` that will take
        the result, as for ``prepack``; and their ``strides``, with which a GPU convolves images of few channels faster:
        of two to four, and in functions of ``jaxdml.jit`` of 16 to about 64, in multiples of four. Static.

    Returns:
      ``PackedFilters``: ``w`` as int8 in the order that is read fastest, and the sums of the filters as int32 ``[M]``.
      It is a pytree: pass it to functions, map or scan over leading dimensions of its arrays, save it. It has the shape
      of ``w``, and is passed in its place with the same ``dimension_numbers``.

    Raises:
      TypeError: ``w`` is not an int8 or uint8 array of at least three dimensions.
      ValueError: ``dimension_numbers`` does not say where the dimensions of ``w`` are; ``parameters`` has another name,
        or ``strides`` that a convolution would refuse.

    Source:
      ``DML_TENSOR_FLAG_OWNED_BY_DML``: an operator is given such a tensor when it is initialized, and may keep it in
      another layout.

    Example:
      >>> x, w = jnp.array([[[2, 3, 4, 5]]], jnp.uint8), jnp.array([[[1, -1]]], jnp.int8)
      >>> packed = jaxdml.prepack_filters(w)
      >>> packed.shape
      (1, 1, 2)
      >>> jaxdml.convolution_integer(x, 2, packed, None, start_padding=1)
      Array([[[ 0, -1, -1, -1]]], dtype=int32)
    """
    call = Call("prepack_filters", w=w)
    filters: Any = quantized.integers(call, "w", call.stored)
    if filters.ndim < 3:
        rule = f"w must have at least three dimensions; got {filters.ndim}."
        call.fail(TypeError, rule, "Give w as [M, C / group_count, *spatial].", "w")
    call.static("dimension_numbers", dimension_numbers)
    given: Any = dimension_numbers
    if isinstance(given, str):
        alike = given.replace("O", "N").replace("I", "C")
        given = alike, given, alike
    shape = filters.shape
    order = dimensions.order(shape, shape, given) if given is None or isinstance(given, tuple) else None
    if order is None:
        rule = f"dimension_numbers must say where the {filters.ndim} dimensions of w are; got {dimension_numbers!r}."
        call.fail(ValueError, rule, "Pass a string such as 'HWIO', or None for output channels first.", "w")
    dimensions_of_w = tuple(order.rhs_spec)
    parameters, strides = _without_strides(call, parameters, len(shape) - 2)
    on_host = isinstance(filters, np.ndarray)
    on_gpu = is_on_gpu(jax.device_put(np.zeros(1, np.int8)) if on_host else filters)
    packed, greatest = (pack if on_host else _pack)(filters, dimensions_of_w, in_rows(shape, dimensions_of_w, on_gpu))
    packed = replace(packed, bound=bound_of(greatest))
    packed = with_chain(call, ("x", "w"), packed, parameters, on_gpu)
    if parameters is not None and on_gpu and has_edges(packed):
        packed = replace(packed, edges=(edge_sums if on_host else _edge_sums)(packed.filters))
    if len(strides) == 2 and packed.chain:
        packed = replace(packed, runs=runs(packed, strides[-1]))
    return from_host(packed)


def _without_strides(
    call: Call, parameters: Mapping[str, Any] | None, count: int
) -> tuple[Mapping[str, Any] | None, tuple[int, ...]]:
    """Return the parameters that round sums, and the strides for each spatial dimension, if they are given."""
    if parameters is None or "strides" not in parameters:
        return parameters, ()
    others = {name: value for name, value in parameters.items() if name != "strides"}
    return others, dimensions.of_each(call, parameters, count)["strides"]


_pack = jax.jit(pack, static_argnums=(1, 2), inline=True)
_edge_sums = jax.jit(edge_sums, inline=True)
