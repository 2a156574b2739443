"""What the commands share: Ctrl-C ends them with one line, and a file appears whole or not at all."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

INTERRUPTED = 128 + signal.SIGINT
"""The exit status that shells give to what Ctrl-C ended."""


def _say() -> None:
    # A terminal has just shown ^C.
    print("\nInterrupted." if sys.stderr.isatty() else "Interrupted.", file=sys.stderr, flush=True)


def _end(*_: Any) -> None:
    _say()
    os._exit(INTERRUPTED)


def end_at_once_while_importing() -> None:
    """Let Ctrl-C end a command that still imports JAX, which takes a second.

    ``python -m`` imports the package before the command runs, and so before the command can catch anything. Python's
    documentation promises that ``sys.argv[0]`` is ``-m`` until then. For everybody else this does nothing.
    """
    if sys.argv[:1] == ["-m"]:
        signal.signal(signal.SIGINT, _end)


end_at_once_while_importing()


def run(main: Callable[[], int]) -> int:
    """Run a command and return its exit status; Ctrl-C raises KeyboardInterrupt within, so that it can clean up."""
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        return main()
    except KeyboardInterrupt:
        pass  # With the exception go the frames that it holds, and the progress bars in them.
    finally:
        # All is done. What follows is Python's own end, which would answer Ctrl-C with a traceback.
        signal.signal(signal.SIGINT, _end)
    _say()
    return INTERRUPTED


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
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with part.open("x", encoding="utf-8") as file:
            yield file
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
