"""Time forced methods of top_k side by side: ``python -m benchmarks.thresholds MANY_ROWS``.

This is how the constants of ``jaxdml/_kernels/selection/cpu.py`` were chosen: from the size at which one method
starts to win. Each constant has its own sweep; other rows, lengths, k and dtypes can be given.
"""

import argparse
import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from rich import box
from rich.table import Table

import jaxdml
from benchmarks import environment
from benchmarks.cases import Case
from benchmarks.display import console, microseconds
from benchmarks.measuring import interleaved
from benchmarks.peers.with_jax import Program, prepare
from jaxdml._cases.top_k import call
from jaxdml._kernels.selection import kernel as selection


class Sweep(NamedTuple):
    """What to vary to see where a constant belongs."""

    methods: tuple[str, ...]
    rows: tuple[int, ...]
    n: tuple[int, ...]
    k: tuple[int, ...]


SWEEPS = {
    "MANY_ROWS": Sweep(("float_top_k", "repeated_maxima"), (1, 4, 8, 16, 64), (64, 256, 512), (2, 8, 32)),
    "MAX_N_TIMES_K_FOR_MAXIMA": Sweep(("threshold", "repeated_maxima"), (8, 64, 256), (256, 512), (16, 32, 64, 128)),
    "MIN_K_FOR_THRESHOLD": Sweep(("float_top_k", "threshold"), (1, 8), (2**11, 2**13, 2**16), (64, 128, 256, 512)),
    "PRUNING_OF_FEW_ROWS": Sweep(
        ("chunk_maxima", "float_top_k", "threshold"), (1, 4), (2**7, 2**8, 2**10, 2**13), (2, 8, 32, 128)
    ),
    "PRUNING_OF_MANY_ROWS": Sweep(
        ("chunk_maxima", "repeated_maxima", "threshold"), (8, 64, 512), (2**7, 2**8, 2**9, 2**10), (4, 16, 64)
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the time of every method for every size and dtype, and the ratio of the first to the others."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.thresholds", description=__doc__)
    parser.add_argument("constant", choices=list(SWEEPS))
    for name in ("rows", "n", "k"):
        parser.add_argument(f"--{name}", nargs="+", type=int)
    parser.add_argument("--dtypes", nargs="+", default=["float32", "int16"])
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args(arguments)
    environment.dispatch(asynchronous=False)
    sweep = SWEEPS[options.constant]
    given = {name: getattr(options, name) for name in ("rows", "n", "k") if getattr(options, name)}
    console.print(_table(sweep._replace(**given), options.dtypes, options.rounds))
    return 0


def _table(sweep: Sweep, dtypes: Sequence[str], rounds: int) -> Table:
    first, *others = sweep.methods
    table = Table(box=box.SIMPLE_HEAD, title=f"top_k on {environment.describe()['device']}, medians in us")
    for header in ("dtype", "rows", "n", "k", first, *itertools.chain(*((m, f"{first} / {m}") for m in others))):
        table.add_column(header, justify="right")
    for dtype, rows, n, k in itertools.product(dtypes, sweep.rows, sweep.n, sweep.k):
        if k > n:
            continue
        runs = dict(_forced(sweep.methods, call("thresholds", rows, n, k, dtype, "decreasing")))
        taken = {method: timing.median_us for method, timing in interleaved(runs, rounds=rounds, budget_s=1).items()}
        shown = [microseconds(taken[first]) if first in taken else "-"]
        for method in others:
            both = first in taken and method in taken
            shown.append(microseconds(taken[method]) if method in taken else "-")
            shown.append(f"{taken[first] / taken[method]:.2f}" if both else "-")
        table.add_row(dtype, str(rows), str(n), str(k), *shown)
    return table


def _forced(methods: Sequence[str], case: Case) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield the methods that can serve the case, compiled and warm."""
    draws = [case.draw(np.random.default_rng(seed)) for seed in range(case.draws)]
    (x,) = draws[0]
    for method in methods:
        if selection.why_not(method, x.shape[1], case.options["k"], x.dtype.itemsize) is None:

            def forced(x: Any, method: str = method) -> Any:
                return tuple(jaxdml.top_k(x, **case.options, implementation=method))

            contender = prepare(Program(forced), case, draws)
            contender.run()
            yield method, contender.run


if __name__ == "__main__":
    environment.settle()
    sys.exit(main())
