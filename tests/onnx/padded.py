"""Call a model's program on inputs that are longer than what counts, with NaN in the rest."""

import re

import numpy as np
import onnx.parser
from onnx import numpy_helper

from jaxdml.onnx import load
from jaxdml.onnx.values.capacities import Held, cut
from jaxdml.onnx.values.promises import must_be_kept


def parsed(text, constants, opset=18, **domains):
    """Return a model of a text, with those of the constants that it names."""
    versions = ", ".join(f'"{name.replace("_", ".")}": {version}' for name, version in {"": opset, **domains}.items())
    proto = onnx.parser.parse_model(f"<ir_version: 8, opset_import: [{versions}]> {text}")
    used = {name: array for name, array in constants.items() if re.search(rf"\b{re.escape(name)}\b", text)}
    proto.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in used.items())
    return proto


def called(model, given, capacities):
    """Return what a program for greater lengths returns; ``capacities`` are by name of a dimension."""
    inputs = {value.name: _longer(value, given[value.name], capacities) for value in model.inputs}
    program = model._calls._program
    values = program.as_read(dict(program.params)) | inputs
    results, promises = model._calls.rounding((), 0, values, None)
    must_be_kept(promises)
    return [np.asarray(cut(result)) for result in results]


def _longer(declared, array, capacities):
    keys = tuple(("input", name) if name in capacities else None for name in declared.shape)
    if not any(keys):
        return array
    shape = [capacities.get(name, size) for name, size in zip(declared.shape, array.shape, strict=True)]
    padded = np.full(shape, _wrong(array.dtype), array.dtype)
    padded[tuple(map(slice, array.shape))] = array
    lengths = tuple(np.int32(n) for n, key in zip(array.shape, keys, strict=True) if key)
    return Held(padded, lengths, keys)


def _wrong(dtype):
    """Return what leads to another answer wherever it is read."""
    return np.nan if dtype.kind == "f" else True if dtype.kind == "b" else np.iinfo(dtype).max


def check(proto, calls, capacities, rtol=1e-5, atol=1e-6):
    """Require what the exact program returns."""
    model = load(proto)
    for given in calls:
        for found, wanted in zip(called(model, given, capacities), map(np.asarray, model(**given)), strict=True):
            assert found.shape == wanted.shape
            assert found.dtype == wanted.dtype
            if wanted.dtype.kind == "f":
                np.testing.assert_allclose(found, wanted, rtol, atol)
            else:
                np.testing.assert_array_equal(found, wanted)
    return model
