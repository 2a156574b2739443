"""``python -m jaxdml.onnx``: what it shows, and with which status it ends."""

import signal
import sys

import jax
import numpy as np
import onnx.parser
import pytest

import jaxdml.onnx
from jaxdml import _commands
from jaxdml.onnx import __main__ as command
from tests.kit import quick

pytestmark = quick

TEXT = """<ir_version: 8, opset_import: ["": 17]>
    g (float[N, 2, M] x, int64[2, 1] i) => (float[N, 2, M] y, int64[2, 1] j)
    <float[2, 1] w = {1, 2}> { s = Add(x, w) y = Sub(s, x) j = Add(i, i) }"""


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    monkeypatch.setattr(command, "SECONDS", 0.0)
    monkeypatch.setattr(command, "FEWEST", 1)
    monkeypatch.setattr(command, "_devices", lambda: jax.local_devices()[:2])


@pytest.fixture
def path(tmp_path):
    (tmp_path / "model.onnx").write_bytes(onnx.parser.parse_model(TEXT).SerializeToString())
    return tmp_path / "model.onnx"


def said(capsys, *arguments):
    """Return the status of the command, and what it says to its outputs."""
    status = command.main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    return status, out, err


of_cpus = pytest.mark.skipif(jax.default_backend() != "cpu", reason="counts CPU devices")


def test_sequences_are_left_to_python(tmp_path, capsys):
    text = '<ir_version: 8, opset_import: ["": 17]> g (seq(float[2]) s) => (seq(float[2]) t) { t = Identity(s) }'
    (tmp_path / "model.onnx").write_bytes(onnx.parser.parse_model(text).SerializeToString())
    status, _, err = said(capsys, tmp_path / "model.onnx")
    assert status == command.FAILED
    assert "sequences or optionals; call it from Python" in err


@of_cpus
def test_a_model_on_every_device(path, capsys):
    status, out, err = said(capsys, path, "--batch", 3, "--seed", 1)
    assert (status, err) == (0, "")
    for text in (
        "s     Add",
        "cpu:0",
        "cpu:1",
        "onnxruntime, cpu",
        "float32  3x2x1",
        "int32",
        "2 devices: the same bits.",
    ):
        assert text in out, out
    assert out.count(" yes ") >= 2


@of_cpus
def test_devices_that_disagree(path, capsys, monkeypatch):
    real = command._on

    def odd(device, model, by_name):
        return (lambda: [np.zeros(1), np.ones(1)]) if device.id else real(device, model, by_name)

    monkeypatch.setattr(command, "_on", odd)
    status, out, _ = said(capsys, path)
    assert status == 1
    assert "NO " in out
    assert "2 devices: NOT the same bits." in out


