"""Compare two reports: an earlier version with this one, or one device with another."""

import argparse
import math
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.peers import OURS
from benchmarks.reporting import display, journal, report
from benchmarks.reporting.tables import microseconds, on_console

SLOWER = 0.05
"""How much longer than before a call may take, by default."""

WIDE = 0.15
"""A median that is known no better than this, as a fraction, was disturbed, whatever else is known of it."""

_SETTINGS = (
    "device",
    "devices",
    "platform",
    "clock",
    "asynchronous_dispatch",
    "versions",
    "flags",
    "plan",
    "machine",
    "gpu",
)
"""What two reports should have in common, apart from the commit."""


DISTURBED, ONE_PROCESS = "disturbed", "one process"


class Change(NamedTuple):
    """How many times as long a call takes now; the ends hold it with a confidence of about 95 %."""

    name: str
    then_us: float
    now_us: float
    low: float
    high: float
    unsure: str = ""
    """Why the change decides nothing: it was disturbed, or measured in one process only, then or now."""

    @property
    def ratio(self) -> float:
        """Now by then."""
        return self.now_us / self.then_us

    def slower_than(self, fraction: float) -> bool:
        """Whether it is surely slower by more than a fraction of then."""
        return not self.unsure and self.low > 1 + fraction


def changes(then: Mapping[str, Any], now: Mapping[str, Any], peer: str = OURS) -> list[Change]:
    """Return how the calls of a peer changed that both reports have."""
    before = {_key(case): case for case in then["cases"]}
    pairs = [(before.get(_key(case)), case) for case in now["cases"]]
    return [change for old, new in pairs if old for change in _change(old, new, peer)]


