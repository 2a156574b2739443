"""Compare this device with the oracle, bit for bit, and its speed with stock JAX: the work of ``python -m jaxdml``."""

import dataclasses
import hashlib
import platform
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from importlib import metadata
from typing import Any

import jax
import numpy as np

from jaxdml._base.display import Display, Side, display
from jaxdml._base.version import __version__
from jaxdml._selfcheck import ground
from jaxdml._selfcheck.judging import Row, check, judge_example, race
from jaxdml._selfcheck.planning import CHECKS, EXAMPLES, Check, Race, races
from jaxdml._selfcheck.sharding import sharded_checks

SHARE = 1.0
"""The share of each scenario's cases that is drawn; compiling takes much longer than running them all."""


_THREADS = 2
"""Checks at a time: XLA compiles without the interpreter lock while Python traces, or computes the oracle's answers."""


def surroundings() -> dict[str, Any]:
    """Return the devices and the versions."""
    versions = {
        "jaxdml": __version__,
        "jax": jax.__version__,
        "jaxlib": metadata.version("jaxlib"),
        "numpy": np.__version__,
        "python": platform.python_version(),
    }
    counted = Counter((device.platform, device.device_kind) for device in jax.devices())
    devices = [{"platform": name, "kind": kind, "count": count} for (name, kind), count in counted.items()]
    return {"devices": devices, "versions": versions}


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


_SHARDED_COLUMNS: Mapping[str, Side] = {
    "operator": "left",
    "dtype": "left",
    "size": "left",
    "sharded": "left",
    "devices": "right",
    "with": "left",
    "cases": "right",
    "outputs": "right",
    "agrees": "left",
}


def _cells(row: Row) -> tuple[str, ...]:
    timing = row.timing
    own = ("-",) * 3
    if row.placement:
        own = row.placement.dimension, str(row.placement.devices), row.placement.means
    elif timing:
        own = f"{timing.ours.median_ms:.3f}", f"{timing.stock.median_ms:.3f}", f"{timing.ratio:.2f}"
    compared = str(row.cases), str(row.outputs)
    return row.operator, row.dtype, row.size, *own, *compared, "yes" if row.agrees else "NO"


def run(*, thorough: bool = False, seed: int = 0, show: Display | None = None) -> dict[str, Any]:
    """Check and time everything, show it, and return it as JSON can hold it.

    Args:
      thorough: run every scenario with every dtype, every sharding, and every race. The default runs a few pairs of
        a scenario and a dtype for each operator.
      seed: what all data is drawn from; the same seed gives every device the same data.
      show: where to show it; None chooses.
    """
    show = show or display()
    start = time.perf_counter()
    report = surroundings() | {"seed": seed, "thorough": thorough}
    for device in report["devices"]:
        show.line("Device: {count} x {platform}, {kind}".format(**device))
    show.line(", ".join(f"{name} {number}" for name, number in report["versions"].items()))

    report["ground"] = ground.look(jax.default_backend())
    for line in ground.described(report["ground"]):
        show.line(line)

    with ThreadPoolExecutor(_THREADS) as pool:
        report["examples"] = list(pool.map(judge_example, EXAMPLES))
    wrong = [example for example in report["examples"] if not example["agrees"]]
    show.line(f"{len(EXAMPLES) - len(wrong)} of {len(EXAMPLES)} worked examples of DirectML's pages agree.")
    for example in wrong:
        show.line("  {call}\n    {difference}".format(**example))

    checks = [*(job for job in CHECKS if job.scenarios(thorough)), *sharded_checks(thorough, jax.local_device_count())]
    raced = races(thorough)
    with ThreadPoolExecutor(_THREADS) as pool:
        checked = [pool.submit(check, job, seed, SHARE, thorough) for job in checks]
        judged = [pool.submit(race, job, seed) for job in raced]
        jobs: list[Check | Race] = [*checks, *raced]
        following = show.follow(jobs, lambda job: job.label)
        rows = [future.result() for future, _ in zip(checked, following, strict=False)]
        # Nothing else may run while races are timed.
        wait(judged)
        rows += [future.result().timed() for future, _ in zip(judged, following, strict=True)]
    operators = list(dict.fromkeys(row.operator for row in rows))
    rows.sort(key=lambda row: operators.index(row.operator))
    whole = [row for row in rows if not row.placement]
    sharded = [row for row in rows if row.placement]
    show.table(_COLUMNS, list(map(_cells, whole)))
    show.line("Times are medians. The stock forms may answer differently for NaNs, -0.0 and rounding.")
    if sharded:
        show.table(_SHARDED_COLUMNS, list(map(_cells, sharded)))
    report["rows"] = [dataclasses.asdict(row) for row in rows]
    report["digest"] = _digest(whole)
    report["sharded_digest"] = _digest(sharded) if sharded else None
    report["agrees"] = not wrong and all(row.agrees for row in rows)
    report["seconds"] = time.perf_counter() - start
    _conclude(report, rows, show)
    return report


def _digest(rows: Iterable[Row]) -> str:
    """Return one digest of all outputs; the order of the rows does not matter."""
    lines = []
    for row in rows:
        # Of a sharded row everything but the number of devices, so that all meshes have the same digest.
        placed = f" {row.placement.dimension} {row.placement.means}" if row.placement else ""
        lines.append(f"{row.operator} {row.dtype} {row.size}{placed} {row.digest}\n")
    return hashlib.sha256("".join(sorted(lines)).encode()).hexdigest()


def _conclude(report: Mapping[str, Any], rows: Iterable[Row], show: Display) -> None:
    kind = " --thorough" if report["thorough"] else ""
    failed = [row for row in rows if row.failure]
    for row in failed:
        assert row.failure is not None
        placed = f"{row.placement}, " if row.placement else ""
        show.line(f"{row.operator}, {row.dtype}, {placed}disagrees with the oracle:")
        for text in (row.failure.call, row.failure.case, row.failure.difference):
            show.line(f"  {text}")
    if failed:
        again = "python -m jaxdml --seed {seed}".format(**report) + kind
        show.line(f"To get the same cases again: {again}; with --json FILE it writes their inputs, bit for bit.")
    show.line("Digest of every output, the same for this command on every device: {digest:.16}".format(**report))
    if report["sharded_digest"]:
        show.line("Digest of the sharded outputs, the same for every mesh: {sharded_digest:.16}".format(**report))
    verdict = "Everything agrees" if report["agrees"] else "SOMETHING DISAGREES"
    show.line(f"{verdict} with the oracle, bit for bit; {{seconds:.0f}} s.".format(**report))
    if not kind:
        show.line("--thorough compares every scenario of every dtype, and takes some minutes.")
