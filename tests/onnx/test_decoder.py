"""A decoder gives the tokens of onnxruntime, and compiles once for prompts of a length and once for tokens."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import onnx.parser
import onnxruntime
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import jaxdml
import jaxdml.onnx
from benchmarks.models.language_model import MODELS, language_model
from tests.kit import long, quick
from tests.kit.meshes import COUNT, mesh_of, needs_devices

pytestmark = quick

SIZES = MODELS["tiny"]
ONE_LAYER = replace(SIZES, layers=1)
LENGTH = 40


def model_of(sizes=ONE_LAYER, **options):
    proto = language_model(sizes, **({"dtype": np.float32} | options))
    return proto, jaxdml.onnx.load(proto)


def by_onnxruntime(proto, prompt, count):
    """Return the best tokens after a prompt, with caches that grow, and the scores."""
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 4
    settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(proto.SerializeToString(), settings, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    kinds = {"float16": np.float16, "uint8": np.uint8, "int8": np.int8}
    kind = session.get_inputs()[-1].type.removeprefix("tensor(").rstrip(")")
    dtype, size = kinds.get(kind, np.float32), SIZES.head // 2 if kind == "uint8" else SIZES.head
    past = {
        value.name: np.zeros((1, value.shape[1], 8 if "sliding" in str(value.shape[2]) else 0, size), dtype)
        for value in session.get_inputs()
        if value.name.startswith("past")
    }
    found, scores, tokens, length = [], [], np.asarray(prompt)[None], len(prompt)
    for _ in range(count):
        given = {"input_ids": tokens.astype(np.int64), "attention_mask": np.ones((1, length), np.int64)}
        first, *present = session.run(None, given | past)
        past = dict(zip((name.replace("present", "past_key_values") for name in names[1:]), present, strict=True))
        scores.append(first[0, -1])
        tokens, length = first[:, -1:].argmax(-1), length + 1
        found.append(int(tokens[0, 0]))
    return found, np.array(scores)


def greedy(decoder, prompts, count):
    """Return the best tokens after prompts, which are padded at their ends."""
    counts = np.array([len(prompt) for prompt in prompts])
    tokens = np.zeros((len(prompts), counts.max()), np.int32)
    for row, prompt in enumerate(prompts):
        tokens[row, : len(prompt)] = prompt
    scores, state = decoder(decoder.start(len(prompts)), tokens, counts)
    found, every = [], []
    for _ in range(count):
        best = jaxdml.top_k(scores, 1, index_dtype="int32").indices
        found.append(best[:, 0])
        every.append(scores)
        scores, state = decoder(state, best)
    return np.array(found).T.tolist(), np.array(every)


def prompts(*lengths):
    rng = np.random.default_rng(1)
    return [rng.integers(0, SIZES.vocabulary, length) for length in lengths]


MODELS_OF = {
    "4 bits": {},
    "sliding": {"bits": 8, "sliding": 8},
    "floats": {"bits": 16},
    "caches of 8 bits": {"cache_bits": 8},
    "caches of 4 bits": {"cache_bits": 4},
}


@pytest.mark.parametrize("options", MODELS_OF.values(), ids=MODELS_OF)
@pytest.mark.parametrize("lengths", [(1,), (17,), (3, 12, 8)], ids=str)
def test_tokens_are_those_of_onnxruntime(lengths, options):
    proto, model = model_of(SIZES, **options)
    given = prompts(*lengths)
    found, scores = greedy(jaxdml.onnx.decoder(model, length=LENGTH), given, 12)
    for row, prompt in enumerate(given):
        wanted, theirs = by_onnxruntime(proto, prompt, 12)
        assert found[row] == wanted
        np.testing.assert_allclose(scores[:, row], theirs, atol=1e-5 * np.ptp(theirs))


def test_a_hundred_tokens_compile_two_programs():
    _, model = model_of()
    decoder = jaxdml.onnx.decoder(model, length=128)
    scores, state = decoder(decoder.start(), np.ones((1, 11), np.int32))
    for _ in range(100):
        scores, state = decoder(state, np.asarray(scores).argmax(-1, keepdims=True))
    assert decoder._compiled._cache_size() == 2
    assert state.lengths.tolist() == [111]


@long
def test_prompts_of_several_lengths_share_programs_and_caches_are_updated_in_place():
    _, model = model_of()
    decoder = jaxdml.onnx.decoder(model, length=LENGTH)
    for length in (2, 9, 16, 17, 32, 33, 40):
        state = decoder.start()
        _, after = decoder(state, np.ones((1, length), np.int32))
    assert decoder._compiled._cache_size() == 3
    assert all(cache.is_deleted() for cache in state.cache.values())
    assert all(cache.shape[2] == LENGTH for cache in after.cache.values())


def test_a_prompt_may_come_in_chunks():
    _, model = model_of()
    decoder = jaxdml.onnx.decoder(model, length=LENGTH)
    (prompt,) = prompts(11)
    whole, _ = decoder(decoder.start(), prompt[None])
    _, state = decoder(decoder.start(), prompt[None, :6])
    parts, _ = decoder(state, prompt[None, 6:])
    np.testing.assert_allclose(parts, whole, atol=1e-4)


def test_a_loop_inside_of_a_program():
    _, model = model_of()
    decoder = jaxdml.onnx.decoder(model, length=LENGTH)
    (prompt,) = prompts(5)

    @jax.jit
    def generate(params, tokens):
        def step(carry, _):
            scores, state = carry
            best = jaxdml.top_k(scores, 1, index_dtype="int32").indices
            return decoder.apply(params, state, best), best[:, 0]

        return jax.lax.scan(step, decoder.apply(params, decoder.start(), tokens), None, length=9)[1]

    found = generate(dict(model.params), jnp.asarray(prompt)[None])
    assert found[:, 0].tolist() == greedy(decoder, [prompt], 9)[0][0]


GROWING = """<ir_version: 10, opset_import: ["": 18]>
growing (int64[b, s] ids, int64[b, t] attention_mask, int64[b, s] position_ids, float[b, 2, p, H] past_k)
    => (float[b, s, 5] logits, float[b, 2, q, H] present_k) {
    row = Gather(words, ids)
    place = Gather(places, position_ids)
    x = Add(row, place)
    axis = Constant<value_ints = [1]>()
    one = Unsqueeze(x, axis)
    new = Concat<axis = 1>(one, one)
    present_k = Concat<axis = 2>(past_k, new)
    last = Constant<value_ints = [1, 3]>()
    seen = Unsqueeze(attention_mask, last)
    floats = Cast<to = 1>(seen)
    kept = Mul(present_k, floats)
    sums = ReduceSum<keepdims = 1>(kept, two)
    y = Add(one, sums)
    flat = ReduceSum<keepdims = 0>(y, axis)
    logits = MatMul(flat, last_matrix)
}"""
"""A model that appends to its cache: each token adds up all that the mask keeps."""


def growing():
    proto = onnx.parser.parse_model(GROWING)
    rng = np.random.default_rng(0)
    weights = {
        "words": rng.normal(size=(7, 3)),
        "places": rng.normal(size=(50, 3)),
        "last_matrix": rng.normal(size=(3, 5)),
    }
    arrays = {name: array.astype(np.float32) for name, array in weights.items()} | {"two": np.array([2])}
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in arrays.items())
    return proto


def test_a_model_that_appends_to_its_caches_compiles_once_too():
    proto = growing()
    model = jaxdml.onnx.load(proto)
    decoder = jaxdml.onnx.decoder(model, length=24, sizes={"H": 3})
    given = [np.array([3]), np.array([1, 4, 6]), np.array([2, 2])]
    tokens = np.zeros((3, 3), np.int32)
    for row, prompt in enumerate(given):
        tokens[row, : len(prompt)] = prompt
    scores, state = decoder(decoder.start(3), tokens, [len(prompt) for prompt in given])
    for _ in range(5):
        best = np.asarray(scores).argmax(-1)
        scores, state = decoder(state, best[:, None])
        given = [np.append(prompt, token) for prompt, token in zip(given, best, strict=True)]
    assert decoder._compiled._cache_size() == 2
    options = onnxruntime.SessionOptions()
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    for row, sequence in enumerate(given):
        whole = {
            "ids": sequence[:-1],
            "attention_mask": np.ones(len(sequence) - 1),
            "position_ids": np.arange(len(sequence) - 1),
        }
        empty = {"past_k": np.zeros((1, 2, 0, 3), np.float32)}
        _, past = session.run(None, {name: x[None].astype(np.int64) for name, x in whole.items()} | empty)
        step = {"ids": sequence[-1:], "attention_mask": np.ones(len(sequence)), "position_ids": [len(sequence) - 1]}
        given_to_it = {name: np.asarray(x)[None].astype(np.int64) for name, x in step.items()}
        wanted, _ = session.run(None, given_to_it | {"past_k": past})
        np.testing.assert_allclose(scores[row], wanted[0, -1], rtol=1e-4, atol=1e-4)


@needs_devices
@pytest.mark.parametrize("kind", ["auto", "explicit"])
def test_batch_and_heads_may_be_sharded(kind):
    _, model = model_of()
    decoder = jaxdml.onnx.decoder(model, length=LENGTH)
    given = prompts(*[5] * (COUNT // 2))
    tokens = np.stack(given).astype(np.int32)
    wanted, _ = jax.jit(decoder.apply)(dict(model.params), decoder.start(len(given)), tokens)
    mesh = mesh_of(kind, batch=COUNT // 2, heads=2)
    # Newer versions of JAX refuse products of keys whose heads are sharded over Explicit axes, and other queries.
    spec = P("batch", "heads" if kind == "auto" else None)
    with jax.set_mesh(mesh):
        state = decoder.start(len(given))
        placed = {name: jax.device_put(x, NamedSharding(mesh, spec)) for name, x in state.cache.items()}
        rows = jax.device_put(tokens, NamedSharding(mesh, P("batch")))
        lengths = jax.device_put(state.lengths, NamedSharding(mesh, P("batch")))
        params = jax.device_put(dict(model.params), NamedSharding(mesh, P()))
        state = jaxdml.onnx.DecoderState(placed, lengths)
        found, after = jax.jit(decoder.apply)(params, state, rows)
    np.testing.assert_allclose(found, wanted, atol=1e-4)
    assert all(tuple(x.sharding.spec[:2]) == tuple(spec) for x in after.cache.values())


def test_the_report_is_of_a_step():
    _, model = model_of()
    text = jaxdml.onnx.decoder(model, length=LENGTH).report()
    assert text.count("matrix_multiply_block_quantized, 4 bits") == 5 * ONE_LAYER.layers + 1


def test_what_does_not_fit_is_refused():
    decoder = jaxdml.onnx.decoder(model_of()[1], length=6)
    with pytest.raises(ValueError, match="a row gets 7 tokens; the caches hold 6"):
        decoder(decoder.start(), np.ones((1, 7), np.int32))
    _, state = decoder(decoder.start(), np.ones((1, 6), np.int32))
    with pytest.raises(ValueError, match="Make the decoder with a greater length"):
        decoder(state, np.ones((1, 1), np.int32))
    _, state = decoder(decoder.start(2), np.ones((2, 3), np.int32), [3, 1])
    for counts in ([2, 1], [0, 2], [3, 2]):
        with pytest.raises(ValueError, match="counts must be between 1 and 2, and 2 after the first step"):
            decoder(state, np.ones((2, 2), np.int32), counts)


def test_models_without_caches_are_refused():
    text = '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = Relu(x) }'
    with pytest.raises(ValueError, match="the model has 0 caches"):
        jaxdml.onnx.decoder(jaxdml.onnx.load(onnx.parser.parse_model(text)), length=4)


def test_positions_that_follow_from_lengths_are_refused():
    proto = growing()
    text = GROWING.replace("int64[b, s] position_ids, ", "").replace(
        "Gather(places, position_ids)", "Gather(places, ids)"
    )
    other = onnx.parser.parse_model(text)
    other.graph.initializer.extend(proto.graph.initializer)
    with pytest.raises(ValueError, match="finds the positions of tokens by the lengths"):
        jaxdml.onnx.decoder(jaxdml.onnx.load(other), length=4)


def test_states_without_a_place_for_each_token_are_refused():
    text = """<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]>
    g (int64[b, s] ids, float[b, 2, 2] past_conv_0) => (float[b, 2, s] y, float[b, 2, 2] present_conv_0) {
        x = Gather(table, ids)
        t = Transpose<perm = [0, 2, 1]>(x)
        y, present_conv_0 = com.microsoft.CausalConvWithState(t, w, , past_conv_0)
    }"""
    proto = onnx.parser.parse_model(text)
    values = {"table": np.ones((5, 2), np.float32), "w": np.ones((2, 1, 3), np.float32)}
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in values.items())
    model = jaxdml.onnx.load(proto)
    with pytest.raises(
        ValueError, match=r"'past_conv_0' is the state of com\.microsoft\.CausalConvWithState 'y'"
    ) as caught:
        jaxdml.onnx.decoder(model, length=8)
    assert "prompts that are not padded" in str(caught.value)
    _, state = model(np.array([[1, 2, 3]]), np.zeros((1, 2, 2), np.float32))
    assert model(np.array([[4]]), np.asarray(state))[0].shape == (1, 2, 1)


def test_caches_of_another_rank_are_refused():
    text = GROWING.replace("float[b, 2, p, H] past_k", "float[b, p, H] past_k")
    other = onnx.parser.parse_model(text)
    other.graph.initializer.extend(growing().graph.initializer)
    with pytest.raises(ValueError, match=r"must have the shape \[batch, heads, tokens, size\]"):
        jaxdml.onnx.decoder(jaxdml.onnx.load(other), length=4, sizes={"H": 3})


def test_sizes_that_the_file_does_not_say_are_asked_for():
    with pytest.raises(ValueError, match=r"past_k: float32\[b, 2, p, H\] must have"):
        jaxdml.onnx.decoder(jaxdml.onnx.load(growing()), length=4)


@needs_devices
@pytest.mark.parametrize("kind", ["auto", "explicit"])
@pytest.mark.parametrize(("spec", "sliding"), [(P(), 0), (P("batch"), 8)])
@long
def test_caches_that_are_sharded_by_the_batch_are_enough(kind, spec, sliding):
    _, model = model_of(sliding=sliding)
    decoder = jaxdml.onnx.decoder(model, length=LENGTH)
    tokens, counts = np.random.default_rng(0).integers(1, 90, (COUNT, 3)), np.arange(COUNT) % 3 + 1
    mesh = mesh_of(kind, batch=COUNT)
    found = []
    for put in (lambda x, _: x, lambda x, spec: jax.device_put(x, NamedSharding(mesh, spec))):
        scores, state = decoder(put(decoder.start(COUNT), P("batch")), put(tokens, spec), counts)
        more, state = decoder(state, jaxdml.top_k(scores, 1, index_dtype="int32").indices)
        found.append((scores, more))
    for one, spread in zip(*found, strict=True):
        np.testing.assert_allclose(spread, one, rtol=1e-4, atol=1e-4 * np.ptp(one))
    assert {cache.sharding.spec[0] for cache in state.cache.values()} == {"batch"}