def test_without_onnxruntime(path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    monkeypatch.setattr(command, "_devices", lambda: jax.local_devices()[:1])
    status, out, _ = said(capsys, path, "--numerics", "literal")
    assert status == 0
    assert "onnxruntime is not installed" in out
    assert "One device: the same bits." in out


def test_a_model_that_onnxruntime_does_not_run(path, capsys):
    model = onnx.parser.parse_model(TEXT)
    model.opset_import.add(domain="ai.onnx.training", version=2**31 - 1)
    path.write_bytes(model.SerializeToString())
    status, out, _ = said(capsys, path)
    assert status == 0
    assert "cannot run it: " in out


def test_sizes_that_fit_are_found(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    monkeypatch.setattr(command, "_devices", lambda: jax.local_devices()[:1])
    text = "g (float[N, 1, M] x) => (y) { y = MaxPool<kernel_shape=[40]>(x) }"
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {text}')
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    inputs = command.drawn(jaxdml.onnx.load(tmp_path / "model.onnx"), 3, 0)
    assert inputs["x"].shape == (3, 1, 64)
    status, out, _ = said(capsys, tmp_path / "model.onnx")
    assert status == 0
    assert "Inputs: x float32[1, 1, 64]." in out


def test_inputs_from_a_file(path, tmp_path, capsys):
    model = onnx.parser.parse_model(TEXT)
    model.graph.input.append(onnx.helper.make_tensor_value_info("w", 1, [2, 1]))
    path.write_bytes(model.SerializeToString())
    arrays = {"x": np.ones((2, 2, 1), np.float32), "i": np.ones((2, 1), np.int64)}
    file = tmp_path / "inputs.npz"
    np.savez(file, **arrays, w=np.ones((2, 1), np.float32))
    assert said(capsys, path, "--inputs", file)[0] == 0
    np.savez(file, x=arrays["x"])
    status, _, err = said(capsys, path, "--inputs", file)
    assert status == 2
    assert "input 'i' is missing" in err
    np.savez(file, **arrays | {"x": np.ones((2, 3, 1), np.float32)})
    status, _, err = said(capsys, path, "--inputs", file)
    assert status == 2
    assert "has shape [2, 3, 1]" in err


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04 but no more", b"text"])
def test_inputs_from_what_is_no_such_file(data, path, tmp_path, capsys):
    (tmp_path / "inputs.npz").write_bytes(data)
    status, _, err = said(capsys, path, "--inputs", tmp_path / "inputs.npz")
    assert status == 2
    assert "is no .npz file of plain arrays" in err


def test_inputs_in_another_form(path, tmp_path, capsys):
    np.save(tmp_path / "one.npy", np.zeros(3))
    assert said(capsys, path, "--inputs", tmp_path / "one.npy")[0] == 2
    np.savez(tmp_path / "objects.npz", x=np.array([{}], dtype=object))
    assert said(capsys, path, "--inputs", tmp_path / "objects.npz")[0] == 2


def test_models_that_cannot_be_read(path, capsys):
    assert said(capsys, path.parent / "nothing")[0] == 2
    assert said(capsys, path.parent)[0] == 2
    path.write_bytes(path.read_bytes()[:-5])
    status, out, err = said(capsys, path)
    assert (status, out) == (2, "")
    assert err.startswith("python -m jaxdml.onnx: jaxdml.onnx.load: this is no ONNX model")


def test_inputs_that_are_drawn():
    text = """<ir_version: 8, opset_import: ["": 17]>
        g (float16[N, A, 3] a, uint8[300] b, int64[20] c, bool[20] d, float e) => (float y) { y = Add(e, e) }"""
    model = jaxdml.onnx.load(onnx.parser.parse_model(text))
    found = command.drawn(model, batch=4, seed=0)
    assert {name: (str(array.dtype), array.shape) for name, array in found.items()} == {
        "a": ("float16", (4, 1, 3)),
        "b": ("uint8", (300,)),
        "c": ("int64", (20,)),
        "d": ("bool", (20,)),
        "e": ("float32", ()),
    }
    assert np.ptp(found["b"]) > 200
    assert set(found["c"].tolist()) == {0, 1}
    again = command.drawn(model, batch=4, seed=0)
    assert all(np.array_equal(array, again[name]) for name, array in found.items())


def test_how_outputs_differ():
    value = jaxdml.onnx._graph.TensorType("y", None, None)
    inf, nan = np.inf, np.nan

    def differ(ours, theirs):
        return command._difference(value, np.asarray(ours), np.asarray(theirs))[3:]

    assert differ([1.0, inf, nan], [1.5, inf, nan]) == ("3", "1", "0.5")
    assert differ([1.0, 2.0], [1.0, nan]) == ("2", "1", "nan")
    assert differ(np.zeros((0, 2)), np.zeros((0, 2))) == ("0", "0", "0")
    assert differ([1, 2], [[1, 2]]) == ("2", "all", "shape [1, 2]")


def test_devices_are_each_counted_once(monkeypatch):
    monkeypatch.undo()
    devices = command._devices()
    assert set(devices) >= set(jax.local_devices())
    assert len(devices) == len(set(devices))


def test_ctrl_c_ends_it(monkeypatch):
    usual = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(sys, "argv", ["-m"])
    monkeypatch.setattr(sys, "orig_argv", [sys.executable, "-m", "jaxdml.onnx", "model.onnx"])
    try:
        _commands.end_at_ctrl_c("jaxdml")
        assert signal.getsignal(signal.SIGINT) is _commands._end
    finally:
        signal.signal(signal.SIGINT, usual)
