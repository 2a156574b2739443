"""Fourier transforms and what belongs to them. The windows are defined by other operators."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import onnx
from jax import lax

from jaxdml._base.shapes import is_static
from jaxdml.onnx.nodes._handler import Handler, NodeCall, Table
from jaxdml.onnx.nodes._sizes import axis_of, refusal
from jaxdml.onnx.values.stored import widened


def _transformed(x: Any, length: int, axis: int, inverse: int, onesided: int) -> Any:
    """Transform an array whose last dimension is a real part, or a real and an imaginary one."""
    wide = widened(x)
    if inverse and onesided:
        return jnp.fft.irfft(_complex(wide), length, axis)[..., None].astype(x.dtype)
    kept = np.arange(length // 2 + 1 if onesided else length)
    if inverse or x.shape[-1] == 2:
        result = (jnp.fft.ifft if inverse else jnp.fft.fft)(_complex(wide), length, axis)
        return _parts(jnp.take(result, kept, axis) if onesided else result, x.dtype)
    # Of a real signal the second half mirrors the first.
    half = jnp.fft.rfft(wide[..., 0], length, axis)
    result = jnp.take(half, np.minimum(kept, length - kept), axis)
    mirrored = (2 * kept > length).reshape(-1, *(1,) * (half.ndim - 1 - axis))
    return _parts(jnp.where(mirrored, result.conj(), result), x.dtype)


def _complex(x: Any) -> Any:
    return x[..., 0] if x.shape[-1] == 1 else lax.complex(x[..., 0], x[..., 1])


def _parts(values: Any, dtype: Any) -> Any:
    return jnp.stack((values.real, values.imag), -1).astype(dtype)


def _dft_17(
    call: NodeCall, input: Any, dft_length: Any = None, *, axis: int = 1, inverse: int = 0, onesided: int = 0
) -> Any:
    axis = axis_of(axis, input.ndim)
    whole = input.shape[axis]
    if inverse and onesided:
        whole = 2 * (whole - 1)
    return _transformed(input, whole if dft_length is None else int(dft_length.item()), axis, inverse, onesided)


def _dft_20(
    call: NodeCall, input: Any, dft_length: Any = None, axis: Any = None, *, inverse: int = 0, onesided: int = 0
) -> Any:
    place = -2 if axis is None else int(axis.item())
    return _dft_17(call, input, dft_length, axis=place, inverse=inverse, onesided=onesided)


def _stft(
    call: NodeCall, signal: Any, frame_step: Any, window: Any = None, frame_length: Any = None, *, onesided: int = 1
) -> Any:
    if signal.ndim == 2:  # Real, as onnxruntime reads it.
        signal = signal[..., None]
    whole = signal.shape[1] if window is None else window.shape[0]
    length = whole if frame_length is None else int(frame_length.item())
    step = int(frame_step.item())
    if is_static(signal.shape[1]) and not 0 < length <= signal.shape[1]:
        raise refusal(f"a frame has {length} elements, the signal {signal.shape[1]}.")
    count = 1 + (signal.shape[1] - length) // step
    frames = signal[:, step * np.arange(count)[:, None] + np.arange(length)]
    if window is not None:
        frames = frames * window[:, None]
    return _transformed(frames, length, 2, 0, onesided)


def _mel_weight_matrix(
    call: NodeCall,
    num_mel_bins: Any,
    dft_length: Any,
    sample_rate: Any,
    lower_edge_hertz: Any,
    upper_edge_hertz: Any,
    *,
    output_datatype: int = 1,
) -> np.ndarray:
    bins = int(num_mel_bins.item())
    low, high = (2595 * np.log10(1 + float(edge.item()) / 700) for edge in (lower_edge_hertz, upper_edge_hertz))
    mels = low + np.arange(bins + 2) * ((high - low) / (bins + 2))
    hertz = 700 * (10 ** (mels / 2595) - 1)
    edges = (hertz * (int(dft_length.item()) + 1) // int(sample_rate.item())).astype(np.int64)
    rows = np.arange(int(dft_length.item()) // 2 + 1)[:, None]
    start, middle, end = edges[:-2], edges[1:-1], edges[2:]
    rising = np.where(middle == start, rows == middle, (rows - start) / np.maximum(middle - start, 1))
    falling = (end - rows) / np.maximum(end - middle, 1)
    before = (rows >= start) & (rows <= middle)
    after = (rows >= middle) & (rows < end) & ((rows > middle) | (middle < end))
    result = np.where(after, falling, np.where(before, rising, 0))
    return result.astype(onnx.helper.tensor_dtype_to_np_dtype(output_datatype))


TABLE: Table = {
    "DFT": (Handler(17, _dft_17, static="dft_length"), Handler(20, _dft_20, static="dft_length axis")),
    "STFT": (Handler(17, _stft, static="frame_step frame_length"),),
    "MelWeightMatrix": (Handler(17, _mel_weight_matrix, static="*", host=True),),
}
