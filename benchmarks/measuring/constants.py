"""Time what a constant of a lowering decides: ``python -m benchmarks constants MAX_ARITY``.

A constant that no forced method depends on alone, such as how long a round of a tournament may be, or from how many
rows on a matrix is transposed, is timed at several values. Of those in ``jaxdml/_kernels/selection/cpu.py``, which say
from which size on a method wins, the methods are timed side by side, over sizes and dtypes that can be given.
"""

import argparse
import itertools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import cycle
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import jax
import numpy as np

import jaxdml
from benchmarks import environment
from benchmarks.cases import CASES, Arguments, Case
from benchmarks.peers import with_jax
from benchmarks.peers._products import packed
from benchmarks.reporting import journal
from benchmarks.reporting.display import console
from benchmarks.reporting.report import rounded
from benchmarks.reporting.tables import microseconds, on_console
from benchmarks.timing.clocks import interleaved
from jaxdml._cases.quantized_linear_matrix_multiply import call as multiply
from jaxdml._cases.top_k import call as select
from jaxdml._kernels.indexed_write import kernel as indexed_write
from jaxdml._kernels.integer_product import cpu as _product_cpu
from jaxdml._kernels.integer_product import gpu as _product_gpu
from jaxdml._kernels.selection import gpu as _selection_gpu
from jaxdml._kernels.selection import kernel as selection


class Constant(NamedTuple):
    """Where a constant is, what to set it to, and what to time then."""

    module: ModuleType
    name: str
    """A field of the module's record of constants, in capitals, or a name in the module."""
    values: tuple[int, ...]
    cases: tuple[Case, ...]
    record: str = ""
    """The name of the record in the module; empty where the constant is no field of one."""
    arranged: Callable[[Arguments], Any] = tuple
    """Makes the arguments of the call of what a case draws."""

    @contextmanager
    def at(self, value: int) -> Iterator[None]:
        """Set the constant to this value, for programs that are traced meanwhile, then set it back."""
        place = self.record or self.name
        usual = getattr(self.module, place)
        setattr(self.module, place, usual._replace(**{self.name.lower(): value}) if self.record else value)
        jax.clear_caches()
        try:
            yield
        finally:
            setattr(self.module, place, usual)
            jax.clear_caches()


_ON_ACCELERATORS = tuple(case for case in CASES if case.group == "accelerators")

_SELECTIONS = tuple(
    case
    for case in _ON_ACCELERATORS
    if case.operator == "top_k" and case.dtype in ("float32", "int16") and case.data == "random"
    if case.options["direction"] == "decreasing" and case.bytes < 2**30
)

_PRODUCTS = tuple(
    multiply("constants", (), rows, 4096, 4096, dtype, dtype, by_axis=True)
    for rows, dtype in itertools.product((16, 32, 64, 128, 256), ("int8", "uint8"))
)

_OF_PACKED = tuple(
    multiply("constants", (), rows, 4096, 4096, "uint8", "int8", by_axis=True) for rows in (1, 8, 16, 32, 64, 128, 256)
)

_WRITES = tuple(
    case
    for case in _ON_ACCELERATORS
    if case.operator == "scatter_nd" and case.dtype in ("float16", "uint8") and case.options["memory"] == "copied"
)

_OF_SELECTIONS = {
    "MAX_PAIRS_FOR_RANKS": (2**22, 2**24, 2**26),
    "SHORT_ROUND": (2**9, 2**10, 2**11),
    "SMALL_ROUND": (2**16, 2**18, 2**20),
    "MAX_ARITY": (2**4, 2**5, 2**6),
    "LONG_ROUND": (2**13, 2**14, 2**15),
    "FEW_ROWS": (1, 2**4, 2**8),
    "REREAD_DIVISOR": (4, 12, 36),
    "MAX_STORED": (2**8, 2**10, 2**12),
}

CONSTANTS = {
    constant.name: constant
    for constant in (
        *(Constant(_selection_gpu, name, values, _SELECTIONS, "GPU") for name, values in _OF_SELECTIONS.items()),
        Constant(_product_gpu, "MAX_ROWS_UNTRANSPOSED", (0, 2**30), _PRODUCTS),
        Constant(_product_cpu, "MAX_ROWS_RIGHT_OF_INT8", (0, 2**30), _OF_PACKED, arranged=partial(packed, 3)),
        Constant(_product_cpu, "MAX_ROWS_RIGHT_OF_UINT8", (0, 2**30), _OF_PACKED, arranged=partial(packed, 3)),
        Constant(indexed_write, "GPU_WORD", (1, 4), _WRITES),
    )
}


