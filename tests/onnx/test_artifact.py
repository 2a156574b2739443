"""Artifacts: programs that were exported ahead compute what onnxruntime computes, and broken files are refused."""

import hashlib
import json
import struct
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import onnx.parser
import pytest
from jax import export

import jaxdml.onnx
from jaxdml.onnx import UnsupportedModelError
from jaxdml.onnx import __main__ as command
from jaxdml.onnx.running import ahead, artifact
from jaxdml.onnx.running.program import Program
from tests.kit import quick
from tests.onnx.sessions import session

pytestmark = quick

HEAD = '<ir_version: 8, opset_import: ["": 17]> '
MASKED = f"""{HEAD} g (float[N, W, 3] x, bool[1] all) => (float[N, W, 2] y, uint8[N, 2] m, bool[1] same)
    <float[3, 2] w = {{1, 2, 3, 4, 5, 6}}, int64[1] one = {{1}}, float scale = {{0.5}}, uint8 zero = {{128}}> {{
        product = MatMul(x, w)
        y = Softmax<axis = 1>(product)
        sum = ReduceSum<keepdims = 0>(product, one)
        m = QuantizeLinear(sum, scale, zero)
        same = Identity(all) }}"""
NOISY = f"{HEAD} g (float[4] x) => (float[4] y) {{ n = RandomNormalLike(x) y = Add(x, n) }}"
TABLE = {"N": [1, 3], "W": [4, 8]}


def written(text, lengths, path, **options):
    """Write an artifact of a model, and return the model and the bytes of the file."""
    proto = onnx.parser.parse_model(text)
    size = ahead.write(jaxdml.onnx.load(proto), lengths, path, **options)
    data = path.read_bytes()
    assert len(data) == size
    return proto, data


@pytest.fixture(scope="module")
def masked(tmp_path_factory):
    return written(MASKED, TABLE, tmp_path_factory.mktemp("artifact") / "masked", platforms=["cpu", "cuda", "tpu"])


@pytest.fixture(scope="module")
def loaded(masked):
    return jaxdml.onnx.load(masked[1])


def drawn(n, w):
    return np.random.default_rng(n * w).integers(-1, 2, (n, w, 3)).astype(np.float32)


def test_all_lengths_up_to_the_greatest_without_tracing(masked, loaded, monkeypatch):
    def traced(*_):
        raise AssertionError("the model is traced")

    monkeypatch.setattr(Program, "computed", traced)
    reference = session(masked[0])
    for n, w in ((1, 4), (1, 8), (3, 4), (3, 8), (2, 3), (2, 5), (1, 2), (2, 8), (2, 3)):
        given = {"x": drawn(n, w), "all": np.array([w > 4])}
        wanted = reference(**given)
        for found in (loaded(**given), loaded(given["x"], all=given["all"]), loaded(*given.values())):
            assert [array.shape for array in found] == [array.shape for array in wanted.values()]
            np.testing.assert_allclose(found[0], wanted["y"], rtol=1e-6, atol=1e-30)
            np.testing.assert_array_equal(found[1], wanted["m"])
            np.testing.assert_array_equal(found[2], wanted["same"])


def test_inputs_are_checked_as_of_a_model(masked, loaded):
    model = jaxdml.onnx.load(masked[0])
    x, true = drawn(1, 4), np.array([True])
    for given in ((), (x,), (x, true, true), (x, x), (x[0], true), (x[..., :2], true), (x.astype(int), true)):
        with pytest.raises((TypeError, ValueError)) as wanted:
            model(*given)
        with pytest.raises(wanted.type) as found:
            loaded(*given)
        assert str(found.value) == str(wanted.value)
    with pytest.raises(TypeError, match="'z' is unknown"):
        loaded(x, true, z=x)


@pytest.mark.parametrize(("n", "w", "text"), [(4, 4, "'N' has length 4"), (1, 9, "'W' has length 9")])
def test_more_than_the_greatest_length_is_an_error(loaded, n, w, text):
    with pytest.raises(ValueError, match=text):
        loaded(drawn(n, w), [True])


