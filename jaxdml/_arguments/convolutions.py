"""Check the arguments of a convolution, and sum its windows on every shard, before an operator finishes the sums."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import lax

from jaxdml._arguments import dimensions, packing, quantized
from jaxdml._arguments.call import Call
from jaxdml._arithmetic.windows import Windows
from jaxdml._kernels import integer_convolution, integer_product
from jaxdml._kernels.integer_convolution import METHODS, Filters, PackedFilters, in_canonical_order, why_not
from jaxdml._kernels.integer_sums import finish_everywhere
from jaxdml._kernels.requantization import Multiplier
from jaxdml._placement.layout import Labels, Names, axis_size, layout, run
from jaxdml._placement.lowering import Forced
from jaxdml._placement.materialized import materialized


class InputAndFilters(NamedTuple):
    """Hold the arrays of a call, and how the windows of ``w`` lie on ``x``."""

    x: jax.Array
    w: Filters
    windows: Windows
    order: lax.ConvDimensionNumbers
    names: Names
    """The mesh axes that the contracted channels are sharded over in the caller's ``jax.shard_map``."""
    terms: int
    """How many products a sum adds up: those of a window, with the channels of all shards."""


def convolution(call: Call, axis_name: Any, dimension_numbers: Any, options: Mapping[str, Any]) -> InputAndFilters:
    """Require ``x`` and ``w`` to be an input and filters that fit each other, and windows to fit the input.

    Args:
      call: the call.
      axis_name: as given.
      dimension_numbers: as given.
      options: ``strides``, ``dilations``, ``start_padding``, ``end_padding`` and ``group_count`` as given.
    """
    names = call.axis_names(axis_name)
    shards = axis_size(names)
    x, w = quantized.integers(call, "x"), call.operands["w"]
    w = packing.filters(call, "w", w, shards) if isinstance(w, PackedFilters) else quantized.integers(call, "w")
    if x.ndim < 3 or w.ndim != x.ndim:
        rule = f"x and w must have one rank, at least 3; got {x.ndim} and {w.ndim}."
        call.fail(TypeError, rule, "Give x as [N, C, *spatial] and w as [M, C / group_count, *spatial].", "x", "w")
    order = _order(call, x, w, dimension_numbers)
    if isinstance(w, PackedFilters) and w.dimensions != tuple(order.rhs_spec):
        rule = "dimension_numbers must give w the order with which it was packed."
        call.fail(ValueError, rule, "Pass the second string of dimension_numbers to jaxdml.prepack_filters.", "x", "w")
    groups = dimensions.at_least(call, "group_count", options["group_count"], 1, "x", "w")
    channels, (features, depth) = x.shape[order.lhs_spec[1]], (w.shape[d] for d in order.rhs_spec[:2])
    if channels != depth * groups or features % groups:
        rule = f"x must have group_count times as many channels as a filter, {depth * groups}; got {channels}."
        if channels == depth * groups:
            rule = f"group_count must divide the number of filters, {features}; got {groups}."
        advice = "Give w [M, C / group_count, *spatial] with M a multiple of group_count."
        call.fail(TypeError, rule, advice, "x", "w")
    sizes, spatial = (tuple(a.shape[d] for d in spec[2:]) for a, spec in ((w, order.rhs_spec), (x, order.lhs_spec)))
    each = dimensions.of_each(call, options, len(sizes), "x", "w")
    first = 1 if order.lhs_spec[1] == x.ndim - 1 else 2
    windows = Windows(tuple(range(first, first + len(sizes))), sizes, **each, groups=groups)
    for d, count in enumerate(windows.counts(windows.with_channels(1, spatial, channels))):
        if sizes[d] < 1 or count < 1:
            inside = spatial[d] + windows.start_padding[d] + windows.end_padding[d]
            rule = f"a window must have 1 to {inside} elements along spatial dimension {d}; got {windows.reaches[d]}."
            call.fail(ValueError, rule, "Pad x more with start_padding or end_padding.", "x", "w")
    return InputAndFilters(x, w, windows, order, names, windows.taps * depth * shards)


