"""Measure jaxdml's operators, and whole models, against their peers on the device that JAX finds.

Every result is on disk as soon as it is measured. The same command again goes on where the last one stopped.
"""

import argparse
import fnmatch
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import environment
from benchmarks.cases import CASES, GROUPS, MODELS, OPERATORS, Case, sharded, whole_models
from benchmarks.cases.order import in_order, of_each_operator
from benchmarks.measuring import one_case, overheads, roofline, watching
from benchmarks.peers import OURS, PEERS
from benchmarks.reporting import compare, display, journal, plots, report
from benchmarks.timing import clocks
from benchmarks.timing.by_calls import FEWEST, Timing

_SAME = "device", "devices", "clock", "commit", "versions", "flags", "asynchronous_dispatch", "plan", "peers"
"""What must be as it was for a run to go on."""


_ALWAYS = ["grid", "models", whole_models.GROUP]
"""The groups that are measured where none is asked for."""

_TOLD, _INTERRUPTED = 2, 130
"""The status of a run that said why it cannot be, and of one that was interrupted."""


def main(arguments: Sequence[str] | None = None, cases: Sequence[Case] | None = None) -> int:
    """Measure what the command line asks for; return 1 if jaxdml answered wrong, failed or is slower than asked.

    Args:
      arguments: of the command line.
      cases: to choose from; if they are given, this process measures them itself.
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    options.given = list(sys.argv[1:] if arguments is None else arguments)
    options.here = cases is not None
    if unknown := set(options.operators) - {*OPERATORS, *MODELS}:
        parser.error(f"no operator {', '.join(sorted(unknown))}; there are {', '.join((*OPERATORS, *MODELS))}")
    if options.devices < 1:
        parser.error("--devices is a number of devices, from 1 on")
    known = _all(options.devices) if cases is None else cases
    patterns = options.cases or (_ALWAYS if options.devices == 1 else ["*"])
    chosen = in_order([case for case in known if _asked_for(case, options.operators, patterns)])
    if not chosen:
        parser.error("no case matches; --list shows them all")
    if options.list:
        for case in chosen:
            display.console.print(f"{case.group}: {case.name} ({case.origin})", markup=False, soft_wrap=True)
        return 0
    try:
        environment.need(options.devices)
        against = report.read(options.against) if options.against else None
        return _run(options, chosen, against)
    except (journal.UnreadableError, environment.TooFewError, _OtherError, OSError) as error:
        display.console.print(f"python -m benchmarks: {error}", markup=False, soft_wrap=True)
        return _TOLD
    except _ToldError:
        return _TOLD
    except KeyboardInterrupt:
        if not options.visit:
            display.console.print(f"What was measured is in {options.out}; the same command goes on.")
            print("Interrupted.", file=sys.stderr)
        return _INTERRUPTED


def _run(options: argparse.Namespace, chosen: Sequence[Case], against: Mapping[str, Any] | None) -> int:
    end = options.end or (time.time() + 60 * options.minutes if options.minutes else None)
    if options.visit or options.here:
        _visit(options, chosen, end)
    else:
        _visits(options, chosen, end)
    return 0 if options.visit else _conclude(options, chosen, against)


def _visits(options: argparse.Namespace, chosen: Sequence[Case], end: float | None) -> None:
    """Visit all cases, each time in a process of its own: processes differ from one another, and may break."""
    command = [sys.executable, "-m", "benchmarks", "measure", *options.given, *(["--end", str(end)] if end else [])]
    with watching.board(options.out) as board:
        for visit in range(1, options.visits + 1):
            if options.visits > 1:
                display.console.print(f"Visit {visit} of {options.visits}.")
            _watched(options, chosen, [*command, "--visit", str(visit)], board)


def _watched(options: argparse.Namespace, chosen: Sequence[Case], command: list[str], board: watching.Board) -> None:
    """Run a visit, again and again where a library breaks it."""
    while wrong := watching.watch(command, board, options.limit):
        at = board.read()
        if wrong.endswith(f" {_TOLD}"):
            raise _ToldError
        if at.case < 0:
            raise _OtherError(f"{wrong}; what was measured is in {options.out}.")
        case, peer = chosen[at.case], None if at.peer < 0 else options.peers[at.peer]
        report.add(options.out, "broken", [case.group, case.name, peer, wrong])
        display.console.print(f"{case.name}: {peer or 'all'}: {wrong}. The rest goes on.", markup=False)


def _visit(options: argparse.Namespace, chosen: Sequence[Case], end: float | None) -> None:
    """Measure what the report does not have yet, and again what was disturbed."""
    plan = {"rounds": options.rounds, "budget_s": options.budget, "spread": options.spread}
    written = _begun(options, plan)
    board, parent = watching.Board(options.out) if options.visit else None, os.getppid()
    visit = max(1, options.visit)
    there = {(case["group"], case["name"]) for case in written["cases"] if case["visited"] >= visit}
    left = [case for case in chosen if (case.group, case.name) not in there]
    if len(left) < len(chosen):
        display.console.print(f"{len(chosen) - len(left)} of {len(chosen)} cases are in {options.out} already.")
    brief = [case for case in of_each_operator(chosen) if case in left]

    def measured(case: Case) -> dict[str, Any]:
        def begins(peer: str | None) -> None:
            if os.getppid() != parent:  # Whoever watched this process was killed.
                raise KeyboardInterrupt
            if board:
                board.write(chosen.index(case), options.peers.index(peer) if peer else -1)

        key = [case.group, case.name]
        broken = {peer: reason for *which, peer, reason in written["broken"] if which == key}
        if None in broken:
            taken = one_case.lost(options.peers, f"{one_case.FAILED} {broken[None]}")
        else:
            rounds = {"rounds": min(options.rounds, FEWEST)} if case in brief else {}
            how: dict[str, Any] = plan | rounds
            taken = one_case.measure(case, options.peers, **how, by=options.clock, begins=begins, broken=broken)
        taken |= {"visit": visit, "brief": True if case in brief and not _known(taken, options.spread) else None}
        entry = report.entry(case, taken)
        report.add(options.out, "case", entry)
        return report.complete(entry, options.peers)

    def step(each: _Step) -> dict[str, Any]:
        if isinstance(each, Case):
            return measured(each)
        if board:
            board.write(-1, -1)
        found = roofline.measure(rounds=9, budget_s=0.3) | {"visit": visit}
        report.add(options.out, "roofline", found)
        return found

    roof = [] if written.get("roofline", {}).get("visit", 0) >= visit else [_Roofline()]
    steps: list[_Step] = [*brief, *roof, *(case for case in left if case not in brief)]
    left_out = display.go_through(steps, step, end)
    if not left_out:
        brief = []
        if again := _unsettled(report.read(options.out), chosen):
            display.console.print(f"Disturbed by other processes, or measured briefly: {len(again)}; these once more.")
        display.go_through(again, step, end)
    report.add(options.out, "left_out", [each.name for each in left_out])
    if options.overheads:
        report.add(options.out, "overheads", overheads.measure(options.rounds))


class _Roofline(NamedTuple):
    """The roofline, among the cases."""

    name: str = "the roofline"
    operator: str = "the roofline"


_Step = Case | _Roofline


def _known(taken: Mapping[str, Any], spread: float) -> bool:
    """Whether all medians are known as well as is wanted."""
    timings = (contender["timing"] for contender in taken["contenders"].values() if contender["timing"])
    return all(Timing(**timing).spread <= spread for timing in timings)


def _unsettled(written: Mapping[str, Any], chosen: Sequence[Case]) -> list[_Step]:
    """Return what is to be measured again: what was disturbed, or had few samples."""
    settled = {
        (case["group"], case["name"]) for case in written["cases"] if report.quiet(case) and not case.get("brief")
    }
    roof = [] if report.quiet(written["roofline"]) else [_Roofline()]
    return [*roof, *(case for case in chosen if (case.group, case.name) not in settled)]


def _conclude(options: argparse.Namespace, chosen: Sequence[Case], against: Mapping[str, Any] | None) -> int:
    """Show what was measured, and draw it."""
    result = report.read(options.out)
    named = {(case.group, case.name) for case in chosen}
    entries = [entry for entry in result["cases"] if (entry["group"], entry["name"]) in named]
    display.show(entries)
    if still := [entry["name"] for entry in entries if not report.quiet(entry)]:
        display.console.print(f"Other processes worked during {len(still)} cases: measure again when it is quiet.")
    if result["left_out"]:
        display.console.print(f"No time was left for {len(result['left_out'])} cases; the same command goes on.")
    count, digest = report.digest(result["cases"])
    if count:
        display.console.print(f"Digest of the bits of {count} answers: {digest}.")
    display.console.print(f"Report: {options.out}", markup=False, soft_wrap=True)
    plots.draw(result, options.out)
    ours = [reason for peer, _, reason in report.untimed(entries) if peer == OURS]
    wrong = any(reason.startswith((report.WRONG, one_case.FAILED)) for reason in ours)
    slower = compare.show(against, result, options.slower, options.out) if against else 0
    return int(wrong or slower > 0)


def _all(devices: int) -> Sequence[Case]:
    return CASES if devices == 1 else sharded.cases(devices)


class _ToldError(Exception):
    """The process that measures has said why it cannot."""


class _OtherError(ValueError):
    """The report that is there is of something else."""


def _begun(options: argparse.Namespace, plan: Mapping[str, Any]) -> dict[str, Any]:
    """Begin the report in a folder if there is none, and return what is in it."""
    environment.dispatch(options.async_dispatch)
    found = journal.head(
        asynchronous_dispatch=options.async_dispatch,
        devices=options.devices,
        clock=clocks.CLOCKS[options.clock or clocks.clock()],
        plan=plan,
        peers=options.peers,
        **({"commit": options.commit} if options.commit else {}),
    )
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    for said in (f"{found['device']}; commit {found['commit']}; {versions}", report.machine(found)):
        display.console.print(said, markup=False, soft_wrap=True)
    file = options.out / report.FILE
    if file.exists() and file.stat().st_size:
        now = report.rounded({key: found[key] for key in _SAME})
        then = {"devices": 1} | report.read(options.out)["environment"]
        if other := [f"{key} {first}, not {second}" for key, first, second in compare.differences(then, now, _SAME)]:
            what = f"the report in {options.out} has {', '.join(other)}, so it cannot go on"
            raise _OtherError(f"{what}. Choose another --out, or remove it.")
    else:
        journal.begin(file, report.rounded(found))
    return report.read(options.out)


def _asked_for(case: Case, operators: Sequence[str], patterns: Sequence[str]) -> bool:
    named = (case.name, case.group)
    matches = any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns for name in named)
    return matches and (not operators or case.operator in operators)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks measure", description=__doc__)
    parser.add_argument(
        "operators", nargs="*", metavar="operator", help=f"of {', '.join((*OPERATORS, *MODELS))} (default: all)"
    )
    parser.add_argument("--peers", nargs="+", choices=list(PEERS), default=list(PEERS), help="(default: all)")
    groups = ", ".join((*GROUPS, sharded.SHARDED, sharded.GROWTH))
    parser.add_argument(
        "--cases",
        nargs="+",
        metavar="PATTERN",
        help=f"names of cases or groups, * stands for anything (groups: {groups}; default: {', '.join(_ALWAYS)})",
    )
    parser.add_argument(
        "--devices",
        type=int,
        default=1,
        metavar="N",
        help="measure sharded calls on N devices, and work that grows with them; a CPU makes virtual ones (default: 1)",
    )
    parser.add_argument("--list", action="store_true", help="show what would be measured, and measure nothing")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", default=Path("jaxdml-report"), help="of the report (default: jaxdml-report)"
    )
    parser.add_argument("--minutes", type=float, metavar="M", help="stop after so long; what says most comes first")
    parser.add_argument("--rounds", type=int, default=25, help="samples of each contender at most (default: 25)")
    parser.add_argument("--budget", type=float, default=2.0, metavar="S", help="seconds for one contender (default: 2)")
    parser.add_argument(
        "--spread",
        type=float,
        default=0.02,
        metavar="FRACTION",
        help="stop a case when its medians are known so well, with a confidence of 95 %% (default: 0.02)",
    )
    parser.add_argument("--clock", choices=list(clocks.CLOCKS), help="how to time (default: as the device allows)")
    parser.add_argument(
        "--async-dispatch", action="store_true", help="leave JAX's programs for the CPU to a thread of their own"
    )
    parser.add_argument(
        "--visits", type=int, default=1, metavar="N", help="visit all cases so often, each time in a new process"
    )
    parser.add_argument(
        "--limit",
        type=float,
        default=300,
        metavar="S",
        help="seconds after which a library that does not answer is given up for a case (default: 300)",
    )
    parser.add_argument("--visit", type=int, default=0, help=argparse.SUPPRESS)  # What a visit is told.
    parser.add_argument("--end", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--commit", metavar="NAME", help="of a copy without its history (default: git's)")
    parser.add_argument("--overheads", action="store_true", help="also measure tracing, compiling and eager calls")
    compare.add_options(parser)
    parser.add_argument("--against", type=Path, metavar="REPORT", help="compare with an earlier report")
    return parser


if __name__ == "__main__":
    # Those who measure are processes of their own, and their glibc reads this at its start.
    os.environ.update(environment.ALLOCATOR if sys.platform == "linux" else {})
    sys.exit(main())
