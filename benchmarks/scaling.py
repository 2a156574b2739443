"""Time sharded operators on several devices: ``python -m benchmarks.scaling OUT.json``.

Each call is timed by the clock, over calls that the host dispatches without waiting, and by the profiler of the first
device, which tells collectives from the rest. The kernel of a collective runs from when this device enters it, so its
time includes waiting for the other devices. Every answer is compared with that of one device.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from rich import box
from rich.table import Table

import jaxdml
from benchmarks import environment
from benchmarks.display import console, microseconds

AXIS = "d"
PER_DEVICE = 2**28
"""Elements of a device in weak scaling."""

VOCABULARIES = tuple(2**power for power in range(12, 19))
ROWS = 1, 8, 32, 128
K = 64
FEATURES = 8192, 28672
"""K and N of the product."""

_ROUNDS, _CALLS = 5, 8


class Work(NamedTuple):
    """A call to time: ``function`` of one array sharded as ``spec`` says, or of several."""

    name: str
    form: str
    devices: int
    function: Callable[..., Any]
    arguments: tuple[jax.Array, ...]


def mesh_of(devices: int, kind: AxisType = AxisType.Explicit) -> Mesh:
    """Return a mesh with one axis."""
    return Mesh(np.array(jax.devices()[:devices]), (AXIS,), axis_types=(kind,))


def drawn(mesh: Mesh, shape: tuple[int, ...], spec: P, seed: int = 0) -> jax.Array:
    """Draw float32 numbers on the devices, each its own shard, from few values if there would be too many."""
    sharding = NamedSharding(mesh, spec)
    indices = sharding.addressable_devices_indices_map(shape)
    local = sharding.shard_shape(shape)

    @partial(jax.jit, static_argnums=1)
    def shard(key: jax.Array, local: tuple[int, ...]) -> jax.Array:
        return jax.random.normal(key, local, jnp.float32)

    def on(number: int, device: Any) -> jax.Array:
        with jax.default_device(device):
            return shard(jax.random.key(1000 * seed + number), local)

    shards = [on(number, device) for number, device in enumerate(indices)]
    return jax.make_array_from_single_device_arrays(shape, sharding, shards)


def bytes_on(mesh: Mesh, shape: tuple[int, ...], spec: P, seed: int) -> jax.Array:
    """Put random int8 numbers on the devices."""
    x = np.random.default_rng(seed).integers(-128, 128, shape, np.int8)
    return jax.device_put(x, NamedSharding(mesh, spec))


def weak_scaling(counts: Sequence[int]) -> Iterator[Work]:
    """One axis, ``PER_DEVICE`` elements of it on each device."""
    for devices in counts:
        n = devices * PER_DEVICE
        name = f"top_k of {devices} x {PER_DEVICE} float32"
        for form, kind in (("Explicit", AxisType.Explicit), ("Auto", AxisType.Auto)):
            x = drawn(mesh_of(devices, kind), (n,), P(AXIS))
            yield Work(name, form, devices, lambda x: jaxdml.top_k(x, K), (x,))
        # Of one dimension, XLA's compiler crashes on lax.top_k (jax 0.11.2).
        x = drawn(mesh_of(devices, AxisType.Auto), (1, n), P(None, AXIS))
        yield Work(name, "stock", devices, lambda x: lax.top_k(x, K), (x,))


def decoding(devices: int) -> Iterator[Work]:
    """Rows of logits, sharded over the vocabulary; and the logits gathered first."""
    mesh, spec = mesh_of(devices), P(None, AXIS)
    gather = partial(lax.all_gather, axis_name=AXIS, axis=1, tiled=True, to="invarying")
    gathered = jax.shard_map(lambda x: jaxdml.top_k(gather(x), K), mesh=mesh, in_specs=spec, out_specs=P())
    for rows in ROWS:
        for vocabulary in VOCABULARIES:
            x = drawn(mesh, (rows, vocabulary), spec)
            name = f"top_k of {rows} x {vocabulary} float32"
            yield Work(name, "sharded", devices, lambda x: jaxdml.top_k(x, K), (x,))
            yield Work(name, "gathered", devices, gathered, (x,))


def products(devices: int) -> Iterator[Work]:
    """A product of one device, and sharded over the columns and over K."""
    k, n = FEATURES

    def multiply(a: jax.Array, b: jax.Array) -> jax.Array:
        return jaxdml.quantized_linear_matrix_multiply(a, 0.5, np.int8(3), b, 0.25, np.int8(-4), 700.0, np.int8(1))

    for rows in (8, 128, 2048):
        for form, count, specs in (
            ("one device", 1, (P(), P())),
            ("N sharded", devices, (P(), P(None, AXIS))),
            ("K sharded", devices, (P(None, AXIS), P(AXIS))),
        ):
            mesh = mesh_of(count)
            arguments = bytes_on(mesh, (rows, k), specs[0], 1), bytes_on(mesh, (k, n), specs[1], 2)
            yield Work(f"product of {rows} x {k} x {n}", form, count, multiply, arguments)


def longest(devices: int) -> Iterator[Work]:
    """2**33 elements in all: the indices need 64 bits."""
    x = drawn(mesh_of(devices), (2**33,), P(AXIS))
    yield Work(
        "top_k of 2**33 float32, k 100",
        "Explicit",
        devices,
        lambda x: jaxdml.top_k(x, 100, index_dtype="uint64"),
        (x,),
    )


def measure(work: Work) -> dict[str, Any]:
    """Return the answer's digest and the times of one call."""
    compiled = jax.jit(work.function)
    answer = jax.block_until_ready(compiled(*work.arguments))
    answers = [np.asarray(part) for part in jax.tree.leaves(answer)]

    def calls() -> None:
        jax.block_until_ready([compiled(*work.arguments) for _ in range(_CALLS)])

    calls()
    walls = []
    for _ in range(_ROUNDS):
        begin = time.perf_counter()
        calls()
        walls.append((time.perf_counter() - begin) / _CALLS * 1e6)
    collectives, rest = _device_time(calls)
    return {
        "name": work.name,
        "form": work.form,
        "devices": work.devices,
        "wall_us": statistics.median(walls),
        "collectives_us": collectives,
        "rest_us": rest,
        "answer": answers,
    }


