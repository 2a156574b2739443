"""Write docs/benchmarks.md, the table of README.md and every plot from benchmarks/results/.

Run it as ``python -m benchmarks.document``.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import headline, heat_maps, plots
from benchmarks.display import microseconds
from benchmarks.peers import OURS
from benchmarks.report import (
    FILE,
    GRIDS,
    fraction,
    geometric_mean,
    medians,
    missing,
    others,
    ratio,
    ratios,
    read,
    title,
)

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "benchmarks.md"
README = ROOT / "README.md"
WINNERS = RESULTS / headline.CPU / "winners.png"

_HEAD = """<!-- Written by python -m benchmarks.document from benchmarks/results/. Do not edit. -->
# Benchmarks

To measure a device and write this page:

```
pip install -e ".[bench]"
python -m benchmarks --out benchmarks/results/NAME --cases "*" --overheads
python -m benchmarks.document
```

The first `python -m` command measures the device that JAX finds, against the libraries that are installed. The last
one draws the plots, and writes this page and the table of the README. `python -m benchmarks --help` says how to
choose operators, libraries and cases. `--list` shows every case with its origin. Each result is written when it is
measured, and the same command goes on where the last one stopped. `--minutes 10` stops after so long; what says most
comes first. `--visits 3` measures in three processes, one after another. `python -m benchmarks compare` compares two
reports.

## How it is measured

- A **peer** is a library that computes the same thing: stock JAX (`lax`), onnxruntime, PyTorch, NumPy, CuPy. Every peer
  runs in the same process, on the same data, with the same number of threads.
- Every answer is compared with that of the NumPy oracle before anything is timed. A wrong answer gets no time.
- A selection is timed on up to eight different draws of its data, in turn. On one draw, repeated, a branch predictor
  learns the data, and the time would be too short.
- The peers take turns, one sample each, over and over. The figures are medians. Compilation is timed separately.
- After a call a thread pool keeps spinning for a while, which slows the next peer. So before each turn the harness
  waits until all other threads of the process sleep, and then warms the peer up.
- On a CPU the clock is read around a series of calls. glibc is told to keep freed memory, for all peers alike
  (`environment.ALLOCATOR`). A peer warms up until its calls touch no fresh memory pages, for at most half a second.
- By default JAX hands a program for the CPU to another thread. The results "with asynchronous dispatch"
  (`--async-dispatch`) are measured that way. In the other results of a CPU, JAX runs the program on the thread that
  calls it, as the other libraries do. The difference is a cost of each call from Python, whatever the program computes.
- On an accelerator the profiler's times of all kernels and copies are added up. The cache is flushed before each call.
  The time that the host takes to dispatch does not count.
- The **roofline** is the shortest time that the same run's best rates allow. It is the longer of two times: to move
  each input and output byte once, at the measured speed of a copy of that size; and to compute, at the measured rate of
  a large product of 8-bit integers. Data that lies in a faster cache than the copy's can beat the roofline.
- "Prepacked" peers got the right matrix beforehand, as a constant of the model, and may rearrange it once. "jaxdml
  prepacked" got what `jaxdml.prepack` returns. It does not count as another library.
- "lax unstable" is `lax.top_k(..., is_stable=False)`, which newer versions of JAX have. It, PyTorch and NumPy may
  return ties in any order, so only their values are compared.
- "torch.compile" runs in its mode `max-autotune`. On a GPU, PyTorch transposes the right matrix before `_int_mm`, as
  jaxdml does, because that is faster. Where `duplicates` is `last`, PyTorch is told to be deterministic.
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
    if note := where.get("note"):  # Written by hand, where not all cases come from one run.
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
    """Tell each operator and group in a line: the best of the others against jaxdml."""
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
            best = min(others(case), key=lambda peer: taken[peer])
            other = f"{microseconds(taken[best])} ({best})"
            rows.append((f"`{case['name']}`", microseconds(taken[OURS]), other, f"{against:.2f}", f"{reached:.0%}"))
    return _table(("case", "ours (µs)", "best other (µs)", "best other / ours", "of the roofline"), rows)


def _kernels(cases: Sequence[Mapping[str, Any]]) -> str:
    """Tell what the device did in a call of ours, what took longest first."""
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
    """Cut a kernel's name to what tells kinds apart."""
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


def main() -> None:
    """Write the page and the table, and draw the plots again."""
    for file in RESULTS.glob(f"*/{FILE}"):
        plots.draw(read(file.parent), file.parent)
    heat_maps.draw_winners(read(WINNERS.parent), WINNERS)
    PAGE.write_text(page(), encoding="utf-8")
    README.write_text(headline.put_into(README.read_text(encoding="utf-8"), RESULTS), encoding="utf-8")


if __name__ == "__main__":
    main()
