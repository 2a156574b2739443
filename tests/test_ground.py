"""The self-check's programs that some released XLA computes wrong: run apart, told from crashes, and described."""

import json
import subprocess
import sys

import jax
import pytest

from jaxdml._selfcheck import ground

# As ground.SETTING does for a whole process, so that what writes outside its arrays does not here.
APART = "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT,LIBRARY_FUSION_TYPE_INDIVIDUAL_CONVOLUTION"
ON_CPU = jax.default_backend() == "cpu"
OPTIONS = {"xla_cpu_experimental_ynn_fusion_type": APART} if ON_CPU else {}
PRINTED = {name: json.dumps([name, 0]) + "\n" for name in ground.PROBES}


@pytest.mark.parametrize("name", [name for name in ground.PROBES if ON_CPU or name != "small_int8"])
def test_a_program_is_right_where_reductions_stay_alone(name):
    assert ground.wrong(ground.PROBES[name], compiler_options=OPTIONS) == 0


@pytest.mark.skipif(not ON_CPU, reason="the setting is of XLA's CPU backend")
def test_the_setting_mends_all_of_them(monkeypatch):
    monkeypatch.setattr(ground, "_LIMIT_S", 600)  # On a busy machine a process takes longer.
    assert ground._in_a_process(ground.SETTING) == dict.fromkeys(ground.PROBES, 0)


def test_a_process_prints_what_it_found(capsys):
    ground.main(["seven_dimensions"])
    assert json.loads(capsys.readouterr().out) == ["seven_dimensions", 0]


def stand_in(monkeypatch, run):
    """Let a function of the names of the probes stand in for the process: it returns what that prints."""

    def process(command, *, env, **_):
        assert command[0] == sys.executable
        assert env["JAX_PLATFORMS"] == "cpu"
        output = run(command[3:], ground.SETTING in env["XLA_FLAGS"]).encode()
        return subprocess.CompletedProcess(command, 0, output)

    monkeypatch.setattr(subprocess, "run", process)


def test_after_a_crash_or_a_hang_the_others_go_on(monkeypatch):
    first, second, third, *rest = ground.PROBES

    def run(names, with_setting):
        if names[0] == first:
            return PRINTED[first]  # And crashes in the second.
        if names[0] == third:
            raise subprocess.TimeoutExpired("python", 1)
        return "".join(PRINTED[name] for name in names)

    stand_in(monkeypatch, run)
    assert ground._in_a_process() == {first: 0, second: None, third: None, **dict.fromkeys(rest, 0)}


def test_what_is_wrong_is_reported_with_what_mends_it(monkeypatch):
    def run(names, with_setting):
        counts = {"equal_weights": 0 if with_setting else 7}
        return "".join(json.dumps([name, counts.get(name, 0)]) + "\n" for name in names)

    stand_in(monkeypatch, run)
    (found,) = ground.look("cpu")
    probe = ground.PROBES["equal_weights"]
    assert found == {
        **{"computes": probe.computes, "thread": probe.thread, "ours": probe.ours},
        **{"wrong": 7, "mended": True},
    }
    lines = ground.described([found], True)
    assert max(map(len, lines)) <= 80
    assert " ".join(map(str.strip, lines)) == (
        f"XLA: jaxdml is right here; stock JAX is not, in: {probe.computes}: 7 outputs differ. "
        f"No report of it was found. In jaxdml {probe.ours}. "
        f"To mend all of them, set this before Python starts: XLA_FLAGS={ground.SETTING}"
    )
    crash = found | {"thread": "jax-ml/jax#1", "wrong": None, "mended": False}
    lines = ground.described([found, crash], False)
    assert lines[0] == "XLA: stock JAX is wrong here, in:"
    assert "it crashes. jax-ml/jax#1." in " ".join(map(str.strip, lines))
    assert lines[-2].startswith("  To mend 1 of 2, set")
    assert not any("To mend" in line for line in ground.described([crash], True))


def test_on_other_devices_they_run_in_this_process(monkeypatch):
    monkeypatch.setattr(ground, "wrong", lambda probe: 3 if probe is ground.PROBES["small_int8"] else 0)
    (found,) = ground.look("gpu")
    assert found["wrong"] == 3
    assert found["mended"] is None
    assert ground.described([], True) == ["XLA: right in the 7 programs that some of its versions compute wrong."]
