"""The attention, the embeddings and the experts of com.microsoft are those of onnxruntime."""

from contextlib import nullcontext

import jax
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from jaxdml.onnx import UnsupportedModelError, load
from tests.kit import quick
from tests.kit.meshes import COUNT, mesh_of
from tests.onnx.floats import as_onnxruntime, by_onnxruntime, close, one_node

pytestmark = quick


def drawn(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed + sum(shape)).normal(size=shape).astype(dtype)


def integers(*values, dtype=np.int32):
    return np.array(values, dtype)


SELF = {"x": drawn(2, 4, 8), "w": drawn(8, 24), "b": drawn(24)}
PAST = {"mask": None, "past": drawn(2, 2, 2, 3, 4)}
ATTENTION = {
    "least": (SELF, {}),
    "without_bias": (SELF | {"b": None}, {"scale": 0.3}),
    "lengths": (SELF | {"mask": integers(3, 1)}, {}),
    "ends_and_starts": (SELF | {"mask": integers(4, 3, 1, 0)}, {}),
    "three_parts": (SELF | {"mask": integers(3, 1, 0, 3, 4, 0, 3, 4)}, {}),
    "keys": (SELF | {"mask": integers([1, 0, 1, 1], [1, 1, 0, 0])}, {"mask_filter_value": -50.0}),
    "nothing_to_see": (SELF | {"mask": integers([0, 0, 0, 0], [1, 1, 0, 0])}, {}),
    "queries_and_keys": (SELF | {"mask": integers(*np.arange(32).reshape(2, 4, 4) % 3)}, {}),
    "dummy": (SELF | {"mask": integers([0], [1])}, {}),
    "forward": (SELF, {"unidirectional": 1}),
    "past": (SELF | PAST, {"unidirectional": 1}),
    "one_after_past": ({**SELF, "x": drawn(2, 1, 8)} | PAST, {"unidirectional": 1}),
    "added": (SELF | {"mask": None, "past": None, "added": drawn(2, 2, 4, 4)}, {}),
    "other_values": ({"x": drawn(2, 4, 8), "w": drawn(8, 28), "b": drawn(28)}, {"qkv_hidden_sizes": [8, 8, 12]}),
}


@pytest.mark.parametrize("case", ATTENTION)
def test_attention_layers(case):
    inputs, attributes = ATTENTION[case]
    outputs = ("y", "present") if "past" in case else ("y",)
    as_onnxruntime(*_proto("Attention", inputs, *outputs, num_heads=2, **attributes))


def _proto(kind, inputs, *outputs, **attributes):
    proto, given = one_node(kind, inputs, *outputs, domain="com.microsoft", **attributes)
    for output in proto.graph.output:
        if output.name == "qk":
            output.type.tensor_type.elem_type = 1
    return proto, *given


HEADS = {"q": drawn(2, 3, 8), "k": drawn(2, 5, 8, seed=1), "v": drawn(2, 5, 12, seed=2)}
READY = {"q": drawn(2, 3, 8), "k": drawn(2, 2, 5, 4, seed=1), "v": drawn(2, 2, 5, 4, seed=2)}
SAME = {"q": drawn(2, 3, 8), "k": drawn(2, 3, 8, seed=1), "v": drawn(2, 3, 8, seed=2)}
CACHES = {"past_k": drawn(2, 2, 2, 4, seed=3), "past_v": drawn(2, 2, 2, 4, seed=4)}
NONE = {"b": None, "mask": None, "added": None}
MULTI_HEAD = {
    "least": (HEADS, {}),
    "bias": (HEADS | {"b": drawn(28)}, {"scale": 0.4}),
    "ready_keys": (READY | {"b": drawn(24)}, {}),
    "lengths": (HEADS | {"b": None, "mask": integers(5, 2)}, {}),
    "keys": (HEADS | {"b": None, "mask": integers([1, 1, 0, 1, 1], [0, 1, 1, 0, 0])}, {}),
    "added": (HEADS | {"b": None, "mask": None, "added": drawn(1, 2, 3, 5)}, {}),
    "forward": (SAME, {"unidirectional": 1}),
    "past": (SAME | NONE | CACHES, {"unidirectional": 1}),
}


