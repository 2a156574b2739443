"""Random numbers. The key of the call decides which; the attribute ``seed`` is ignored."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx

from jaxdml.onnx.nodes._handler import Handler, NodeCall, Table
from jaxdml.onnx.nodes._sizes import refusal
from jaxdml.onnx.values.kinds import Dequantized, Value, channels_first, is_host, shape_of
from jaxdml.onnx.values.stored import on_device


def _normal(
    call: NodeCall, *, shape: Sequence[int], dtype: int = 1, mean: float = 0.0, scale: float = 1.0, seed: float = 0.0
) -> Any:
    return _normals(call, shape, _type(dtype), mean, scale)


def _normal_like(
    call: NodeCall, input: Value, *, dtype: int | None = None, mean: float = 0.0, scale: float = 1.0, seed: float = 0.0
) -> Any:
    return _normals(call, shape_of(input), input.dtype if dtype is None else _type(dtype), mean, scale)


def _normals(call: NodeCall, shape: Sequence[Any], dtype: Any, mean: float, scale: float) -> Any:
    dtype = _floating(dtype)
    numbers = jax.random.normal(call.key(), tuple(shape), dtype)
    return numbers * jnp.asarray(scale, dtype) + jnp.asarray(mean, dtype)


def _uniform(
    call: NodeCall, *, shape: Sequence[int], dtype: int = 1, high: float = 1.0, low: float = 0.0, seed: float = 0.0
) -> Any:
    return _uniforms(call, shape, _type(dtype), low, high)


def _uniform_like(
    call: NodeCall, input: Value, *, dtype: int | None = None, high: float = 1.0, low: float = 0.0, seed: float = 0.0
) -> Any:
    return _uniforms(call, shape_of(input), input.dtype if dtype is None else _type(dtype), low, high)


def _uniforms(call: NodeCall, shape: Sequence[Any], dtype: Any, low: float, high: float) -> Any:
    return jax.random.uniform(call.key(), tuple(shape), _floating(dtype), low, high)


def _bernoulli(call: NodeCall, input: Value, *, dtype: int | None = None, seed: float = 0.0) -> Any:
    p = on_device(channels_first(input))
    return jax.random.bernoulli(call.key(), p).astype(p.dtype if dtype is None else _canonical(_type(dtype)))


def _multinomial(call: NodeCall, input: Value, *, dtype: int = 6, sample_size: int = 1, seed: float = 0.0) -> Any:
    logits = on_device(channels_first(input))
    if logits.ndim != 2:
        raise refusal(f"Multinomial draws for each row of a matrix, and has shape {list(logits.shape)}.")
    drawn = jax.random.categorical(call.key(), logits, axis=-1, shape=(sample_size, logits.shape[0]))
    return drawn.T.astype(_canonical(_type(dtype)))


def dropout(call: NodeCall, x: Value, ratio: Any = None, training_mode: Any = None, *, seed: float = 0.0) -> Any:
    """Return what is kept, scaled so that its mean stays, and which that is; all of it, but in training."""
    fraction = 0.5 if ratio is None else float(ratio.reshape(()))
    if fraction and training_mode is not None and training_mode.any():
        array = on_device(channels_first(x))
        kept = jax.random.bernoulli(call.key(), 1 - fraction, array.shape)
        scale = 1 / (1 - fraction) if fraction < 1 else 0.0  # Nothing is kept.
        return jnp.where(kept, array * jnp.asarray(scale, array.dtype), 0), kept
    if isinstance(x, Dequantized):
        call.note((call.node.name,), "the same on integers")
    return x, (np if is_host(x) else jnp).ones(shape_of(x), bool)


def _type(number: int) -> Any:
    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(number))


def _floating(dtype: Any) -> Any:
    if not jnp.issubdtype(dtype, jnp.floating):
        raise refusal(f"such random numbers are floats, and {dtype} is asked for.", "Give the node a dtype.")
    return _canonical(dtype)


def _canonical(dtype: Any) -> Any:
    return jax.dtypes.canonicalize_dtype(dtype)


TABLE: Table = {
    "Bernoulli": (Handler(15, _bernoulli, raw=True),),
    "Multinomial": (Handler(7, _multinomial, raw=True),),
    "RandomNormal": (Handler(1, _normal, raw=True),),
    "RandomNormalLike": (Handler(1, _normal_like, raw=True, shape_only="input"),),
    "RandomUniform": (Handler(1, _uniform, raw=True),),
    "RandomUniformLike": (Handler(1, _uniform_like, raw=True, shape_only="input"),),
}
