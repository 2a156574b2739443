"""Write docs/benchmarks.md from benchmarks/results/: ``python -m benchmarks.document``."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.display import microseconds
from benchmarks.peers import OURS
from benchmarks.report import FILE, GRIDS, fraction, geometric_mean, medians, missing, ratio, ratios, read, title
from jaxdml import _commands

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "benchmarks.md"

_HEAD = """<!-- Written by python -m benchmarks.document from benchmarks/results/. Do not edit. -->
# Benchmarks

```
pip install -e ".[bench]"
python -m benchmarks --out benchmarks/results/NAME --cases "*" --overheads
python -m benchmarks.document
```

The first command measures the device that JAX finds, with the peers that are installed, and draws the plots. The
second writes this page. `python -m benchmarks --help` says how to choose operators, peers and cases, and `--list`
shows every case with its origin.

## How it is measured

- Every peer runs in the same process, on the same data, with the same number of threads. Its answer is compared
  with the oracle's before anything is timed. A wrong answer gets no time.
- A selection runs on up to eight draws of its data in turn. On a single draw the processor's branch predictor would
  learn the data, and the times would be shorter than they are in practice.
- The peers take turns, with one sample each, and start again. The figures are medians, shown with the quartiles.
  Compile times are measured separately.
- The thread pools of some libraries spin for a while after a call and slow the next peer. So before each turn the
  harness waits until every other thread of the process sleeps. Then the peer warms up, untimed.
- On a CPU the clock is read before and after a series of calls. glibc is told to keep freed memory, for every peer
  alike (`environment.ALLOCATOR`), and a peer warms up until its calls take no fresh pages, for at most half a second.
- On a CPU every library starts on the thread that calls it. JAX by default runs a program on another thread, and it
  does so in the results "with asynchronous dispatch" (`--async-dispatch`). That adds the same time to every call from
  Python, whatever the program computes; a program of many operators pays it once.
- On an accelerator a time is the sum of the times of kernels and copies, as the profiler reports them, after a flush
  of the cache. The time that the host takes to dispatch does not count.
- The roofline is the greater of two times: to move each input and output byte once at the speed of a copy of that
  size, and to compute at the rate of a large product of 8-bit integers. Both rates are the best that the same run
  measured. A call can be faster than its roofline when its data is in a nearer cache than the copy's.
- "Prepacked" peers were given the right matrix beforehand, as a constant of the model.
- "lax unstable" is `lax.top_k` with `is_stable=False`, which newer JAX has. It, torch and NumPy may return ties in any
  order; for them only the values are compared. "torch.compile" is in its mode `max-autotune`. On a GPU torch
  transposes the right matrix before `_int_mm`, as jaxdml does, since that is faster; where `duplicates` is `last`, it
  is told to be deterministic.
- `--add` adds cases that were measured later to a report.
"""

_NOTHING = """
## Results

