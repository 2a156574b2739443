"""Attention and its relatives: what onnx's node tests leave out."""

import jax
import numpy as np
import onnx.parser
import pytest
from onnx import TensorProto
from onnx.reference import ReferenceEvaluator

from jaxdml.onnx import load
from tests.kit import quick
from tests.onnx.floats import as_onnxruntime, close, one_node

pytestmark = quick


def drawn(*shape, seed=0):
    return np.random.default_rng(seed + sum(shape)).normal(size=shape).astype(np.float32)


def heads(mask=None, past=None, valid=None, queries=4, length=3):
    """Two batches, four query heads that share two key heads."""
    inputs = {"Q": drawn(2, queries, length, 4), "K": drawn(2, 2, 3, 4, seed=1), "V": drawn(2, 2, 3, 5), "mask": mask}
    inputs |= {"past_K": None, "past_V": None} if past is None else {"past_K": past(4), "past_V": past(5)}
    return inputs | {"valid": valid}


def before(length):
    return lambda size: drawn(2, 2, length, size, seed=2)


BY_REFERENCE = {
    "window": (25, heads(), {"left_window_size": 1, "right_window_size": 1}),
    "window_looking_back": (25, heads(past=before(2)), {"left_window_size": 2, "is_causal": 1}),
    "window_of_valid_keys": (25, heads(valid=np.array([3, 1])), {"right_window_size": 0, "left_window_size": 0}),
    "nothing_to_see": (24, heads(valid=np.array([0, 2])), {"is_causal": 1}),
    "short_mask": (24, heads(drawn(3, 2) < 0, length=3), {}),
    "in_doubles": (23, heads(drawn(2, 1, 3, 3)), {"softmax_precision": TensorProto.DOUBLE, "scale": 0.3}),
}


@pytest.mark.parametrize("case", BY_REFERENCE)
def test_attention_is_that_of_the_reference(case):
    opset, inputs, attributes = BY_REFERENCE[case]
    outputs = ("Y", "", "", "qk") if inputs["valid"] is not None else ("Y", "K2", "V2", "qk")
    proto, given = one_node("Attention", inputs, *outputs, opset=opset, qk_matmul_output_mode=3, **attributes)
    if opset == 23:
        proto.graph.node[0].input.pop()
    wanted = ReferenceEvaluator(proto).run(None, dict(zip((v.name for v in proto.graph.input), given, strict=True)))
    found = load(proto)(*given)
    close(found, wanted)


@pytest.mark.parametrize("mode", [0, 1])
def test_scores_are_returned_before_and_after_they_are_capped(mode):
    inputs = {name: value for name, value in heads().items() if value is not None}
    proto, given = one_node("Attention", inputs, "Y", "", "", "qk", opset=23, softcap=0.5, qk_matmul_output_mode=mode)
    as_onnxruntime(proto, *given)


def test_before_version_24_a_mask_of_one_column_is_for_all_keys():
    mask = np.array([[True], [False], [True]])
    inputs = {name: value for name, value in heads(mask).items() if value is not None}
    proto, given = one_node("Attention", inputs, "Y", opset=23)
    found = load(proto)(*given)[0]
    assert not found[:, :, 1].any()
    full, given = one_node("Attention", inputs | {"mask": np.repeat(mask, 3, axis=1)}, "Y", opset=24)
    np.testing.assert_array_equal(found, load(full)(*given)[0])


HIDING = {
    "valid": heads(valid=np.array([2, 1])),
    "booleans": heads(np.array([[[[True, False, False]]], [[[True, True, False]]]])),
    "booleans_of_all": heads(np.array([[True, True, False]] * 3)),
    "numbers": heads(np.float32([[[0, -np.inf, -np.inf]] * 3] * 4)),
}


