"""``python -m benchmarks``: measure jaxdml's operators against their peers on the device that JAX finds."""

import argparse
import fnmatch
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks import display, environment, overheads, plots, report, roofline
from benchmarks.cases import CASES, GROUPS, OPERATORS, Case
from benchmarks.measuring import FAILED, measure
from benchmarks.peers import OURS, PEERS
from jaxdml import _commands

_QUIET = 0.05
"""The cores that other processes may keep busy before a run says that its figures suffer."""


def main(arguments: Sequence[str] | None = None, cases: Sequence[Case] = CASES) -> int:
    """Measure what the command line asks for, and return 1 if jaxdml answered wrong or failed."""
    options = _parser().parse_args(arguments)
    if options.add and not options.out:
        _parser().error("--add: there is no --out to add to")
    if unknown := set(options.operators) - set(OPERATORS):
        _parser().error(f"no operator {', '.join(sorted(unknown))}; there are {', '.join(OPERATORS)}")
    chosen = [case for case in cases if _asked_for(case, options.operators, options.cases)]
    if not chosen:
        _parser().error("no case matches; --list shows them all")
    if options.list:
        for case in chosen:
            display.console.print(f"{case.group}: {case.name} ({case.origin})", markup=False, soft_wrap=True)
        return 0

    earlier = report.read(options.out) if options.add else None
    plan = {"rounds": options.rounds, "budget_s": options.budget}
    environment.dispatch(options.async_dispatch)
    found = environment.describe() | {"asynchronous_dispatch": options.async_dispatch}
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    display.console.print(f"{found['device']}; commit {found['commit']}; {versions}", markup=False, soft_wrap=True)
    if earlier and any(earlier["environment"][key] != found[key] for key in ("device", "commit", "versions")):
        _parser().error("--add: the report there is of another device, commit or version")
    begin, before = time.perf_counter(), environment.busy()
    roof = roofline.measure(**plan)
    entries = [report.entry(case, measure(case, options.peers, **plan), roof) for case in display.follow(chosen)]
    found["busy_elsewhere"] = environment.busy_elsewhere(before, time.perf_counter() - begin)
    if (found["busy_elsewhere"] or 0) > _QUIET:
        message = "Other processes kept {busy_elsewhere:.2f} cores busy: measure again when the machine is quiet."
        display.console.print(message.format(**found))
    result = {"environment": found, "roofline": asdict(roof), "cases": entries}
    display.show(entries, options.peers)
    if options.overheads:
        result["overheads"] = overheads.measure(options.rounds)
        display.console.print_json(data=result["overheads"])
    if options.out:
        if earlier:
            named = {(entry["group"], entry["name"]) for entry in entries}
            kept = [entry for entry in earlier["cases"] if (entry["group"], entry["name"]) not in named]
            result = earlier | {"cases": kept + entries}
        _write(result, options.out)
    ours = [reason for peer, _, reason in report.untimed(entries) if peer == OURS]
    return int(any(reason.startswith((report.WRONG, FAILED)) for reason in ours))


def _write(result: Mapping[str, Any], folder: Path) -> None:
    """Write the report and the plots next to ``folder``, and move them there when all are complete."""
    folder.mkdir(parents=True, exist_ok=True)
    with _commands.unfinished(folder / f".{os.getpid()}") as part:
        report.write(result, part)
        plots.draw(report.read(part), part)
        for file in part.iterdir():
            file.replace(folder / file.name)


def _asked_for(case: Case, operators: Sequence[str], patterns: Sequence[str]) -> bool:
    named = (case.name, case.group)
    matches = any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns for name in named)
    return matches and (not operators or case.operator in operators)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("operators", nargs="*", metavar="operator", help=f"of {', '.join(OPERATORS)} (default: all)")
    parser.add_argument("--peers", nargs="+", choices=list(PEERS), default=list(PEERS), help="(default: all)")
    groups = ", ".join(GROUPS)
    parser.add_argument(
        "--cases",
        nargs="+",
        default=["grid", "models"],
        metavar="PATTERN",
        help=f"names of cases or groups, * stands for anything (groups: {groups}; default: grid models)",
    )
    parser.add_argument("--list", action="store_true", help="show what would be measured, and measure nothing")
    parser.add_argument("--out", type=Path, metavar="DIR", help=f"write {report.FILE} and the plots there")
    parser.add_argument("--add", action="store_true", help="keep the other cases that the report there has")
    parser.add_argument("--rounds", type=int, default=9, help="samples of each contender (default: 9)")
    parser.add_argument("--budget", type=float, default=2.0, metavar="S", help="seconds for one contender (default: 2)")
    parser.add_argument(
        "--async-dispatch", action="store_true", help="leave JAX's programs for the CPU to a thread of their own"
    )
    parser.add_argument("--overheads", action="store_true", help="also measure tracing, compiling and eager calls")
    return parser


if __name__ == "__main__":
    environment.settle()
    sys.exit(main())
