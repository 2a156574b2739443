"""What the commands share: Ctrl-C ends them with one line, and a file appears whole or not at all."""

import os
import re
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

INTERRUPTED = 130
"""The exit status that shells give to what Ctrl-C ended."""

_SHOW_CURSOR = "\x1b[?25h"
"""Tells a terminal to show the cursor, which progress bars hide."""

_unfinished: list[Path] = []
"""Files and folders to remove when Ctrl-C ends the command."""


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _end(*_: Any) -> None:
    """End the process at once.

    To raise KeyboardInterrupt instead was tried. When it hits one of JAX's garbage collection callbacks, Python prints
    a traceback and goes on; and a Python that ended while XLA compiled crashed now and then.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for path in _unfinished:
        _remove(path)
    with suppress(Exception):  # It may have been the flushing of the same stream that was interrupted.
        sys.stdout.flush()
    os.write(2, f"{_SHOW_CURSOR}\nInterrupted.\n".encode() if os.isatty(2) else b"Interrupted.\n")
    os._exit(INTERRUPTED)


def end_at_ctrl_c(package: str) -> None:
    """Let Ctrl-C end this process with one line if it is ``python -m package``; otherwise do nothing.

    ``python -m`` imports the package before the command, and JAX with it, which takes a second. So a package calls this
    when it is imported. Python's documentation promises that ``sys.argv[0]`` is ``-m`` then, and only then. Another
    program that imports the package while it is located itself has another name there.
    """
    _, _, named = " ".join(sys.orig_argv).partition(" -m ")
    if sys.argv[:1] == ["-m"] and re.match(rf"{package}(\.|\s|$)", named):
        signal.signal(signal.SIGINT, _end)


end_at_ctrl_c("jaxdml")


@contextmanager
def unfinished(path: Path) -> Iterator[Path]:
    """Remove the file or folder afterwards if it is still there, and also if Ctrl-C ends the command before that."""
    _unfinished.append(path)
    try:
        yield path
    finally:
        _remove(path)
        _unfinished.remove(path)


@contextmanager
def whole_file(path: Path) -> Iterator[IO[str]]:
    """Open a text file that gets its name when it is complete; until then, and after an exception, nothing changes."""
    if path.exists() and not path.is_file():
        # Such as /dev/stdout, which nothing may replace.
        with path.open("w", encoding="utf-8") as file:
            yield file
        return
    path = path.resolve()
    if path.exists():
        path.open("a", encoding="utf-8").close()  # May it be written at all?
    with unfinished(path.with_name(f".{path.name}.{os.getpid()}")) as part:
        with part.open("x", encoding="utf-8") as file:
            yield file
        part.replace(path)