def test_0_and_1_need_programs_of_their_own(loaded):
    for n, w in ((0, 4), (1, 1)):
        with pytest.raises(ValueError, match=r"no program for x \[") as caught:
            loaded(np.zeros((n, w, 3), np.float32), [True])
        assert "It has some for N [1, 3], W [4, 8]" in str(caught.value)


def test_what_it_says_of_itself(loaded):
    assert str(loaded) == loaded.report() == "4 programs for cpu, cuda, tpu.\nN: 1, 3\nW: 4, 8"
    assert repr(loaded).endswith("; 4 programs, 1 params)")
    assert [value.name for value in loaded.outputs] == ["y", "m", "same"]
    assert loaded.static_inputs == frozenset()
    with pytest.raises(NotImplementedError, match="no nodes that JAX could trace"):
        loaded.apply(loaded.params, drawn(1, 4), [True])


def test_weights_are_there_once_and_may_be_others(tmp_path):
    text = f"{HEAD} g (float[N, 128] x) => (float[N, 128] y) {{ y = MatMul(x, w) }}"
    proto = onnx.parser.parse_model(text)
    w = np.random.default_rng(0).standard_normal((128, 128)).astype(np.float32)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(w, "w"))
    size = ahead.write(jaxdml.onnx.load(proto), {"N": [2, 4, 8, 16]}, tmp_path / "file")
    assert size < 2 * w.nbytes
    model = jaxdml.onnx.load(tmp_path / "file")
    doubled = replace(model, params={name: 2 * array for name, array in model.params.items()})
    np.testing.assert_array_equal(doubled(w[:5])[0], 2 * model(w[:5])[0])


def test_packed_integers_and_small_dtypes(tmp_path):
    text = f"""{HEAD} g (float[N, 4] x) => (float[N, 3] y, float16[N, 4] h, float[4] z)
        <int8[4, 3] w = {{1, -2, 3, 4, 5, -6, 7, 8, 9, 1, -1, 0}}, float16[4] a = {{1, 2, 3, 4}},
            bfloat16[4] b = {{1, 2, 3, 4}}> {{
            q, s, p = DynamicQuantizeLinear(x)
            i = MatMulInteger(q, w, p)
            f = Cast<to = 1>(i)
            y = Mul(f, s)
            c = Cast<to = 10>(x)
            h = Add(c, a)
            z = Cast<to = 1>(b) }}"""
    proto, data = written(text, {"N": [4]}, tmp_path / "file")
    model, reference = jaxdml.onnx.load(data), session(proto)
    x = np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32)
    y, h, z = model(x)
    np.testing.assert_allclose(y, reference(x=x)["y"], rtol=1e-6)
    np.testing.assert_array_equal(h, reference(x=x)["h"])
    np.testing.assert_array_equal(z, reference(x=x)["z"])
    # The weights are int8 or uint8, as the CPU multiplies.
    dtypes = {str(leaf.dtype) for leaf in model.params.values()}
    assert dtypes - {"int8", "uint8"} == {"int32", "float16", "bfloat16"} < dtypes


def test_a_model_without_open_dimensions_is_one_program(tmp_path):
    proto, data = written(f"{HEAD} g (float[2] x) => (float[2] y) {{ y = Relu(x) }}", {}, tmp_path / "file")
    x = np.float32([-1, 2])
    np.testing.assert_array_equal(jaxdml.onnx.load(data)(x)[0], session(proto)(x=x)["y"])


def test_random_models_want_a_key(tmp_path):
    proto, data = written(NOISY, {}, tmp_path / "file")
    model, given = jaxdml.onnx.load(data), jaxdml.onnx.load(proto)
    x = np.zeros(4, np.float32)
    key = jax.random.key(3)
    (wanted,) = given(x, key=key)
    for each in (key, jax.random.key_data(key)):
        np.testing.assert_array_equal(model(x, key=each)[0], wanted)
    with pytest.raises(ValueError, match="the model is random, and the call gives no key"):
        model(x)


