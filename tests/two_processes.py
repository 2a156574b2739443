"""Run one of two processes that share a mesh of CPU devices; ``tests/test_processes.py`` starts both.

``python -m tests.two_processes PROCESS PORT REPORT compare PART`` compares a part of the cells with the oracle.
``python -m tests.two_processes PROCESS PORT REPORT lose LOST`` kills process LOST while the other waits for it.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding

import jaxdml
from jaxdml import reference
from jaxdml._cases import OPERATORS
from jaxdml._cases.records import Arguments, Operator
from tests.kit import THOROUGH, assert_same_bits
from tests.kit.compiling import quickly
from tests.matrix.layouts import Layout, layout, sharded

COUNT = 2
"""How many processes there are."""

DEVICES = 2
"""How many virtual devices each process has. Axis ``y`` of the mesh crosses processes, axis ``x`` stays in one."""

GIVEN_UP = 20
"""Seconds without a sign of life after which JAX gives up a process, where one is killed. JAX's default is 100."""

BOTH = ("x", "y")
RECORDS = {record.name: record for record in OPERATORS}


class Case(NamedTuple):
    """Hold the sample of an operator, and the mesh axes of the dimensions that are sharded."""

    record: Operator
    over: Mapping[str, Any]
    sizes: Mapping[str, int] = {}

    @property
    def layout(self) -> Layout:
        """Return how arguments and results are sharded."""
        return layout(self.record, self.over)

    @property
    def arrays(self) -> Arguments:
        """Return the arguments."""
        return self.record.sample(np.random.default_rng(0), False, **self.sizes)


IN_EVERY_FORM = "top_k", "scatter_nd", "quantized_linear_matrix_multiply"
"""The operators that select, write and multiply over shards: all layouts, in each form. Others have a form in turn."""

OVER_BOTH = "top_k, n over both"

CASES = {
    **{
        f"{record.name}, {label}": Case(record, over)
        for record in OPERATORS
        for place, (label, over) in enumerate(sharded(record).items())
        if THOROUGH or place == 0 or record.name in IN_EVERY_FORM
    },
    OVER_BOTH: Case(RECORDS["top_k"], {"n": BOTH}, {"n": 64}),
    "scatter_nd, m and u": Case(RECORDS["scatter_nd"], {"m": "y", "u": "x"}),
    "product, m and n": Case(RECORDS["quantized_linear_matrix_multiply"], {"m": "x", "n": "y"}),
    "dynamic_quantize_linear, c over both": Case(RECORDS["dynamic_quantize_linear"], {"c": BOTH}),
}


def mesh(kind: AxisType) -> Mesh:
    """Return the mesh over the devices of all processes."""
    return Mesh(np.array(jax.devices()).reshape(COUNT, DEVICES).T, BOTH, axis_types=(kind, kind))


def on(over: Mesh, case: Case) -> list[jax.Array]:
    """Return the arrays of a case, of which each process holds its blocks."""
    return [
        jax.make_array_from_callback(array.shape, NamedSharding(over, spec), array.__getitem__)
        for array, spec in zip(case.arrays, case.layout.specs, strict=True)
    ]


def operator(case: Case, **options: Any) -> Callable[..., Any]:
    """Return the operator with the static options of a case, as a function that returns a tuple."""
    function = partial(getattr(jaxdml, case.record.name), **case.record.options, **options)
    return lambda *arguments: tuple(jax.tree.leaves(function(*arguments)))


def under_jit(case: Case) -> Any:
    """Call the operator under ``jax.jit``, on a mesh of Auto axes."""
    return jax.jit(operator(case))(*on(mesh(AxisType.Auto), case))


def eager(case: Case) -> Any:
    """Call the operator eagerly, on a mesh of Explicit axes."""
    over = mesh(AxisType.Explicit)
    with jax.set_mesh(over):
        return operator(case)(*on(over, case))


def on_blocks(case: Case) -> Any:
    """Call the operator on the block of each device, in ``jax.shard_map``."""
    over, of = mesh(AxisType.Explicit), case.layout
    function = operator(case, **({"axis_name": of.axis_name} if of.axis_name else {}))
    return jax.jit(jax.shard_map(function, mesh=over, in_specs=of.specs, out_specs=of.results))(*on(over, case))


FORMS = {"Auto mesh, under jit": under_jit, "Explicit mesh, eager": eager, "shard_map": on_blocks}


def forms_of(name: str) -> list[str]:
    """Return the forms in which a case is compared; in the thorough profile these are all that it has."""
    case, turn = CASES[name], list(CASES).index(name)
    on_blocks = case.layout.axis_name or case.layout.independent
    possible = [form for form in FORMS if form != "shard_map" or on_blocks]
    if THOROUGH:
        return possible
    if case.record.name in IN_EVERY_FORM:
        return [form for form in possible if form != "shard_map" or case.layout.axis_name]
    return [possible[turn % len(possible)]]


CELLS = [(name, form) for name in CASES for form in forms_of(name)]
"""What is compared."""

PARTS = [CELLS[first::3] for first in range(3)]
"""The same in parts, because starting two processes takes longer than several cells."""


def compare(process: int, part: int) -> Iterator[tuple[str, str]]:
    """Compare each cell of a part with the oracle bit for bit, in the blocks that this process holds."""
    for name, form in PARTS[part]:
        case = CASES[name]
        outcome = "same bits"
        try:
            wanted = getattr(reference, case.record.name)(*case.arrays, **case.record.options)
            pairs = zip(jax.tree.leaves(FORMS[form](case)), jax.tree.leaves(wanted), strict=True)
            for got, want in pairs:
                assert got.shape == want.shape
                for shard in got.addressable_shards:
                    assert_same_bits(shard.data, want[shard.index])
        except Exception as error:
            outcome = f"{type(error).__name__}: {error}"
        yield f"{name}: {form}", outcome


def lose(process: int, lost: int) -> Iterator[tuple[str, str]]:
    """Call an operator twice. Between the two calls process ``lost`` is killed, when the other is at its second."""
    case = CASES[OVER_BOTH]
    call, arrays = jax.jit(operator(case)), on(mesh(AxisType.Auto), case)
    jax.block_until_ready(call(*arrays))
    yield "first call", "passed"
    if process == lost:
        time.sleep(1)
        os.kill(os.getpid(), signal.SIGKILL)
    jax.block_until_ready(call(*arrays))
    yield "second call", "passed"


WHAT = {"compare": compare, "lose": lose}


def main(process: int, port: int, report: str, what: str, number: int) -> None:
    """Join the other process, and append each outcome to the report as soon as it is known."""
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", DEVICES)
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.config.update("jax_numpy_dtype_promotion", "strict")
    jax.config.update("jax_numpy_rank_promotion", "raise")
    address = f"127.0.0.1:{port}"
    jax.distributed.initialize(
        address,
        COUNT,
        process,
        cluster_detection_method="deactivate",
        coordinator_bind_address=address,
        **({"heartbeat_timeout_seconds": GIVEN_UP, "shutdown_timeout_seconds": GIVEN_UP} if what == "lose" else {}),
    )
    # What crosses processes is the same, and compiles in less time.
    with open(report, "a", encoding="utf-8") as file, quickly():
        for outcome in WHAT[what](process, number):
            print(json.dumps(outcome), file=file, flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:5], int(sys.argv[5]))
