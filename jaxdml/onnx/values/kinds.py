"""What flows between the nodes of a model while JAX traces it.

A value is one of
- a NumPy array: known while tracing, such as an initializer, a shape or what follows from them;
- a JAX array, or a tracer: what the program computes;
- ``ChannelsLast``: a JAX array whose channels, dimension 1 for ONNX, are stored last;
- ``FloatFilters``, ``Transposed``, ``Projection``, or what ``jaxdml.prepack`` and ``jaxdml.prepack_filters`` return:
  weights, stored as operators read them;
- ``Dequantized``: integers with a scale and a zero point. The floats are made only where a node wants floats;
- ``Blocks``: a packed matrix of few bits. The floats are made only where no product reads it;
- ``IntegerProduct``: the int32 result of MatMulInteger, and what it is scaled by;
- ``HeadsFirst``: a JAX array ``[batch, heads, ...]`` that is stored with its heads first;
- ``Projected``: the integers of a product by a matrix, or of its sum with a vector, before they are computed;
- ``Bounded``: another value, of which only the first elements along some dimensions count;
- ``Pending``: real numbers that are known as a function of integers. ``QuantizeLinear`` rounds them once; any other
  node gets float32.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import jaxdml
from jaxdml._networks import projection
from jaxdml._networks.packed_projections import Projection
from jaxdml.onnx.values.bounded import Bounded, on_inner
from jaxdml.onnx.values.lengths import LengthError
from jaxdml.onnx.values.stored import ChannelsLast, HeadsFirst, in_onnx_order, on_device, stored, stored_axis


class Quantization(NamedTuple):
    """How integers stand for real numbers: ``scale * (integers - zero_point)``.

    Attributes:
      scale: float array; of one element, or of one for each position of ``axis``, or blocked.
      zero_point: array of the integers' dtype, shaped as ``scale``; None for 0.
      axis: None where one scale serves all.
      block_size: how many positions of ``axis`` share a scale; 0 where scales are not blocked.
    """

    scale: Any
    zero_point: Any
    axis: int | None = None
    block_size: int = 0

    @property
    def per_tensor(self) -> bool:
        """Whether one scale serves all."""
        return self.axis is None

    def same_as(self, other: "Quantization") -> bool:
        """Whether one scale and one zero point are those of another: both known now and equal, or one value."""
        pairs = ((self.scale, other.scale), (self.zero_point, other.zero_point))
        return all(_same(a, b) for a, b in pairs)


def _same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    known = isinstance(a, np.ndarray) and isinstance(b, np.ndarray)
    if a is None or b is None:
        present = b if a is None else a
        return isinstance(present, np.ndarray) and not present.any()
    return known and a.shape == b.shape and a.dtype == b.dtype and bool((a == b).all())


class _Lazy(ABC):
    """A value that is computed when a node wants it."""

    shape: Any

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def floats(self) -> Any:
        """Return the array, computed once."""
        if "_array" not in vars(self):
            vars(self)["_array"] = self._computed()
        return vars(self)["_array"]

    @abstractmethod
    def _computed(self) -> Any:
        """Compute it."""


@dataclass(frozen=True, eq=False)
class Dequantized(_Lazy):
    """Real numbers that are stored as integers.

    Attributes:
      integers: a NumPy array, a JAX array, ChannelsLast, HeadsFirst, Projected or IntegerProduct.
      quantization: what they mean.
      dtype: of the floats that they would be.
      forced: is called when a node wants the floats.
    """

    integers: Any
    quantization: Quantization
    dtype: Any
    forced: Callable[[], None] = lambda: None

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The shape with channels as dimension 1."""
        return tuple(self.integers.shape)

    def _computed(self) -> Any:
        self.forced()
        scale, zero, axis, block = self.quantization
        # Scales of blocks have the shape that ONNX gives them.
        integers = channels_first(self.integers) if block else computed(self.integers)
        data, wrap = stored(integers)
        axis = stored_axis(integers, axis)
        result = jaxdml.dequantize_linear(data, scale, zero, axis=axis, block_size=block or None)
        return wrap(result.astype(self.dtype))


