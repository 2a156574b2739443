"""Compare this device with the oracle, bit for bit, and its speed with stock JAX: the work of ``python -m jaxdml``."""

import dataclasses
import hashlib
import platform
import statistics
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
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
    "size": "left",
    "ours": "right",
    "stock": "right",
    "ratio": "right",
}
"""What fits 80 columns with the longest name; the report has the rest."""


def _cells(row: Row) -> tuple[str, ...]:
    assert row.timing is not None
    times = row.timing.ours.median_ms, row.timing.stock.median_ms, row.timing.ratio
    shown = [f"{number:#.3g}".rstrip(".") for number in times]
    return row.operator, row.size, *shown[:2], shown[2] + "?" * (not row.timing.steady)


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
    with ThreadPoolExecutor(_THREADS) as pool:
        report["examples"] = list(pool.map(judge_example, EXAMPLES))
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
    report["rows"] = [dataclasses.asdict(row) for row in rows]
    report["digest"] = _digest(whole)
    report["sharded_digest"] = _digest(sharded) if sharded else None
    report["agrees"] = all(part["agrees"] for part in (*report["examples"], *report["rows"]))
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


def _conclude(report: Mapping[str, Any], rows: Sequence[Row], show: Display) -> None:
    """Say what was found first: bits, speed, XLA. Then what disagrees, and the times."""
    verdict = "right" if report["agrees"] else "WRONG"
    examples, agreeing = report["examples"], [row for row in rows if row.agrees]
    outputs, devices = sum(row.outputs for row in agreeing), {row.placement.devices for row in rows if row.placement}
    over = f", also sharded over {max(devices)} devices" if devices else ""
    show.line(
        f"\nBits: {verdict}. {len(agreeing)} of {len(rows)} checks and {sum(one['agrees'] for one in examples)} of "
        f"{len(examples)} worked examples have\n  the bits of the oracle: {outputs:,} outputs{over}."
    )
    timed = sorted((row for row in rows if row.timing), key=_ratio)
    steady = [row for row in timed if row.timing and row.timing.steady]
    if steady:
        mean = statistics.geometric_mean(map(_ratio, steady))
        least, greatest = (f"{_ratio(row):.2f} ({row.operator})" for row in (steady[0], steady[-1]))
        show.line(
            f"Speed: stock JAX takes {mean:.2f} times as long in the geometric mean of {len(steady)} calls,\n"
            f"  from {least}\n  to {greatest}."
        )
    if len(steady) < len(timed):
        show.line(f"  {len(timed) - len(steady)} calls with a ? below were disturbed by other work, and do not count.")
    for line in ground.described(report["ground"], report["agrees"]):
        show.line(line)
    show.line("Digest: {digest:.16}, the same on every device; README has it.".format(**report))
    if report["sharded_digest"]:
        show.line("Digest of sharded outputs: {sharded_digest:.16}, the same on every mesh.".format(**report))
    _show_failures(report, rows, show)
    if timed:
        show.table(_COLUMNS, list(map(_cells, timed)))
        show.line("Medians in ms; ratio: stock / ours. Stock JAX may differ for NaNs and rounding.")
    thorough = "" if report["thorough"] else " --thorough compares all cases of all dtypes, in minutes."
    show.line("{seconds:.0f} s.".format(**report) + thorough)


def _ratio(row: Row) -> float:
    assert row.timing is not None
    return row.timing.ratio


def _show_failures(report: Mapping[str, Any], rows: Iterable[Row], show: Display) -> None:
    for example in report["examples"]:
        if not example["agrees"]:
            show.line("A worked example disagrees:\n  {call}\n  {difference}".format(**example))
    failed = [row for row in rows if row.failure]
    for row in failed:
        assert row.failure is not None
        placed = f"{row.placement}, " if row.placement else ""
        show.line(f"{row.operator}, {row.dtype}, {placed}disagrees with the oracle:")
        for text in (row.failure.call, row.failure.case, row.failure.difference):
            show.line(f"  {text}")
    if failed:
        again = "python -m jaxdml --seed {seed}".format(**report) + " --thorough" * report["thorough"]
        show.line(f"To get the same cases again: {again}; with --json FILE it writes their inputs, bit for bit.")
