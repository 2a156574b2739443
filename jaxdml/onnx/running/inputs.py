"""Inputs of a model: in order, and as the model declares them."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from jaxdml._base import errors
from jaxdml.onnx._graph import TensorType
from jaxdml.onnx.values.bounded import Padded


def in_order(
    positional: Sequence[TensorType], wanted: Sequence[TensorType], inputs: Sequence[Any], by_name: Mapping[str, Any]
) -> tuple[Any, ...]:
    """Return inputs that are given by position, or by name, in the order in which they are wanted."""
    names = [value.name for value in positional]
    given = dict(zip(names, inputs, strict=False))
    twice = sorted(set(given) & set(by_name))
    unknown = sorted(set(by_name) - {value.name for value in wanted})
    missing = [name for name in names if name not in given and name not in by_name]
    for what, which in (("unknown", unknown), ("given twice", twice), ("missing", missing)):
        if which:
            rule = f"input {', '.join(map(repr, which))} is {what}."
            raise TypeError(errors.compose("onnx.Model", rule, _all(wanted), "Give each input once."))
    if len(inputs) > len(names):
        rule = f"{len(inputs)} inputs are given; the model takes {len(names)}."
        raise TypeError(errors.compose("onnx.Model", rule, _all(wanted), "Give each input once."))
    given |= by_name
    return tuple(given[value.name] for value in wanted)


def _all(wanted: Sequence[TensorType]) -> str:
    return f"inputs: {', '.join(map(str, wanted))}"


def checked(wanted: Sequence[TensorType], inputs: Sequence[Any]) -> tuple[Any, ...]:
    """Return the inputs as arrays, if their dtypes and shapes are those that the model declares."""
    if len(inputs) != len(wanted):
        rule = f"{len(inputs)} inputs are given; the model takes {len(wanted)}."
        raise TypeError(errors.compose("onnx.Model", rule, _all(wanted), "Give one array for each."))
    return tuple(_checked(value, given) for given, value in zip(inputs, wanted, strict=True))


def _checked(value: TensorType, given: Any) -> Any:
    """Return one input.

    As in onnxruntime, dimensions of one name may have several sizes, and no dimensions are no declaration.
    """
    if isinstance(given, Padded):
        return Padded(_checked(value, given.array), given.lengths)
    if value.within[:1] == ("optional",):
        return None if given is None else _checked(value.element(), given)
    if value.within:
        if not isinstance(given, list | tuple):
            rule = f"input '{value.name}' is a sequence."
            raise TypeError(errors.message("onnx.Model", rule, {value.name: given}, "Give a list of arrays."))
        return [_checked(value.element(), each) for each in given]
    array = _as_array(value, given)
    operands = {value.name: array}
    if value.dtype is not None and array.dtype not in (value.dtype, jax.dtypes.canonicalize_dtype(value.dtype)):
        rule = f"input '{value.name}' must be {value.dtype}, not {array.dtype}."
        raise TypeError(errors.message("onnx.Model", rule, operands, f"Convert it to {value.dtype}."))
    if not value.shape:
        return array
    same = len(value.shape) == len(array.shape)
    for size, found in zip(value.shape, array.shape, strict=False):
        same &= size == found or not isinstance(size, int)
    if not same:
        rule = f"input {value} has shape {list(array.shape)}."
        raise ValueError(errors.message("onnx.Model", rule, operands, "Give the shape that the model declares."))
    return array


def _as_array(value: TensorType, given: Any) -> Any:
    """Return what has no dtype, such as a list of numbers, as an array of the declared one."""
    if hasattr(given, "dtype") and hasattr(given, "shape"):
        return np.asarray(given) if isinstance(given, np.generic) else given
    array = np.asarray(given)
    if value.dtype is None or array.dtype.kind.replace("i", "u") != value.dtype.kind.replace("i", "u"):
        return array
    _must_fit(value.name, array, value.dtype, "Give numbers within them.")
    return array.astype(value.dtype)


def must_not_be_cut(inputs: Mapping[str, Any]) -> None:
    """Refuse 64-bit integers that JAX would cut to 32 bits; what is traced, or on a device, is JAX's already."""
    for name, given in inputs.items():
        for array in given if isinstance(given, list) else (given.array if isinstance(given, Padded) else given,):
            if isinstance(array, np.ndarray) and narrowed(array.dtype):
                dtype = jax.dtypes.canonicalize_dtype(array.dtype)
                _must_fit(name, array, dtype, "Set jax_enable_x64, with which JAX has 64 bits.")


def narrowed(dtype: np.dtype[Any] | None) -> bool:
    """Whether JAX cuts integers of this dtype to 32 bits."""
    return dtype in _WIDE and jax.dtypes.canonicalize_dtype(dtype) != dtype


_WIDE = (np.dtype(np.int64), np.dtype(np.uint64))


def _must_fit(name: str, array: Any, dtype: np.dtype[Any], advice: str) -> None:
    if dtype.kind not in "iu" or not array.size:
        return
    limits, least, most = np.iinfo(dtype), array.min(), array.max()
    if least < limits.min or most > limits.max:
        rule = f"input '{name}' holds integers from {least} to {most}; {dtype} here holds {limits.min} to {limits.max}."
        raise OverflowError(errors.message("onnx.Model", rule, {name: array}, advice))


def dimensions(value: TensorType) -> tuple[Any, ...]:
    """Return the sizes that an input declares; of those that are open the name, or what tells them from all others."""
    return tuple((value.name, axis) if size is None else size for axis, size in enumerate(value.shape or ()))


def declared(value: TensorType, sizes: Mapping[Any, int]) -> Any:
    """Return what stands for an input of which only the declaration is known, with these sizes for open dimensions."""
    if value.within:
        element = declared(value.element(), sizes)
        return [element] if value.within[0] == "sequence" else element
    shape = tuple(sizes.get(size, size) for size in dimensions(value))
    return jax.ShapeDtypeStruct(shape, jax.dtypes.canonicalize_dtype(value.dtype or np.float32))  # type: ignore[no-untyped-call]
