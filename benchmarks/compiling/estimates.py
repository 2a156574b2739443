"""Ask compilers what programs of accelerators would cost, ours and stock JAX's: ``python -m benchmarks estimates``.

Every cell is compiled for one device of a TPU v5e and of a v6e where libtpu is installed, and for an NVIDIA H200 where
jax-cuda12-pjrt is; that needs no such device. Nothing runs. The compiler's account of bytes adds up what the operations
of a program read and write. It is the better figure. Its time takes element-wise work as free, and is missing where an
operation is one that it cannot estimate. ``results/estimates.jsonl`` holds::

    environment   of the host
    row           one for each cell
      operator, cell                what is called, and with what
      least                         the bytes of all inputs and outputs; of a read at indices, of what is read
      compiled                      for each target, for "jaxdml" and for "stock"
        raises                      the error, and then nothing else; or null
        bytes, microseconds         the compiler's account; microseconds null where it has none
        loops                       whether ours has a loop, of which the compiler counts one round
        compile_s                   seconds by the clock, of tracing, lowering and compiling
        cpu_s                       what the same took of all CPUs: other programs matter less to it

Each row is written when it is there. ``--resume`` keeps those that the file has.
"""

import argparse
import fnmatch
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
from jax.sharding import SingleDeviceSharding

from benchmarks.cases.estimated import CELLS, Cell
from benchmarks.compiling import compilers
from benchmarks.reporting import display, journal
from benchmarks.reporting.estimates_table import FILE, ratios, summary
from benchmarks.reporting.tables import on_console

SIDES = "jaxdml", "stock"
TARGETS = {"v5e": "tpu", "v6e": "tpu", "h200": "cuda"}
"""For each target the platform whose compiler is asked."""


def cost(function: Callable[..., Any], arguments: Sequence[Any], device: Any) -> dict[str, Any]:
    """Compile a call for a device and return the compiler's account of it, or why it raises."""
    started, worked = time.perf_counter(), time.process_time()

    def there(x: Any) -> Any:
        return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=SingleDeviceSharding(device))

    try:
        lowered = jax.jit(function).trace(*jax.tree.map(there, arguments)).lower()
        program = lowered.compile()
        spent, work = time.perf_counter() - started, time.process_time() - worked
    except Exception as error:  # Whatever it raises is the result.
        return {"raises": f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"}
    return {
        "raises": None,
        "bytes": int((program.cost_analysis() or {}).get("bytes accessed", 0)),
        "microseconds": compilers.estimate_us(program),
        "loops": "stablehlo.while" in lowered.as_text(),
        "compile_s": round(spent, 1),
        "cpu_s": round(work, 1),
    }


def row(cell: Cell, devices: Mapping[str, Any]) -> dict[str, Any]:
    """Compile both sides of a cell for every target."""
    found = cell.sides()
    calls = {"jaxdml": found.jaxdml, "stock": found.stock}
    compiled = {
        target: {side: cost(*call, device) for side, call in calls.items()} for target, device in devices.items()
    }
    return {"operator": cell.operator, "cell": cell.name, "least": found.least, "compiled": compiled}


def show(found: Sequence[Mapping[str, Any]], target: str) -> None:
    """Show one line for each row: bytes of both, how many times stock's and the least, and what compiling took."""
    lines = []
    for one in found:
        ours, stock = (one["compiled"][target][side] for side in SIDES)
        if ours["raises"] or stock["raises"]:
            lines.append([f"{one['operator']} {one['cell']}", ours["raises"] or "", stock["raises"] or ""])
            continue
        cells = [
            f"{one['operator']} {one['cell']}",
            *(f"{side['bytes'] / 1e6:.3g}" for side in (ours, stock)),
            f"{ours['bytes'] / stock['bytes']:.2f}",
            f"{ours['bytes'] / one['least']:.2f}",
            *("-" if side["microseconds"] is None else f"{side['microseconds']:.3g}" for side in (ours, stock)),
            *("-" if (spent := side.get("cpu_s")) is None else f"{spent:.1f}" for side in (ours, stock)),
        ]
        lines.append(cells)
    header = "operator", "MB", "stock's", "ratio", "of the least", "us", "stock's", "s of CPU", "stock's"
    display.console.print(on_console(header, lines, title=target))
    if ratios(found, target):
        display.console.print(summary(found, target))


def main(arguments: Sequence[str] | None = None, cells: Sequence[Cell] = CELLS) -> int:
    """Compile, show and save; the exit status tells whether all of ours compiled."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks estimates", description=__doc__)
    parser.add_argument("--cells", nargs="+", default=["*"], metavar="PATTERN", help="by name, as top_k*")
    parser.add_argument("--targets", nargs="+", choices=TARGETS, help="by default all whose compiler is here")
    parser.add_argument("--resume", action="store_true", help="keep the rows that the file has")
    parser.add_argument("--out", type=Path, default=FILE, metavar="FILE")
    options = parser.parse_args(arguments)
    targets = options.targets or [target for target, platform in TARGETS.items() if compilers.has(platform)]
    devices = {target: compilers.device_of(target) for target in targets}
    kept = journal.earlier(options.out) if options.resume else []
    done = {(one["operator"], one["cell"]): one for one in kept if set(targets) <= set(one["compiled"])}
    chosen = [cell for cell in cells if any(fnmatch.fnmatch(cell.title, pattern) for pattern in options.cells)]
    there = [done[key] for cell in chosen if (key := (cell.operator, cell.name)) in done]
    journal.begin(options.out, journal.head(command="estimates"), there)
    for cell in display.follow([cell for cell in chosen if (cell.operator, cell.name) not in done]):
        journal.add(options.out, "row", row(cell, devices))
    _, found = journal.rows(options.out)
    for target in targets:
        show(found, target)
    return int(any(one["compiled"][target]["jaxdml"]["raises"] for one in found for target in targets))


if __name__ == "__main__":
    jax.config.update("jax_platforms", "cpu")
    sys.exit(main())
