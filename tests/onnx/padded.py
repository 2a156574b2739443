"""Call models on inputs that are longer than what counts, with NaN in the rest."""

import re
from contextlib import contextmanager
from unittest import mock

import numpy as np
import onnx.parser
import pytest
from onnx import numpy_helper

from jaxdml.onnx import UnsupportedModelError, load
from jaxdml.onnx.nodes import bounded
from jaxdml.onnx.values import held
from tests.onnx import floats


def parsed(text, constants, opset=18, **domains):
    """Return a model of a text, with those of the constants that it names."""
    versions = ", ".join(f'"{name.replace("_", ".")}": {version}' for name, version in {"": opset, **domains}.items())
    proto = onnx.parser.parse_model(f"<ir_version: 8, opset_import: [{versions}]> {text}")
    used = {name: array for name, array in constants.items() if re.search(rf"\b{re.escape(name)}\b", text)}
    proto.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in used.items())
    return proto


def together(bodies):
    """Return one body and its outputs, y and z of each: what a body makes is called by its number, too."""
    texts, outputs = [], []
    for number, body in enumerate(bodies):
        made = (names for names in re.findall(r"(\w+(?:, \w+)*) = ", body) if not names.endswith(("_branch", "body")))
        own = [name for names in made for name in names.split(", ")]
        texts.append(re.sub(rf"\b({'|'.join(own)})\b", rf"\1_{number}", body))
        outputs += [f"{name}_{number}" for name in own if name in ("y", "z")]
    return " ".join(texts), ", ".join(outputs)


def wrong(dtype):
    """Return what leads to another answer wherever it is read."""
    return np.nan if dtype.kind == "f" else True if dtype.kind == "b" else np.iinfo(dtype).max


def with_nan():
    """Pad inputs with what would be seen in any result."""
    return mock.patch.object(held, "fill", wrong)


@contextmanager
def without_rule(kind):
    """Let no rule mask lengths for an operator of ai.onnx."""
    with mock.patch.dict(bounded.RULES[""]):
        del bounded.RULES[""][kind]
        yield


def exactly(proto):
    """Return what programs for each length compute."""
    return load(proto, lengths="exact")


def by_onnxruntime(proto):
    """Return what onnxruntime computes."""
    return lambda **given: floats.by_onnxruntime(proto, *given.values())


def each(model, calls):
    """Return what each of some calls returns."""
    return [model(**given) for given in calls]


def check(proto, calls, lengths, rtol=1e-5, atol=1e-5, refuses="", judge=exactly):
    """Require what a judge returns, and that one program serves all, or that a node says why not."""
    model, judged = load(proto, lengths={name: [length] for name, length in lengths.items()}), judge(proto)
    if refuses:
        with pytest.raises(UnsupportedModelError, match=refuses):
            each(model, calls)
        model = load(proto)
    with with_nan():
        results = each(model, calls)
    for given, found in zip(calls, results, strict=True):
        for one, wanted in zip(found, map(np.asarray, judged(**given)), strict=True):
            assert one.shape == wanted.shape
            assert one.dtype == wanted.dtype
            if wanted.dtype.kind == "f":
                np.testing.assert_allclose(one, wanted, rtol, atol)
            else:
                np.testing.assert_array_equal(one, wanted)
    if not refuses:
        assert not model._calls.programs.in_the_way
        assert len(model._calls.programs) == 1
