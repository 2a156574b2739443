"""How arrays are stored: with channels last, as filters, packed, on the host or on the device."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import export, lax

import jaxdml
from jaxdml._arithmetic.bits import with_flipped_sign


class ChannelsLast(NamedTuple):
    """An array that is stored with its dimension 1 last."""

    array: jax.Array

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape with channels as dimension 1."""
        batch, *spatial, channels = self.array.shape
        return (batch, channels, *spatial)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self.array.ndim

    @property
    def dtype(self) -> Any:
        """The dtype."""
        return self.array.dtype


@partial(jax.tree_util.register_dataclass, data_fields=["array", "sums"], meta_fields=["dtype", "order"])
@dataclass(frozen=True, eq=False)
class Filters:
    """Filters ``[O, I, *spatial]`` of convolutions, stored as these read them. A pytree, one of a model's parameters.

    Attributes:
      array: the filters in another order of dimensions; of uint8 filters as int8, 128 less.
      sums: of 8-bit filters the sums of the elements of each, as stored, int32 ``[O]``; None for floats.
      dtype: of the filters. Static.
      order: which dimension in ONNX's order each dimension of ``array`` is. Static.
    """

    array: jax.Array
    sums: jax.Array | None
    dtype: np.dtype[Any]
    order: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape in ONNX's order."""
        return tuple(self.array.shape[d] for d in np.argsort(self.order))

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self.array.ndim

    @property
    def by_rows(self) -> bool:
        """Whether the numbers of each filter follow one another."""
        return self.order[0] == 0

    def whole(self) -> jax.Array:
        """Return the filters in ONNX's order."""
        array = jnp.transpose(self.array, [*np.argsort(self.order)])
        return array if array.dtype == self.dtype else with_flipped_sign(array, self.dtype)


export.register_pytree_node_serialization(
    Filters,
    serialized_name="jaxdml.onnx.Filters",
    serialize_auxdata=lambda static: f"{static[0]} {','.join(map(str, static[1]))}".encode(),
    deserialize_auxdata=lambda text: _static(*text.decode().split()),
)


def _static(dtype: str, order: str) -> tuple[np.dtype[Any], tuple[int, ...]]:
    return np.dtype(dtype), tuple(map(int, order.split(",")))


LARGE = 2**18
"""With so many channels times output channels, an int8 convolution is faster as a product of patches and rows."""


def packed_filters(array: np.ndarray) -> Filters:
    """Store filters ``[O, I, *spatial]`` as convolutions read them."""
    features, depth, *sizes = array.shape
    spatial = range(2, array.ndim)
    eight_bits = array.dtype.itemsize == 1
    by_rows = not sizes or (eight_bits and depth > 1 and (max(sizes) == 1 or features * depth >= LARGE))
    order = (0, *spatial, 1) if by_rows else (*spatial, 1, 0)
    stored = np.ascontiguousarray(np.transpose(array, order))
    if not eight_bits:
        return Filters(jnp.asarray(stored), None, array.dtype, order)
    integers = (stored ^ 0x80).view(np.int8) if array.dtype == np.uint8 else stored
    sums = integers.sum(tuple(d for d, of in enumerate(order) if of), dtype=np.int32)
    return Filters(jnp.asarray(integers), jnp.asarray(sums), array.dtype, order)


def in_onnx_order(array: Any) -> Any:
    """Return an array with ONNX's order of dimensions, however it is stored."""
    if isinstance(array, ChannelsLast):
        return jnp.moveaxis(array.array, -1, 1)
    if isinstance(array, Filters):
        return array.whole()
    return _unpacked(array) if isinstance(array, jaxdml.PackedMatrix) else array


def _unpacked(b: jaxdml.PackedMatrix) -> jax.Array:
    matrix = jnp.swapaxes(b.matrix, -1, -2)
    return matrix if matrix.dtype == b.dtype else with_flipped_sign(matrix, b.dtype)


def stored(value: Any) -> tuple[jax.Array, Callable[[jax.Array], Any]]:
    """Return an array as it is stored, and what makes a value of a result that is stored alike."""
    if isinstance(value, ChannelsLast):
        return value.array, ChannelsLast
    return on_device(in_onnx_order(value)), lambda array: array


def stored_axis(value: Any, axis: Any) -> Any:
    """Return where an array that is stored like ``value`` has a dimension; None for None."""
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
        return jnp.asarray(value.tolist())
    wanted = jax.dtypes.canonicalize_dtype(value.dtype)
    if wanted != value.dtype and np.issubdtype(wanted, np.integer) and value.size:
        limits = np.iinfo(wanted)
        if value.max() > limits.max or value.min() < limits.min:
            raise OverflowError(
                f"a constant {value.dtype} of {value.min()} to {value.max()} does not fit {wanted}; set jax_enable_x64"
            )
    return jnp.asarray(value.astype(wanted))


def widened(x: jax.Array) -> jax.Array:
    """Return float16 and bfloat16 as float32: sums of many would round too often."""
    return x.astype(jnp.promote_types(x.dtype, np.float32))
