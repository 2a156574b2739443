"""Resize and Upsample of dimensions with lengths.

Where the factor is a number, results come from the same places whatever the length is, but for those at the end: the
node runs on images whose last element that counts stands behind the end, too. Else places are computed.
"""

from fractions import Fraction
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxdml._networks.resampling import along
from jaxdml.onnx.nodes import resizing
from jaxdml.onnx.nodes._interpolation import KERNELS, Sampling, taps
from jaxdml.onnx.nodes._sizes import different_axes
from jaxdml.onnx.nodes.bounded._masking import extended
from jaxdml.onnx.nodes.bounded._task import Rules, Task
from jaxdml.onnx.values import tabled
from jaxdml.onnx.values.bounded import bounded, inner, sizes_of
from jaxdml.onnx.values.kinds import Value, computed
from jaxdml.onnx.values.lengths import Length, LengthError, bounds, limits, same, true
from jaxdml.onnx.values.stored import stored, stored_axis, widened

_NARROW = 2**29
"""Numerators of places are less than this, so that 32 bits hold what they are rounded with."""


class _Axis(NamedTuple):
    """How a dimension is resized: a result lies ``step / by`` elements behind the one before it.

    Attributes:
      size: of the dimension.
      outputs: of the result.
      step: a number, or the size.
      by: a number, or what is wanted instead of the size.
    """

    size: Any
    outputs: Any
    step: Any
    by: Any

    @property
    def factor(self) -> Fraction | None:
        """The size of the result over that of the dimension, if it is a number."""
        known = not isinstance(self.step, Length) and not isinstance(self.by, Length)
        return Fraction(self.by, self.step) if known and self.step else None


