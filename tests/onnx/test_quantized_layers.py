"""Attention and embeddings with quantized weights, against onnxruntime."""

import numpy as np
import pytest
from onnx import numpy_helper

import jaxdml
from jaxdml.onnx import UnsupportedModelError, load
from tests.kit import quick
from tests.onnx.floats import as_onnxruntime, by_onnxruntime, close, one_node

pytestmark = quick

B, S, H, HEADS, PAST = 2, 5, 8, 2, 3
RNG = np.random.default_rng(0)


def bytes_of(dtype, *shape):
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max + 1, shape).astype(dtype)


def scalar(value, dtype=np.float32):
    return np.asarray(value, dtype)


def attention(dtypes=("uint8", "int8"), by_column=False, **changes):
    x, w = dtypes
    return {
        "x": bytes_of(x, B, S, H),
        "w": bytes_of(w, H, 3 * H),
        "bias": RNG.normal(size=3 * H).astype(np.float32),
        "sx": scalar(0.02),
        "sw": RNG.uniform(0.01, 0.02, 3 * H).astype(np.float32) if by_column else scalar(0.015),
        "mask": None,
        "zx": scalar(120 if x == "uint8" else -3, x),
        "zw": bytes_of(w, 3 * H) if by_column else scalar(4, w),
        "past": None,
        **changes,
    }


LENGTHS = np.int32([3, 5])
RAW = np.int32([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
BEFORE = RNG.normal(size=(2, B, HEADS, PAST, H // HEADS)).astype(np.float32)

ATTENTIONS = {
    "plain": (attention(zx=None, zw=None, dtypes=("uint8", "uint8")), {}),
    "by column": (attention(by_column=True), {"scale": 0.3}),
    "unidirectional": (attention(), {"unidirectional": 1}),
    "lengths": (attention(mask=LENGTHS), {}),
    "ends and starts": (attention(mask=np.int32([4, 5, 1, 0])), {}),
    "raw": (attention(mask=RAW), {"mask_filter_value": -500.0}),
    "by query": (attention(mask=np.tril(np.ones((B, S, S), np.int32))), {}),
    "past": (attention(past=BEFORE), {"unidirectional": 1}),
    "past, raw": (attention(past=BEFORE, mask=np.ones((B, PAST + S), np.int32)), {"unidirectional": 1}),
}


@pytest.mark.parametrize("case", ATTENTIONS)
def test_attention_is_that_of_onnxruntime(case):
    operands, options = ATTENTIONS[case]
    outputs = ("y", "present") if operands["past"] is not None else ("y",)
    as_onnxruntime(
        *flat(one_node("QAttention", operands, *outputs, domain="com.microsoft", num_heads=HEADS, **options))
    )


def flat(made):
    model, given = made
    return model, *given


def test_weights_of_attention_are_packed():
    operands = attention()
    model, _ = one_node("QAttention", operands, "y", domain="com.microsoft", num_heads=HEADS)
    (kept,) = [value for value in model.graph.input if value.name == "x"]
    constants = {name: value for name, value in operands.items() if value is not None and name != "x"}
    del model.graph.input[:]
    model.graph.input.append(kept)
    model.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in constants.items())
    loaded = load(model)
    assert isinstance(loaded.params["w"], jaxdml.PackedMatrix)
    close(loaded(operands["x"]), by_onnxruntime(model, operands["x"]))


@pytest.mark.parametrize("option", ["do_rotary", "past_present_share_buffer"])
def test_what_attention_does_not_do_is_refused(option):
    model, _ = one_node("QAttention", attention(), "y", domain="com.microsoft", num_heads=HEADS, **{option: 1})
    with pytest.raises(UnsupportedModelError, match=option):
        load(model)


def test_a_mask_of_four_dimensions_is_refused():
    operands = attention(mask=np.ones((B, 1, 9, 9), np.int32))
    model, given = one_node("QAttention", operands, "y", domain="com.microsoft", num_heads=HEADS)
    with pytest.raises(NotImplementedError, match="mask of 4 dimensions"):
        load(model)(*given)


@pytest.mark.parametrize("segments", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_embeddings_are_those_of_onnxruntime(segments, masked):
    tables = {"word": (11, H), "position": (7, H), "segment": (2, H), "gamma": (H,), "beta": (H,)}
    left_out = () if segments else ("segment",)
    quantized = {name: None if name in left_out else bytes_of(np.uint8, *shape) for name, shape in tables.items()}
    operands = {
        "ids": RNG.integers(0, 11, (B, S)).astype(np.int32),
        "segments": RNG.integers(0, 2, (B, S)).astype(np.int32) if segments else None,
        **quantized,
        "mask": RAW if masked else None,
        **{f"s_{name}": None if name in left_out else scalar(0.01 + 0.003 * i) for i, name in enumerate(tables)},
        **{f"z_{name}": None if name in left_out else scalar(100 + i, np.uint8) for i, name in enumerate(tables)},
    }
    made = one_node("QEmbedLayerNormalization", operands, "y", "kept", domain="com.microsoft", epsilon=1e-6)
    as_onnxruntime(*flat(made))