@dataclass(frozen=True, eq=False)
class Blocks(_Lazy):
    """A matrix of few bits with a scale for each block, which products read as it is packed.

    Attributes:
      packed: the matrix ``[K, N]``.
      transposed: whether the value is ``[N, K]``.
    """

    packed: jaxdml.PackedBlocks
    transposed: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the value."""
        return self.packed.shape[::-1] if self.transposed else self.packed.shape

    @property
    def dtype(self) -> Any:
        """The dtype of the floats."""
        return self.packed.scale.dtype

    def _computed(self) -> Any:
        floats = self.packed.dequantized()
        return floats.T if self.transposed else floats


@dataclass(frozen=True, eq=False)
class Pending(_Lazy):
    """Real numbers that follow from integers, not rounded yet.

    Attributes:
      shape: of the result, channels as dimension 1.
      dtype: of the floats that it would be.
      quantized: called with a Quantization and the dtype of integers, returns them rounded once; or a text: why it
        cannot.
      to_floats: computes the node, and those before it, in floats.
      nodes: names of the nodes that ``quantized`` covers.
    """

    shape: tuple[int, ...]
    dtype: Any
    quantized: Callable[[Quantization, Any], Any]
    to_floats: Callable[[], Any]
    nodes: tuple[str, ...]

    def _computed(self) -> Any:
        return self.to_floats()


_INT32 = np.dtype(np.int32)


@dataclass(frozen=True, eq=False)
class IntegerProduct(_Lazy):
    """The int32 result of MatMulInteger, which a model casts, scales and adds a bias to: one operator of ours.

    Attributes:
      shape: of the result.
      integers: computes the int32 result.
      scaled: called with a scale and a bias or None, computes ``integers * scale + bias`` in float32.
      dtype: int32, or float32 after a Cast.
      scale: what it is multiplied by, after a Mul.
      nodes: names of the nodes that this covers.
    """

    shape: tuple[int, ...]
    integers: Callable[[], Any]
    scaled: Callable[[Any, Any], Any]
    nodes: tuple[str, ...]
    dtype: Any = _INT32
    scale: Any = None

    def _computed(self) -> Any:
        if self.dtype == np.int32:
            return self.integers()
        return self.scaled(np.float32(1) if self.scale is None else self.scale, None)


@dataclass(frozen=True, eq=False)
class Projected(_Lazy):
    """The integers of a product by a matrix, or of the sum of that and a vector.

    Attributes:
      product: the operands and parameters of both.
      heads: into how many parts the columns are split; 0 where they are not.
    """

    product: projection.Product
    heads: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        """``[..., M, N]`` or ``[..., M, heads, N / heads]``."""
        *rows, columns = self.product.shape
        return (*rows, self.heads, columns // self.heads) if self.heads else self.product.shape

    @property
    def dtype(self) -> Any:
        """The dtype."""
        return self.product.dtype

    def heads_first(self) -> HeadsFirst:
        """Return ``[batch, heads, M, size]``."""
        return HeadsFirst(projection.by_heads(self.product, self.heads))

    def _computed(self) -> Any:
        return projection.whole(self.product).reshape(self.shape)


LAZY = (Blocks, Dequantized, IntegerProduct, Pending, Projected)
"""Values that are computed when a node wants them, in the way that it wants."""

Value = Any


def shape_of(value: Value) -> tuple[int, ...]:
    """Return a value's shape without computing it."""
    return tuple(value.shape)


def is_host(value: Value) -> bool:
    """Whether a value is known while tracing."""
    return isinstance(value, np.ndarray)


def known(value: Any) -> np.ndarray:
    """Return what is known while tracing as an array: of objects if a size in it is symbolic, as in ``jax.export``."""
    array = np.asarray(value)
    if array.dtype == object and all(isinstance(size, int | np.integer) for size in array.flat):
        return array.astype(np.int64)
    return array


def computed(value: Value) -> Value:
    """Return a NumPy array, a JAX array, ChannelsLast or HeadsFirst: what is pending or dequantized, as floats."""
    if isinstance(value, Bounded):
        return on_inner(value, computed)
    return value.floats() if isinstance(value, LAZY) else value


def channels_first(value: Value) -> Value:
    """Return a value as an array with ONNX's order of dimensions; None stays None."""
    if value is None or isinstance(value, np.ndarray | jax.Array):
        return value
    if isinstance(value, Bounded):
        raise LengthError(f"an array of sizes {list(value.sizes)}")
    return in_onnx_order(computed(value))


def right_matrix(value: Value) -> jax.Array | jaxdml.PackedMatrix:
    """Return the right matrix of a product, packed if it is."""
    if isinstance(value, Projection):
        return value.matrix
    return value if isinstance(value, jaxdml.PackedMatrix) else on_device(channels_first(value))


def channels_last(value: Value) -> jax.Array:
    """Return a value as an array with channels, dimension 1, last."""
    value = computed(value)
    return value.array if isinstance(value, ChannelsLast) else jnp.moveaxis(on_device(channels_first(value)), 1, -1)


def alike(*values: Value) -> tuple[list[Any], Callable[[jax.Array], Any]]:
    """Return arrays that broadcast as the values do, all stored in one way, and what makes a value of such a result.

    None stays None.
    """
    operands = [computed(value) for value in values]
    rank = max((operand.ndim for operand in operands if operand is not None), default=0)
    for kind, reorder in _ORDERS.items():
        if any(isinstance(operand, kind) and operand.ndim == rank for operand in operands):
            return [x if x is None else _in_order(x, rank, kind, reorder) for x in operands], kind
    return [operand if operand is None else on_device(channels_first(operand)) for operand in operands], lambda x: x


_ORDERS: dict[type[Any], Callable[[jax.Array], jax.Array]] = {
    ChannelsLast: lambda array: jnp.moveaxis(array, 1, -1),
    HeadsFirst: lambda array: jnp.swapaxes(array, 0, 1),
}
"""How arrays are stored, and what brings one from ONNX's order to that."""


def _in_order(operand: Value, rank: int, kind: type[Any], reorder: Callable[[jax.Array], jax.Array]) -> jax.Array:
    """Bring an operand of at most this rank to how others are stored, so that it broadcasts as before."""
    if isinstance(operand, kind) and operand.ndim == rank:
        return operand.array
    array = on_device(channels_first(operand))
    return reorder(array.reshape((1,) * (rank - array.ndim) + array.shape)) if array.ndim else array
