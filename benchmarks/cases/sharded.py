"""The cases of several devices: operators with one dimension sharded, and work that grows with the devices."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from jax.sharding import PartitionSpec as P

from jaxdml._cases import _layers, argmax, gather, scatter_nd, top_k
from jaxdml._cases import quantized_linear_convolution as convolution
from jaxdml._cases import quantized_linear_matrix_multiply as product
from jaxdml._cases.records import NamedCall

AXIS = "d"
SHARDED, GROWTH = "sharded", "growth in devices"

SPECS: Mapping[tuple[str, str], Sequence[P]] = {
    ("top_k", "axis"): (P(None, AXIS),),
    ("top_k", "rows"): (P(AXIS),),
    ("argmax", "axis"): (P(None, AXIS),),
    ("gather", "rows"): (P(AXIS),),
    ("scatter_nd", "rows"): (P(AXIS),),
    ("quantized_linear_matrix_multiply", "rows"): (P(AXIS),),
    ("quantized_linear_matrix_multiply", "columns"): (*[P()] * 3, P(None, AXIS)),
    ("quantized_linear_matrix_multiply", "K"): (P(None, AXIS), P(), P(), P(AXIS)),
    ("quantized_linear_convolution", "batch"): (P(AXIS),),
}
"""By operator and what is sharded: how the first arguments are. The others are whole on each device."""


def specs(case: NamedCall) -> tuple[Sequence[P], int]:
    """Return how the first arguments of a case are sharded, and over how many devices."""
    dimension, _, devices = case.options["sharding"].partition(" over ")
    return SPECS[case.operator, dimension], int(devices)


def over(case: NamedCall, dimension: str, devices: int) -> NamedCall:
    """Return the same call with a dimension sharded, and what each device has to move and compute at least."""
    return replace(
        case,
        options={**case.options, "sharding": f"{dimension} over {devices}"},
        bytes=case.bytes // devices,
        operations=case.operations // devices,
        origin="weak scaling" if case.group == GROWTH else "layers of large models, on several devices",
        at=devices if case.group == GROWTH else None,
        draws=1,
    )


def cases(devices: int, size: int = 2**24) -> tuple[NamedCall, ...]:
    """Return the cases of so many devices; in weak scaling each has ``size`` numbers to select from."""
    counts = [count for count in (1, 2, 4, 8, 16, 32, 64) if count < devices] + [devices]
    rows = max(1, size // 2**14)
    growth = [
        call
        for count in counts
        for call in (
            over(_select(GROWTH, 1, count * size), "axis", count),
            over(_multiply(GROWTH, count * rows, 4096, 4096), "rows", count),
            over(_write(GROWTH, count * 64 * rows, 32 * rows), "rows", count),
        )
    ]
    layer = _layers.Layer("ResNet-50, 3 x 3 on 256 channels", 256, 14, 256, 3)
    sharded = [
        *(over(_select(SHARDED, count, 128256), "axis", devices) for count in (1, 8, 128)),
        over(_select(SHARDED, 128, 128256), "rows", devices),
        over(argmax.call(SHARDED, (8, 128256), "float32"), "axis", devices),
        over(gather.call(SHARDED, (65536, 512), (1024,), "float32"), "rows", devices),
        over(_write(SHARDED, 65536, 16384), "rows", devices),
        *(over(_multiply(SHARDED, count, 4096, 14336), by, devices) for count in (8, 512) for by in ("columns", "K")),
        over(convolution.call(SHARDED, layer, 32, "uint8", "int8"), "batch", devices),
    ]
    return (*sharded, *growth)


def _select(group: str, rows: int, n: int) -> NamedCall:
    return top_k.call(group, rows, n, 64, "float32", "decreasing")


def _multiply(group: str, m: int, k: int, n: int) -> NamedCall:
    return product.call(group, (), m, k, n, "int8", "int8")


def _write(group: str, rows: int, count: int) -> NamedCall:
    return scatter_nd.call(group, (rows, 128), count, "float32", memory="copied")
