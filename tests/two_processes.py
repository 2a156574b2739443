"""Run one of two processes that share a mesh of CPU devices; ``tests/test_processes.py`` starts both.

``python -m tests.two_processes PROCESS PORT REPORT`` compares every cell with the oracle.
``python -m tests.two_processes PROCESS PORT REPORT LOST`` kills process LOST while the other waits for it.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxdml
from jaxdml import reference
from tests.kit import THOROUGH, assert_same_bits
from tests.kit.compiling import quickly

COUNT = 2
"""How many processes there are."""

DEVICES = 2
"""How many virtual devices each process has. Axis ``x`` of the mesh crosses processes, axis ``y`` stays in one."""

GIVEN_UP = 5
"""Seconds without a sign of life after which JAX gives up a process, where one is killed. JAX's default is 100."""

BOTH = ("x", "y")
NUMBERS = np.random.default_rng(0)


class Case(NamedTuple):
    """Hold one call of an operator, and how its arrays are sharded."""

    operator: str
    arrays: tuple[np.ndarray, ...]
    specs: tuple[P, ...]
    options: dict[str, Any] = {}
    out: Any = None
    """What ``jax.shard_map`` returns; None where the operator cannot be called on blocks sharded like this."""
    axis_name: str | tuple[str, ...] | None = None
    """The mesh axes that ``jax.shard_map`` shards the operator's own dimension over."""


def floats(*shape: int) -> np.ndarray:
    """Return float32 numbers with ties, zeros of both signs, NaNs and infinities."""
    few = np.array([0.0, -0.0, 1.5, -1.5, np.inf, -np.inf, np.nan, -np.nan], np.float32)
    return np.where(NUMBERS.random(shape) < 0.5, NUMBERS.choice(few, shape), NUMBERS.normal(size=shape)).astype("f4")


def integers(dtype: str, *shape: int) -> np.ndarray:
    """Return integers of the whole range of ``dtype``."""
    ends = np.iinfo(dtype)
    return NUMBERS.integers(ends.min, ends.max, shape, dtype, endpoint=True)


def indices(n: int, *shape: int) -> np.ndarray:
    """Return int32 indices with duplicates, negative ones among them, and some out of the range of ``n``."""
    return NUMBERS.integers(-n - 2, n + 2, shape, np.int32)


def scales(*shape: int) -> np.ndarray:
    """Return float32 scales."""
    return NUMBERS.uniform(0.01, 0.1, shape).astype(np.float32)


def product(m: int, k: int, n: int) -> tuple[np.ndarray, ...]:
    """Return the arguments of a product with a scale and a zero point for each row of ``a`` and column of ``b``."""
    a, b = integers("int8", m, k), integers("uint8", k, n)
    left, right = (scales(m), integers("int8", m)), (scales(n), integers("uint8", n))
    return a, *left, b, *right, 100 * scales()


def product_specs(rows: Any, depth: Any, columns: Any) -> tuple[P, ...]:
    """Return how the arguments of a product are sharded, by the mesh axes of its three dimensions."""
    left, right, row, column = P(rows, depth), P(depth, columns), P(rows), P(columns)
    return left, row, row, right, column, column, P()


LAST = {"duplicates": "last"}

