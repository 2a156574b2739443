"""Normalizations over dimensions with lengths: means and variances are of what counts."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from jaxdml._networks.normalization import Average, plain
from jaxdml.onnx.nodes import normalization
from jaxdml.onnx.nodes._sizes import axis_of
from jaxdml.onnx.nodes.bounded._fitting import must_not_have_lengths, stretched
from jaxdml.onnx.nodes.bounded._masking import masked
from jaxdml.onnx.nodes.bounded._task import Rule, Rules, Task, array
from jaxdml.onnx.values.bounded import Bounded, bounded, counts, inner, is_bounded_in, sizes_of
from jaxdml.onnx.values.kinds import Value
from jaxdml.onnx.values.lengths import LengthError, product, true
from jaxdml.onnx.values.promises import broadcast


def average_of(sizes: Sequence[Any]) -> Average:
    """Return what computes the mean of what counts in arrays of such sizes, or of more dimensions."""

    def average(x: jax.Array, axes: Sequence[int]) -> jax.Array:
        of = (*sizes, *x.shape[len(sizes) :])
        valid = counts(of, axes)
        if valid is True:
            return plain(x, axes)
        total = jnp.where(valid, x, 0).sum(axes, keepdims=True)
        return total / jnp.asarray(true(product(of[d] for d in axes)), x.dtype)

    return average


def each_element(task: Task, x: Value, *others: Value) -> tuple[Value, ...]:
    """Normalize by numbers of each channel, or by other channels."""
    must_not_have_lengths(others)
    must_not_have_lengths([x], [1])
    per_channel = all(len(other.shape) == 1 for other in others)
    if task.call.node.attributes.get("training_mode") or not per_channel:
        raise LengthError(f"the result for sizes {list(sizes_of(x))}")
    return tuple(bounded(y, sizes_of(x)) for y in task.compute(inner(x), *others))


def _of_images(normalize: Callable[..., Value], *names: str) -> Rule:
    """Return the rule of what normalizes each image, given how; ``names`` are of its attributes."""

    def run(task: Task, x: Value, scale: Value, bias: Value) -> tuple[Value, ...]:
        must_not_have_lengths([scale, bias])
        must_not_have_lengths([x], [1])
        batch, _, *spatial = sizes_of(x)
        options = {name: task.attribute(name) for name in ("epsilon", *names)}
        return (bounded(normalize(inner(x), average_of((batch, *spatial)), scale, bias, **options), sizes_of(x)),)

    return run


def in_groups(task: Task, x: Value, scale: Value, bias: Value) -> tuple[Value, ...]:
    """Normalize groups of channels: before version 21 there are parameters for each group."""
    normalize = normalization.by_channel if task.takes("stash_type") else normalization.by_group
    return _of_images(normalize, "num_groups")(task, x, scale, bias)


def from_axis(normalize: Callable[..., tuple[Value, ...]]) -> Rule:
    """Return the rule of what normalizes from an axis on, given how."""

    def run(task: Task, x: Value, *affine: Value) -> tuple[Value, ...]:
        sizes = sizes_of(x)
        axis = axis_of(task.attribute("axis"), len(sizes))
        broadcast(task.call.node, sizes, *(sizes_of(part) for part in affine))
        if is_bounded_in(sizes, tuple(range(axis, len(sizes)))) or any(isinstance(part, Bounded) for part in affine):
            parts = (array(stretched(part, sizes)) for part in affine)
            options = {"axis": axis, "epsilon": task.attribute("epsilon")}
            y, *statistics = normalize(array(x), average_of(sizes), *parts, **options)
        else:  # All of what is normalized together counts: integers may be read as such.
            y, *statistics = task.compute(inner(x), *affine)
        ones = (*sizes[:axis], *(1,) * (len(sizes) - axis))
        return bounded(y, sizes), *(bounded(each, ones) for each in statistics)

    return run


def mean_variance(task: Task, x: Value) -> tuple[Value, ...]:
    """Normalize over some dimensions; before version 9 over all but the channels."""
    if not task.takes("axes"):
        raise LengthError(f"the result for sizes {list(sizes_of(x))}")
    normal = normalization.mean_variance(array(x), average_of(sizes_of(x)), task.attribute("axes"))
    return (bounded(normal, sizes_of(x)),)


def by_norm(task: Task, x: Value) -> tuple[Value, ...]:
    """Divide by the norm of what counts."""
    sizes = sizes_of(x)
    return tuple(bounded(y, sizes) for y in task.compute(masked(x, sizes, 0, [task.axis(len(sizes))])))


RULES: Rules = {
    "BatchNormalization": each_element,
    "GroupNormalization": in_groups,
    "InstanceNormalization": _of_images(normalization.by_instance),
    "LRN": each_element,
    "LayerNormalization": from_axis(normalization.by_deviation),
    "LpNormalization": by_norm,
    "MeanVarianceNormalization": mean_variance,
    "RMSNormalization": from_axis(normalization.by_root),
}
