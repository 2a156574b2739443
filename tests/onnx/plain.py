"""What ONNX's operators compute, in NumPy, as the standard writes it; floats in float32."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from numpy.lib.stride_tricks import sliding_window_view

Array = np.ndarray


# Windows


def padding(size: Sequence[int], window: Sequence[int], strides: Sequence[int], pads: Any, auto_pad: str) -> Array:
    """Return how much is added before and after each spatial dimension, as rows of two."""
    count = len(size)
    if auto_pad in ("", "NOTSET"):
        return np.reshape(pads if pads is not None else [0] * 2 * count, (2, count)).T
    if auto_pad == "VALID":
        return np.zeros((count, 2), int)
    totals = [max((-(-n // s) - 1) * s + w - n, 0) for n, w, s in zip(size, window, strides, strict=True)]
    small, large = [t // 2 for t in totals], [t - t // 2 for t in totals]
    return np.array([small, large] if auto_pad == "SAME_UPPER" else [large, small]).T


def windows(x: Array, window: Sequence[int], fill: Any, ceil_mode: int = 0, **options: Any) -> Array:
    """Return ``[N, C, *places, *window]``: what each window of the spatial dimensions sees."""
    count = len(window)
    strides, dilations = (options.get(name) or [1] * count for name in ("strides", "dilations"))
    wide = [(k - 1) * d + 1 for k, d in zip(window, dilations, strict=True)]
    pads = padding(x.shape[2:], wide, strides, options.get("pads"), options.get("auto_pad", ""))
    if ceil_mode:
        pads = pads.copy()
        for d, (n, w, s) in enumerate(zip(x.shape[2:], wide, strides, strict=True)):
            places = -(-(n + pads[d].sum() - w) // s) + 1
            places -= (places - 1) * s >= n + pads[d, 0]
            pads[d, 1] = max((places - 1) * s + w - n - pads[d, 0], pads[d, 1])
    padded = np.pad(x, [(0, 0), (0, 0), *pads.tolist()], constant_values=fill)
    seen = sliding_window_view(padded, wide, axis=tuple(range(2, x.ndim)))
    steps = [slice(None, None, s) for s in (*strides, *dilations)]
    return seen[(slice(None), slice(None), *steps)]


def convolve(x: Array, w: Array, group: int = 1, fill: Any = 0, **options: Any) -> Array:
    """Convolve; integers exactly, as int64."""
    options.pop("kernel_shape", None)
    whole = x.dtype.kind in "iu"
    seen = windows(x.astype(np.float64) if whole else x, w.shape[2:], fill, **options)
    batch, spatial, window = len(x), seen.shape[2 : x.ndim], seen.shape[x.ndim :]
    seen = np.moveaxis(seen.reshape(batch, group, -1, *spatial, *window), 2, x.ndim)
    columns = seen.reshape(batch, group, math.prod(spatial), -1)
    filters = w.reshape(group, len(w) // group, -1).astype(columns.dtype)
    product = np.swapaxes(columns @ np.swapaxes(filters, 1, 2), 2, 3).reshape(batch, len(w), *spatial)
    return product.astype(np.int64) if whole else product


def integer_product(a: Array, b: Array) -> Array:
    """Multiply matrices of integers exactly: float64 holds every sum of these sizes."""
    return (a.astype(np.float64) @ b.astype(np.float64)).astype(np.int64)


def by_channel(parameter: Array, rank: int) -> Array:
    """Shape a vector so that it belongs to dimension 1."""
    return np.asarray(parameter).reshape(-1, *[1] * (rank - 2))


def conv(x: Array, w: Array, b: Array | None = None, **options: Any) -> Array:
    made = convolve(x, w, **options)
    return made if b is None else made + by_channel(b, x.ndim)


def max_pool(x: Array, *, kernel_shape: Any, ceil_mode: int = 0, **options: Any) -> Array:
    least = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    seen = windows(x, kernel_shape, least, ceil_mode, **options)
    return seen.max(tuple(range(x.ndim, seen.ndim)))


def sums_and_counts(
    x: Array, *, kernel_shape: Any, ceil_mode: int = 0, count_include_pad: int = 0, **options: Any
) -> tuple[Array, Array]:
    """Return the sum over each window, and how many elements its mean counts."""
    seen = windows(x, kernel_shape, 0, ceil_mode, **options)
    taps = tuple(range(x.ndim, seen.ndim))
    ones = np.ones((1, 1, *x.shape[2:]), int)
    if count_include_pad:  # What a rounded-up size reaches beyond the padding does not count.
        wide = [(k - 1) * d + 1 for k, d in zip(kernel_shape, options.get("dilations") or [1] * len(taps), strict=True)]
        strides = options.get("strides") or [1] * len(taps)
        pads = padding(x.shape[2:], wide, strides, options.get("pads"), options.get("auto_pad", ""))
        ones = np.pad(ones, [(0, 0), (0, 0), *pads.tolist()], constant_values=1)
        options = {k: v for k, v in options.items() if k not in ("pads", "auto_pad")}
    counts = windows(ones, kernel_shape, 0, ceil_mode, **options)
    places = tuple(slice(size) for size in seen.shape[: x.ndim])
    return seen.sum(taps), counts.sum(taps)[places]


def average_pool(x: Array, **options: Any) -> Array:
    total, count = sums_and_counts(x, **options)
    return (total / count).astype(x.dtype)


def spatial(x: Array) -> tuple[int, ...]:
    """Return the dimensions that a global pooling reduces."""
    return tuple(range(2, x.ndim))


# Normalization and activations


def batch_normalization(x, scale, b, mean, var, *, epsilon=1e-5, **_):
    scale, b, mean, var = (by_channel(p, x.ndim) for p in (scale, b, mean, var))
    return (x - mean) / np.sqrt(var + np.float32(epsilon)) * scale + b


def layer_normalization(x, scale, b=None, *, axis=-1, epsilon=1e-5, stash_type=1):
    axes = tuple(range(axis % x.ndim, x.ndim))
    centred = x - x.mean(axes, keepdims=True)
    made = centred / np.sqrt((centred * centred).mean(axes, keepdims=True) + np.float32(epsilon)) * scale
    return made if b is None else made + b


def lrn(x, *, size, alpha=1e-4, beta=0.75, bias=1.0):
    sides = [(0, 0), ((size - 1) // 2, size // 2), *[(0, 0)] * (x.ndim - 2)]
    squares = sliding_window_view(np.pad(x * x, sides), size, axis=1).sum(-1)
    return x / (np.float32(bias) + np.float32(alpha / size) * squares) ** np.float32(beta)


def softmax(x, *, axis=None, opset):
    axis = (-1 if opset >= 13 else 1) if axis is None else axis
    shape = x.shape
    if opset < 13:
        x, axis = x.reshape(math.prod(shape[: axis % x.ndim]), -1), 1
    powers = np.exp(x - x.max(axis, keepdims=True))
    return (powers / powers.sum(axis, keepdims=True)).reshape(shape)


def smoothly(function):
    """Apply a function of Python's floats in float64, and round."""
    apply = np.frompyfunc(function, 1, 1)
    return lambda x: apply(x.astype(np.float64)).astype(x.dtype)


