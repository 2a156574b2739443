"""Make what rounds the sums of calls whose parameters are known when weights are packed, and find it in such a call."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import jax
import numpy as np

from jaxdml._arguments.call import Call
from jaxdml._arithmetic.nearest import TO_INTEGER
from jaxdml._arithmetic.signedness import stored_zero
from jaxdml._base.dtypes import QUANTIZED
from jaxdml._kernels import integer_product, requantization
from jaxdml._kernels.requantization import Chain, Multiplier

_FORMAT = b"4"
"""Of chains. One of another format that was stored with weights is not used."""


def with_chain(call: Call, names: Sequence[str], packed: Any, given: Mapping[str, Any] | None, on_gpu: bool) -> Any:
    """Return what is packed with the chain for calls whose parameters are ``given``, if they can be rounded by one.

    Args:
      call: the call that packs.
      names: of the input and of the weights, as in the parameters: ``("a", "b")`` or ``("x", "w")``.
      packed: the weights.
      given: the parameters, by name, or None.
      on_gpu: whether the weights are on a GPU. Nothing else reads a chain.
    """
    if given is None:
        return packed
    x, w = names
    wanted = *(f"{name}_{what}" for name in (x, w, "output") for what in ("scale", "zero_point")), "bias"
    unknown = sorted(set(given) - set(wanted))
    if unknown:
        names_of_all = *wanted, *(["strides"] if w == "w" else [])
        rule = f"parameters must be named {', '.join(names_of_all)}; got {', '.join(unknown)}."
        call.fail(ValueError, rule, "Pass them by the names that the quantized product or convolution has.")
    dtypes = [getattr(given.get(f"{name}_zero_point"), "dtype", None) for name in (x, "output")]
    if not all(str(dtype) in QUANTIZED for dtype in dtypes):
        got = " and ".join(map(str, dtypes))
        rule = f"parameters must have {x}_zero_point and output_zero_point of int8 or uint8; got {got}."
        call.fail(TypeError, rule, "Pass them as np.uint8(...) or np.int8(...): they say which dtypes the calls have.")
    of_call = Call(call.function, **{name: given.get(name) for name in wanted})
    known = _known(of_call, names, dtypes[0], packed.dtype, dtypes[1])
    # A stack of matrices has as many kinds of columns.
    if not on_gpu or packed.sums.size != packed.sums.shape[-1] or known is None:
        return packed
    return replace(packed, chain=_made(known, packed, np.dtype(dtypes[1])))


def chained(
    multiplier: Multiplier | None,
    call: Call,
    names: Sequence[str],
    x: jax.Array,
    dtype: np.dtype[Any],
    rank: int,
    greatest: int,
) -> Multiplier | None:
    """Return the multiplier of a call with a chain: that of its weights if it was made for its parameters, or its own.

    Args:
      multiplier: that of the call.
      call: the call.
      names: of the input and of the weights.
      x: the input.
      dtype: of the output.
      rank: how many dimensions the vectors need before the last one to broadcast against the sums.
      greatest: no sum is greater than this in magnitude.
    """
    weights = call.operands[names[1]]
    chain: Any = getattr(weights, "chain", ())
    if multiplier is None:
        return None
    if not is_for(call, names, x.dtype, weights, dtype):
        return _with_one(multiplier, greatest, call.known("output_zero_point", dtype), dtype)
    return replace(
        multiplier, chain=jax.tree.map(lambda vector: vector.reshape((1,) * rank + vector.shape[-1:]), chain)
    )


def is_for(call: Call, names: Sequence[str], x_dtype: Any, packed: Any, dtype: Any) -> bool:
    """Say whether packed weights have a chain for the parameters of a call, with such an input and output.

    A block of some columns may come with the vectors of all columns, which do not fit it.
    """
    chain: Any = getattr(packed, "chain", ())
    fits = bool(chain) and np.shape(chain.first)[-1:] == np.shape(packed.sums)[-1:]
    known = _known(call, names, x_dtype, packed.dtype, dtype) if fits else None
    return known is not None and digest(known) == chain.of


def _with_one(
    multiplier: Multiplier, greatest: int, zero_point: np.ndarray[Any, Any] | None, dtype: np.dtype[Any]
) -> Multiplier:
    """Return a multiplier that is one number with a chain for complete sums, if there are factors."""
    if multiplier.high.size != 1 or zero_point is None or zero_point.size != 1:
        return multiplier
    offset = _offset(zero_point.reshape(1), dtype)
    odd = offset.item() % 2 == 1
    found = _factors_of_one(_exact(multiplier).item(), greatest, _reach(zero_point.item(), dtype), odd)
    if found is None:
        return multiplier
    first, second, at_once = found
    return replace(multiplier, chain=Chain((), first, second, offset, of="", at_once=at_once))


@lru_cache(2**10)
def _factors_of_one(
    multiplier: float, greatest: int, reach: int, odd: bool
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], bool] | None:
    """Find factors once for all calls: some take long to find."""
    return requantization.factors(np.array([multiplier]), greatest, reach, odd)


def _exact(multiplier: Multiplier) -> np.ndarray[Any, Any]:
    exact: np.ndarray[Any, Any] = multiplier.high.astype(np.float64) + multiplier.low
    return exact


def _offset(zero_point: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Return what is added to integers that are stored as int8, plus ``TO_INTEGER``, whose addition rounds."""
    return stored_zero(zero_point.astype(np.float32), dtype) + TO_INTEGER


