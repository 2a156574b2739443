"""Check the arguments that all gathers share, and read on every shard."""

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._arguments import indexing
from jaxdml._arguments.call import Call
from jaxdml._kernels import indexed_read
from jaxdml._kernels.indexed_read import Reading
from jaxdml._placement.layout import Labels, Names, axis_size, layout, run

MODES = ("clip", "fill", "promise_in_bounds")


class Gather(NamedTuple):
    """Hold a checked call."""

    call: Call
    x: jax.Array
    indices: np.ndarray[Any, Any] | jax.Array
    """As the caller gave them."""

    mode: str
    fill: bytes

    def axis(self, value: Any) -> int:
        """Return the static ``axis``, counted from the front."""
        if self.x.ndim == 0:
            self.call.fail(TypeError, "x must have at least one axis.", "Pass x[None] to read from one element.")
        return self.call.axis(value, self.x.ndim)

    def read(
        self,
        labels: tuple[Labels, Labels, Labels],
        over: Mapping[int, Names],
        numbers: lax.GatherDimensionNumbers,
        *,
        tuples: bool = False,
        shared: int = 0,
    ) -> jax.Array:
        """Return the slices of ``x`` at ``indices``.

        Args:
          labels: of the dimensions of ``x``, of ``indices`` and of the result.
          over: for each dimension that the indices address, the mesh axes over which the caller's ``shard_map`` has
            sharded it.
          numbers: which dimensions of ``x`` the indices address, and where the others are in the result.
          tuples: whether the last dimension of ``indices`` has tuples; if not, each index becomes one.
          shared: for how many leading dimensions of ``x`` the same ``indices`` are used.
        """
        of_x, of_indices, of_result = labels
        where = layout(
            [(self.x, of_x), (self.indices, of_indices)],
            of_result,
            combined={of_x[d]: names for d, names in over.items()},
            deciding=2,
            fail=partial(self.call.fail, ValueError, advice="Reshard x or indices with jax.sharding.reshard."),
        )
        sizes = tuple(self.x.shape[d] * axis_size(names) for d, names in over.items())
        if 0 in sizes and self.mode != "fill" and self.indices.size:
            rule = "indices address a dimension of x that has no elements."
            self.call.fail(ValueError, rule, "Pass no indices, or mode='fill'.")
        fitted = indexing.fit(self.call, self.indices, sizes, "gather from").reshape(self.indices.shape)
        how = Reading(numbers, self.mode, self.fill)
        options = {"how": how, "addressed": tuple(over), "tuples": tuples, "shared": shared}
        result: jax.Array = run(_read, where, self.x, fitted, **options)
        return result


def check(function: str, x: Any, indices: Any, mode: str, fill_value: Any) -> Gather:
    """Check what does not depend on the operator."""
    call = Call(function, x=x, indices=indices)
    x = call.array("x")
    raw = indexing.check_indices(call)
    call.choice("mode", mode, MODES)
    return Gather(call, x, raw, mode, _fill(call, mode, fill_value, x.dtype))


def _fill(call: Call, mode: str, value: Any, dtype: jnp.dtype) -> bytes:
    """Return the bytes of the static ``fill_value``, which has to be a number of ``dtype``."""
    if value is None:
        return bytes(dtype.itemsize)
    call.static("fill_value", value)
    if mode != "fill":
        rule = f"fill_value is for mode='fill'; got mode={mode!r}."
        call.fail(ValueError, rule, "Pass mode='fill' or no fill_value.")
    given = np.asarray(value)
    if given.ndim or _kind(given.dtype) > _kind(dtype):
        rule = f"fill_value must be one number of the kind of x, {dtype}; got {value!r}."
        call.fail(TypeError, rule, "Pass a Python number.")
    if jnp.issubdtype(dtype, jnp.integer):
        least, most = int(jnp.iinfo(dtype).min), int(jnp.iinfo(dtype).max)
        if not least <= int(given) <= most:
            rule = f"fill_value must be from {least} to {most} for {dtype}; got {value}."
            call.fail(ValueError, rule, "Pass a number that x can hold.")
    with np.errstate(over="ignore"):  # A float that is too large becomes infinity, as in NumPy.
        return given.astype(dtype).tobytes()


def _kind(dtype: Any) -> int:
    """Return a number for the kind of a dtype; a kind can hold the numbers of those before it."""
    kinds = jnp.bool, jnp.integer, jnp.floating, jnp.complexfloating
    return next((place for place, kind in enumerate(kinds) if jnp.issubdtype(dtype, kind)), len(kinds))


def _read(
    x: jax.Array,
    indices: jax.Array,
    *,
    over: tuple[Names, ...],
    how: Reading,
    addressed: tuple[int, ...],
    tuples: bool,
    shared: int,
) -> jax.Array:
    """Read on one shard; ``over`` has the mesh axes of each dimension that is ``addressed``."""
    each = indices if tuples else indices[..., None]
    each = jnp.broadcast_to(each, (*x.shape[:shared], *each.shape))
    return indexed_read.read(x, each, how, dict(zip(addressed, over, strict=True)))