class _Rule(NamedTuple):
    """The attributes: those of ``taps``, and ONNX's ``coordinate_transformation_mode``."""

    mode: str
    nearest_mode: str
    cubic_coeff_a: float
    exclude_outside: bool
    antialias: bool
    coordinates: str

    def is_fixed(self, axis: _Axis) -> bool:
        """Whether places are the same for each length, but for those at the end."""
        if axis.factor is None or self.exclude_outside:
            return False
        if self.coordinates == "half_pixel_symmetric":
            return same(axis.outputs * axis.step, axis.size * axis.by)
        if self.coordinates == "pytorch_half_pixel":
            return limits(axis.outputs).low > 1
        return self.coordinates in ("half_pixel", "asymmetric", "tf_half_pixel_for_nn")

    def reads_behind(self, axis: _Axis) -> bool:
        """Whether results for some length come from elements behind its end."""
        if not isinstance(axis.size, Length) or axis.factor is None:
            return False
        (low, most), outputs = limits(axis.size), limits(axis.outputs).bound
        coordinates = self.coordinates.removesuffix("_symmetric")
        far = Sampling(2 * most + 2, outputs, axis.factor, coordinates, (Fraction(0), Fraction(1)))
        indices, _ = taps(far, *self[:5])
        last = np.maximum.accumulate(indices.max(0))
        lengths = np.arange(low, most + 1)
        counts = np.maximum(lengths * axis.by // axis.step, _in_float32(lengths, float(axis.factor))).clip(max=outputs)
        return bool((last[counts - 1] >= lengths)[counts > 0].any())


def resize(
    task: Task, x: Value, roi: Value = None, scales: np.ndarray | None = None, sizes: np.ndarray | None = None
) -> tuple[Value, ...]:
    """Resize by factors, or to sizes."""
    if not task.takes("nearest_mode"):
        return repeated(task, x, roi)
    rule = _Rule(
        task.attribute("mode"),
        task.attribute("nearest_mode"),
        task.attribute("cubic_coeff_a"),
        bool(task.attribute("exclude_outside")),
        bool(task.attribute("antialias")),
        task.attribute("coordinate_transformation_mode"),
    )
    chosen = different_axes(task.attribute("axes"), x.ndim) or tuple(range(x.ndim))
    own = sizes_of(x)
    if scales is not None and scales.size:
        axes = {d: _by_factor(own[d], factor) for d, factor in zip(chosen, scales, strict=True)}
    else:
        if task.attribute("keep_aspect_ratio_policy") != "stretch" or sizes is None:
            raise LengthError(f"the sizes that keep the ratio of {list(own)}")
        axes = {d: _to_size(own[d], size) for d, size in zip(chosen, sizes.tolist(), strict=True)}
    axes = {d: axis for d, axis in axes.items() if axis.factor != 1}
    if rule.coordinates == "tf_crop_and_resize":
        raise LengthError(f"the region of sizes {list(own)}")
    if all(rule.is_fixed(axis) for axis in axes.values() if _has_length(axis)):
        wanted = None if sizes is None else np.asarray(bounds(sizes.tolist()), np.int64)
        image = extended(x, own, [d for d, axis in axes.items() if rule.reads_behind(axis)])
        results = task.compute(image, roi, scales, *([] if wanted is None else [wanted]))
    else:
        results = (_resized(x, axes, rule),)
    new = [axes[d].outputs if d in axes else n for d, n in enumerate(own)]
    return tuple(bounded(y, new) for y in results)


def repeated(task: Task, x: Value, scales: np.ndarray | None = None) -> tuple[Value, ...]:
    """Resize as before version 11."""
    mode = {"bilinear": "linear"}.get(task.attribute("mode"), task.attribute("mode"))
    rule = _Rule(mode, "simple", -0.75, False, False, "asymmetric")
    factors = np.asarray(task.attribute("scales"), np.float32) if scales is None else scales
    own = sizes_of(x)
    axes = {d: _by_factor(n, factor) for d, (n, factor) in enumerate(zip(own, factors, strict=True)) if factor != 1}
    image = extended(x, own, [d for d, axis in axes.items() if rule.reads_behind(axis)])
    new = [axes[d].outputs if d in axes else n for d, n in enumerate(own)]
    return tuple(bounded(y, new) for y in task.compute(image, *([] if scales is None else [scales])))


def _has_length(axis: _Axis) -> bool:
    return isinstance(axis.size, Length) or isinstance(axis.outputs, Length)


def _by_factor(size: Any, factor: Any) -> _Axis:
    outputs, number = resizing.by_factor(limits(size).bound, factor)
    if isinstance(size, Length):
        lengths = np.arange(size.low, size.bound + 1)
        outputs = size * number.numerator // number.denominator
        if (_in_float32(lengths, factor) != lengths * number.numerator // number.denominator).any():
            (outputs,) = tabled.computed(lambda n: _in_float32(n, factor), [np.array([size], object)])
    return _Axis(size, outputs, number.denominator, number.numerator)


def _in_float32(lengths: np.ndarray, factor: Any) -> np.ndarray:
    """Return lengths of outputs as ONNX infers them."""
    return (lengths.astype(np.float32) * np.float32(factor)).astype(np.int64)


def _to_size(size: Any, wanted: Any) -> _Axis:
    (_, most), (_, outputs) = limits(size), limits(wanted)
    if same(size * outputs, wanted * most):
        number = Fraction(outputs, most or 1)
        return _Axis(size, wanted, number.denominator, number.numerator)
    return _Axis(size, wanted, size, wanted)


def _resized(x: Value, axes: dict[int, _Axis], rule: _Rule) -> Value:
    """Return what lies at places that depend on lengths."""
    value = computed(inner(x))
    data, wrap = stored(value)
    result = data if rule.mode == "nearest" else widened(data)
    for d, axis in axes.items():
        result = along(jnp, result, stored_axis(value, d), *_taps(axis, rule))
    return wrap(resizing.as_was(result, data.dtype))


def _taps(axis: _Axis, rule: _Rule) -> tuple[Any, Any]:
    """Return what ``taps`` does, computed where it depends on a length."""
    if rule.antialias:
        raise LengthError(f"how far each of {axis.size} elements reaches")
    numerator, denominator = _places(axis, rule)
    last = true(axis.size) - 1
    if rule.mode == "nearest":
        shift = {"round_prefer_floor": -1, "round_prefer_ceil": 1}.get(rule.nearest_mode, 0)
        twice, by = 2 * numerator + shift * denominator, 2 * denominator
        up = rule.nearest_mode in ("ceil", "round_prefer_floor")
        return jnp.clip(-(-twice // by) if up else twice // by, 0, last)[None], None
    support, weigh = KERNELS[rule.mode]
    lower, rest = jnp.divmod(numerator, denominator)
    steps = np.arange(1 - support, 1 + support)[:, None]
    at = lower + steps
    weights = weigh(steps - rest / jnp.asarray(denominator, jnp.float32), rule.cubic_coeff_a)
    if rule.exclude_outside:
        weights = jnp.where((at >= 0) & (at <= last), weights, 0)
        total = weights.sum(0)
        weights = weights / jnp.where(total == 0, 1, total)
    return jnp.clip(at, 0, last), weights


def _places(axis: _Axis, rule: _Rule) -> tuple[Any, Any]:
    """Return the places of the results, as numerators and a denominator."""
    most = limits(axis.outputs).bound
    n, outputs, step, by = (true(each) for each in axis)
    high = [limits(each).bound for each in axis]
    if 4 * max(high[1], 1) * max(high[0], high[1], 1) * max(high[2:] if axis.factor is not None else (1,)) > _NARROW:
        raise LengthError(f"places among {axis.size} elements in 32 bits")
    at = jnp.arange(most, dtype=jnp.int32)
    middle = (2 * at + 1) * step
    if rule.coordinates == "align_corners":
        known = axis.factor is not None
        return (at * (n - 1) * step, jnp.maximum(n * by - step, 1)) if known else (at * (n - 1), jnp.maximum(by - 1, 1))
    if rule.coordinates == "half_pixel_symmetric" and axis.factor is not None:
        return middle - by + n * by - outputs * step, 2 * by
    if rule.coordinates == "asymmetric":
        return at * step, by
    if rule.coordinates == "tf_half_pixel_for_nn":
        # What keeps its size is as it was.
        return jnp.where(step == by, 2 * at * step, middle), 2 * by
    one = rule.coordinates == "pytorch_half_pixel"
    return jnp.where((outputs == 1) & one, 0, middle - by), 2 * by


RULES: Rules = {"Resize": resize, "Upsample": repeated}