@pytest.mark.parametrize("case", HIDING)
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_keys_that_no_query_sees_are_never_used(case, value):
    """A weight of 0 times NaN would be NaN."""
    proto, given = one_node("Attention", HIDING[case], "Y", opset=24)
    model = load(proto)
    wanted = model(*given)[0]
    beyond = {"valid": [(0, 2), (1, 1)], "booleans": [(0, 1), (1, 2)], "numbers": [(0, 1), (1, 1)]}
    odd = [np.array(each) for each in given]
    for row, first in beyond.get(case, [(0, 2), (1, 2)]):
        odd[1][row, :, first:] = odd[2][row, :, first:] = value
    np.testing.assert_array_equal(model(*odd)[0], wanted)
    assert np.isfinite(wanted).all()


def test_a_row_that_sees_nothing_has_derivatives_of_0():
    proto, given = one_node("Attention", heads(valid=np.array([0, 3])), "Y", opset=24)
    model = load(proto)
    gradient = jax.jit(jax.grad(lambda q: model.apply({}, q, *given[1:])[0].sum()))(given[0])
    assert np.isfinite(gradient).all()
    assert not gradient[0].any()
    assert gradient[1].any()


def test_no_key_at_all_is_a_row_of_0():
    inputs = {"Q": drawn(1, 2, 3, 4), "K": drawn(1, 2, 0, 4), "V": drawn(1, 2, 0, 4)}
    proto, given = one_node("Attention", inputs, "Y", opset=23)
    np.testing.assert_array_equal(load(proto)(*given)[0], np.zeros((1, 2, 3, 4), np.float32))


@pytest.mark.parametrize("interleaved", [0, 1])
def test_rotary_embeddings_of_a_part_of_packed_heads(interleaved):
    inputs = {
        "X": drawn(2, 3, 12),
        "cos": drawn(7, 2),
        "sin": drawn(7, 2, seed=1),
        "ids": np.array([[0, 6, 2], [1, 1, 5]]),
    }
    options = {"num_heads": 2, "rotary_embedding_dim": 4, "interleaved": interleaved, "opset": 23}
    proto, given = one_node("RotaryEmbedding", inputs, "Y", **options)
    as_onnxruntime(proto, *given)


def test_linear_attention_refuses_inputs_that_its_rule_does_not_take():
    inputs = {name: drawn(1, 2, 4) for name in ("query", "key", "value")}
    options = {"q_num_heads": 2, "kv_num_heads": 2, "opset": 27}
    proto, given = one_node("LinearAttention", inputs, "Y", "state", update_rule="gated", **options)
    with pytest.raises(ValueError, match=r"update_rule 'gated' .* decay or beta is missing"):
        load(proto)(*given)


def test_a_causal_convolution_refuses_other_activations():
    inputs = {"input": drawn(1, 2, 4), "weight": drawn(2, 1, 3)}
    proto, given = one_node("CausalConvWithState", inputs, "Y", "state", activation="relu", opset=27)
    with pytest.raises(ValueError, match="activation is 'relu'"):
        load(proto)(*given)


def test_flex_attention_takes_graphs_that_read_outer_values():
    proto = onnx.parser.parse_model("""<ir_version: 11, opset_import: ["" : 23, "ai.onnx.preview" : 1]>
        g (float[1,2,3,4] Q, float[1,1,3,4] K, float[1,1,3,4] V, float bias) => (Y) {
            Y = ai.onnx.preview.FlexAttention <
                score_mod = s (float[1,2,3,3] a) => (float[1,2,3,3] b) { b = Mul(a, bias) },
                prob_mod = p (float[1,2,3,3] c) => (float[1,2,3,3] d) { d = Add(c, bias) }
            > (Q, K, V)
        }""")
    queries, keys, values = drawn(1, 2, 3, 4), drawn(1, 1, 3, 4), drawn(1, 1, 3, 4, seed=1)
    scores = np.exp(0.5 * (queries @ keys.swapaxes(-1, -2)) / 2)
    wanted = (scores / scores.sum(-1, keepdims=True) + 0.5) @ values
    close(load(proto)(queries, keys, values, np.float32(0.5)), [wanted])
