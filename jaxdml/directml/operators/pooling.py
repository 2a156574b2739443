"""Poolings of floats and integers, their gradients, and the inverse of a max pooling."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax.numpy as jnp
from jax import lax

from jaxdml import scatter_nd
from jaxdml._networks.pooling import Pool, greatest, least, mean, norm, reduced
from jaxdml._networks.transposes import transposed
from jaxdml.directml._c import c_field
from jaxdml.directml._checks import alike, sized, without_zeros
from jaxdml.directml._errors import Violation, Violations
from jaxdml.directml._operator import Operator
from jaxdml.directml._support import growing
from jaxdml.directml.operators._pointwise import widened
from jaxdml.directml.operators._windows import fits


def _pool(desc: Any, pooled: str) -> Pool:
    """Return the windows of a description; ``pooled`` is the tensor that has an element for each of them."""
    return Pool(desc.window_size, desc.strides, _dilations(desc), desc.start_padding, desc.tensors[pooled].sizes[2:])


def _dilations(desc: Any) -> tuple[int, ...]:
    return getattr(desc, "dilations", (1,) * len(desc.window_size))


def _constraints(whole: str, pooled: str, desc: Any) -> Violations:
    """Yield what is wrong with tensors and windows.

    Args:
      whole: the tensor on which the windows lie.
      pooled: the one that has an element for each window.
      desc: the description.
    """
    values = [name for name in desc.tensors if name != "output_indices_tensor"]
    yield from alike(desc, "dimension_count", whole, *desc.tensors)
    yield from alike(desc, "data_type", whole, *values)
    for name, like in (("output_indices_tensor", pooled), ("output_gradient_tensor", whole)):
        if name in desc.tensors and name != pooled:
            yield from sized(desc, name, f"those of {c_field(like)}", desc.tensors[like].sizes)
    yield from without_zeros(desc, "strides", "window_size", *(("dilations",) if hasattr(desc, "dilations") else ()))
    spatial = desc.tensors[whole].dimension_count - 2
    if desc.dimension_count != spatial:
        rule = f"must be {spatial}, the spatial dimensions of {c_field(whole)}"
        yield Violation("DimensionCount", rule, desc.dimension_count)
    elif desc.tensors[pooled].dimension_count == spatial + 2 and 0 not in (*desc.strides, *desc.window_size):
        yield from _counts(whole, pooled, desc)


def _counts(whole: str, pooled: str, desc: Any) -> Violations:
    """Require as many windows as fit, or more that begin within the padded tensor: their number is rounded up then."""
    sizes, own = desc.tensors[whole].sizes, desc.tensors[pooled].sizes
    if own[:2] != sizes[:2]:
        yield Violation(f"{c_field(pooled)}.Sizes", f"must begin with {list(sizes[:2])}, as {c_field(whole)}", own)
    along = fits(sizes[2:], desc.window_size, desc.strides, _dilations(desc), desc.start_padding, desc.end_padding)
    for d, ((reach, inside, fewest), stride, count) in enumerate(zip(along, desc.strides, own[2:], strict=True), 2):
        most = -(-inside // stride)
        if reach > inside:
            rule = f"must span at most {inside} elements along dimension {d} of the padded {c_field(whole)}"
            yield Violation("WindowSize", rule, reach)
        elif not fewest <= count <= most:
            rule = f"must be {fewest}, the windows that fit, or up to {most}, those that begin in the padded tensor"
            yield Violation(f"{c_field(pooled)}.Sizes[{d}]", rule, count)


def _mean(desc: Any, pooled: str, x: Any) -> Any:
    return widened(lambda x: mean(x, _pool(desc, pooled), bool(desc.include_padding)), x)


def _mean_gradient(desc: Any, gradient: Any) -> Any:
    mean_of = partial(_mean, desc, "input_gradient_tensor")
    return transposed(mean_of, desc.output_gradient_tensor.sizes, gradient)


def _norm(desc: Any, x: Any) -> Any:
    return widened(lambda x: norm(x, _pool(desc, "output_tensor"), desc.p), x)


def _greatest(desc: Any, x: Any) -> Any:
    """Return the greatest elements, and their places where the struct has a tensor for these."""
    pool = _pool(desc, "output_tensor")
    if not hasattr(desc, "output_indices_tensor"):
        return reduced(x, pool, lax.max, least(x.dtype))
    indices = desc.output_indices_tensor
    if indices is None:
        return reduced(x, pool, lax.max, least(x.dtype)), None
    values, places = greatest(x, pool)
    return values, places.astype(indices.data_type.dtype)


def _greatest_gradient(desc: Any, x: Any, gradient: Any) -> Any:
    _, places = greatest(x, _pool(desc, "input_gradient_tensor"))
    sums = jnp.zeros(x.size, jnp.float32).at[places.reshape(-1)].add(gradient.reshape(-1).astype(jnp.float32))
    return sums.reshape(x.shape).astype(x.dtype)


def _unpool(desc: Any, x: Any, indices: Any) -> Any:
    """Write each element at its place in the whole output, where the last of several wins; the others are 0."""
    sizes = desc.output_tensor.sizes
    whole = jnp.zeros(math.prod(sizes), x.dtype)
    written = scatter_nd(whole, indices.reshape(-1, 1), x.reshape(-1), duplicates="last")
    return written.reshape(sizes)


def _unpool_constraints(desc: Any) -> Violations:
    yield from alike(desc, "dimension_count", "input_tensor", "indices_tensor", "output_tensor")
    yield from alike(desc, "data_type", "input_tensor", "output_tensor")
    yield from sized(desc, "indices_tensor", "those of InputTensor", desc.input_tensor.sizes)


_POOLED = partial(_constraints, "input_tensor", "output_tensor")
_BOTH = "input_tensor output_tensor"
_INTEGERS = "F, 3_0 F+INT8+UINT8, 5_0 F+I+L"

_FIELDS: Mapping[str, str] = {
    "start_padding": "how many places to add before each spatial dimension.",
    "end_padding": "how many places to add after each spatial dimension.",
}


def _operator(number: int, level: str, doc: str, compute: Callable[..., Any]) -> Operator:
    return Operator(number, growing(f"{level} 4-5", (_BOTH, f"{level} F")), compute, _POOLED, doc=doc, fields=_FIELDS)


def _with_indices(number: int, level: str) -> Operator:
    levels = growing(
        f"{level} 4-5",
        (_BOTH, f"{level} {_INTEGERS}"),
        ("output_indices_tensor", f"{level} UINT32, 5_0 UINT32+UINT64"),
    )
    doc = "Take the greatest element of each window, and which element of the input it is: the first of equal ones."
    return Operator(number, levels, _greatest, _POOLED, doc=doc, fields=_FIELDS)


OPERATORS: Mapping[str, Operator] = {
    "AVERAGE_POOLING": _operator(56, "1_0", "Average each window.", lambda desc, x: _mean(desc, "output_tensor", x)),
    "AVERAGE_POOLING1": _operator(166, "6_2", "Average each window.", lambda desc, x: _mean(desc, "output_tensor", x)),
    "LP_POOLING": _operator(57, "1_0", "Take the P-norm of each window.", _norm),
    "LP_POOLING1": _operator(165, "6_2", "Take the P-norm of each window.", _norm),
    "MAX_POOLING": Operator(
        *(58, growing("1_0 4-5", (_BOTH, f"1_0 {_INTEGERS}")), _greatest, _POOLED),
        doc="Take the greatest element of each window.",
        fields=_FIELDS,
    ),
    "MAX_POOLING1": _with_indices(91, "2_0"),
    "MAX_POOLING2": _with_indices(110, "2_1"),
    "AVERAGE_POOLING_GRAD": Operator(
        130,
        growing("3_0 4-5", ("input_gradient_tensor output_gradient_tensor", "3_0 F")),
        _mean_gradient,
        partial(_constraints, "output_gradient_tensor", "input_gradient_tensor"),
        doc="Return the gradient of an average pooling in its input.",
        fields=_FIELDS,
    ),
    "MAX_POOLING_GRAD": Operator(
        131,
        growing("3_0 4, 4_0 4-5", ("input_tensor input_gradient_tensor output_gradient_tensor", "3_0 F")),
        _greatest_gradient,
        partial(_constraints, "input_tensor", "input_gradient_tensor"),
        doc="Return the gradient of a max pooling in its input: the first of equal elements gets it.",
        fields=_FIELDS,
    ),
    "MAX_UNPOOLING": Operator(
        92,
        growing(
            "2_0 4",
            ("input_tensor output_tensor", "2_0 F, 5_0 F+I+L"),
            ("indices_tensor", "2_0 UINT32, 5_0 UINT32+UINT64"),
        ),
        _unpool,
        _unpool_constraints,
        doc="Write elements at given places of the whole output, which is 0 elsewhere; the last of several wins.",
    ),
}
