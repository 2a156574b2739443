"""Buffers of a model: bytes, and how their elements are printed."""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from jaxdml._runner import images
from jaxdml._runner.text import member, refuse
from jaxdml.directml import TensorDataType

MOST_BYTES = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 2**36
"""The memory of this machine; what is larger is refused before memory is touched."""


@dataclass
class Resource:
    """A buffer.

    Attributes:
      dtype: of its elements; None where they have several.
      data: its bytes; None for an output of an ONNX model that has yet to be made.
      count: how many elements it was made with; more bytes are padding.
    """

    dtype: np.dtype[Any] | None
    data: np.ndarray | None
    count: int

    @property
    def elements(self) -> np.ndarray:
        """The elements without padding."""
        assert self.data is not None
        assert self.dtype is not None
        return self.data[: self.count * self.dtype.itemsize].view(self.dtype)


def made(path: str, given: Mapping[str, Any], folder: Path) -> Resource:
    """Return the resource that an object describes; files are in ``folder``."""
    initial = member(path, given, "initialValues", (list, dict, str))
    dtype = data_type(path, given, "initialValuesDataType")
    label = f"{path}.initialValues"
    if initial == "deferred":
        return Resource(dtype, None, 0)
    if isinstance(initial, str):
        refuse(label, 'must be a list, an object or "deferred"', repr(initial))
    if isinstance(initial, list):
        values = _listed(label, initial, dtype)
        mixed = dtype is None
    elif "sourcePath" in initial:
        values, mixed = _in_file(label, initial, given, dtype, folder), False
    else:
        values, mixed = _counted(label, initial, dtype), False
    size = member(path, given, "sizeInBytes", int, -(-values.nbytes // 4) * 4)
    if size < values.nbytes:
        refuse(f"{path}.sizeInBytes", f"must be at least {values.nbytes}, the bytes of the values", size)
    _must_fit(f"{path}.sizeInBytes", size)
    offset = member(path, given, "initialValuesOffsetInBytes", int, 0)
    if not 0 <= offset <= size:
        refuse(f"{path}.initialValuesOffsetInBytes", f"must be from 0 to {size}, the size", offset)
    data = np.zeros(size, np.uint8)
    data[: values.nbytes] = values.reshape(-1).view(np.uint8)
    return Resource(None if mixed else values.dtype, data, values.size)


def data_type(path: str, given: Mapping[str, Any], name: str) -> np.dtype[Any] | None:
    """Return the dtype that a member names; None where it is missing or UNKNOWN."""
    word = member(path, given, name, str, "UNKNOWN").removeprefix("DML_TENSOR_DATA_TYPE_")
    if word == "UNKNOWN":
        return None
    kinds = [one.name for one in TensorDataType if one.value and one.dtype is not None and one.bits >= 8]
    if word not in kinds:
        refuse(f"{path}.{name}", f"must be one of {', '.join(kinds)}", repr(word))
    return np.dtype(TensorDataType[word].dtype)


def _must_fit(path: str, size: int) -> None:
    if size > MOST_BYTES:
        refuse(path, f"must need at most {MOST_BYTES} bytes, the memory of this machine", size)


def number(path: str, value: Any, dtype: np.dtype[Any]) -> Any:
    """Return a number of JSON as one of this dtype: integers in range, and nan and inf as strings."""
    if dtype.kind == "f":
        if isinstance(value, str) and value.lower() in ("nan", "inf", "-inf"):
            return dtype.type(value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            with np.errstate(over="ignore"):
                return dtype.type(value)
        refuse(path, "must be a number, or one of nan, inf, -inf", repr(value))
    limits = np.iinfo(dtype)
    if isinstance(value, bool) or not isinstance(value, int) or not limits.min <= value <= limits.max:
        refuse(path, f"must be an integer from {limits.min} to {limits.max}", repr(value))
    return dtype.type(value)


def _listed(path: str, values: list[Any], dtype: np.dtype[Any] | None) -> np.ndarray:
    """Return the elements of a list; of several types they are packed as bytes."""
    if dtype is not None:
        return np.array([number(f"{path}[{place}]", each, dtype) for place, each in enumerate(values)], dtype)
    parts = []
    for place, each in enumerate(values):
        label = f"{path}[{place}]"
        if not isinstance(each, Mapping):
            refuse(label, "must be an object with type and value, since initialValuesDataType is not given", repr(each))
        kind = data_type(label, each, "type")
        if kind is None or kind == np.float16:
            refuse(f"{label}.type", "must be a data type, but for FLOAT16", repr(each.get("type")))
        member(label, each, "value", (int, float, str))
        parts.append(number(f"{label}.value", each["value"], kind).tobytes())
    return np.frombuffer(b"".join(parts), np.uint8)


def _counted(path: str, given: Mapping[str, Any], dtype: np.dtype[Any] | None) -> np.ndarray:
    """Return elements that are all alike, or a sequence, each computed from the one before it in its data type."""
    if dtype is None:
        refuse(path, "must be a list or a file where initialValuesDataType is not given", sorted(given))
    count = member(path, given, "valueCount", int)
    if count < 0:
        refuse(f"{path}.valueCount", "must not be negative", count)
    _must_fit(f"{path}.valueCount", count * dtype.itemsize)
    if "value" in given:
        return np.full(count, number(f"{path}.value", given["value"], dtype))
    start, step = (
        number(f"{path}.{name}", member(path, given, name, (int, float, str)), dtype)
        for name in ("valueStart", "valueDelta")
    )
    steps = np.full(count, step, dtype)
    steps[:1] = start
    with np.errstate(over="ignore"):
        return np.add.accumulate(steps, dtype=dtype)


def _in_file(
    path: str, initial: Mapping[str, Any], given: Mapping[str, Any], dtype: np.dtype[Any] | None, folder: Path
) -> np.ndarray:
    name = member(path, initial, "sourcePath", str)
    file = folder / name
    if not file.is_file():
        refuse(f"{path}.sourcePath", "must name a file", str(name))
    _must_fit(f"{path}.sourcePath", file.stat().st_size)
    if file.suffix == ".npy":
        return _in_npy(f"{path}.sourcePath", file, dtype)
    wanted = np.dtype(np.float32) if dtype is None else dtype
    if file.suffix.lower() in images.SUFFIXES:
        sizes = member(path.rpartition(".")[0], given, "resampleSize", list, [])
        return images.read(f"{path}.sourcePath", file, sizes, wanted)
    if dtype is None:
        refuse(f"{path}.sourcePath", "needs initialValuesDataType beside it, since it is no .npy file", str(name))
    data = np.fromfile(file, np.uint8)
    return data[: len(data) // dtype.itemsize * dtype.itemsize].view(dtype)


def _in_npy(path: str, file: Path, dtype: np.dtype[Any] | None) -> np.ndarray:
    try:
        found = np.load(file, allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        refuse(path, "must be a file that NumPy wrote", str(error))
    if found.ndim > 1 and not found.flags.c_contiguous:
        refuse(path, "must be in C's order", "Fortran's order")
    plain = found.astype(np.uint8 if found.dtype == np.bool_ else found.dtype.newbyteorder("="))
    if dtype is not None and plain.dtype != dtype:
        refuse(path, f"must hold {dtype}, as initialValuesDataType says", str(found.dtype))
    return plain.reshape(-1)


def printed(name: str, resource: Resource, verbose: bool) -> str:
    """Return what DxDispatch prints of a resource: C++ shows 8-bit integers as characters."""
    if resource.dtype is None or resource.data is None:
        return f"Resource '{name}': has elements of several types, or none"
    values = [_shown(each) for each in resource.elements]
    if not verbose:
        return f"Resource '{name}': {', '.join(values)}"
    width = resource.dtype.itemsize
    words = resource.elements.view(f"u{width}")
    lines = (f"[{place}] {value} (0x{word:0{2 * width}X})" for place, (value, word) in enumerate(zip(values, words)))  # noqa: B905
    return "\n".join([f"Resource '{name}':", *lines])


def _shown(value: Any) -> str:
    if value.dtype.kind == "f":
        number = float(value)
        return f"{number:g}" if math.isfinite(number) else str(number)
    return chr(int(value) & 0xFF) if value.dtype.itemsize == 1 else str(value)


def written(path: str, resource: Resource, file: Path, dimensions: list[int] | None) -> None:
    """Write a resource as an array of NumPy, as an image, or as bytes."""
    if resource.data is None:
        refuse(path, "must have been made", "a deferred resource")
    if file.suffix == ".npy" and resource.dtype is not None:
        found = resource.data[: len(resource.data) // resource.dtype.itemsize * resource.dtype.itemsize]
        elements = found.view(resource.dtype)
        np.save(file, elements if dimensions is None else elements[: math.prod(dimensions)].reshape(dimensions))
    elif file.suffix.lower() in images.SUFFIXES and dimensions is not None:
        images.write(path, resource.elements[: math.prod(dimensions)].reshape(dimensions), file)
    else:
        resource.data.tofile(file)
