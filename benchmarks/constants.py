"""Time jaxdml with a constant of a lowering at several values: ``python -m benchmarks.constants MAX_ARITY``.

This is how to choose a constant that no forced method depends on alone, such as how long a round of a tournament may
be, or from how many rows on a matrix is transposed.
"""

import argparse
import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import cycle
from types import ModuleType
from typing import Any, NamedTuple

import jax
import numpy as np
from rich import box
from rich.table import Table

from benchmarks import environment
from benchmarks.cases import CASES, Arguments, Case
from benchmarks.display import console, microseconds
from benchmarks.measuring import interleaved
from benchmarks.peers import with_jax
from benchmarks.peers._products import packed
from jaxdml._cases.quantized_linear_matrix_multiply import call as multiply
from jaxdml._kernels.indexed_write import kernel as indexed_write
from jaxdml._kernels.integer_product import cpu as _product_cpu
from jaxdml._kernels.integer_product import gpu as _product_gpu
from jaxdml._kernels.selection import gpu as _selection_gpu


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


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the time of every case with the constant at each value."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.constants", description=__doc__)
    parser.add_argument("constant", choices=list(CONSTANTS))
    parser.add_argument("--values", nargs="+", type=int)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args(arguments)
    environment.dispatch(asynchronous=False)
    constant = CONSTANTS[options.constant]
    values = options.values or constant.values
    table = Table(box=box.SIMPLE_HEAD, title=f"{options.constant} on {environment.describe()['device']}, medians in us")
    table.add_column("case", overflow="fold")
    for value in values:
        table.add_column(str(value), justify="right")
    for case in constant.cases:
        draws = [constant.arranged(case.draw(np.random.default_rng(seed))) for seed in range(case.draws)]
        runs = {str(value): _compiled(constant, value, case, draws) for value in values}
        taken = interleaved(runs, rounds=options.rounds, budget_s=1)
        table.add_row(case.name, *(microseconds(taken[str(value)].median_us) for value in values))
    console.print(table)
    return 0


def _compiled(constant: Constant, value: int, case: Case, draws: Sequence[Arguments]) -> Callable[[], Any]:
    """Compile the case with the constant at this value; the program keeps the value."""
    with constant.at(value):
        program = jax.jit(with_jax.ours(case).function).lower(*draws[0]).compile()
    turns = cycle([jax.device_put(arguments, may_alias=False) for arguments in draws])
    return lambda: jax.block_until_ready(program(*next(turns)))


if __name__ == "__main__":
    environment.settle()
    sys.exit(main())