sigmoid = smoothly(lambda v: 1 / (1 + math.exp(-v)) if v > -700 else 0.0)
erf = smoothly(math.erf)


def gelu(x, *, approximate="none"):
    if approximate == "tanh":
        return (x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2).astype(x.dtype)
    return x * (1 + erf(x / np.float32(math.sqrt(2)))) / 2


def clip(x, low=None, high=None):
    x = x if low is None else np.maximum(x, low)
    return x if high is None else np.minimum(x, high)


# Products


def gemm(a, b, c=None, *, alpha=1.0, beta=1.0, transA=0, transB=0):  # noqa: N803
    made = (a.T if transA else a) @ (b.T if transB else b) * a.dtype.type(alpha)
    return made if c is None else made + c * a.dtype.type(beta)


# Shapes


def reshape(x, shape, *, allowzero=0):
    sizes = [x.shape[i] if n == 0 and not allowzero else int(n) for i, n in enumerate(shape)]
    return x.reshape(sizes)


def flatten(x, *, axis=1):
    return x.reshape(math.prod(x.shape[: axis if axis >= 0 else axis + x.ndim]), -1)


def unsqueeze(x, given=None, *, axes=None):
    axes = axes if given is None else given
    return np.expand_dims(x, tuple(int(axis) for axis in axes))


def squeeze(x, given=None, *, axes=None):
    axes = axes if given is None else given
    return np.squeeze(x, None if axes is None else tuple(int(axis) for axis in axes))


