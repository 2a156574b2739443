"""Files are compared with onnxruntime, and counted, as ``python -m tests.onnx.zoo`` says."""

import numpy as np
import onnx.parser
import pytest

from benchmarks.reporting import journal
from tests.onnx.zoo import __main__ as zoo
from tests.onnx.zoo import judging

pytest.importorskip("onnxruntime")

FLOATS = """<ir_version: 8, opset_import: ["": 17]> g (float[2, 3] x) => (float[2, 3] y) { y = Relu(x) }"""
INTEGERS = """<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]> g (float[2, 3] x) => (float[2, 3] y)
    <float s = {0.5}, uint8 z = {3}, float t = {2.0}, uint8 odd = {1}> {
        q = QuantizeLinear(x, s, z)
        r = com.microsoft.QLinearAdd(q, s, z, q, s, z, t, odd)
        y = DequantizeLinear(r, t, odd) }"""
INVALID = FLOATS.replace("Relu(x)", "Relu<axes = [0]>(x)")
X = np.float32([[1.5, -2, 0.5], [4, 2.5, -3.5]])


def written(folder, text, name="net.form"):
    (folder / "files").mkdir(exist_ok=True)
    path = folder / "files" / f"{name}.onnx"
    onnx.save(onnx.parser.parse_model(text), path)
    np.savez(path.with_name("net.npz"), x=X)
    return path


@pytest.mark.parametrize(
    ("text", "verdict"), [(FLOATS, "agrees"), (INTEGERS, "steps"), (INVALID, "not run by onnxruntime")]
)
def test_a_file_has_this_verdict(text, verdict, tmp_path, monkeypatch):
    monkeypatch.setattr(judging, "STEPS", 0.5)  # One step of few is much.
    row = judging.judge(written(tmp_path, text), {"x": X})
    assert row["verdict"] == verdict
    assert ("difference" in row) == (verdict != "not run by onnxruntime")


def test_other_answers_are_wrong(tmp_path, monkeypatch):
    monkeypatch.setattr(judging, "difference", lambda found, expected, half: 0.5)
    assert judging.judge(written(tmp_path, FLOATS), {"x": X})["verdict"] == "wrong"


@pytest.mark.parametrize(
    ("found", "expected", "difference"),
    [
        ([1.0, 3.0], [1.0, 3.0], 0),
        ([1.0, 3.0], [1.0, 5.0], 0.5),
        ([np.nan, 3.0], [np.nan, 3.0], 0),
        ([0.0, 3.0], [np.nan, 3.0], np.inf),
        ([np.inf, 3.0], [1.0, 3.0], np.inf),
        ([3.0], [3.0, 3.0], np.inf),
        ([], [], 0),
    ],
)
def test_differences_are_shares_of_the_span(found, expected, difference):
    assert judging.difference([np.float32(found)], [np.float32(expected)]) == difference


def test_what_float16_cannot_hold_is_no_difference():
    pair = [np.float32([0, 0])], [np.float32([1e-10, -1e-10])]
    assert judging.difference(*pair) == 0.5
    assert judging.difference(*pair, half=True) < 1e-5


def test_a_run_goes_on_where_it_stopped(tmp_path, capsys):
    written(tmp_path, FLOATS)
    for _ in range(2):
        assert zoo.main([str(tmp_path), "--no-making"]) == 0
    _, rows = journal.rows(tmp_path / "zoo.jsonl")
    assert [(row["name"], row["verdict"]) for row in rows] == [("net.form", "agrees")]
    assert "| form | 1 | 1 |" in capsys.readouterr().out


def test_files_are_counted_by_form():
    names = {"a.int8": "agrees", "b.int8": "wrong", "genai.llama.cpu": "agrees", "c.int8": "not made"}
    rows = {name: {"verdict": verdict} for name, verdict in names.items()}
    rows["b.int8"]["why"] = "0.5 of the span"
    told = zoo.summary(rows)
    assert (told["architectures"], told["families"]) == (2, 1)
    assert told["counts"] == {"genai.cpu": {"agrees": 1}, "int8": {"agrees": 1, "wrong": 1}}
    assert told["others"] == {"b.int8": "0.5 of the span"}
    assert zoo.table(rows).splitlines()[2:] == [
        "| genai.cpu | 1 | 1 | - | - |",
        "| int8 | 2 | 1 | 1 | 1 |",
        "| all | 3 | 2 | 1 | 1 |",
    ]
