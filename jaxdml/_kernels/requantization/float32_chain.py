"""Round sums in a chain of int32 and float32 operations, by factors that ``chain_factors`` found.

XLA for CUDA takes what follows a product into its kernel, so that the int32 sums are never stored, if it is a chain: a
vector that is subtracted, a conversion, vectors that are multiplied, a rounding, a clamp. float64, shifts, and whatever
reads a number twice end the chain. So do vectors that are constants of the program or computed in it: they must be
ready before.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import export, lax

from jaxdml._arithmetic.bits import with_flipped_sign
from jaxdml._arithmetic.nearest import TO_INTEGER, stored_int8

_BEYOND = np.float32(2.0**64)
"""A greater product of a sum and a first factor saturates, as this does: a second one is more than a half."""


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["subtracted", "first", "second", "offset"],
    meta_fields=["of", "at_once"],
)
@dataclass(frozen=True, eq=False)
class Chain:
    """Hold the vectors with which sums are rounded, one number for each column; a pytree of operands.

    A number of the program would make a kernel of each layer, which XLA compiles and times anew. So all are operands.

    Attributes:
      subtracted: from the sums of products of int8 numbers: the terms of the zero point, less the bias, and a shift,
        which may be a multiple of 1/16. float32 if that holds these numbers, and all sums that do not saturate; else
        int32. () if the chain is for complete sums, by one number each.
      first: float32, which the difference is multiplied by.
      second: float32, which that is multiplied by.
      offset: float32, the sum of ``TO_INTEGER``, the zero point of the output, less 128 if that is uint8, and
        ``Found.middle``. It is added to the products. A column with a single result has it here, and factors of 0.
      of: a digest of the parameters that all of it is computed from. Static.
      at_once: whether the addition of ``offset`` also rounds. It does not if that would turn ties, or if no factors are
        right so. Static.
    """

    subtracted: Any
    first: Any
    second: Any
    offset: Any
    of: str
    at_once: bool = False

    @property
    def of_complete_sums(self) -> bool:
        """Whether nothing is subtracted."""
        return isinstance(self.subtracted, tuple)


export.register_pytree_node_serialization(
    Chain,
    serialized_name="jaxdml.Chain",
    serialize_auxdata=lambda static: f"{static[0]} {int(static[1])}".encode(),
    deserialize_auxdata=lambda text: _static(*text.decode().split(" ")),
)


def _static(of: str, at_once: str = "0") -> tuple[str, bool]:
    """Return the static fields; what earlier versions exported has one."""
    return of, at_once == "1"


def round_chain(total: jax.Array, by: Chain, dtype: jnp.dtype, *, adds: bool = False) -> jax.Array:
    """Return ``clamp(round((total - subtracted) * first * second) + offset)``, as int8, or 128 more as uint8.

    The offset is without ``TO_INTEGER`` here. If ``by.at_once``, it is added before the rounding, with the same result.

    Args:
      total: int32 or float32, the sums of products as stored, or complete sums.
      by: what it is rounded with, broadcast against ``total``.
      dtype: int8 or uint8.
      adds: whether the result is the lowest byte of a float. That takes fewer instructions than a conversion, but XLA
        must take a bitcast of a float into the kernel of a product.
    """
    products, offset = _products(total, by, apart=adds)
    if not by.at_once:
        # XLA joins two additions of numbers that it knows, but not two subtractions.
        products = -TO_INTEGER - (-TO_INTEGER - products)
    return _of_dtype((stored_int8 if adds else _as_integers)(products + offset), dtype)


def _products(total: jax.Array, by: Chain, apart: bool) -> tuple[jax.Array, jax.Array]:
    """Return what is rounded, as float32, and the offset."""
    first, second, offset = by.first, by.second, by.offset
    if by.of_complete_sums:
        # Behind a barrier, numbers that are known are operands of the kernel. XLA takes such scalars, and no arrays.
        scalars = tuple(jnp.reshape(each, ()) for each in (first, second, offset))
        first, second, offset = lax.optimization_barrier(scalars)  # type: ignore[no-untyped-call]
    # Rounded once if float32 holds both numbers, as int32 and a conversion do; a greater sum saturates either way.
    difference = total if by.of_complete_sums else total.astype(by.subtracted.dtype) - by.subtracted
    # XLA would join factors that are constants, and a vector of one number is such a constant, too. A barrier before
    # each takes no operation. XLA's older fusion of products takes no vector behind one, and single numbers are behind
    # one already: there a limit stands between the factors.
    barred = apart and not by.of_complete_sums
    if barred:
        first, second = (lax.optimization_barrier(each) for each in (first, second))  # type: ignore[no-untyped-call]
    once = difference.astype(jnp.float32) * first
    if not barred:
        once = jnp.maximum(once, -_BEYOND)
    return once * second, offset


def _as_integers(above: jax.Array) -> jax.Array:
    """Do what ``stored_int8`` does without a bitcast of floats, which XLA's older fusion of products does not take."""
    whole = jnp.clip(above, TO_INTEGER - 128, TO_INTEGER + 127) - TO_INTEGER
    return whole.astype(jnp.int32).astype(jnp.int8)


def _of_dtype(stored: jax.Array, dtype: jnp.dtype) -> jax.Array:
    # A conversion to uint8 would end the chain.
    return stored if dtype == jnp.int8 else with_flipped_sign(stored, dtype)
