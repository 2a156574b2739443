"""What a run of ``python -m benchmarks measure`` reports of its cases.

``report.jsonl`` has these kinds of lines, and is a report after each of them:

    environment   what every report says, and of this command:
                  clock, asynchronous_dispatch: whether JAX handed programs for the CPU to another thread,
                  devices: how many were used,
                  plan: how long each contender was measured, and peers: which were asked for
    roofline      copy_gb_per_s: by the bytes of the working set; int8_gop_per_s; empty_us: a call that does nothing;
                  visit, busy_elsewhere, seconds: as of a case
    case          one for each visit to a case, and for each repetition
      visit       visits are in processes of their own, and reading takes them together; in a visit the last counts that
                  was quiet. A line without a number, as earlier reports have it, is a visit of its own
      brief       whether it had the fewest samples, and its medians are not known as well as the plan wants
      name, operator, group, size, dtype, data, origin, options, at     what benchmarks/cases says of it
      known                places of arguments that were constants of the program; absent in earlier reports
      bytes, operations    what it has to move and compute at least
      digest               of the bits that jaxdml answered, which every device should give; absent if they were wrong
      busy_elsewhere       how many cores worked for other processes meanwhile
      seconds              how long the case took to measure
      contenders           for each peer; what it lacks is left out, and peers that have no way of their own
        absent        why it does not do the case, "failed: ..." where it raised
        verdict       elements compared and different, whether that is accepted, and what was promised
        compile_s     where something is compiled
        timing        the fields of benchmarks.timing.by_calls.Timing; none for a peer that is absent or wrong
        wall_us       of a whole model on an accelerator: the wall time of a call from Python, with ten in flight
        kernels       what the device did in a call of jaxdml
    overheads     see benchmarks/measuring/overheads.py
    broken        a library that ended the process or did not answer: group and name of the case, peer or null, reason
    left_out      the names of cases for which there was no time

Reading adds to a case ``floor_us``: how long what it has to move and compute takes by the roofline, ``visits``: how
many of these count, and ``visited``: how many there were.
"""

import hashlib
import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from benchmarks.cases import KNOWING, Case
from benchmarks.peers import NO_WAY, OURS
from benchmarks.peers.contender import Verdict
from benchmarks.reporting import journal
from benchmarks.timing.by_calls import Timing

FILE = "report.jsonl"
QUIET = 0.1
"""The cores that other processes may keep busy."""

UNSURE, MARK = 0.05, "?"
"""Tables mark a median that is known no better than within this fraction of it."""

WRONG = "wrong:"
GRIDS = "grid", "accelerators"
"""Groups that cross sizes with dtypes."""

TABLES = "models", *GRIDS
"""Groups that tables and pictures show by operator."""

PREPACKED = " prepacked"
"""How the names of peers end that got the right matrix, or filters, beforehand."""

STOCK = "lax"
"""The peer that is what one would write in JAX without jaxdml."""

_LISTS: Mapping[str, Any] = {"verdict": Verdict, "timing": Timing}
"""What a line holds as a list, without the names of its fields."""

_ADDED = "floor_us", "visits", "visited"
"""What reading adds to a case."""

_SAID = [field.name for field in fields(Case) if field.name not in ("draw", "draws")]