def test_programs_that_call_other_code_are_refused(tmp_path, masked, monkeypatch):
    proto = onnx.parser.parse_model(f"{HEAD} g (float[2, 6, 6] x) => (float[2] y) {{ y = Det(x) }}")
    with pytest.raises(UnsupportedModelError, match="a program for cuda calls code outside of it"):
        ahead.write(jaxdml.onnx.load(proto), {}, tmp_path / "file", ["cuda"])
    with monkeypatch.context() as patch:
        patch.setattr(ahead, "_must_be_plain", lambda programs: None)
        ahead.write(jaxdml.onnx.load(proto), {}, tmp_path / "file", ["cuda"])
    with pytest.raises(UnsupportedModelError, match="a program for cuda calls code outside of it"):
        jaxdml.onnx.load(tmp_path / "file")
    program = jaxdml.onnx.load(masked[1]).programs[0]
    for code in (b'"stablehlo.\\63ustom_call"', b"ML\xefR with custom_call_v1"):
        with pytest.raises(UnsupportedModelError, match="a program for cpu, cuda, tpu calls code outside of it"):
            ahead._must_be_plain([replace(program, mlir_module_serialized=code)])


def test_lengths_that_make_no_programs(tmp_path):
    def refused(text, lengths, error=ValueError):
        with pytest.raises(error) as caught:
            ahead.write(jaxdml.onnx.load(onnx.parser.parse_model(HEAD + text)), lengths, tmp_path / "file")
        return str(caught.value)

    plain = "g (float[N, W] x) => (float[N, W] y) { y = Relu(x) }"
    assert "open dimensions are N, W; lengths are for N." in refused(plain, {"N": [1]})
    assert "lengths are for N, W, x[0]." in refused(plain, {"N": [1], "W": [2], "x[0]": [3]})
    assert "open dimensions are none; lengths are for N." in refused(plain.replace("[N, W]", "[2]"), {"N": [1]})
    assert "'W'" in refused(plain, {"N": [1], "W": [3, 2]})
    unknown = "g (float x) => (y) { y = Relu(x) }"
    model = onnx.parser.parse_model(HEAD + unknown)
    model.graph.input[0].type.tensor_type.ClearField("shape")
    with pytest.raises(NotImplementedError, match="no tensor of known dtype and rank: x: float32"):
        ahead.write(jaxdml.onnx.load(model), {}, tmp_path / "file")
    sequence = "g (seq(float[2]) s) => (seq(float[2]) t) { t = Identity(s) }"
    assert "no tensor" in refused(sequence, {}, NotImplementedError)
    chosen = "g (float[4] x) => (int64[1, M] y) { y = NonZero(x) }"
    assert "NonZero" in refused(chosen, {}, NotImplementedError)
    masked_nowhere = "g (float[N] x) => (float[N] y) { n = Bernoulli(x) y = Add(x, n) }"
    assert "several lengths of 'N' cannot be served: Bernoulli 'n'" in refused(masked_nowhere, {"N": [4, 8]})
    assert not (tmp_path / "file").exists()


