"""How arrays are stored: with channels last, with heads first, as filters, packed, on the host or on the device."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import export, lax

import jaxdml
from jaxdml.onnx.values.lengths import as_traced, has_lengths


class _Array(NamedTuple):
    """An array that is stored with its dimensions in another order."""

    array: jax.Array

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self.array.ndim

    @property
    def dtype(self) -> Any:
        """The dtype."""
        return self.array.dtype


class ChannelsLast(_Array):
    """An array that is stored with its dimension 1 last."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape with channels as dimension 1."""
        batch, *spatial, channels = self.array.shape
        return (batch, channels, *spatial)


class HeadsFirst(_Array):
    """An array ``[batch, heads, ...]`` that is stored with its heads first."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape in ONNX's order."""
        heads, batch, *rest = self.array.shape
        return (batch, heads, *rest)


class FloatFilters(_Array):
    """Filters ``[O, I, *spatial]`` of floats that are stored as ``Conv`` reads them: ``[*spatial, I, O]``."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape in ONNX's order."""
        *spatial, depth, features = self.array.shape
        return (features, depth, *spatial)


class Transposed(NamedTuple):
    """A right matrix that ``Gemm`` has as ``[N, K]``."""

    matrix: jaxdml.PackedMatrix

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape in ONNX's order."""
        return self.matrix.shape[::-1]

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self.matrix.ndim

    @property
    def dtype(self) -> Any:
        """The dtype."""
        return self.matrix.dtype


export.register_namedtuple_serialization(Transposed, serialized_name="jaxdml.onnx.Transposed")

Packed = jaxdml.PackedFilters | jaxdml.PackedMatrix
"""What operators read packed."""


Reordered = ChannelsLast | HeadsFirst
"""What operators compute with as it is stored."""


def in_onnx_order(array: Any) -> Any:
    """Return an array with ONNX's order of dimensions, however it is stored."""
    if isinstance(array, ChannelsLast):
        return jnp.moveaxis(array.array, -1, 1)
    if isinstance(array, HeadsFirst):
        return jnp.swapaxes(array.array, 0, 1)
    if isinstance(array, Transposed):
        return jnp.swapaxes(array.matrix.unpacked(), -1, -2)
    return array.unpacked() if isinstance(array, Packed) else array


def stored(value: Any) -> tuple[jax.Array, Callable[[jax.Array], Any]]:
    """Return an array as it is stored, and what makes a value of a result that is stored alike."""
    if isinstance(value, Reordered):
        return value.array, type(value)
    return on_device(in_onnx_order(value)), lambda array: array


def stored_axis(value: Any, axis: Any) -> Any:
    """Return where an array that is stored like ``value`` has a dimension; None for None."""
    if isinstance(value, HeadsFirst) and axis is not None:
        return {0: 1, 1: 0}.get(axis, axis)
    if axis is None or not isinstance(value, ChannelsLast):
        return axis
    return {0: 0, 1: value.ndim - 1}.get(axis, axis - 1)


def on_device(value: Any) -> jax.Array:
    """Return a NumPy array as a JAX array, unfolded; refuse 64-bit integers that JAX's 32 bits do not hold."""
    if not isinstance(value, np.ndarray):
        return value
    return unfolded(as_jax(value)) if is_uniform(value) else as_jax(value)


def unfolded(x: jax.Array) -> jax.Array:
    """Return an array as it is, but hide from XLA that all its elements are one number.

    Of such a number XLA's CPU backend makes a broadcast, and versions up to 0.12 compute a product or a convolution
    with it wrong where a reduction or a window follows.
    """
    return lax.optimization_barrier(x)  # type: ignore[no-untyped-call]


def is_uniform(value: np.ndarray) -> bool:
    """Whether all elements of what may be a matrix or filters are equal; quantization by channel is not slowed."""
    if value.ndim < 2 or value.size < 2:
        return False
    return bool(value.flat[0] == value.flat[-1]) and bool((value == value.flat[0]).all())


def without_uniform_constants(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a model's parameters and inputs; where it is traced, those that are constants of the program unfolded."""
    if not any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(given)):
        return dict(given)
    return {name: jax.tree.map(_unfolded_constant, value) for name, value in given.items()}


def _unfolded_constant(leaf: Any) -> Any:
    closed_over = isinstance(leaf, jax.Array) and not isinstance(leaf, jax.core.Tracer)
    if not closed_over or not jnp.issubdtype(leaf.dtype, jnp.floating):
        return leaf
    on_cpu = all(device.platform == "cpu" for device in leaf.devices())  # Others need not copy it to the host.
    return unfolded(leaf) if on_cpu and is_uniform(np.asarray(leaf)) else leaf


def as_jax(value: np.ndarray) -> jax.Array:
    """Return a NumPy array as a JAX array; refuse 64-bit integers that JAX's 32 bits do not hold."""
    if value.dtype == object:
        return as_traced(value) if has_lengths(value) else jnp.asarray(value.tolist())
    wanted = jax.dtypes.canonicalize_dtype(value.dtype)
    if wanted != value.dtype and np.issubdtype(wanted, np.integer) and value.size:
        limits = np.iinfo(wanted)
        if value.max() > limits.max or value.min() < limits.min:
            raise OverflowError(
                f"a constant {value.dtype} of {value.min()} to {value.max()} does not fit {wanted}; set jax_enable_x64"
            )
    return from_host(value.astype(wanted, copy=False))


def from_host(value: np.ndarray) -> jax.Array:
    """Return a copy on the device; ``jnp.asarray`` compiles a program for each shape."""
    return jax.device_put(np.array(value, order="C"))  # On a CPU it goes on to read the memory that it is given.


def widened(x: jax.Array) -> jax.Array:
    """Return float16 and bfloat16 as float32: sums of many would round too often."""
    return x.astype(jnp.promote_types(x.dtype, np.float32))