def entry(case: Case, found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entry of a case, as a line holds it; ``found`` is what ``measure`` returned."""
    said = {name: getattr(case, name) for name in ("name", *_SAID)}
    return compact(said | dict(found))


def compact(case: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entry of a case as a line holds it."""
    contenders = {peer: _without_names(one) for peer, one in case["contenders"].items() if one["absent"] != NO_WAY}
    return {key: value for key, value in case.items() if key not in _ADDED} | {"contenders": contenders}


def _without_names(contender: Mapping[str, Any]) -> dict[str, Any]:
    lists = {name: list(contender[name].values()) for name in _LISTS if contender[name]}
    return {**contender, **lists}


def title(environment: Mapping[str, Any]) -> str:
    """Name the device, how many there were, and how JAX dispatched if that was asynchronous."""
    name, devices = environment["device"], environment.get("devices", 1)
    if devices > 1:
        name = f"{name}, as {devices} devices" if environment["platform"] == "cpu" else f"{devices} x {name}"
    return f"{name}, with asynchronous dispatch" if environment["asynchronous_dispatch"] else name


def machine(environment: Mapping[str, Any]) -> str | None:
    """Say in a sentence what ran a report; None for one that does not know."""
    if not (found := environment.get("machine")):
        return None
    parts = [f"{found['cpu']}, {found['cores']} cores, threads of every peer: {environment['threads']}"]
    if "memory_bytes" in found:
        parts.append(f"{found['memory_bytes'] / 1e9:.0f} GB")
    parts.append(found["kernel"])
    parts.append(f"hypervisor {found['hypervisor']}" if "hypervisor" in found else "no hypervisor is seen")
    parts += [f"{name.removesuffix('_cache').upper()} {found[name]}" for name in found if name.endswith("_cache")]
    parts += [
        f"{name.replace('_', ' ').replace('.', ' ')} {value}" for name, value in environment.get("gpu", {}).items()
    ]
    return "; ".join(parts)


def medians(case: Mapping[str, Any]) -> dict[str, float]:
    """Return the median of every contender that was timed, in microseconds."""
    timed = ((peer, contender["timing"]) for peer, contender in case["contenders"].items())
    return {peer: timing["median_us"] for peer, timing in timed if timing}


def unsure(case: Mapping[str, Any], peer: str) -> bool:
    """Whether the time of a peer is known no better than within ``UNSURE``, or other processes worked."""
    return not quiet(case) or Timing(**case["contenders"][peer]["timing"]).spread > UNSURE


def best_other(case: Mapping[str, Any], prepacked: bool = False) -> str | None:
    """Name the fastest of the other libraries; if ``prepacked``, also of those that got a matrix beforehand."""
    taken = {peer: us for peer, us in _allowed(case, prepacked).items() if not peer.startswith(OURS)}
    return min(taken, key=taken.__getitem__, default=None)


def ratio(case: Mapping[str, Any], prepacked: bool = False) -> float | None:
    """Return how many times as long as jaxdml the best of the others takes.

    Nobody got a matrix beforehand; or, if ``prepacked``, all might, and the best way of each side counts.
    """
    taken, best = _allowed(case, prepacked), best_other(case, prepacked)
    ours = [us for peer in (OURS, OURS + PREPACKED) if (us := taken.get(peer))]
    return taken[best] / min(ours) if ours and best else None


def _allowed(case: Mapping[str, Any], prepacked: bool) -> dict[str, float]:
    return {peer: us for peer, us in medians(case).items() if prepacked or not peer.endswith(PREPACKED)}


def best_prepacked(case: Mapping[str, Any]) -> str | None:
    """Name the fastest of all other libraries, where one of them got a matrix beforehand."""
    packs = any(peer.endswith(PREPACKED) and not peer.startswith(OURS) for peer in medians(case))
    return best_other(case, prepacked=True) if packs else None


def ratio_prepacked(case: Mapping[str, Any]) -> float | None:
    """Return how many times as long as jaxdml the best of them takes then."""
    return ratio(case, prepacked=True) if best_prepacked(case) else None


def over_stock(case: Mapping[str, Any]) -> float | None:
    """Return how many times as long as jaxdml stock JAX takes, where it answers right."""
    taken = medians(case)
    return taken[STOCK] / taken[OURS] if OURS in taken and STOCK in taken else None


def stock_is_wrong(case: Mapping[str, Any]) -> bool:
    """Whether stock JAX gave another answer than the definition."""
    verdict = case["contenders"].get(STOCK, {}).get("verdict")
    return bool(verdict) and not verdict["accepted"]


def fraction(case: Mapping[str, Any]) -> float | None:
    """Return the fraction of the roofline that jaxdml reaches."""
    ours = medians(case).get(OURS)
    return case["floor_us"] / ours if ours and case["floor_us"] else None


Value = Callable[[Mapping[str, Any]], float | None]
"""A figure that a case may have, such as ``ratio``, ``over_stock`` and ``fraction``."""


def known(value: Value, cases: Iterable[Mapping[str, Any]]) -> list[float]:
    """Return a figure of those cases that have it."""
    return [found for found in map(value, cases) if found is not None]


def row(case: Mapping[str, Any]) -> str:
    """Name the operator for a table, and say if scales were traced that most programs know."""
    operator: str = case["operator"]
    return f"{operator}, traced scales" if operator in KNOWING and not case["known"] else operator


def in_tables(cases: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the cases that tables and pictures show by operator."""
    return [case for case in cases if case["group"] in TABLES]


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


def digest(cases: Iterable[Mapping[str, Any]]) -> tuple[int, str]:
    """Return how many cases were answered right, and one digest of these answers: two devices should give the same."""
    lines = sorted(f"{case['group']} {case['name']} {case['digest']}" for case in cases if case.get("digest"))
    return len(lines), hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def rounded(value: Any) -> Any:
    """Keep four digits of floats, and leave out what is None."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, Mapping):
        return {str(key): rounded(part) for key, part in value.items() if part is not None}
    return [rounded(part) for part in value] if isinstance(value, list | tuple) else value


def add(folder: Path, kind: str, content: Any) -> None:
    """Write a line of the report in a folder."""
    journal.add(folder / FILE, kind, rounded(content))


def write(report: Mapping[str, Any], folder: Path) -> None:
    """Write a whole report."""
    journal.begin(folder / FILE, report["environment"])
    for kind, content in report.items():
        if kind == "cases":
            for case in content:
                add(folder, "case", compact(case))
        elif kind != "environment":
            for line in content if kind == "broken" else [content]:
                add(folder, kind, line)


def read(folder: Path) -> dict[str, Any]:
    """Read a report, of a run that may not have ended."""
    parts = journal.read(folder / FILE if folder.is_dir() else folder)
    several: dict[str, list[Any]] = {"case": [], "broken": [], "roofline": []}
    found = {kind: content for kind, content in parts if kind not in several}
    for kind, content in parts:
        if kind in several:
            several[kind].append(content)
    found |= {"roofline": _roofline(several["roofline"])} if several["roofline"] else {}
    visits: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for case in several["case"]:
        whole = complete(case, found["environment"]["peers"], found.get("roofline"))
        visits.setdefault((case["group"], case["name"]), []).append(whole)
    return found | {"broken": several["broken"], "cases": [_together(each) for each in visits.values()]}


def quiet(found: Mapping[str, Any]) -> bool:
    """Whether no other process worked while a case, or the roofline, was measured, or none that is known of."""
    return (found.get("busy_elsewhere") or 0) <= QUIET


def _roofline(measured: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the best rates of those measurements that were quiet; of all, if none was."""
    counted = list(filter(quiet, measured)) or measured
    best: Mapping[str, Callable[[list[float]], float]] = {
        "int8_gop_per_s": max,
        "empty_us": min,
        "busy_elsewhere": min,
    }
    sizes = counted[0]["copy_gb_per_s"]
    found: dict[str, Any] = {
        "copy_gb_per_s": {size: max(each["copy_gb_per_s"][size] for each in counted) for size in sizes}
    }
    for name, choose in best.items():
        if values := [each[name] for each in counted if name in each]:
            found[name] = choose(values)
    return found | {"visit": max(each.get("visit", 1) for each in measured)}


def floor_us(case: Mapping[str, Any], roofline: Mapping[str, Any] | None) -> float | None:
    """Return the time below which no call can come that moves and computes so much; None where no rates are known."""
    if not roofline:
        return None
    copies = {int(size): rate for size, rate in roofline["copy_gb_per_s"].items()}
    nearest = min(copies, key=lambda measured: abs(measured.bit_length() - case["bytes"].bit_length()))
    moved, computed = case["bytes"] / copies[nearest], case["operations"] / roofline["int8_gop_per_s"]
    return float(max(moved, computed) / 1e3)


def _together(lines: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return one entry of several visits; if some were quiet, of these alone."""
    by_visit: dict[Any, dict[str, Any]] = {}
    for place, line in enumerate(lines):
        visit = line.get("visit", f"line {place}")
        if visit not in by_visit or quiet(line) or not quiet(by_visit[visit]):
            by_visit[visit] = line
    visits = list(by_visit.values())
    counted = list(filter(quiet, visits)) or visits
    last = counted[-1]
    contenders = {}
    for peer, contender in last["contenders"].items():
        timings = [timing for visit in counted if (timing := visit["contenders"][peer]["timing"])]
        contenders[peer] = contender | {"timing": _one_timing(timings) if timings else None}
    digests = {visit.get("digest") for visit in counted}
    # Bits that differ from visit to visit are wrong bits.
    digest = digests.pop() if len(digests) == 1 else None
    return last | {"contenders": contenders, "digest": digest, "visits": len(counted), "visited": len(visits)}


def _one_timing(timings: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Take timings of several processes together: what lies between these is not known better than they agree."""
    chosen: Mapping[str, Callable[[list[float]], float]] = {
        "low_us": min,
        "high_us": max,
        "samples": sum,
        "calls_per_sample": max,
    }
    return {
        name: chosen.get(name, statistics.median)([each[name] for each in timings if name in each])
        for name in timings[-1]
    }


def complete(
    case: Mapping[str, Any], peers: Iterable[str], roofline: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the entry of a case with what a line leaves out."""
    contenders = {peer: _named(case["contenders"].get(peer)) for peer in peers}
    return {"at": None, "known": [], "floor_us": floor_us(case, roofline), **case, "contenders": contenders}


def _named(contender: Mapping[str, Any] | None) -> dict[str, Any]:
    nothing = dict.fromkeys(("absent", "verdict", "compile_s", "timing", "wall_us", "kernels"))
    if contender is None:
        return nothing | {"absent": NO_WAY}
    lists = {
        name: dict(zip((field.name for field in fields(kind)), contender[name], strict=False))
        for name, kind in _LISTS.items()
        if contender.get(name)
    }
    return nothing | dict(contender) | lists
