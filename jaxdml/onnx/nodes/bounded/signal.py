"""Fourier transforms of signals that are longer than what counts."""

import numpy as np

from jaxdml.onnx.nodes._sizes import axis_of
from jaxdml.onnx.nodes.bounded._fitting import must_not_have_lengths
from jaxdml.onnx.nodes.bounded._task import Rules, Task
from jaxdml.onnx.values.bounded import bounded, inner, sizes_of
from jaxdml.onnx.values.kinds import Value
from jaxdml.onnx.values.lengths import Length, LengthError


def frames(
    task: Task, signal: Value, step: np.ndarray, window: Value = None, length: np.ndarray | None = None
) -> tuple[Value, ...]:
    """Transform as many frames as what counts has; others read what does not."""
    batch, size, *_ = sizes_of(signal)
    must_not_have_lengths([window])
    if window is not None:
        of_frame = window.shape[0]
    elif length is not None:
        of_frame = length.item()
    else:
        raise LengthError(f"a frame of {size} elements")
    (y,) = task.compute(inner(signal), step, window, length)
    return (bounded(y, (batch, (size - of_frame) // step.item() + 1, *y.shape[2:])),)


def transform(
    task: Task, x: Value, length: np.ndarray | None = None, axis: np.ndarray | None = None
) -> tuple[Value, ...]:
    """Transform along a dimension that has no length."""
    sizes = list(sizes_of(x))
    place = task.attribute("axis") if task.takes("axis") else -2 if axis is None else axis.item()
    place = axis_of(place, len(sizes))
    if isinstance(sizes[place], Length) or isinstance(sizes[-1], Length):
        raise LengthError(f"the result for sizes {sizes}")
    (y,) = task.compute(inner(x), length, *([] if axis is None else [axis]))
    return (bounded(y, [y.shape[d] if d in (place, len(sizes) - 1) else n for d, n in enumerate(sizes)]),)


RULES: Rules = {"DFT": transform, "STFT": frames}