def test_truncated_and_changed_files_are_refused(masked, tmp_path):
    _, data = masked
    path = tmp_path / "file"
    for count in (len(artifact.MAGIC), 20, 47, 48, 60, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:count])
        with pytest.raises(UnsupportedModelError, match="truncated, or has been changed"):
            jaxdml.onnx.load(path)
    with pytest.raises(UnsupportedModelError, match="truncated, or has been changed"):
        jaxdml.onnx.load(data + b"\0")
    for place in (*range(len(artifact.MAGIC) + 4, 100), *range(100, len(data), len(data) // 150)):
        changed = bytearray(data)
        changed[place] ^= 1 << place % 8
        with pytest.raises(UnsupportedModelError, match="truncated, or has been changed"):
            jaxdml.onnx.load(bytes(changed))
    changed = bytearray(data)
    changed[len(artifact.MAGIC)] = 77
    with pytest.raises(UnsupportedModelError, match="has format 77; this version of jaxdml reads format 1"):
        jaxdml.onnx.load(changed)


def digested(rest):
    """Return a file whose digest is right."""
    return struct.pack("<12sI32s", artifact.MAGIC, artifact.FORMAT, hashlib.sha256(rest).digest()) + rest


def described(description, blocks):
    header = json.dumps([description, [len(block) for block in blocks]]).encode()
    return digested(struct.pack("<Q", len(header)) + header + b"".join(blocks))


def parts(data):
    description, blocks = artifact.read(data)
    return description, list(map(bytes, blocks))


def test_malformed_files_with_a_right_digest_are_refused(masked):
    description, blocks = parts(masked[1])
    assert jaxdml.onnx.load(described(description, blocks)).report()
    first, *others = blocks
    cases = [
        digested(b""),
        digested(b"12345678"),
        digested(struct.pack("<Q", 9) + b"{"),
        digested(struct.pack("<Q", 2) + b"[]"),
        described([], blocks),
        *(described({name: x for name, x in description.items() if name != left}, blocks) for left in description),
        *(described(description | {name: 3.5}, blocks) for name in description),
        described(description | {"weights": [["w", "float32", [3, 3]]]}, blocks),
        described(description | {"weights": [["w", "no dtype", [3, 2]]]}, blocks),
        described(description | {"lengths": {"N": [1, 3], "W": [4]}}, blocks),
        described(description | {"lengths": {"N": [1, 3]}}, blocks),
        described(description, others),
        described(description, blocks[:-1]),
        described(description, [first[:-4], *others]),
        *(described(description, [first, others[0][:n], *others[1:]]) for n in (0, 10, 1000)),
        described(description, [first, b"\xff" * len(others[0]), *others[1:]]),
    ]
    for case in cases:
        with pytest.raises(UnsupportedModelError) as caught:
            jaxdml.onnx.load(case)
        assert str(caught.value).startswith("jaxdml.onnx.load: ")


def test_artifacts_of_another_jax_are_refused(masked):
    description, blocks = parts(masked[1])
    newest = export.maximum_supported_calling_convention_version
    for version in (0, newest + 1):
        with pytest.raises(UnsupportedModelError, match=f"have calling convention {version}; JAX .* knows "):
            jaxdml.onnx.load(described(description | {"convention": version}, blocks))
    with jax.enable_x64(True), pytest.raises(UnsupportedModelError, match="jax_enable_x64 False; here it is True"):
        jaxdml.onnx.load(masked[1])


def test_other_arguments_of_load(masked):
    with pytest.raises(ValueError, match="numerics is 'literal', and the artifact was written with 'exact'"):
        jaxdml.onnx.load(masked[1], numerics="literal")
    with pytest.raises(ValueError, match="an artifact has lengths of its own"):
        jaxdml.onnx.load(masked[1], lengths={"N": [4]})


def said(capsys, *arguments):
    status = command.main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    return status, out, err


def test_the_command(tmp_path, capsys):
    model, file = tmp_path / "model.onnx", tmp_path / "file"
    model.write_bytes(onnx.parser.parse_model(MASKED).SerializeToString())
    status, out, err = said(capsys, model, "--compile", "N=1", "W=4,8", "--out", file, "--platforms", "cpu,tpu")
    assert (status, err) == (0, "")
    assert out.startswith("2 programs for cpu, tpu.\nN: 1\nW: 4, 8\n")
    assert f"file: {file.stat().st_size:,} bytes, exported in " in out
    assert said(capsys, file)[:2] == (0, "2 programs for cpu, tpu.\nN: 1\nW: 4, 8\n")
    status, _, err = said(capsys, model, "--compile", "W=4", "--out", file)
    assert status == command.FAILED
    assert "lengths are for W." in err
    for wrong in ("W=a", "W", "W="):
        status, _, err = said(capsys, model, "--compile", wrong, "--out", file)
        assert status == command.FAILED
        assert "--compile takes NAME=LENGTHS" in err
    for alone in (["--compile", "N=1"], ["--out", file]):
        with pytest.raises(SystemExit):
            said(capsys, model, *alone)
    assert "belong together" in capsys.readouterr().err


def test_what_is_no_artifact():
    assert not artifact.is_one(onnx.ModelProto())
    assert not artifact.is_one(b"jaxdml")
    with pytest.raises(FileNotFoundError):
        jaxdml.onnx.load(Path("there is none"))
