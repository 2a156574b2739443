"""Build, write and read the report of a run.

``report.json`` holds::

    environment   device, host, platform, threads, versions, flags, date, commit,
                  asynchronous_dispatch: whether JAX handed programs for the CPU to another thread, and
                  busy_elsewhere: how many cores worked for other processes meanwhile
    roofline      copy_gb_per_s: by the bytes of the working set; int8_gop_per_s
    overheads     see benchmarks/overheads.py; absent where they were not asked for
    cases         a list, and for each of them
      name, operator, group, size, dtype, data, origin, options, at     what jaxdml/_cases says of it
      bytes, operations    what it has to move and compute at least
      floor_us             how long that takes by the roofline
      contenders           for each peer that was asked for
        absent        why it does not do the case, "failed: ..." where it raised, or null
        verdict       elements compared and different, whether that is accepted, and what was promised; or null
        compile_s     or null where nothing is compiled
        timing        median_us, lower_quartile_us, upper_quartile_us, samples, calls_per_sample; null for a
                      peer that is absent or wrong
"""

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from benchmarks.cases import Case
from benchmarks.peers import OURS
from benchmarks.roofline import Roofline
from jaxdml import _commands

FILE = "report.json"
WRONG = "wrong:"
GRIDS = "grid", "accelerators"
"""Groups that cross sizes with dtypes."""

_SAID = [field.name for field in fields(Case) if field.name not in ("draw", "draws")]


def entry(case: Case, contenders: Mapping[str, Any], roofline: Roofline) -> dict[str, Any]:
    """Return the entry of a case."""
    said = {name: getattr(case, name) for name in ("name", *_SAID)}
    return said | {"floor_us": roofline.floor_us(case.bytes, case.operations), "contenders": contenders}


def title(environment: Mapping[str, Any]) -> str:
    """Name the device, and how JAX dispatched if that was asynchronous."""
    asynchronous = environment.get("asynchronous_dispatch", False)
    return f"{environment['device']}{', with asynchronous dispatch' if asynchronous else ''}"


def medians(case: Mapping[str, Any]) -> dict[str, float]:
    """Return the median of every contender that was timed, in microseconds."""
    timed = ((peer, contender["timing"]) for peer, contender in case["contenders"].items())
    return {peer: timing["median_us"] for peer, timing in timed if timing}


def others(case: Mapping[str, Any]) -> dict[str, float]:
    """Return the medians of the other libraries; jaxdml with a packed matrix is none of them."""
    return {peer: us for peer, us in medians(case).items() if not peer.startswith(OURS)}


def ratio(case: Mapping[str, Any]) -> float | None:
    """Return how many times as long as jaxdml the best of the others takes."""
    ours, best = medians(case).get(OURS), min(others(case).values(), default=None)
    return best / ours if ours and best else None


def fraction(case: Mapping[str, Any]) -> float | None:
    """Return the part of the roofline that jaxdml reaches."""
    ours = medians(case).get(OURS)
    return case["floor_us"] / ours if ours else None


def ratios(cases: Iterable[Mapping[str, Any]]) -> list[float]:
    """Return the ratios of those cases that have one."""
    return [value for value in map(ratio, cases) if value is not None]


def geometric_mean(values: Iterable[float]) -> float:
    """Return the geometric mean: the mean of b / a is one over the mean of a / b."""
    logarithms = list(map(math.log, values))
    return math.exp(sum(logarithms) / len(logarithms))


def untimed(cases: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str, str]]:
    """Yield the peer, the case and the reason wherever a peer has no time."""
    for case in cases:
        for peer, contender in case["contenders"].items():
            if contender["absent"]:
                yield peer, case["name"], contender["absent"]
            elif not contender["timing"]:
                yield (
                    peer,
                    case["name"],
                    f"{WRONG} {{different}} of {{compared}} elements".format(**contender["verdict"]),
                )


def missing(cases: Iterable[Mapping[str, Any]]) -> Counter[tuple[str, str]]:
    """Count the cases for each peer and reason to have no time."""
    return Counter((peer, reason) for peer, _, reason in untimed(cases))


def write(report: Mapping[str, Any], folder: Path) -> None:
    """Write a report and create its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with _commands.whole_file(folder / FILE) as file:
        file.write(json.dumps(report, indent=1) + "\n")


def read(folder: Path) -> dict[str, Any]:
    """Read a report."""
    return dict(json.loads((folder / FILE).read_text(encoding="utf-8")))