def parameters(call: Call, given: InputAndFilters, **dtypes: Any) -> dict[str, jax.Array | None]:
    """Return parameters of these dtypes by name, as ``[1]`` or ``[O]``; None stays None, but not for a scale."""
    values = {name: quantized.optional(call, name, np.dtype(dtype)) for name, dtype in dtypes.items()}
    aligned = {name: value if value is None else _as_vector(call, name, value, given) for name, value in values.items()}
    return quantized.without_zeros(call, aligned)


def with_runs(call: Call, given: InputAndFilters, multiplier: Multiplier | None) -> InputAndFilters:
    """Return the arrays of a call, with the runs of packed filters if their chain rounds the sums.

    Args:
      call: the call.
      given: its arrays.
      multiplier: that of the call, with a chain.
    """
    packed = call.operands["w"]
    chain: Any = multiplier and multiplier.chain
    if not isinstance(given.w, PackedFilters) or not chain or chain.of_complete_sums:
        return given
    return given._replace(w=replace(given.w, runs=packed.runs))


_BY_CHANNEL = "w_scale", "w_zero_point", "bias"
"""The parameters that have one value, or one for each output channel. The others have one."""


def _as_vector(call: Call, name: str, value: jax.Array, given: InputAndFilters) -> jax.Array:
    """Return a parameter with one value as ``[1]``, or one with a value for each output channel as ``[O]``."""
    if name not in _BY_CHANNEL:
        if value.size != 1 or value.ndim > given.x.ndim:
            rule = f"{name} must be one value; got {[*value.shape]}."
            call.fail(TypeError, rule, f"Pass {name} with shape ().", name)
        return lax.expand_dims(lax.squeeze(value, range(value.ndim)), [0])
    features = given.w.shape[given.order.rhs_spec[0]]
    channel = value.ndim - given.x.ndim + given.order.out_spec[1]
    if value.ndim < 2:
        value = lax.expand_dims(value, range(1 - value.ndim))
    elif 0 <= channel < value.ndim <= given.x.ndim and value.size == value.shape[channel]:
        value = lax.squeeze(value, [d for d in range(value.ndim) if d != channel])
    if value.ndim != 1 or value.shape[0] not in (1, features):
        shape = [1] * given.x.ndim
        shape[given.order.out_spec[1]] = features
        rule = f"{name} must be one value, or one per output channel, {features}, or broadcast to {shape}"
        advice = f"Pass {name} with shape () or ({features},)."
        call.fail(TypeError, f"{rule}; got {[*call.operands[name].shape]}.", advice, "w", name)
    return value


