"""Measure in a process of its own: a library that hangs or crashes loses its case, and the run goes on."""

import contextlib
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

_FILE = "at-work.bin"

_LOOK_S = 0.1
"""The time between two looks at a process."""


class Step(NamedTuple):
    """What a process is at: the number of a case, and that of a peer.

    Both may be -1: no case has begun, or all peers are being timed. ``number`` grows with every step.
    """

    case: int
    peer: int
    number: int


_NOTHING = Step(-1, -1, 0)


class Board:
    """A few bytes that two processes share: they tell what the one is at, however it ends."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / _FILE
        if not self._file.exists():
            folder.mkdir(parents=True, exist_ok=True)
            np.array(_NOTHING, np.int64).tofile(self._file)
        self._shared = np.memmap(self._file, np.int64, "r+", shape=len(_NOTHING))

    def read(self) -> Step:
        """Return what was written last."""
        return Step(*map(int, self._shared))

    def write(self, case: int, peer: int) -> None:
        """Say what begins."""
        self._shared[:] = case, peer, self._shared[2] + 1


@contextlib.contextmanager
def board(folder: Path) -> Iterator[Board]:
    """Make a board, and remove it afterwards."""
    try:
        yield Board(folder)
    finally:
        (folder / _FILE).unlink(missing_ok=True)


def watch(command: Sequence[str], board: Board, limit_s: float) -> str | None:
    """Run a command until it ends, or stays at one step for too long.

    Args:
      command: writes to the board.
      board: what it is at.
      limit_s: seconds after which a step is given up, and the process killed.

    Returns:
      What went wrong; None where nothing did.
    """
    board.write(-1, -1)
    # Ctrl-C and a request to end come to this process only. They are exceptions here, and so end the other one, too.
    # They wait until it is known, which it is not within Popen.
    asked: list[int] = []
    usual = _handled_by(lambda number, _: asked.append(number))
    try:
        with subprocess.Popen(command, start_new_session=True) as process:
            try:
                _handled_by(signal.default_int_handler)
                if asked:
                    raise KeyboardInterrupt
                return _killed(process, board, limit_s) or _ended(process.returncode)
            finally:
                process.kill()  # It does nothing where the process has ended.
                process.wait()
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)


def _handled_by(handler: Callable[[int, FrameType | None], Any]) -> dict[int, Any]:
    """Set who handles a request to end, and return who did before."""
    return {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}


def _killed(process: subprocess.Popen[bytes], board: Board, limit_s: float) -> str | None:
    seen, since = board.read(), time.monotonic()
    while process.poll() is None:
        time.sleep(_LOOK_S)
        if (now := board.read()) != seen:
            seen, since = now, time.monotonic()
        elif time.monotonic() - since > limit_s:
            return f"no answer in {limit_s:.0f} s"
    return None


def _ended(status: int) -> str | None:
    if status < 0:
        return f"its process was ended by {signal.Signals(-status).name}"
    return f"its process ended with status {status}" if status else None
