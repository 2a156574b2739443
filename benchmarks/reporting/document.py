"""Write docs/benchmarks.md, the page of each device, the table of README.md and every plot from benchmarks/results/."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.cases import sharded, whole_models
from benchmarks.peers import OURS
from benchmarks.reporting import headline, plots
from benchmarks.reporting.journal import RESULTS
from benchmarks.reporting.report import (
    FILE,
    GRIDS,
    MARK,
    UNSURE,
    best_other,
    digest,
    fraction,
    geometric_mean,
    in_tables,
    known,
    machine,
    medians,
    missing,
    over_stock,
    quiet,
    ratio,
    ratio_prepacked,
    read,
    row,
    stock_is_wrong,
    title,
    unsure,
)
from benchmarks.reporting.tables import filled, in_code, markdown, microseconds
from benchmarks.timing.by_calls import Timing

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs"
README = ROOT / "README.md"
HEADLINE = RESULTS / "headline.png"

Case = Mapping[str, Any]

_BY_PEER = {
    "models": "Sizes of real models",
    whole_models.GROUP: "Whole models",
    sharded.SHARDED: "Sharded calls",
    sharded.GROWTH: "Work that grows with the devices",
}
"""Groups whose table has a column for each peer, with their headings."""

_PICTURES = {
    "who-is-fastest": "For each operator, how many times as fast as the fastest other library each case is.",
    "roofline": "For each operator, the fraction of the roofline that each case reaches.",
    "growth-in-devices": "The time of work that grows with the devices, for each operator, with quartiles.",
    "growth-in-n": "The time of top_k by the length of its row, for each dtype and library, with quartiles.",
    "growth-in-k": "The time of top_k by k, for each dtype and library, with quartiles.",
}
"""What a picture shows, for those who do not see it."""

_HEAD = """<!-- Written by python -m benchmarks page from benchmarks/results/. Do not edit. -->
# Benchmarks

To measure a device and write this page:

```
pip install -e ".[bench]"
python -m benchmarks --minutes 10
```

The last command measures the device that JAX finds, against the libraries that are installed, for ten minutes; what
says most comes first: a small case of each operator. Each result is written when it is measured, into `jaxdml-report`.
The same command goes on where the last one stopped. `python -m benchmarks measure --help` says how to choose operators,
libraries and cases, and `--list` shows every case with its origin. `--visits 3` measures in three processes, one after
another, and `--against REPORT` compares with an earlier report: the exit status is 1 if something was slower in several
processes, and nothing disturbed it.

With `--out benchmarks/results/NAME`, `python -m benchmarks page` writes the page of a new device.

## How it is measured

- A **peer** is a library that computes the same thing: stock JAX (`lax`), onnxruntime, PyTorch, NumPy, CuPy. Every peer
  runs in the same process, on the same data, with the same number of threads.