def split(x, given=None, *, axis=0, split=None, num_outputs=None, outputs):
    sizes = split if given is None else given
    if sizes is None:
        each = -(-x.shape[axis] // outputs)
        return tuple(np.split(x, range(each, x.shape[axis], each), axis))
    return tuple(np.split(x, np.cumsum(sizes)[:-1], axis))


def slice_(x, starts, ends, axes=None, steps=None):
    parts = [slice(None)] * x.ndim
    axes = range(len(starts)) if axes is None else axes
    for axis, start, end, step in zip(
        axes, starts, ends, np.ones_like(starts) if steps is None else steps, strict=True
    ):
        # Python's slices clamp in the same way; the end of a backward one may lie before the first element.
        last = None if step < 0 and end < -x.shape[axis] else int(end)
        parts[axis] = slice(int(start), last, int(step))
    return x[tuple(parts)]


def gather(x, indices, *, axis=0):
    return np.take(x, indices, axis)


def pad(x, pads, value=None, axes=None, *, mode="constant"):
    rows = np.zeros((x.ndim, 2), int)
    rows[np.arange(x.ndim) if axes is None else axes] = np.reshape(pads, (2, -1)).T
    if mode != "constant":
        return np.pad(x, rows.tolist(), mode={"edge": "edge", "reflect": "reflect", "wrap": "wrap"}[mode])
    return np.pad(x, rows.tolist(), constant_values=x.dtype.type(0) if value is None else value)


def shape(x, *, start=0, end=None):
    return np.array(x.shape[start:end], np.int64)


def cast(x, *, to, **_):
    return x.astype(onnx.helper.tensor_dtype_to_np_dtype(to))


def constant_of_shape(sizes, *, value=None):
    value = np.zeros(1, np.float32) if value is None else value
    return np.full(tuple(sizes), value.reshape(()), value.dtype)


def reduced(function):
    """Return a reduction whose axes are an attribute or an input."""

    def reduce(x, given=None, *, axes=None, keepdims=1, noop_with_empty_axes=0):
        axes = axes if given is None else given
        if noop_with_empty_axes and (axes is None or not len(axes)):
            return x
        over = None if axes is None or not len(axes) else tuple(int(axis) for axis in axes)
        return np.asarray(function(x, axis=over, keepdims=bool(keepdims)), x.dtype)

    return reduce


# Integers


def accumulated(sums: Array) -> Array:
    """Keep the low 32 bits."""
    return sums.astype(np.int32)


def without(x: Array, zero: Array | None, axis: int | None = None) -> Array:
    """Subtract a zero point, in int64."""
    return x.astype(np.int64) - (0 if zero is None else along_axis(zero, x.ndim, axis))


def along_axis(zero: Array, rank: int, axis: int | None) -> Array:
    zero = np.asarray(zero).astype(np.int64)
    if zero.size == 1:
        return zero.reshape(())
    if axis is None or zero.ndim > 1:
        return zero
    sizes = [1] * rank
    sizes[axis] = -1
    return zero.reshape(sizes)


def mat_mul_integer(a, b, za=None, zb=None):
    return accumulated(integer_product(without(a, za, a.ndim - 2), without(b, zb, b.ndim - 1)))


def conv_integer(x, w, zx=None, zw=None, **options):
    return accumulated(convolve(without(x, zx), without(w, zw, 0), **options))


def dynamic_quantize_linear(x):
    """Take each step in float32; a range of nothing but 0 has scale 1."""
    low, high = min(np.float32(0), x.min(initial=0)), max(np.float32(0), x.max(initial=0))
    scale = np.float32(1) if low == high else (high - low) / np.float32(255)
    zero = np.clip(np.rint(np.float32(0) - low / scale), 0, 255)
    return np.clip(np.rint(x / scale) + zero, 0, 255).astype(np.uint8), np.asarray(scale), np.asarray(zero, np.uint8)


PLAIN: dict[str, Any] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": lambda a, b: a // b if a.dtype.kind in "iu" else a / b,
    "Pow": lambda a, b: np.power(a, b.astype(a.dtype)).astype(a.dtype),
    "Sum": lambda *parts: sum(parts[1:], parts[0]),
    "Sqrt": np.sqrt,
    "Exp": np.exp,
    "Neg": np.negative,
    "Tanh": np.tanh,
    "Erf": erf,
    "Sigmoid": sigmoid,
    "Gelu": gelu,
    "Relu": lambda x: np.maximum(x, x.dtype.type(0)),
    "LeakyRelu": lambda x, *, alpha=0.01: np.where(x < 0, x * x.dtype.type(alpha), x),
    "HardSigmoid": lambda x, *, alpha=0.2, beta=0.5: np.clip(x * np.float32(alpha) + np.float32(beta), 0, 1),
    "HardSwish": lambda x: x * np.clip(x / np.float32(6) + np.float32(0.5), 0, 1),
    "Clip": clip,
    "Equal": np.equal,
    "Where": np.where,
    "Softmax": softmax,
    "BatchNormalization": batch_normalization,
    "LayerNormalization": layer_normalization,
    "LRN": lrn,
    "Conv": conv,
    "MaxPool": max_pool,
    "AveragePool": average_pool,
    "GlobalAveragePool": lambda x: x.mean(spatial(x), keepdims=True, dtype=np.float64).astype(x.dtype),
    "GlobalMaxPool": lambda x: x.max(spatial(x), keepdims=True),
    "MatMul": np.matmul,
    "Gemm": gemm,
    "ReduceMean": reduced(np.mean),
    "ReduceSum": reduced(np.sum),
    "ReduceMax": reduced(np.max),
    "Identity": lambda x: x,
    "Dropout": lambda x, *_, **__: x,
    "Reshape": reshape,
    "Flatten": flatten,
    "Transpose": lambda x, *, perm=None: np.transpose(x, perm),
    "Unsqueeze": unsqueeze,
    "Squeeze": squeeze,
    "Split": split,
    "Slice": slice_,
    "Gather": gather,
    "Pad": pad,
    "Concat": lambda *parts, axis: np.concatenate(parts, axis),
    "Expand": lambda x, sizes: x * np.ones(tuple(sizes), x.dtype),
    "Tile": np.tile,
    "Shape": shape,
    "Cast": cast,
    "ConstantOfShape": constant_of_shape,
    "Range": lambda start, limit, delta: np.arange(start, limit, delta, dtype=start.dtype),
    "MatMulInteger": mat_mul_integer,
    "ConvInteger": conv_integer,
    "DynamicQuantizeLinear": dynamic_quantize_linear,
}
"""By operator: a function of its inputs; None where one is left out. ``opset`` and ``outputs`` go to those that ask."""
