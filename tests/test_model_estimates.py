"""What the TPU's compiler is asked of whole models, by a small one on the device that is here."""

import json
import subprocess
from types import SimpleNamespace

import jax
import pytest

from benchmarks.compiling import compilers, model_estimates
from benchmarks.models import networks
from benchmarks.models.net import Net
from benchmarks.reporting import journal, model_estimates_table
from benchmarks.reporting.journal import earlier

LITTLE = networks.Image((networks.Block(2, 8, 1, 2),), 32, 1280, 16, 10)


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(networks, "made", lambda name, kind: networks.mobilenet_v2(Net("little"), LITTLE))
    monkeypatch.setattr(compilers, "device_of", lambda target: jax.devices()[0])


def test_answers_are_kept_and_taken_up_again(monkeypatch, tmp_path, capsys):
    asked = []

    def run(command, timeout, **_):
        name, batch, target, kind = command[command.index("--one") + 1 :]
        asked.append(kind)
        if kind == "bfloat16":
            raise subprocess.TimeoutExpired(command, timeout)
        if kind == "int8" and batch == "32":
            return subprocess.CompletedProcess(command, -6, "", "I fine\nF12 a.cc:3] Check failed: no window\nE end\n")
        found = model_estimates.cost(model_estimates.Compilation(name, int(batch), target, kind))
        return subprocess.CompletedProcess(command, 0, f"something else\n{json.dumps(found)}\n", "")

    processes = SimpleNamespace(run=run, TimeoutExpired=subprocess.TimeoutExpired)
    monkeypatch.setattr(model_estimates, "subprocess", processes)
    file = tmp_path / "estimates.jsonl"
    given = ["--models", "mobilenet_v2", "--out", str(file), "--limit", "9"]
    assert model_estimates.main([*given, "--kinds", "float32", "--batches", "1"]) == 0
    first = earlier(file)
    assert model_estimates.main([*given, "--resume"]) == 1
    assert asked == ["float32", "bfloat16", "int8", "float32", "bfloat16", "int8"]
    _, rows = journal.rows(file)
    assert rows[:1] == first
    assert rows[0]["bytes"] == rows[2]["bytes"] > 0
    assert rows[-1]["raises"] == "exit status -6: Check failed: no window"
    page = model_estimates_table.markdown(file)
    assert "| `mobilenet_v2` | v5e | 1 |" in page
    assert page.count("not compiled in 9 s") == 2
    assert "| 1.00 |" in page
    assert "| `mobilenet_v2` | v5e | 32 |" in capsys.readouterr().out
    assert model_estimates_table._cells({}) == [*["-"] * 4, "-, -, -"]


def test_one_compilation_is_printed(capsys):
    assert model_estimates.main(["--one", "mobilenet_v2", "1", "v5e", "float32"]) == 0
    assert json.loads(capsys.readouterr().out)["raises"] is None