- Scales and zero points are numbers of the program, as in nearly all programs that have been quantized: constants of
  NumPy, [known](numerics.md#known-scales) to jaxdml and to stock JAX, Python's numbers for PyTorch, initializers for
  onnxruntime. Of each such operator the least and the greatest case of a model are measured with "traced scales" too:
  arrays, which the program gets as arguments. The zero points of `matrix_multiply_integer` and `convolution_integer`,
  and the scales of `matrix_multiply_integer_to_float`, are always arrays: these operators serve dynamic quantization.
  So are a scale for each row, and all of a sharded call. Where a report is older than this, all were arrays.
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
- On an accelerator the profiler's times of all GPU kernels and copies are added up. The cache is flushed before each
  call. The time that the host takes to dispatch does not count. Of whole models the wall time of a call from Python is
  told, too: ten calls are made before the first is waited for, and a tenth of the time for all is that of one.
- On an accelerator without such a profiler, one program makes many calls, each of which waits for the one before it.
  The clock is read around programs of two lengths, and the difference counts. The cache is not flushed.
- Measuring runs in a process of its own. If a library crashes, or does not answer for five minutes, it has no time for
  that case, and the rest goes on.
- A small case of each operator is first, with few samples. A case ends when all its medians are known well enough, with
  a confidence of 95 %, or after as many rounds as the page of the device says. Cases during which other processes
  worked, and the first ones if they are not known so well, are measured a second time, after all others.
- The **roofline** is the shortest time that the same run's best rates allow. They are measured like a case, and again
  if other processes worked. It is the longer of two times: to move each input and output byte once, at the measured
  speed of a copy of that size; and to compute, at the measured rate of a large product of 8-bit integers. Data that
  lies in a faster cache than the copy's can beat the roofline.
- "Prepacked" peers got the right matrix, or the filters, beforehand, as a constant of the model, and may rearrange it
  once. "jaxdml prepacked" got what `jaxdml.prepack` returns. "Best other / ours" compares those that got nothing
  beforehand. The column "prepacked" compares the faster way of jaxdml with the fastest of all others.
- "lax unstable" is `lax.top_k(..., is_stable=False)`, which newer versions of JAX have. It, PyTorch and NumPy may
  return ties in any order, so only their values are compared.
- **Whole models** have random weights. onnxruntime's quantizer makes the integers of MobileNetV2, ResNet-50 and
  BERT-base (QOperator, uint8 activations, int8 weights for each channel); the language model has weights of 8 bits in
  blocks of 32, and reads one token. Of those that are named "trained" output channels differ by factors of
  `2**(0.7 * normal)`, and one in a hundred is nearly zero. `jaxdml` runs the integers, "jaxdml QDQ" the same as the
  quantizer's other format, "jaxdml float32" and "jaxdml bfloat16" the model that they were made of, all through
  `jaxdml.onnx`. Before anything is timed, each answer is compared as a whole with the
  floats of onnxruntime (`answers._NEAR`). There "torch.compile" is PyTorch's program of the float32 model, in its
  default mode.
- `--devices N` measures calls with one dimension sharded over N devices, named by its letter in `jaxdml/_cases`:
  `jaxdml` on `Explicit` axes, "jaxdml auto axes", "jaxdml one device" on one of them, and stock JAX on `Auto` axes. The
  roofline is that of a device's share. The profiler's times are those of the first device. A collective counts
  with its shortest time of some calls: the rest is waiting for other devices. Reports before 2026-11-26 have it all.
- In other cases "torch.compile" runs in its mode `max-autotune`. On a GPU, PyTorch transposes the right matrix before
  `_int_mm`, as jaxdml does, because that is faster. Where `duplicates` is `last`, PyTorch is told to be deterministic.
"""

_WALL = " on the device; in brackets the wall time of a call from Python, with ten in flight"

_NOTHING = "There are no results yet."


def pages(results: Path = RESULTS) -> dict[str, str]:
    """Write the pages, by their path in docs/."""
    reports = {file.parent.name: read(file.parent) for file in sorted(results.glob(f"*/{FILE}"))}
    devices = {f"benchmarks/{name}.md": "\n\n".join(_device(results / name, each)) for name, each in reports.items()}
    summary = [_HEAD + "\n## Results", *(_devices(reports) if reports else [_NOTHING])]
    return {"benchmarks.md": "\n\n".join(summary) + "\n", **{name: f"{text}\n" for name, text in devices.items()}}


def _devices(reports: Mapping[str, Case]) -> Iterator[str]:
    rows = []
    for name, report in reports.items():
        where, cases = report["environment"], _told(report["cases"])
        means = (_mean(known(value, cases)) for value in (over_stock, ratio, ratio_prepacked))
        measured = f"[{title(where)}](benchmarks/{name}.md)"
        rows.append((measured, where["versions"]["jax"], where["date"], str(len(cases)), *means))
    header = "device", "JAX", "measured", "cases", "stock JAX / ours", "fastest other / ours", "prepacked"
    yield markdown(*filled(header, rows))
    yield "Ratios of times, geometric means: 2 means that jaxdml takes half the time."
    yield "```{toctree}\n:hidden:\n\n" + "\n".join(f"benchmarks/{name}" for name in reports) + "\n```"


def _told(cases: Sequence[Case]) -> Sequence[Case]:
    """Return the cases that tables show by operator: all where a report has only others, as one of several devices."""
    return in_tables(cases) or cases


def _device(folder: Path, report: Case) -> Iterator[str]:
    where, cases = report["environment"], report["cases"]
    versions = ", ".join(f"{name} {version}" for name, version in where["versions"].items())
    yield f"<!-- Written by python -m benchmarks page from benchmarks/results/. Do not edit. -->\n# {title(where)}"
    yield f"Measured on {where['date']} at commit {where['commit']}, with {where['threads']} threads; {versions}."
    yield "\n".join(f"- {fact}" for fact in [*_facts(report), *_trust(cases)])
    yield _operators(_told(cases))
    for name, said in _PICTURES.items():
        if (folder / f"{name}.png").exists():
            yield f"![{said}](../../benchmarks/results/{folder.name}/{name}.png)"
    for group, heading in _BY_PEER.items():
        if found := [case for case in cases if case["group"] == group]:
            yield f"## {heading}"
            yield _by_peer(found)
            yield from _efficiency(found)
    if grid := [case for case in cases if case["group"] in GRIDS]:
        yield "## Sizes crossed with dtypes"
        yield _grid(grid)
    if seen := [case for case in cases if case["group"] in _BY_PEER and case["contenders"][OURS].get("kernels")]:
        yield "## Where the time goes"
        yield _kernels(seen)
    if "overheads" in report:
        yield "## Before a program runs"
        yield _overheads(report["overheads"])
    if absent := _missing(cases):
        yield "## Who has no time, and why"
        yield absent


def _facts(report: Case) -> Iterator[str]:
    """Say what the machine is, how fast at most, and how it was timed."""
    where = report["environment"]
    if said := machine(where):
        yield f"{said}."
    if roofline := report.get("roofline"):
        copy = [float(rate) for rate in roofline["copy_gb_per_s"].values()]
        yield f"Copies: {min(copy):.1f} to {max(copy):.1f} GB/s, by size."
        yield f"Products of 8-bit integers: {roofline['int8_gop_per_s']:,.0f} billion operations a second."
        if empty := roofline.get("empty_us"):
            yield f"A program that adds 1 to a number: {microseconds(empty)} µs."
        if not quiet(roofline):
            yield "Other processes worked during these, also when they were repeated."
    yield f"Timed by {where['clock']}."
    plan = where["plan"]
    ends = f"within {plan['spread']:.0%}, or after {plan['rounds']} rounds, or {plan['budget_s']:g} s for a peer"
    yield f"A case ended when its medians were known {ends}."


def _trust(cases: Sequence[Case]) -> Iterator[str]:
    """Say how well the figures are known."""
    timings = [case["contenders"][OURS]["timing"] for case in cases if case["contenders"][OURS]["timing"]]
    spreads = sorted(Timing(**timing).spread for timing in timings)
    if spreads:
        middle, most = spreads[len(spreads) // 2], spreads[int(0.95 * (len(spreads) - 1))]
        yield f"Medians of jaxdml are known within {middle:.1%} in half the cases, and {most:.1%} in 95 of 100."
    marked = [peer for case in cases for peer in medians(case) if unsure(case, peer)]
    if marked:
        known_worse = f"known no better than within {UNSURE:.0%}"
        yield f"Marked {MARK}: {len(marked)} times that are {known_worse}, or were disturbed."
    if disturbed := sum(not quiet(case) for case in cases):
        yield f"Other processes worked during {disturbed} of {len(cases)} cases, also when they were repeated."
    count, found = digest(cases)
    if count:
        yield f"Digest of the bits of {count} answers: `{found}`."


def _operators(cases: Sequence[Case]) -> str:
    """Tell each operator in a line: stock JAX and the fastest other against jaxdml."""
    rows = []
    for name in dict.fromkeys(map(row, cases)):
        mine = [case for case in cases if row(case) == name]
        stock, best, packed, reached = (known(value, mine) for value in (over_stock, ratio, ratio_prepacked, fraction))
        least = [min(found) for case in mine if (found := [*known(ratio, [case]), *known(ratio_prepacked, [case])])]
        wins = f"{sum(value > 1 for value in least)} of {len(least)}"
        wrong = str(sum(map(stock_is_wrong, mine)) or "")
        reaching = f"{geometric_mean(reached):.0%}" if reached else "-"
        rows.append((in_code(name), str(len(mine)), _mean(stock), wrong, _mean(best), _mean(packed), wins, reaching))
    header = (
        "",
        "cases",
        "stock JAX / ours",
        "stock is wrong",
        "fastest other / ours",
        "prepacked",
        "ours is fastest in",
        "of the roofline",
    )
    said = "Ratios of times, geometric means with the least: 2 means that jaxdml takes half the time."
    return f"{markdown(*filled(header, rows))}\n\n{said}"


def _mean(found: Sequence[float]) -> str:
    return f"{geometric_mean(found):.2f} (least {min(found):.2f})" if found else "-"


def _by_peer(cases: Sequence[Case]) -> str:
    """Tell the time of every peer, also by the wall; in milliseconds where all of ours take one or more."""
    mine = [medians(case)[OURS] for case in cases if OURS in medians(case)]
    unit, divisor = ("ms", 1e3) if mine and min(mine) >= 1e3 else ("µs", 1)
    peers = [peer for peer in cases[0]["contenders"] if any(peer in medians(case) for case in cases)]
    rows = []
    for case in cases:
        reached = fraction(case)
        times = (_time(case, peer, divisor) for peer in peers)
        against = ("-" if found is None else f"{found:.2f}" for found in (ratio(case), ratio_prepacked(case)))
        last = *against, "-" if reached is None else f"{reached:.0%}"
        rows.append((f"`{case['name']}`: {case['origin']}", *times, *last))
    header = "case", *peers, "best other / ours", "prepacked", "of the roofline"
    walls = any(one["wall_us"] for case in cases for one in case["contenders"].values())
    said = f"Medians in {unit}{_WALL if walls else ''}."
    return f"{said}\n\n{markdown(*filled(header, rows))}"


def _time(case: Case, peer: str, divisor: float = 1) -> str:
    """Tell a time, with a mark if it is not known well, and that by the wall if it was measured."""
    contender = case["contenders"][peer]
    if not contender["timing"]:
        return "-"
    time = microseconds(contender["timing"]["median_us"] / divisor) + MARK * unsure(case, peer)
    wall = contender["wall_us"]
    return f"{time} ({microseconds(wall / divisor)})" if wall else time


def _efficiency(cases: Sequence[Case]) -> Iterator[str]:
    """Tell how the time of work that grows with the devices stays: one device's by that of several."""
    one = {
        case["operator"]: medians(case).get(OURS)
        for case in cases
        if case["group"] == sharded.GROWTH and case["at"] == 1
    }
    rows = []
    for case in cases:
        alone, several = one.get(case["operator"]), medians(case).get(OURS)
        if alone and several and case["at"] > 1:
            rows.append((f"`{case['name']}`", str(case["at"]), f"{alone / several:.0%}"))
    if rows:
        yield "Efficiency: the time on one device by that on several, each of which has as much work.\n\n" + markdown(
            ("case", "devices", "efficiency"), rows
        )


def _grid(cases: Sequence[Case]) -> str:
    rows = []
    for case in cases:
        against, reached = ratio(case), fraction(case)
        if (best := best_other(case)) and against is not None and reached is not None:
            other = f"{_time(case, best)} ({best})"
            rows.append((f"`{case['name']}`", _time(case, OURS), other, f"{against:.2f}", f"{reached:.0%}"))
    return markdown(("case", "ours (µs)", "best other (µs)", "best other / ours", "of the roofline"), rows)


def _kernels(cases: Sequence[Case]) -> str:
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
    explained = "Names are those of XLA's, cuBLAS's and CUB's GPU kernels, with how often one of that name ran."
    return explained + "\n\n" + markdown(("case", "roofline (µs)", "GPU kernels (µs)"), rows)


def _kind(name: str) -> str:
    """Cut a GPU kernel's name to what tells kinds apart."""
    own = name.partition("<")[0].partition("(")[0].rpartition("::")[2]
    return re.sub(r"(_\d+)+$", "", own.removeprefix("void "))


def _overheads(entries: Sequence[Case]) -> str:
    rows = []
    for entry in entries:
        for peer in (OURS, "lax"):
            stages = (f"{1e3 * entry[peer][stage]:.1f}" for stage in ("trace_s", "lower_s", "compile_s"))
            rows.append(
                (f"`{entry['operator']}`, {entry['size']}", peer, *stages, microseconds(entry[peer]["eager_us"]))
            )
    return markdown(("call", "", "trace (ms)", "lower (ms)", "compile (ms)", "eager call (µs)"), rows)


def _missing(cases: Sequence[Case]) -> str:
    rows = [(peer, reason, str(count)) for (peer, reason), count in missing(cases).items()]
    return markdown(("peer", "why", "cases"), rows) if rows else ""


def main() -> None:
    """Write the pages and the table, draw the plots again, and say which files these are."""
    drawn = [path for file in RESULTS.glob(f"*/{FILE}") for path in plots.draw(read(file.parent), file.parent)]
    drawn.append(plots.draw_headline(headline.devices(RESULTS), HEADLINE))
    texts = {PAGES / name: text for name, text in pages().items()}
    texts[README] = headline.put_into(README.read_text(encoding="utf-8"), RESULTS)
    for path, text in texts.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    print("Written:", *sorted(str(path.relative_to(ROOT)) for path in [*drawn, *texts]), sep="\n")


if __name__ == "__main__":
    main()