def _key(case: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what two reports call the same: what earlier ones call so had traced scales."""
    return case["group"], case["name"], *case.get("known", ())


def _change(old: Mapping[str, Any], new: Mapping[str, Any], peer: str) -> Iterator[Change]:
    first, second = (case["contenders"].get(peer, {}).get("timing") for case in (old, new))
    if first and second:
        # Both medians are uncertain: their logarithms' errors add up as squares do.
        low, high = (
            math.exp(math.log(second["median_us"] / first["median_us"]) + sign * _error(first, second))
            for sign in (-1, 1)
        )
        yield Change(new["name"], first["median_us"], second["median_us"], low, high, _unsure(old, new, peer))


def _unsure(old: Mapping[str, Any], new: Mapping[str, Any], peer: str) -> str:
    """Say why a comparison decides nothing, if it does not."""
    timings = [case["contenders"][peer]["timing"] for case in (old, new)]
    wide = any(timing["high_us"] - timing["low_us"] > 2 * WIDE * timing["median_us"] for timing in timings)
    if wide or not (report.quiet(old) and report.quiet(new)):
        return DISTURBED
    return "" if min(case["visits"] for case in (old, new)) > 1 else ONE_PROCESS


def _error(first: Mapping[str, float], second: Mapping[str, float]) -> float:
    return math.hypot(*(math.log(each["high_us"] / each["low_us"]) / 2 for each in (first, second)))


def together(found: Sequence[Change]) -> tuple[float, float, float]:
    """Return the geometric mean of the ratios, and the ends that hold it with a confidence of 95 %."""
    logarithms = np.log([change.ratio for change in found])
    draws = np.random.default_rng(0).choice(logarithms, (2000, len(found))).mean(axis=1)
    low, high = np.quantile(draws, (0.025, 0.975))
    return math.exp(logarithms.mean()), math.exp(low), math.exp(high)


def show(then: Mapping[str, Any], now: Mapping[str, Any], slower: float, folder: Path | None = None) -> int:
    """Show what changed, draw it, and return how much of it is slower by more than is allowed."""
    found = sorted(changes(then, now), key=lambda change: -change.ratio)
    if not found:
        raise journal.UnreadableError("the two reports have no case in common.")
    names = [f"{each['environment']['device']}, {each['environment']['commit']}" for each in (then, now)]
    display.console.print(f"Then: {names[0]}. Now: {names[1]}.", markup=False, soft_wrap=True)
    for said in _settings(then["environment"], now["environment"]):
        display.console.print(said, markup=False, soft_wrap=True)
    rows = []
    for each in found:
        times = (microseconds(us) for us in (each.then_us, each.now_us))
        said = "slower" if each.low > 1 + slower else "faster" if each.high < 1 / (1 + slower) else ""
        said = ", ".join(filter(None, (said, each.unsure)))
        rows.append((each.name, *times, f"{each.ratio:.3f}", f"{each.low:.3f} and {each.high:.3f}", said))
    header = "case", "then (us)", "now (us)", "now / then", "95 % between", ""
    display.console.print(on_console(header, rows))
    # What else a machine does slows all calls alike: such cases say nothing together.
    sure = [change for change in found if not change.unsure]
    if sure:
        mean, low, high = together(sure)
        display.console.print(f"Together {len(sure)} cases: {mean:.3f}, between {low:.3f} and {high:.3f}.")
    counts = Counter(change.unsure for change in found)
    if disturbed := counts[DISTURBED]:
        what = f"by other processes, or known no better than within {WIDE:.0%}, then or now"
        display.console.print(f"{disturbed} of {len(found)} cases were disturbed, {what}: they decide nothing.")
    if alone := counts[ONE_PROCESS]:
        what = "then or now: they decide nothing. Measure both with --visits 3"
        display.console.print(f"{alone} of {len(found)} cases were measured in one process only, {what}.")
    others = [change for peer in ("lax", "numpy", "onnxruntime", "torch") for change in changes(then, now, peer)]
    if others:
        display.console.print(f"Other libraries, which did not change: {together(others)[0]:.3f}.")
    if folder:
        from benchmarks.reporting.plots import draw_changes

        draw_changes(found, folder / "against.png")
    count = sum(each.slower_than(slower) for each in sure)
    display.console.print(f"{count} of the {len(sure)} cases that decide are slower by more than {slower:.0%}.")
    return count + int(bool(sure) and low > 1 + slower)


def _settings(then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Say which settings, versions and parts of the machine differ, as far as both reports say them."""
    there = [name for name in _SETTINGS if name in then and name in now]
    for name, first, second in differences(then, now, there):
        yield f"Then and now differ in {name.replace('_', ' ')}: {first}, now {second}."


def differences(
    then: Mapping[str, Any], now: Mapping[str, Any], names: Iterable[str]
) -> Iterator[tuple[str, Any, Any]]:
    """Yield what of these differs, of parts with names only those that do, as it was and as it is."""
    for name in names:
        first, second = then.get(name), now.get(name)
        if first != second:
            if isinstance(first, Mapping) and isinstance(second, Mapping):
                keys = [key for key in {**first, **second} if first.get(key) != second.get(key)]
                first, second = ({key: each.get(key) for key in keys} for each in (first, second))
            yield name, first, second


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what a comparison asks for."""
    parser.add_argument(
        "--slower",
        type=float,
        default=SLOWER,
        metavar="FRACTION",
        help="in a comparison, the exit status is 1 if a case is surely slower by more, undisturbed and in several"
        f" processes (default: {SLOWER})",
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare the reports that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks compare", description=__doc__)
    parser.add_argument("then", type=Path, help="a report, or its folder")
    parser.add_argument("now", type=Path, help="another one")
    parser.add_argument("--out", type=Path, metavar="DIR", help="draw a picture there")
    add_options(parser)
    options = parser.parse_args(arguments)
    try:
        return int(show(report.read(options.then), report.read(options.now), options.slower, options.out) > 0)
    except (journal.UnreadableError, OSError) as error:
        display.console.print(f"python -m benchmarks compare: {error}", markup=False, soft_wrap=True)
        return 2


if __name__ == "__main__":
    sys.exit(main())