There are none yet.
"""


def page(results: Path = RESULTS) -> str:
    """Write the page."""
    folders = sorted(file.parent for file in results.glob(f"*/{FILE}"))
    return _HEAD + ("".join(f"\n{part}\n" for folder in folders for part in _device(folder)) or _NOTHING)


def _device(folder: Path) -> Iterator[str]:
    report = read(folder)
    where = report["environment"]
    versions = ", ".join(f"{name} {version}" for name, version in where["versions"].items())
    yield f"## {title(where)}"
    yield f"Measured on {where['date']} at commit {where['commit']}, with {where['threads']} threads; {versions}."
    if note := where.get("note"):  # Written by hand, if not all cases come from one run.
        yield note
    copy = [float(rate) for rate in report["roofline"]["copy_gb_per_s"].values()]
    rate = report["roofline"]["int8_gop_per_s"]
    yield (
        f"Copy bandwidth: {min(copy):.1f} to {max(copy):.1f} GB/s, by size. "
        f"Products of 8-bit integers: {rate:,.0f} billion operations a second."
    )
    yield _summary(report["cases"])
    for picture in sorted(folder.glob("*.png")):
        yield f"![{picture.stem.replace('-', ' ')}](../benchmarks/results/{folder.name}/{picture.name})"
    if models := [case for case in report["cases"] if case["group"] == "models"]:
        yield "### Sizes of real models"
        yield _models(models)
    if grid := [case for case in report["cases"] if case["group"] in GRIDS]:
        yield "### Every case of the grid"
        yield _grid(grid)
    if seen := [case for case in grid if case["contenders"][OURS].get("kernels")]:
        yield "### Where the time goes"
        yield _kernels(seen)
    if "overheads" in report:
        yield "### Before a program runs"
        yield _overheads(report["overheads"])
    if absent := _missing(report["cases"]):
        yield "### Who has no time, and why"
        yield absent


def _summary(cases: Sequence[Mapping[str, Any]]) -> str:
    """Compare the best other peer with jaxdml: one line for each operator and group."""
    rows = []
    for operator, group in dict.fromkeys((case["operator"], case["group"]) for case in cases):
        mine = [case for case in cases if (case["operator"], case["group"]) == (operator, group)]
        if found := ratios(mine):
            slower = sum(value < 1 for value in found)
            reached = [value for value in map(fraction, mine) if value is not None]
            figures = f"{geometric_mean(found):.2f}", f"{min(found):.2f}", f"{max(found):.2f}", str(slower)
            rows.append((f"`{operator}`, {group}", str(len(found)), *figures, f"{geometric_mean(reached):.0%}"))
    header = (
        "",
        "cases",
        "best other / ours, mean",
        "least",
        "greatest",
        "cases where ours is slower",
        "of the roofline",
    )
    return _table(header, rows) + "\n\nMeans are geometric. The best other is the fastest peer of each case."


def _models(cases: Sequence[Mapping[str, Any]]) -> str:
    peers = [peer for peer in cases[0]["contenders"] if any(peer in medians(case) for case in cases)]
    rows = []
    for case in cases:
        taken, against, reached = medians(case), ratio(case), fraction(case)
        times = (microseconds(taken[peer]) if peer in taken else "-" for peer in peers)
        last = "-" if against is None else f"{against:.2f}", "-" if reached is None else f"{reached:.0%}"
        rows.append((f"`{case['name']}`: {case['origin']}", *times, *last))
    return "Medians in µs.\n\n" + _table(("case", *peers, "best other / ours", "of the roofline"), rows)


def _grid(cases: Sequence[Mapping[str, Any]]) -> str:
    rows = []
    for case in cases:
        taken, against, reached = medians(case), ratio(case), fraction(case)
        if OURS in taken and against is not None and reached is not None:
            best = min((peer for peer in taken if peer != OURS), key=lambda peer: taken[peer])
            other = f"{microseconds(taken[best])} ({best})"
            rows.append((f"`{case['name']}`", microseconds(taken[OURS]), other, f"{against:.2f}", f"{reached:.0%}"))
    return _table(("case", "ours (µs)", "best other (µs)", "best other / ours", "of the roofline"), rows)


def _kernels(cases: Sequence[Mapping[str, Any]]) -> str:
    """List the kernels of a call of ours, the longest first."""
    rows = []
    for case in cases:
        together: dict[str, list[float]] = {}
        for name, us in case["contenders"][OURS]["kernels"]:
            together.setdefault(_kind(name), []).append(us)
        parts = [
            f"{kind}{f' ({len(us)})' if len(us) > 1 else ''} {sum(us):.1f}"
            for kind, us in sorted(together.items(), key=lambda item: -sum(item[1]))
        ]
        rows.append((f"`{case['name']}`", f"{case['floor_us']:.1f}", ", ".join(parts)))
    explained = "Names are those of XLA's, cuBLAS's and CUB's kernels, with how often one of that name ran."
    return explained + "\n\n" + _table(("case", "roofline (µs)", "kernels (µs)"), rows)


def _kind(name: str) -> str:
    """Return the part of a kernel's name that distinguishes its kind."""
    own = name.partition("<")[0].partition("(")[0].rpartition("::")[2]
    return re.sub(r"(_\d+)+$", "", own.removeprefix("void "))


def _overheads(entries: Sequence[Mapping[str, Any]]) -> str:
    rows = []
    for entry in entries:
        for peer in (OURS, "lax"):
            stages = (f"{1e3 * entry[peer][stage]:.1f}" for stage in ("trace_s", "lower_s", "compile_s"))
            rows.append(
                (f"`{entry['operator']}`, {entry['size']}", peer, *stages, microseconds(entry[peer]["eager_us"]))
            )
    return _table(("call", "", "trace (ms)", "lower (ms)", "compile (ms)", "eager call (µs)"), rows)


def _missing(cases: Sequence[Mapping[str, Any]]) -> str:
    rows = [(peer, reason, str(count)) for (peer, reason), count in missing(cases).items()]
    return _table(("peer", "why", "cases"), rows) if rows else ""


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---", *["--:"] * (len(header) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    with _commands.whole_file(PAGE) as file:
        file.write(page())