def convolve(
    call: Call, given: InputAndFilters, implementation: Any, finish: Callable[..., Any], *parameters: Any, **static: Any
) -> jax.Array:
    """Return ``finish(sums, *parameters, **static)`` of the parameters after the two zero points, on every shard.

    Args:
      call: the call.
      given: its arrays.
      implementation: the name of a method to force, or None.
      finish: a function of a module; it takes what ``integer_convolution.convolve`` returns, and the parameters so that
        they broadcast against the sums.
      parameters: the zero points of ``x`` and of ``w``, and all other pytrees of parameters, ``[1]`` or ``[O]``.
      static: what else ``finish`` takes; hashable.
    """
    windows, order = given.windows, given.order
    features, depth = (given.w.shape[d] for d in order.rhs_spec[:2])
    operands = (given.x, parameters[0]), (given.w, parameters[1])
    forced = call.implementation(
        implementation,
        METHODS,
        lambda method: why_not(method, depth, windows, integer_product.longest(*operands)),
        only_on=METHODS,
    )
    spatial = tuple(f"spatial dimension {d} of" for d in range(len(windows.sizes)))
    contracted = "features" if windows.groups > 1 else "channels"
    of_depth = None if windows.groups > 1 else "channels"
    of_x = dimensions.ordered(("batch", contracted, *(f"{label} x" for label in spatial)), order.lhs_spec)
    of_w = dimensions.ordered(("features", of_depth, *(f"{label} w" for label in spatial)), order.rhs_spec)
    of_filters: tuple[Labels, ...] = (of_w,)
    if isinstance(given.w, PackedFilters):
        # Runs of windows, and what belongs to edges, are whole on every device.
        whole = ((None,) * leaf.ndim for leaf in jax.tree.leaves((given.w.runs, given.w.edges)))
        of_filters = (tuple(of_w[d] for d in given.w.order), ("features",), *whole)
    labelled = [(given.x, of_x), *zip(jax.tree.leaves(given.w), of_filters, strict=True)]
    labelled += [
        (x, ("features" if x is not None and x.size == features > 1 else None,))
        for x in jax.tree.leaves(parameters, is_leaf=lambda x: x is None)
    ]
    result = dimensions.ordered(("batch", "features", *(None for _ in spatial)), order.out_spec)

    def fail(rule: str) -> Any:
        call.fail(ValueError, rule, "Reshard x or w with jax.sharding.reshard.", "x", "w")

    where = layout(
        labelled,
        result=result,
        combined={"channels": given.names},
        deciding=2,
        fail=fail,
    )
    dimensions.require_whole(where, (of_x, *of_filters), ("batch", "features", "channels"), fail)
    how = {"windows": windows, "order": order, "forced": forced, "finish": finish}
    convolved: jax.Array = run(_convolved, where, given.x, given.w, *parameters, **how, **static)
    return convolved


def _convolved(
    x: Any,
    w: Any,
    zx: Any,
    zw: Any,
    *parameters: Any,
    over: tuple[Names, ...],
    windows: Windows,
    order: lax.ConvDimensionNumbers,
    forced: Forced | None,
    finish: Callable[..., Any],
    **static: Any,
) -> Any:
    """Convolve on one shard, and finish; ``over`` has the mesh axes that contracted channels are sharded over."""
    x = lax.transpose(x, _canonical(order.lhs_spec, windows))
    w = in_canonical_order(w, order.rhs_spec)
    depth = w.shape[1]
    of_block = windows._replace(groups=x.shape[windows.channel_axis] // depth) if depth else windows
    sums = integer_convolution.convolve((x, zx), (w, zw), of_block, forced, over[0])
    along_channels = jax.tree.map(windows.along_channels, parameters)
    result = finish_everywhere(finish, sums, *along_channels, **static)
    places = np.argsort(_canonical(order.out_spec, windows))
    if result.dtype.itemsize == 1 and (np.diff(places) < 0).any():
        result = materialized(result)  # Else a CPU would round in a loop over a transposed array.
    return lax.transpose(result, places)


def _canonical(spec: Sequence[int], windows: Windows) -> tuple[int, ...]:
    """Return the dimensions of an array as ``N, *spatial, C`` or ``N, C, *spatial``, as ``windows`` tells."""
    return (spec[0], *spec[2:], spec[1]) if windows.channels_last else tuple(spec)


def _order(call: Call, x: jax.Array, w: Filters, dimension_numbers: Any) -> lax.ConvDimensionNumbers:
    """Return which dimensions are which, as ``jax.lax`` understands it."""
    call.static("dimension_numbers", dimension_numbers)
    order = dimensions.order(x.shape, w.shape, dimension_numbers)
    if order is None:
        rule = f"dimension_numbers must say where the {x.ndim} dimensions of x, w and the result are"
        advice = 'Pass three strings, such as ("NHWC", "HWIO", "NHWC"), or None for channels first.'
        call.fail(ValueError, f"{rule}; got {dimension_numbers!r}.", advice, "x", "w")
    return order
