"""On arrays sharded over two processes every operator gives the bits that it gives on one device."""

import json
import os
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests import two_processes
from tests.kit import THOROUGH

ROOT = Path(__file__).parents[1]

RIGHT_WITHIN = 600
"""Seconds that two processes may take for a part of the cells, on a busy machine. On a quiet one they take about 5."""

ENDS_WITHIN = 6 * two_processes.GIVEN_UP
"""Seconds that a process may live after the other was killed."""

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="JAX has no collectives between processes on Windows")


@contextmanager
def both(folder, *options):
    """Start two processes; at the end of the block kill what still runs. Their output and reports are in ``folder``."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    try:
        socket.getaddrinfo(socket.gethostname(), None)
    except OSError:
        pytest.skip("gloo cannot connect processes on a machine that does not know the address of its own name")
    folder.mkdir(exist_ok=True)
    running = []
    try:
        for process in range(two_processes.COUNT):
            arguments = [process, port, folder / f"report_{process}", *options]
            with (folder / f"output_{process}").open("w") as output:
                command = [sys.executable, "-W", "error", "-m", "tests.two_processes", *map(str, arguments)]
                # gRPC asks a proxy for every address that is not excluded.
                env = os.environ | {"no_grpc_proxy": "127.0.0.1"}
                running.append(subprocess.Popen(command, cwd=ROOT, env=env, stdout=output, stderr=subprocess.STDOUT))
        yield running
    finally:
        for process in running:
            process.kill()
            process.wait()


def end(folder, running, limit):
    """Wait for processes to end, all within a time limit; return their statuses."""
    deadline = time.monotonic() + limit
    try:
        return [process.wait(max(0, deadline - time.monotonic())) for process in running]
    except subprocess.TimeoutExpired:
        said = "\n".join(f"{file.name}:\n{file.read_text()}" for file in sorted(folder.iterdir()))
        pytest.fail(f"a process still runs after {limit} s\n{said}")


def outcomes(folder, process):
    """Return what a process reported, by name."""
    report = folder / f"report_{process}"
    assert report.exists(), (folder / f"output_{process}").read_text()
    return dict(map(json.loads, report.read_text().splitlines()))


@pytest.mark.parametrize("part", range(len(two_processes.PARTS)))
def test_two_processes_give_the_bits_of_the_oracle(tmp_path, part):
    with both(tmp_path, "compare", part) as running:
        statuses = end(tmp_path, running, RIGHT_WITHIN)
    for process in range(two_processes.COUNT):
        got = outcomes(tmp_path, process)
        assert len(got) == len(two_processes.PARTS[part])
        assert set(got.values()) == {"same bits"}, "\n".join(f"{cell}: {said}" for cell, said in got.items())
    assert statuses == [0, 0]


# Process 0 serves the others, so its loss is found in another way.
KILLED = range(two_processes.COUNT) if THOROUGH else (0,)


def test_a_process_ends_with_an_error_when_the_other_is_killed(tmp_path):
    with ExitStack() as stack:
        # All pairs run at once.
        folders = {lost: tmp_path / f"lost_{lost}" for lost in KILLED}
        pairs = {lost: stack.enter_context(both(folder, "lose", lost)) for lost, folder in folders.items()}
        for lost, running in pairs.items():
            folder, survivor = folders[lost], 1 - lost
            end(folder, [running[lost]], RIGHT_WITHIN)
            (status,) = end(folder, [running[survivor]], ENDS_WITHIN)
            assert outcomes(folder, lost) == outcomes(folder, survivor) == {"first call": "passed"}
            assert status != 0
            # The collective fails, or else JAX ends the process.
            said = (folder / f"output_{survivor}").read_text()
            assert "Connection closed by peer" in said or "another task died" in said