@pytest.mark.parametrize("case", MULTI_HEAD)
def test_multi_head_attention(case):
    inputs, attributes = MULTI_HEAD[case]
    outputs = ("y", "k2", "v2", "qk") if case == "past" else ("y",)
    as_onnxruntime(*_proto("MultiHeadAttention", inputs, *outputs, num_heads=2, **attributes))


def test_queries_keys_and_values_may_be_packed_for_each_head():
    q, k, v = (drawn(2, 3, 2, 4, seed=seed) for seed in range(3))
    flat = {name: x.reshape(2, 3, 8) for name, x in (("q", q), ("k", k), ("v", v))}
    (wanted,) = by_onnxruntime(*_proto("MultiHeadAttention", flat, "y", num_heads=2))
    for inputs in ({"qkv": np.stack((q, k, v), 3)}, {"q": flat["q"], "kv": np.stack((k, v), 3)}):
        proto, *given = _proto("MultiHeadAttention", inputs, "y", num_heads=2)
        close(load(proto)(*given), [wanted])


def test_scores_are_returned_with_what_is_added():
    mask = integers([1, 1, 0, 1, 1], [0, 1, 1, 0, 0])
    inputs = HEADS | {"b": None, "mask": mask, "added": drawn(1, 2, 3, 5)}
    as_onnxruntime(*_proto("MultiHeadAttention", inputs, "y", "", "", "qk", num_heads=2))


TABLES = {"cos": drawn(9, 2), "sin": drawn(9, 2, seed=1)}
ROTATED = {
    "offset": (drawn(2, 3, 12), integers(4, dtype=np.int64), {}),
    "positions": (drawn(2, 3, 12), integers([0, 5, 2], [8, 1, 1], dtype=np.int64), {"interleaved": 1, "scale": 3.0}),
    "heads_apart": (drawn(2, 3, 4, 4), integers([0, 5, 2, 7], [8, 1, 1, 0], dtype=np.int64), {}),
    "a_part": (drawn(2, 3, 12), integers(1, dtype=np.int64), {"num_heads": 2, "rotary_embedding_dim": 4}),
}


@pytest.mark.parametrize("case", ROTATED)
def test_rotary_embeddings(case):
    x, positions, attributes = ROTATED[case]
    as_onnxruntime(*_proto("RotaryEmbedding", {"x": x, "at": positions, **TABLES}, "y", **attributes))


EMBEDDED = {
    "ids": integers([3, 0, 4], [1, 1, 2]),
    "segments": integers([0, 1, 0], [1, 1, 1]),
    "words": drawn(5, 8),
    "positions": drawn(6, 8),
    "of_segments": drawn(2, 8),
    "gamma": drawn(8),
    "beta": drawn(8, seed=1),
}
EMBEDDINGS = {
    "least": {},
    "without_segments": {"segments": None, "of_segments": None},
    "one_segment": {"segments": None},
    "mask": {"mask": integers([1, 0, 2], [1, 1, 1])},
    "positions": {"mask": None, "position_ids": integers([5, 0, 2], [1, 1, 4])},
}


@pytest.mark.parametrize("case", EMBEDDINGS)
def test_embeddings(case):
    proto, *given = _proto("EmbedLayerNormalization", EMBEDDED | EMBEDDINGS[case], "y", "mask_index", "sum")
    proto.graph.output[1].type.tensor_type.elem_type = 6
    as_onnxruntime(proto, *given)


def experts(hidden, **bias):
    layers = {"first": drawn(4, hidden, 8), "b1": None, "second": drawn(4, 8, 6, seed=1), "b2": None}
    return {"x": drawn(5, 8), "logits": drawn(5, 4)} | layers | bias


MIXTURES = {
    "relu": (experts(6), {}),
    "gelu": (experts(6, b1=drawn(4, 6)), {"activation_type": "gelu", "k": 2}),
    "silu": (experts(6, b2=drawn(4, 8)), {"activation_type": "silu", "k": 3, "normalize_routing_weights": 1}),
    "identity": (experts(6) | {"logits": np.zeros((5, 4), np.float32)}, {"activation_type": "identity", "k": 2}),
    "swiglu": (
        experts(12, b1=drawn(4, 12), b2=drawn(4, 8)),
        {"activation_type": "swiglu", "swiglu_fusion": 1, "swiglu_limit": 1.0, "activation_alpha": 1.7, "k": 2},
    ),
    "swiglu_unlimited": (experts(12), {"activation_type": "swiglu", "swiglu_fusion": 1, "activation_beta": 1.0}),
}


