"""Convolve with XLA's own convolution of int8, where that is right and fast."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from jaxdml._algorithms.quantized.patch_product import corrected, multiply_patches
from jaxdml._algorithms.quantized.raw_product import RawProduct, Zero
from jaxdml._algorithms.quantized.windows import Windows


def convolve_natively(
    filters: jax.Array, filter_sums: Zero, zx: Zero, zw: Zero, x: jax.Array, windows: Windows
) -> RawProduct:
    """Convolve padded int8 ``[N, H, W, C]``; the arguments are those of ``multiply_patches``, in one group.

    If ``jax.vmap`` maps over the filters, JAX makes one convolution of several groups of them, which XLA gets wrong.
    So those are multiplied by patches.
    """
    depth = filters.shape[1]

    @jax.custom_batching.custom_vmap
    def convolve(x: jax.Array, filters: jax.Array) -> jax.Array:
        channels = x.shape[3]
        kernel = filters.reshape(*windows.sizes, channels, filters.shape[2])
        # The barriers keep the padding out of the convolution, for which XLA's CPU backend has no kernel then.
        x = lax.optimization_barrier(x)  # type: ignore[no-untyped-call]
        total: jax.Array = lax.conv_general_dilated(
            x,
            kernel,
            windows.strides,
            "VALID",
            rhs_dilation=windows.dilations,
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
            preferred_element_type=jnp.int32,
        )
        return lax.optimization_barrier(total)  # type: ignore[no-untyped-call]

    @convolve.def_vmap
    def _(size: int, batched: Any, x: jax.Array, filters: jax.Array) -> tuple[jax.Array, bool]:
        def by_patches(x: jax.Array, filters: jax.Array) -> jax.Array:
            return multiply_patches(filters, None, None, None, x, windows).product

        if not batched[1]:
            merged = convolve(x.reshape(size * x.shape[1], *x.shape[2:]), filters)
            return merged.reshape(size, -1, *merged.shape[1:]), True
        return jax.vmap(by_patches, [0 if each else None for each in batched], axis_size=size)(x, filters), True

    return corrected(convolve(x, filters), filter_sums, zx, zw, x, windows, depth)
