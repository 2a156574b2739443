"""Answer ``python -m jaxdml``: is this device right, and how fast is it?"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from jaxdml import _selfcheck


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the self-check and return the exit status: 1 if anything disagrees with the oracle."""
    parser = argparse.ArgumentParser(
        prog="python -m jaxdml",
        description="Compare every operator with its oracle on this device, bit for bit, and its speed with stock JAX.",
    )
    parser.add_argument("--quick", action="store_true", help="run a tenth of the cases and time nothing")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write everything to FILE")
    parser.add_argument("--seed", type=int, default=0, help="draw the data from this seed (default: 0)")
    options = parser.parse_args(arguments)
    if options.json:
        try:
            options.json.touch()  # Better now than after a minute's work.
        except OSError as error:
            parser.error(f"cannot write --json {options.json}: {error.strerror}")
    report = _selfcheck.run(quick=options.quick, seed=options.seed)
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 0 if report["agrees"] else 1


if __name__ == "__main__":
    sys.exit(main())