def _reach(zero_point: int, dtype: np.dtype[Any]) -> int:
    """Return the magnitude beyond which results saturate."""
    offset = zero_point - int(np.iinfo(dtype).min)
    return max(offset, 255 - offset)


def _known(call: Call, names: Sequence[str], *dtypes: Any) -> list[np.ndarray[Any, Any]] | None:
    """Return scales and zero points of the input, of the weights and of the output, and the bias, if all are known.

    Those of the input and of the output must be one number, since a chain has vectors along the columns.
    """
    each = [(f"{name}_scale", np.float32) for name in (*names, "output")]
    each += [(f"{name}_zero_point", dtype) for name, dtype in zip((*names, "output"), dtypes, strict=True)]
    of_weights = f"{names[1]}_scale", f"{names[1]}_zero_point", "bias"
    found = []
    for name, dtype in (*each, ("bias", np.int32)):
        value = call.known(name, dtype)
        if value is None:
            return None
        flat = value.reshape(-1)
        alike = flat[:1] if flat.size and (flat == flat[0]).all() else flat
        if alike.size != 1 and name not in of_weights:
            return None
        found.append(alike)
    return found


def digest(known: Sequence[np.ndarray[Any, Any]]) -> str:
    """Return a text that tells parameters from others."""
    made = hashlib.blake2b(_FORMAT, digest_size=8)
    for value in known:
        made.update(f"{value.dtype} {value.size} ".encode() + value.tobytes())
    return made.hexdigest()


def _made(known: Sequence[np.ndarray[Any, Any]], packed: Any, dtype: np.dtype[Any]) -> Any:
    scale, w_scale, out_scale, zero, w_zero, out_zero, bias = known
    sums = np.asarray(packed.sums, np.int64)
    if any(value.size not in (1, sums.size) for value in (w_scale, w_zero, bias)):
        return ()  # The call will say what is wrong with them.
    if (w_zero.astype(np.int64) != (128 if packed.dtype == np.uint8 else 0)).any():
        return ()  # Rows of the input would be summed.
    beside = np.abs(bias.astype(np.int64))
    without_bias = integer_product.greatest_sum(packed.k, (zero, zero), (packed, w_zero))
    multiplier = requantization.proved((scale, w_scale, out_scale), without_bias + int(beside.max(initial=0)))
    if multiplier is None:
        return ()
    subtracted = np.broadcast_to(stored_zero(int(zero[0]), zero.dtype) * sums - bias, sums.shape)
    none = np.zeros(1, np.int8)
    stored = integer_product.greatest_sum(packed.k, (none, none), (packed, w_zero))
    limits = int(np.iinfo(dtype).min) - int(out_zero[0]), int(np.iinfo(dtype).max) - int(out_zero[0])
    exact = np.broadcast_to(_exact(multiplier), sums.size)
    ends = bias.astype(np.int64) - without_bias, bias.astype(np.int64) + without_bias
    found = requantization.shifted_factors(exact, ends, limits, subtracted.reshape(-1), stored)
    if found is None:
        return ()
    offset = (_offset(out_zero, dtype) + found.middle).astype(np.float32)
    first, second, subtracted, offset = (
        each.reshape(sums.shape) for each in (found.first, found.second, found.subtracted, offset)
    )
    return Chain(subtracted, first, second, offset, of=digest(known), at_once=found.at_once)
