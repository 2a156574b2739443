"""The cases of several devices: operators with one dimension sharded, and work that grows with the devices."""

from collections.abc import Sequence
from dataclasses import replace

from jax.sharding import PartitionSpec as P

from benchmarks.cases.shapes import undrawn
from jaxdml._cases import OPERATORS, _layers, argmax, dimensions, gather, scatter_nd, top_k
from jaxdml._cases import quantized_linear_convolution as convolution
from jaxdml._cases import quantized_linear_matrix_multiply as product
from jaxdml._cases.records import Array, NamedCall, Operator

AXIS = "d"
SHARDED, GROWTH = "sharded", "growth in devices"

_RECORDS = {record.name: record for record in OPERATORS}


def devices_of(case: NamedCall) -> int:
    """Return over how many devices a case is sharded."""
    return int(case.options["sharding"].partition(" over ")[2])


def specs(case: NamedCall, arguments: Sequence[Array]) -> tuple[P, ...]:
    """Return how the arguments of a case are sharded. Arrays with fewer dimensions than their record have the last."""
    over = {case.options["sharding"].partition(" over ")[0]: AXIS}
    axes, _ = dimensions.of(_RECORDS[case.operator].dimensions).sharded(over)
    return tuple(P(*of[len(of) - x.ndim :]) for of, x in zip(axes, arguments, strict=True))


def over(case: NamedCall, letter: str, devices: int) -> NamedCall:
    """Return the same call with one of the record's dimensions sharded, and what each device has to do at least."""
    return replace(
        case,
        options={**case.options, "sharding": f"{letter} over {devices}"},
        bytes=case.bytes // devices,
        operations=case.operations // devices,
        origin="weak scaling" if case.group == GROWTH else "layers of large models, on several devices",
        at=devices if case.group == GROWTH else None,
        draws=1,
        known=(),  # Arrays on the mesh, as the others.
    )


def cases(devices: int, size: int = 2**24) -> tuple[NamedCall, ...]:
    """Return the cases of so many devices; in weak scaling each has ``size`` numbers to select from.

    An operator of which no size is chosen has what the self-check times.
    """
    counts = [count for count in (1, 2, 4, 8, 16, 32, 64) if count < devices] + [devices]
    rows = max(1, size // 2**14)
    growth = [
        call
        for count in counts
        for call in (
            over(_select(GROWTH, 1, count * size), "n", count),
            over(_multiply(GROWTH, count * rows, 4096, 4096), "m", count),
            over(_write(GROWTH, count * 64 * rows, 32 * rows), "m", count),
        )
    ]
    layer = _layers.Layer("ResNet-50, 3 x 3 on 256 channels", 256, 14, 256, 3)
    sharded = [
        *(over(_select(SHARDED, count, 128256), "n", devices) for count in (1, 8, 128)),
        over(_select(SHARDED, 128, 128256), "b", devices),
        over(argmax.call(SHARDED, (8, 128256), "float32"), "n", devices),
        over(gather.call(SHARDED, (65536, 512), (1024,), "float32"), "m", devices),
        over(_write(SHARDED, 65536, 16384), "m", devices),
        *(over(_multiply(SHARDED, count, 4096, 14336), by, devices) for count in (8, 512) for by in "nk"),
        over(convolution.call(SHARDED, layer, 32, "uint8", "int8"), "n", devices),
    ]
    chosen = {case.operator for case in sharded}
    raced = [case for record in OPERATORS if record.name not in chosen for case in _raced(record, devices)]
    return (*sharded, *raced, *growth)


def _raced(record: Operator, devices: int) -> list[NamedCall]:
    """Return what the self-check times, sharded by what is combined, and by the first of the other dimensions."""
    dims, race = dimensions.of(record.dimensions), replace(record.races[0], group=SHARDED)
    cases = {letter: over(race, letter, devices) for letter in record.sizes}
    fit = [letter for letter, case in cases.items() if _can_be(case)]
    kept = [letter for letter in fit if dims.independent((letter,))]
    return [cases[letter] for letter in fit if letter in dims.combined or letter in kept[:1]]


def _can_be(case: NamedCall) -> bool:
    """Tell whether the arguments have the dimension, in blocks of one size."""
    arguments = undrawn(case)
    cut = [x.shape[spec.index(AXIS)] for x, spec in zip(arguments, specs(case, arguments), strict=True) if AXIS in spec]
    return bool(cut) and all(size % devices_of(case) == 0 for size in cut)


def _select(group: str, rows: int, n: int) -> NamedCall:
    return top_k.call(group, rows, n, 64, "float32", "decreasing")


def _multiply(group: str, m: int, k: int, n: int) -> NamedCall:
    return product.call(group, (), m, k, n, "int8", "int8")


def _write(group: str, rows: int, count: int) -> NamedCall:
    return scatter_nd.call(group, (rows, 128), count, "float32", memory="copied")