def _device_time(calls: Callable[[], None]) -> tuple[float, float]:
    """Return the microseconds of one call in collectives and in other kernels, on the first device.

    For a collective the shortest of all calls counts: the others include more waiting for the other devices.
    """
    with tempfile.TemporaryDirectory() as folder:
        options = jax.profiler.ProfileOptions()
        options.python_tracer_level = options.host_tracer_level = 0
        with jax.profiler.trace(folder, profiler_options=options):
            calls()
        (file,) = Path(folder).rglob("*.xplane.pb")
        data = jax.profiler.ProfileData.from_file(str(file))
    lines = [line for plane in data.planes if plane.name.startswith("/device:GPU:0") for line in plane.lines]
    events = [event for line in lines if line.name.startswith("Stream") for event in line.events]
    collectives: dict[str, list[float]] = {}
    rest = 0.0
    for event in events:
        taken = (event.end_ns - event.start_ns) / 1e3
        if any(word in event.name.lower() for word in ("nccl", "all_reduce", "all_gather", "allreduce", "allgather")):
            collectives.setdefault(event.name, []).append(taken)
        else:
            rest += taken / _CALLS
    return sum(min(taken) * len(taken) / _CALLS for taken in collectives.values()), rest


def _same(rows: Iterable[dict[str, Any]]) -> None:
    """Replace each answer by whether it has the bits of the first of its name."""
    first: dict[str, list[np.ndarray[Any, Any]]] = {}
    for row in rows:
        answer = row.pop("answer", None)
        if answer is not None:
            expected = first.setdefault(row["name"], answer)
            row["same_bits"] = all(a.tobytes() == b.tobytes() for a, b in zip(answer, expected, strict=True))


def main(arguments: Sequence[str]) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description=__doc__)
    parser.add_argument("out", type=Path, help="where to write the figures")
    parser.add_argument("--only", nargs="*", default=["weak", "decoding", "products", "longest"])
    options = parser.parse_args(arguments)
    devices = len(jax.devices())
    counts = [count for count in (1, 2, 4, 8) if count <= devices]
    groups: dict[str, Callable[[], Iterator[Work]]] = {
        "weak": lambda: weak_scaling(counts),
        "decoding": lambda: decoding(counts[-1]),
        "products": lambda: products(counts[-1]),
        "longest": lambda: longest(counts[-1]),
    }
    jax.config.update("jax_enable_x64", "longest" in options.only and options.only == ["longest"])
    rows: list[dict[str, Any]] = []
    table = Table("call", "form", "devices", "wall us", "collectives us", "rest us", box=box.SIMPLE_HEAD)
    for group in options.only:
        for work in groups[group]():
            try:
                rows.append(measure(work))
            except Exception as error:  # Stock JAX may lack the memory.
                rows.append({"name": work.name, "form": work.form, "devices": work.devices, "failed": str(error)[:200]})
            row = rows[-1]
            times = (row.get(f"{part}_us") for part in ("wall", "collectives", "rest"))
            shown = ("-" if figure is None else microseconds(figure) for figure in times)
            table.add_row(row["name"], row["form"], str(row["devices"]), *shown)
            sys.stderr.write(f"{row['name']}: {row['form']}\n")
        _same(rows)
    console.print(table)
    report = {"environment": environment.describe(), "rows": rows}
    options.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