def of_tokens(inputs, count):
    """Return the inputs of the first tokens: of one token, the chosen experts alone are read."""
    return inputs | {name: inputs[name][:count] for name in {"x", "logits", "weights"} & inputs.keys()}


@pytest.mark.parametrize("tokens", [1, 5])
@pytest.mark.parametrize("case", MIXTURES)
def test_mixtures_of_experts(case, tokens):
    inputs, attributes = MIXTURES[case]
    as_onnxruntime(*_proto("MoE", of_tokens(inputs, tokens), "y", **attributes))


@pytest.mark.parametrize("place", ["mapped", "auto", "placed", "explicit"])
def test_one_token_may_be_mapped_and_its_experts_sharded(place):
    inputs = of_tokens(experts(6, b1=drawn(4, 6)), 1)
    proto, *given = _proto("MoE", inputs, "y", k=2)
    (wanted,) = by_onnxruntime(proto, *given)
    call = jax.jit(lambda *given: load(proto)(*given)[0])
    if place == "mapped":
        found = jax.jit(jax.vmap(call, (0, None, None, None, None)))(np.stack([given[0]] * 2), *given[1:])
        close([found[1]], [wanted])
        return
    if COUNT == 1:
        pytest.skip("a mesh needs more devices than the one that JAX sees")
    mesh = mesh_of("explicit" if place == "explicit" else "auto", x=2)
    placed = [jax.device_put(x, NamedSharding(mesh, P(*["x"] * (x.shape[0] == 4)))) for x in given]
    with jax.set_mesh(mesh) if place != "placed" else nullcontext():
        close([call(*placed)], [wanted])


@pytest.mark.parametrize("tokens", [1, 3])
def test_of_one_token_only_the_chosen_experts_are_multiplied(tokens):
    layers = {"first": drawn(5, 32, 8), "b1": None, "second": drawn(5, 8, 32)}
    proto, *given = _proto("MoE", {"x": drawn(tokens, 8), "logits": drawn(tokens, 5)} | layers, "y", k=2)
    text = jax.jit(lambda *given: load(proto)(*given)[0]).lower(*given).as_text()
    products = [line for line in text.splitlines() if "dot_general" in line]
    assert len(products) == 2
    assert all(("tensor<5x" in line) == (tokens == 3) for line in products)


def test_gates_may_stand_before_the_linear_part():
    inputs = experts(12, b1=drawn(4, 12))
    options = {"activation_type": "swiglu", "k": 2}
    (wanted,) = by_onnxruntime(*_proto("MoE", inputs, "y", swiglu_fusion=1, **options))
    order = [*range(0, 12, 2), *range(1, 12, 2)]
    apart = inputs | {"first": inputs["first"][:, order], "b1": inputs["b1"][:, order]}
    proto, *given = _proto("MoE", apart, "y", swiglu_fusion=2, **options)
    close(load(proto)(*given), [wanted])


def test_an_expert_that_is_not_chosen_may_overflow():
    inputs = experts(6)
    inputs["first"][0] = inputs["second"][0] = 3e38
    inputs["logits"][:, 0] = -9
    as_onnxruntime(*_proto("MoE", inputs, "y"))


def few_bits(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape, np.uint8)


def scales(*shape):
    return np.random.default_rng(3).uniform(0.05, 0.1, shape).astype(np.float32)


QUANTIZED = {"x": drawn(5, 32), "logits": drawn(5, 4), "first": few_bits(4, 32, 16), "s1": scales(4, 32), "b1": None}
QUANTIZED |= {"second": few_bits(4, 32, 16, seed=1), "s2": scales(4, 32), "b2": None}
REST = dict.fromkeys(("third", "s3", "b3"))
QUANTIZED_MIXTURES = {
    "rows": (QUANTIZED, {"k": 2}),
    "rows_with_zeros": (QUANTIZED | REST | {"z1": few_bits(4, 16), "z2": few_bits(4, 16, seed=1)}, {"k": 2}),
    "blocks": (QUANTIZED | {"s1": scales(4, 32, 2), "s2": scales(4, 32, 2)}, {"block_size": 16}),
    "blocks_with_zeros": (
        QUANTIZED
        | {"s1": scales(4, 32, 2), "s2": scales(4, 32, 2)}
        | REST
        | {"z1": few_bits(4, 32, 1), "z2": few_bits(4, 32, 1, seed=1)},
        {"block_size": 16, "k": 3},
    ),
    "eight_bits": (
        QUANTIZED | {"first": few_bits(4, 32, 32), "second": few_bits(4, 32, 32, seed=1), "s1": scales(4, 32) / 16},
        {"expert_weight_bits": 8},
    ),
    "other_weights": (
        QUANTIZED | REST | {"z1": None, "z2": None, "z3": None, "weights": np.abs(drawn(5, 4))},
        {"k": 2, "normalize_routing_weights": 1},
    ),
}