class Sweep(NamedTuple):
    """Which methods of top_k to force at which sizes, to see where a constant of them belongs."""

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

Runs = Mapping[str, Callable[[], Any]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the time of every case with the constant at each value, or with each method, and keep it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks constants", description=__doc__)
    parser.add_argument("constant", choices=[*CONSTANTS, *SWEEPS])
    parser.add_argument("--values", nargs="+", type=int, help="of a constant that is varied itself")
    for name in ("rows", "n", "k"):
        parser.add_argument(f"--{name}", nargs="+", type=int, help="where methods are compared")
    parser.add_argument("--dtypes", nargs="+", default=["float32", "int16"], help="(default: float32 int16)")
    parser.add_argument("--rounds", type=int, default=9, help="samples of each (default: 9)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="(default: jaxdml-report/constants-NAME.jsonl)")
    options = parser.parse_args(arguments)
    environment.dispatch(asynchronous=False)
    if options.constant in CONSTANTS:
        constant = CONSTANTS[options.constant]
        ways, found = list(map(str, options.values or constant.values)), _at_values(constant, options.values)
    else:
        given = {name: getattr(options, name) for name in ("rows", "n", "k") if getattr(options, name)}
        sweep = SWEEPS[options.constant]._replace(**given)
        ways, found = list(sweep.methods), _by_methods(sweep, options.dtypes)
    out = options.out or journal.default(f"constants-{options.constant}")
    first = journal.head(command="constants", constant=options.constant)
    journal.begin(out, first)
    rows = []
    for case, runs in found:
        taken = {way: each.median_us for way, each in interleaved(runs, rounds=options.rounds, budget_s=1).items()}
        journal.add(out, "row", {"case": case.name, "us": rounded(taken)})
        rows.append((case.name, *_cells(ways, taken)))
    header = "case", ways[0], *itertools.chain(*((way, f"{ways[0]} / {way}") for way in ways[1:]))
    title = f"{options.constant} on {first['device']}, medians in us"
    console.print(on_console(header, rows, title=title))
    return 0


def _cells(ways: Sequence[str], taken: Mapping[str, float]) -> Iterator[str]:
    """Show the times, and how many times as long the first takes as each other."""
    for way in ways:
        yield microseconds(taken[way]) if way in taken else "-"
        if way != ways[0]:
            yield f"{taken[ways[0]] / taken[way]:.2f}" if {ways[0], way} <= taken.keys() else "-"


def _at_values(constant: Constant, values: Sequence[int] | None) -> Iterator[tuple[Case, Runs]]:
    for case in constant.cases:
        draws = [constant.arranged(case.draw(np.random.default_rng(seed))) for seed in range(case.draws)]
        yield case, {str(value): _compiled(constant, value, case, draws) for value in values or constant.values}


def _by_methods(sweep: Sweep, dtypes: Sequence[str]) -> Iterator[tuple[Case, Runs]]:
    for dtype, rows, n, k in itertools.product(dtypes, sweep.rows, sweep.n, sweep.k):
        if k <= n:
            case = select("constants", rows, n, k, dtype, "decreasing")
            yield case, dict(_forced(sweep.methods, case))


def _forced(methods: Sequence[str], case: Case) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield the methods that can serve the case, compiled and warm."""
    draws = [case.draw(np.random.default_rng(seed)) for seed in range(case.draws)]
    (x,) = draws[0]
    for method in methods:
        if selection.why_not(method, x.shape[1], case.options["k"], x.dtype.itemsize) is None:

            def forced(x: Any, method: str = method) -> Any:
                return tuple(jaxdml.top_k(x, **case.options, implementation=method))

            contender = with_jax.prepare(with_jax.Program(forced), case, draws)
            contender.run()
            yield method, contender.run


def _compiled(constant: Constant, value: int, case: Case, draws: Sequence[Arguments]) -> Callable[[], Any]:
    """Compile the case with the constant at this value; the program keeps the value."""
    with constant.at(value):
        program = jax.jit(with_jax.ours(case).function).lower(*draws[0]).compile()
    turns = cycle([jax.device_put(arguments, may_alias=False) for arguments in draws])
    return lambda: jax.block_until_ready(program(*next(turns)))


if __name__ == "__main__":
    environment.settle()
    sys.exit(main())
