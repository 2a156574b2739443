"""List what sharded calls send between devices: ``python -m benchmarks traffic``, ours and those of stock JAX.

Every call is compiled for eight virtual CPU devices, and for a TPU v5e 2x4 where libtpu is installed; that needs no
TPU. What a program sends is read from its HLO. ``results/traffic.jsonl`` holds::

    environment   of the host; topology: the TPU compiled for
    row           one for each call and each way to write it (Auto axes, Explicit axes, axis_name)
      operator, sharding, way       what is sharded, in words
      axes, arguments, specs        of the mesh; dtypes and shapes; a PartitionSpec for each
      bound                         rule, elements, collectives: what it may send; collectives null where XLA chooses
      compiled                      for each platform, for "jaxdml" and for "stock"
        raises                      the error, and then nothing else; or null
        count, elements, bytes      of all collectives, on one device
        kinds                       the same for each kind of collective
        loops_of_unknown_length     whether a collective stands in one; it is counted once
        keeps                       whether the bound is kept
        results, as_written         the PartitionSpec of each result, and whether one would write it so
        estimate_us                 the compiler's own estimate, without what collectives wait; null where it has none
        compile_s
"""

import argparse
import fnmatch
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax

from benchmarks.cases.sharded_calls import CALLS
from benchmarks.cases.shardings import DEVICES, Sharded
from benchmarks.compiling import compilers
from benchmarks.reporting import display, journal
from benchmarks.reporting.tables import microseconds, on_console
from benchmarks.reporting.traffic_table import FILE, SIDES, sent


def rows(call: Sharded, devices: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Compile a call in every way for these devices, and yield an entry for each way."""
    for way in call.ways:
        yield {
            "operator": call.operator,
            "sharding": call.sharding,
            "way": way,
            "axes": dict(call.axes),
            "arguments": [f"{argument.dtype}{list(argument.shape)}" for argument in call.arguments],
            "specs": [str(spec) for spec in call.specs],
            "bound": call.bound_of(way)._asdict(),
            "compiled": {
                platform: {side: compilers.compiled(call, way, there, stock=side == "stock") for side in SIDES}
                for platform, there in devices.items()
            },
        }


def keeps(row: Mapping[str, Any]) -> bool:
    """Tell whether ours compiles and keeps its bound on every platform."""
    return all(sides["jaxdml"].get("keeps", False) for sides in row["compiled"].values())


def show(found: Sequence[Mapping[str, Any]], platform: str) -> None:
    """Show one line for each row: what ours sends, what stock sends, and the bound."""
    header = ["operator", "sharded", "way", "ours: collectives, elements", "stock", "bound", "kept"]
    estimates = platform == "tpu"
    if estimates:
        header.append("estimate in us, ours / stock")
    lines = []
    for row in found:
        ours, stock = (row["compiled"][platform][side] for side in SIDES)
        bound = row["bound"]["elements"]
        cells = [row["operator"], row["sharding"], row["way"], sent(ours), sent(stock), f"{bound:,}"]
        cells.append("yes" if ours.get("keeps") else "NO")
        if estimates:
            cells.append(" / ".join(_microseconds(side.get("estimate_us")) for side in (ours, stock)))
        lines.append(cells)
    display.console.print(on_console(header, lines, words=5, title=platform))


def _microseconds(value: float | None) -> str:
    return "-" if value is None else microseconds(value)


def main(arguments: Sequence[str] | None = None, calls: Sequence[Sharded] = CALLS) -> int:
    """Compile, show and save; the exit status tells whether every bound is kept."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks traffic", description=__doc__)
    parser.add_argument("--calls", nargs="+", default=["*"], metavar="PATTERN", help="by name, as top_k*")
    parser.add_argument("--platforms", nargs="+", choices=compilers.PLATFORMS, help="by default all that are here")
    parser.add_argument("--out", type=Path, default=FILE, metavar="FILE")
    options = parser.parse_args(arguments)
    chosen = [call for call in calls if any(fnmatch.fnmatch(call.name, pattern) for pattern in options.calls)]
    platforms = options.platforms or [platform for platform in compilers.PLATFORMS if compilers.has(platform)]
    devices = {platform: compilers.devices_of(platform) for platform in platforms}
    journal.begin(options.out, journal.head(command="traffic", topology=compilers.TPU))
    for call in display.follow(chosen):
        for row in rows(call, devices):
            journal.add(options.out, "row", row)
    _, found = journal.rows(options.out)
    for platform in platforms:
        show(found, platform)
    broken = [row for row in found if not keeps(row)]
    display.console.print(f"{len(found) - len(broken)} of {len(found)} rows keep their bound.")
    return int(bool(broken))


if __name__ == "__main__":
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", DEVICES)
    sys.exit(main())