@pytest.mark.parametrize("tokens", [1, 5])
@pytest.mark.parametrize("case", QUANTIZED_MIXTURES)
def test_mixtures_of_experts_of_few_bits(case, tokens):
    inputs, attributes = QUANTIZED_MIXTURES[case]
    proto, *given = _proto("QMoE", of_tokens(inputs, tokens), "y", activation_type="relu", **attributes)
    wanted = by_onnxruntime(proto, *given)
    close(load(proto)(*given), wanted, 1e-2 if case == "eight_bits" else 1e-4)


CONVOLVED = {"x": drawn(2, 3, 6), "w": drawn(3, 1, 3), "b": drawn(3), "past": drawn(2, 3, 2)}


def test_convolutions_look_back():
    as_onnxruntime(*_proto("CausalConvWithState", CONVOLVED, "y", "state", activation="silu"))
    wide = CONVOLVED | {"b": None, "past": drawn(2, 3, 4)}
    as_onnxruntime(*_proto("CausalConvWithState", wide, "y", "state", dilation=2))


REFUSED = {
    "rotated": ("Attention", SELF, {"num_heads": 2, "do_rotary": 1}, "do_rotary"),
    "shared": ("MultiHeadAttention", SAME | NONE | CACHES | {"n": integers(2)}, {"num_heads": 2}, "a cache of more"),
    "activation": ("MoE", experts(6), {"activation_type": "tanh"}, "activation_type"),
    "third": ("MoE", experts(6) | {"third": drawn(4, 6, 8)}, {}, "a third layer"),
    "floats": ("QMoE", QUANTIZED, {"quant_type": "fp4"}, "no plain integers"),
    "states": ("CausalConvWithState", CONVOLVED, {"state_window": 2}, "state_window 2"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_supported_is_refused(case):
    kind, inputs, attributes, rule = REFUSED[case]
    proto, *_ = _proto(kind, inputs, "y", **attributes)
    with pytest.raises(UnsupportedModelError, match=rule):
        load(proto)


def test_a_mask_of_four_dimensions_is_refused():
    proto, *given = _proto("Attention", SELF | {"mask": np.ones((2, 1, 4, 4), np.int32)}, "y", num_heads=2)
    with pytest.raises(NotImplementedError, match="a mask of 4 dimensions"):
        load(proto)(*given)


@pytest.mark.parametrize("kind", ["SkipLayerNormalization", "SkipSimplifiedLayerNormalization"])
def test_narrow_sums_are_normalized_before_they_are_rounded(kind):
    rows = {name: drawn(*shape, dtype=np.float16) for name, shape in (("x", (2, 3, 8)), ("s", (2, 3, 8)), ("g", (8,)))}
    proto, *given = _proto(kind, rows, "y", "", "", "sum")
    for output in proto.graph.output:
        output.type.tensor_type.elem_type = 10
    for found, wanted in zip(load(proto)(*given), by_onnxruntime(proto, *given), strict=True):
        np.testing.assert_allclose(np.asarray(found, np.float32), wanted.astype(np.float32), atol=1e-3)


def test_a_narrow_operand_with_a_wide_scale_has_a_wide_result():
    x, scale = drawn(2, 8, dtype=np.float16), drawn(8)
    proto, given = one_node("SimplifiedLayerNormalization", {"x": x, "scale": scale}, "y")
    close(load(proto)(*given), by_onnxruntime(proto, *given))


def test_layers_have_derivatives():
    proto, *given = _proto("Attention", ATTENTION["keys"][0], "y", num_heads=2)
    model = load(proto)
    seed = jax.jit(jax.grad(lambda x: model.apply({}, x, *given[1:])[0].sum()))(given[0])
    assert np.isfinite(seed).all()
