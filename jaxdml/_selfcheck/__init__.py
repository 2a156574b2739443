"""Compare this device with the oracle, bit for bit, and its speed with stock JAX: the work of ``python -m jaxdml``."""

import dataclasses
import hashlib
import platform
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from importlib import metadata
from typing import Any

import jax
import numpy as np

from jaxdml._display import Display, Side, display
from jaxdml._selfcheck.cases import CHECKS, Check
from jaxdml._selfcheck.examples import EXAMPLES
from jaxdml._selfcheck.judging import Row, check, judge_example, race
from jaxdml._selfcheck.races import RACES, Race

CASES = 3000
"""Cases for each operator and dtype."""

QUICK_STRIDE, QUICK_SHARE = 3, 0.3
"""In a hurry, each dtype runs every third batch, its neighbours the others, with so much of its cases."""


def surroundings() -> dict[str, Any]:
    """Say on what this runs: the devices and the versions."""
    try:
        own = metadata.version("jaxdml")
    except metadata.PackageNotFoundError:
        own = "not installed, run from its source"
    versions = {"jaxdml": own, "jax": jax.__version__, "jaxlib": metadata.version("jaxlib"), "numpy": np.__version__}
    counted = Counter((device.platform, device.device_kind) for device in jax.devices())
    return {
        "devices": [{"platform": name, "kind": kind, "count": count} for (name, kind), count in counted.items()],
        "versions": versions | {"python": platform.python_version()},
    }


_COLUMNS: Mapping[str, Side] = {
    "operator": "left",
    "dtype": "left",
    "size": "left",
    "ours (ms)": "right",
    "stock (ms)": "right",
    "stock / ours": "right",
    "cases": "right",
    "outputs": "right",
    "agrees": "left",
}


def _label(job: Check | Race) -> str:
    return f"{job.operator} {job.dtype}" + (f", {job.size} against stock JAX" if isinstance(job, Race) else "")


def _cells(row: Row) -> tuple[str, ...]:
    timing = row.timing
    times = ("-",) * 3
    if timing:
        times = f"{timing.ours.median_ms:.3f}", f"{timing.stock.median_ms:.3f}", f"{timing.ratio:.2f}"
    compared = str(row.cases), str(row.outputs)
    return row.operator, row.dtype, row.size, *times, *compared, "yes" if row.agrees else "NO"


def run(*, quick: bool = False, seed: int = 0, show: Display | None = None) -> dict[str, Any]:
    """Check and time everything, show it, and return it as JSON can hold it.

    Args:
      quick: run a tenth of the cases and no race.
      seed: what all data is drawn from; the same seed gives every device the same data.
      show: where to show it; None chooses.
    """
    show = show or display()
    start = time.perf_counter()
    report = surroundings() | {"seed": seed, "quick": quick}
    for device in report["devices"]:
        show.line("Device: {count} x {platform}, {kind}".format(**device))
    show.line(", ".join(f"{name} {version}" for name, version in report["versions"].items()))

    report["examples"] = list(map(judge_example, EXAMPLES))
    wrong = [example for example in report["examples"] if not example["agrees"]]
    show.line(f"{len(EXAMPLES) - len(wrong)} of {len(EXAMPLES)} worked examples of DirectML's pages agree.")
    for example in wrong:
        show.line("  {call}\n    {difference}".format(**example))

    jobs: list[Check | Race] = [*CHECKS, *(() if quick else RACES)]
    cases, stride = (round(QUICK_SHARE * CASES), QUICK_STRIDE) if quick else (CASES, 1)
    rngs = np.random.default_rng(seed).spawn(len(jobs))
    rows = [
        check(job, rngs[number], cases, slice(number % stride, None, stride))
        if isinstance(job, Check)
        else race(job, rngs[number])
        for number, job in enumerate(show.follow(jobs, _label))
    ]
    operators = list(dict.fromkeys(row.operator for row in rows))
    rows.sort(key=lambda row: operators.index(row.operator))
    show.table(_COLUMNS, [_cells(row) for row in rows])
    if not quick:
        show.line("Times are medians. The stock forms may answer differently for NaNs, -0.0 and rounding.")
    report["rows"] = [dataclasses.asdict(row) for row in rows]
    report["digest"] = hashlib.sha256("".join(row.digest for row in rows).encode()).hexdigest()
    report["agrees"] = not wrong and all(row.agrees for row in rows)
    report["seconds"] = time.perf_counter() - start
    _conclude(report, rows, show)
    return report


def _conclude(report: Mapping[str, Any], rows: Iterable[Row], show: Display) -> None:
    failed = [row for row in rows if row.failure]
    for row in failed:
        assert row.failure is not None
        show.line(f"{row.operator}, {row.dtype}, disagrees with the oracle:")
        for text in (row.failure.call, row.failure.case, row.failure.difference):
            show.line(f"  {text}")
    if failed:
        again = "python -m jaxdml --seed {seed}".format(**report) + (" --quick" if report["quick"] else "")
        show.line(f"To get the same cases again: {again}; with --json FILE it writes their inputs, bit for bit.")
    show.line("Digest of every output, to compare with another device: {digest:.16}".format(**report))
    verdict = "Everything agrees" if report["agrees"] else "SOMETHING DISAGREES"
    show.line(f"{verdict} with the oracle, bit for bit; {{seconds:.0f}} s.".format(**report))
