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
    ("command", "sign"),
    [
        (["-m", "jaxdml", "--json"], "Device"),
        (["-m", "benchmarks", "top_k", "--peers", "jaxdml", "--out"], "commit"),
    ],
    ids=lambda part: part[1] if isinstance(part, list) else "",
)
def test_ctrl_c_at_work(command, sign, tmp_path):
    status, _, errors = interrupted([*command, str(tmp_path / "report")], "stdout", sign)
    assert (status, errors.splitlines()) == (130, ["Interrupted."])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("earlier", [None, "what was there\n"])
def test_ctrl_c_while_it_writes_changes_no_file(earlier, monkeypatch, tmp_path, capsys):
    file = tmp_path / "report.json"
    if earlier:
        file.write_text(earlier)

    def half(report, **options):
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(_selfcheck, "run", lambda **options: {"agrees": True})
    monkeypatch.setattr(__main__.json, "dumps", half)
    assert _commands.run(lambda: __main__.main(["--json", str(file)])) == 130
    assert capsys.readouterr().err == "Interrupted.\n"
    assert [(path, path.read_text()) for path in tmp_path.iterdir()] == ([(file, earlier)] if earlier else [])


def test_what_follows_a_command_ends_at_once(monkeypatch, capsys):
    assert _commands.run(lambda: 7) == 7
    ended = []
    monkeypatch.setattr(os, "_exit", ended.append)
    os.kill(os.getpid(), signal.SIGINT)
    assert (ended, capsys.readouterr().err) == ([130], "Interrupted.\n")


@pytest.mark.parametrize(("argv", "taken"), [(["-m"], True), (["pytest"], False), ([], False)])
def test_only_a_command_takes_ctrl_c_at_import(argv, taken, monkeypatch):
    usual = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(sys, "argv", argv)
    _commands.end_at_once_while_importing()
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