CASES = {
    "top_k, batch sharded": Case("top_k", (floats(4, 33),), (P(BOTH),), {"k": 5}, P(BOTH)),
    "top_k, axis sharded over both": Case("top_k", (floats(2, 64),), (P(None, BOTH),), {"k": 20}, P(), BOTH),
    "top_k, axis and batch sharded": Case(
        "top_k",
        (integers("uint8", 2, 64, 3),),
        (P("y", "x"),),
        {"k": 3, "axis": 1, "direction": "increasing"},
        P("y"),
        "x",
    ),
    "argmax, both axes sharded": Case(
        "argmax", (floats(8, 3, 6),), (P("x", None, "y"),), {"axis": (0, 2)}, P(), ("x", "y")
    ),
    "argmin, axis and batch sharded": Case(
        "argmin", (integers("int8", 4, 64),), (P("y", "x"),), {"select_last_index": True}, P("y"), "x"
    ),
    "scatter_nd, rows and slices sharded": Case(
        "scatter_nd",
        (integers("int8", 8, 4), indices(8, 9, 1), integers("int8", 9, 4)),
        (P("x", "y"), P(), P(None, "y")),
        LAST,
        P("x", "y"),
        "x",
    ),
    "scatter_nd, updates sharded too": Case(
        "scatter_nd", (floats(8, 4), indices(8, 8, 1), floats(8, 4)), (P("x", "y"), P(BOTH), P(BOTH)), LAST
    ),
    "scatter_elements, sharded off its axis": Case(
        "scatter_elements",
        (floats(4, 5), indices(5, 4, 6), floats(4, 6)),
        (P(BOTH),) * 3,
        LAST | {"axis": 1},
        P(BOTH),
    ),
    "scatter_elements, axis sharded": Case(
        "scatter_elements", (floats(8, 2), indices(8, 4, 2), floats(4, 2)), (P("x", "y"),) * 3, LAST
    ),
    "gather, axis and columns sharded": Case(
        "gather", (floats(8, 4), indices(8, 3, 3)), (P("x", "y"), P()), {"mode": "fill"}, P(None, None, "y"), "x"
    ),
    "gather_elements, axis and columns sharded": Case(
        "gather_elements",
        (integers("int8", 8, 4), indices(8, 5, 4)),
        (P("x", "y"), P(None, "y")),
        {},
        P(None, "y"),
        "x",
    ),
    "gather_nd, batch and rows sharded": Case(
        "gather_nd",
        (floats(2, 8, 3), indices(8, 2, 5, 1)),
        (P("y", "x"), P("y")),
        {"batch_dims": 1},
        P("y"),
        "x",
    ),
    "product, rows and columns sharded": Case(
        "quantized_linear_matrix_multiply", product(4, 16, 6), product_specs("x", None, "y"), {}, P("x", "y")
    ),
    "product, K and rows sharded": Case(
        "quantized_linear_matrix_multiply", product(4, 32, 5), product_specs("y", "x", None), {}, P("y"), "x"
    ),
    "product with float results, K and columns sharded": Case(
        "matrix_multiply_integer_to_float",
        (
            *(integers("int8", 3, 32), np.float32([0.1, 0.2, 0.3]), integers("int8", 3)),
            *(
                integers("uint8", 32, 4),
                np.float32([0.7, 0.8, 0.9, 1.1]),
                integers("uint8", 4),
                np.float32([1, 2, 3, 4]),
            ),
        ),
        (P(None, "x"), P(), P(), P("x", "y"), P("y"), P("y"), P("y")),
        {},
        P(None, "y"),
        "x",
    ),
    "quantizing, by columns, sharded both ways": Case(
        "quantize_linear",
        (floats(4, 6), scales(6), integers("int8", 6)),
        (P("x", "y"), P("y"), P("y")),
        {"axis": 1},
        P("x", "y"),
    ),
    "dequantizing, shards that end within blocks": Case(
        "dequantize_linear",
        (integers("uint8", 4, 8), scales(4, 3), integers("uint8", 4, 3)),
        (P("y", "x"), P("y"), P()),
        {"axis": 1, "block_size": 3},
    ),
    "quantizing by range, sharded over both": Case(
        "dynamic_quantize_linear",
        (np.float32([[-3, 0.1, 7, np.nan], [2, -9, 0.5, 4]]),),
        (P("y", "x"),),
        {},
        jaxdml.DynamicQuantization(P("y", "x"), P(), P()),
        BOTH,
    ),
    "product of integers, K and columns sharded": Case(
        "matrix_multiply_integer",
        (integers("int8", 3, 32), integers("int8", 3), integers("uint8", 32, 4), integers("uint8", 4)),
        (P(None, "x"), P(), P("x", "y"), P("y")),
        {},
        P(None, "y"),
        "x",
    ),
    "convolution of integers, channels and filters sharded": Case(
        "convolution_integer",
        (integers("uint8", 2, 4, 3, 3), integers("uint8"), integers("int8", 4, 4, 2, 1), integers("int8", 4)),
        (P(None, "x"), P(), P("y", "x"), P("y")),
        {"start_padding": 1},
        P(None, "y"),
        "x",
    ),
    "quantized convolution, channels and images sharded": Case(
        "quantized_linear_convolution",
        (
            *(integers("uint8", 2, 4, 5), scales(), integers("uint8"), integers("int8", 3, 4, 2), scales(3)),
            *(integers("int8", 3), integers("int32", 3) // 2**16, 100 * scales(), integers("uint8")),
        ),
        (P("y", "x"), P(), P(), P(None, "x"), *[P()] * 5),
        {},
        P("y"),
        "x",
    ),
    "sum, rows and columns sharded": Case(
        "quantized_linear_add",
        (
            integers("int8", 4, 6),
            scales(),
            integers("int8"),
            integers("uint8", 6),
            scales(6),
            integers("uint8"),
            scales(),
        ),
        (P("x", "y"), P(), P(), P("y"), P("y"), P(), P()),
        {},
        P("x", "y"),
    ),
    "pooling, batch and channels sharded": Case(
        "quantized_linear_average_pooling",
        (integers("uint8", 2, 4, 5), scales(4), integers("uint8", 4), scales()),
        (P("x", "y"), P("y"), P("y"), P()),
        {"window": 2},
        P("x", "y"),
    ),
}


def mesh(kind: AxisType) -> Mesh:
    """Return the mesh over the devices of all processes."""
    return Mesh(np.array(jax.devices()).reshape(COUNT, DEVICES), BOTH, axis_types=(kind, kind))


def on(over: Mesh, case: Case) -> list[jax.Array]:
    """Return the arrays of a case, of which each process holds its blocks."""
    return [
        jax.make_array_from_callback(array.shape, NamedSharding(over, spec), array.__getitem__)
        for array, spec in zip(case.arrays, case.specs, strict=True)
    ]


def operator(case: Case, **options: Any) -> Callable[..., Any]:
    """Return the operator with the static options of a case."""
    return partial(getattr(jaxdml, case.operator), **case.options, **options)


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
    over = mesh(AxisType.Explicit)
    named = {"axis_name": case.axis_name} if case.axis_name else {}
    mapped = jax.shard_map(operator(case, **named), mesh=over, in_specs=case.specs, out_specs=case.out)
    return jax.jit(mapped)(*on(over, case))


FORMS = {"Auto mesh, under jit": under_jit, "Explicit mesh, eager": eager, "shard_map": on_blocks}


IN_EVERY_FORM = "top_k", "scatter_nd", "quantized_linear_matrix_multiply"
"""The operators that select, write and multiply over shards: in each way that they do it. The others take turns."""


def forms_of(name: str) -> list[str]:
    """Return the forms in which a case is compared; in the thorough profile these are all that it has."""
    case, turn = CASES[name], list(CASES).index(name)
    possible = [form for form in FORMS if form != "shard_map" or case.out is not None]
    if THOROUGH:
        return possible
    if case.operator in IN_EVERY_FORM:
        return [form for form in possible if form != "shard_map" or case.axis_name is not None]
    return [possible[turn % len(possible)]]


CELLS = [(name, form) for name in CASES for form in forms_of(name)]
"""What is compared."""


def compare() -> Iterator[tuple[str, str]]:
    """Compare each cell with the oracle bit for bit, in the blocks that this process holds."""
    for name, form in CELLS:
        case = CASES[name]
        outcome = "same bits"
        try:
            wanted = getattr(reference, case.operator)(*case.arrays, **case.options)
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
    case = CASES["top_k, axis sharded over both"]
    call, arrays = jax.jit(operator(case)), on(mesh(AxisType.Auto), case)
    jax.block_until_ready(call(*arrays))
    yield "first call", "passed"
    if process == lost:
        time.sleep(1)
        os.kill(os.getpid(), signal.SIGKILL)
    jax.block_until_ready(call(*arrays))
    yield "second call", "passed"


def main(process: int, port: int, report: str, lost: int | None = None) -> None:
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
        **({} if lost is None else {"heartbeat_timeout_seconds": GIVEN_UP, "shutdown_timeout_seconds": GIVEN_UP}),
    )
    # What crosses processes is the same, and compiles in less time.
    with open(report, "a", encoding="utf-8") as file, quickly():
        for outcome in compare() if lost is None else lose(process, lost):
            print(json.dumps(outcome), file=file, flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], *map(int, sys.argv[4:]))
