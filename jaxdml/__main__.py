"""Answer ``python -m jaxdml``: is this device right, and how fast is it?"""

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from jaxdml import _commands, _selfcheck


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the self-check and return the exit status: 1 if anything disagrees with the oracle."""
    parser = argparse.ArgumentParser(
        prog="python -m jaxdml",
        description="Compare every operator with its oracle on this device, bit for bit, and its speed with stock JAX. "
        "Where JAX sees several devices, also compare every operator on arrays that are sharded over them.",
    )
    parser.add_argument(
        "--thorough", action="store_true", help="run every case with every dtype, which takes some minutes"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write everything to FILE")
    parser.add_argument("--seed", type=int, default=0, help="draw the data from this seed (default: 0)")
    options = parser.parse_args(arguments)
    with ExitStack() as stack:
        file = None
        if options.json:
            try:
                # Opened before the work, to hear at once if it cannot be written.
                file = stack.enter_context(_commands.whole_file(options.json))
            except OSError as error:
                parser.error(f"cannot write --json {options.json}: {error.strerror}")
        report = _selfcheck.run(thorough=options.thorough, seed=options.seed)
        if file:
            file.write(json.dumps(report, indent=1) + "\n")
    return 0 if report["agrees"] else 1


if __name__ == "__main__":
    sys.exit(main())
