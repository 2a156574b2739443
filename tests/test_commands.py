"""Ctrl-C ends a command with one line and status 130, and leaves no file half-written."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.environment import ALLOCATOR
from jaxdml import __main__, _commands, _selfcheck

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def _same_handler():
    usual = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, usual)


def interrupted(arguments, output, sign):
    """Start a command, send SIGINT when a line of its output has the sign, and return its status and later lines."""
    command = [sys.executable, *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=ROOT, env=os.environ | ALLOCATOR, **pipes) as process:
        for line in getattr(process, output):
            if sign in line:
                break
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=60)
        return process.returncode, out, errors


@pytest.mark.skipif(sys.platform == "win32", reason="Windows sends no SIGINT to a process")
def test_ctrl_c_while_jax_is_imported():
    # With importtime Python writes a line for every module.
    status, out, errors = interrupted(["-X", "importtime", "-m", "jaxdml"], "stderr", "jax._src")
    said = [line for line in errors.splitlines() if not line.startswith("import time:")]
    assert (status, out, said) == (130, "", ["Interrupted."])


@pytest.mark.skipif(sys.platform == "win32", reason="Windows sends no SIGINT to a process")
@pytest.mark.parametrize(
    ("command", "sign", "left"),
    [
        (["-m", "jaxdml", "--json"], "Device", set()),
        (["-m", "benchmarks", "top_k", "--peers", "jaxdml", "--out"], "1/", {"report", "report.jsonl"}),
    ],
    ids=lambda part: part[1] if isinstance(part, list) else "",
)
def test_ctrl_c_at_work(command, sign, left, tmp_path):
    status, _, errors = interrupted([*command, str(tmp_path / "report")], "stdout", sign)
    assert (status, errors.splitlines()) == (130, ["Interrupted."])
    assert {path.name for path in tmp_path.rglob("*")} == left


def located(monkeypatch, module, argv=("-m",)):
    """Pretend that this process is ``python -m module``, at the time when the module is located."""
    monkeypatch.setattr(sys, "argv", list(argv))
    monkeypatch.setattr(sys, "orig_argv", [sys.executable, "-X", "dev", "-m", module, "--json", "file"])


@pytest.fixture
def ending(monkeypatch):
    """Let SIGINT do to this process what it does to a command, but for the end itself, which raises SystemExit."""
    located(monkeypatch, "jaxdml")
    monkeypatch.setattr(os, "_exit", sys.exit)
    _commands.end_at_ctrl_c("jaxdml")


@pytest.mark.parametrize("earlier", [None, "what was there\n"])
def test_ctrl_c_while_it_writes_changes_no_file(earlier, ending, monkeypatch, tmp_path, capfd):
    file = tmp_path / "report.json"
    if earlier:
        file.write_text(earlier)

    def half(report, **options):
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(_selfcheck, "run", lambda **options: {"agrees": True})
    monkeypatch.setattr(__main__.json, "dumps", half)
    with pytest.raises(SystemExit, match="130"):
        __main__.main(["--json", str(file)])
    assert capfd.readouterr().err == "Interrupted.\n"
    assert [(path, path.read_text()) for path in tmp_path.iterdir()] == ([(file, earlier)] if earlier else [])


def test_ctrl_c_removes_what_is_unfinished_before_it_ends(monkeypatch, tmp_path):
    located(monkeypatch, "jaxdml")
    monkeypatch.setattr(os, "_exit", lambda status: left.extend([status, *tmp_path.iterdir()]))
    _commands.end_at_ctrl_c("jaxdml")
    left = []
    with _commands.unfinished(tmp_path / "folder") as folder, _commands.unfinished(tmp_path / "file") as file:
        (folder / "within").mkdir(parents=True)
        file.touch()
        os.kill(os.getpid(), signal.SIGINT)
    assert left == [130]
    assert _commands._unfinished == []


def test_what_is_unfinished_is_removed_after_an_exception_too(tmp_path):
    def fail(path, make):
        with _commands.unfinished(path):
            make(path)
            raise ValueError("half")

    for make in (Path.mkdir, Path.touch):
        with pytest.raises(ValueError, match="half"):
            fail(tmp_path / "something", make)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("module", "argv", "taken"),
    [
        ("jaxdml", ["-m"], True),
        ("jaxdml.__main__", ["-m"], True),
        ("jaxdml_tools", ["-m"], False),
        ("somebody.using.jaxdml", ["-m"], False),
        ("jaxdml", ["pytest"], False),
        ("jaxdml", [], False),
    ],
)
def test_only_our_own_commands_take_ctrl_c(module, argv, taken, monkeypatch):
    usual = signal.getsignal(signal.SIGINT)
    located(monkeypatch, module, argv)
    _commands.end_at_ctrl_c("jaxdml")
    assert (signal.getsignal(signal.SIGINT) is not usual) == taken


def test_a_file_is_written_through_links_and_into_devices(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    link.symlink_to(target)
    for text in ("first\n", "second\n"):
        with _commands.whole_file(link) as file:
            file.write(text)
        assert target.read_text() == text
    assert link.is_symlink()
    with _commands.whole_file(Path(os.devnull)) as file:
        file.write("nothing")
    assert not Path(os.devnull).is_file()
    assert {path.name for path in tmp_path.iterdir()} == {"target", "link"}


def test_a_file_that_may_not_be_written_is_known_at_once(tmp_path):
    with pytest.raises(OSError, match="directory"), _commands.whole_file(tmp_path):
        pass
