"""Keep a scale or a zero point known while JAX traces."""

import json
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import export

from jaxdml._base.errors import ErrorContext


@jax.tree_util.register_static
class Known:
    """Keep a scale or a zero point, or an array of them, known while tracing, whatever traces it.

    All functions take it where they take a scale or a zero point, and round by the shorter way of
    known scales; see docs/numerics.md. It is a pytree without leaves, hashable, and equal to another one of the same
    dtype, shape and bits. So it passes ``jax.jit``, ``jax.vmap`` and ``jax.lax.scan`` as an argument, and as a field of
    a module of equinox or flax it is none of its parameters. A program is compiled anew for each value.

    Args:
      value: a number or an array of numbers, of Python, NumPy or JAX, of any shape that the function takes. It is
        copied. A Python number takes the dtype that the function wants.

    Attributes:
      value: the Python number, or a NumPy array that cannot be written to.

    Raises:
      TypeError: ``value`` is traced, or holds something else than real numbers.

    Example:
      >>> scale = jaxdml.Known(0.5)
      >>> jax.jit(jaxdml.dequantize_linear)(jnp.array([1, 2, 3], jnp.int8), scale)
      Array([0.5, 1. , 1.5], dtype=float32)
    """

    __slots__ = ("value",)

    value: Any

    def __init__(self, value: Any) -> None:
        call = ErrorContext("Known", {"value": value})
        if isinstance(value, jax.core.Tracer):
            advice = "Make it outside of the function that JAX traces, or pass the array itself as data."
            call.fail(TypeError, "value must be known; got one that is traced.", advice)
        kept = value
        if not isinstance(value, int | float):
            kept = np.array(value)
            if not jnp.issubdtype(kept.dtype, jnp.integer) and not jnp.issubdtype(kept.dtype, jnp.floating):
                call.fail(TypeError, "value must hold real numbers.", "Pass a number, or an array of numbers.")
            kept.flags.writeable = False
        object.__setattr__(self, "value", kept)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"jaxdml.Known: {name} cannot be set. Make another one.")

    def _bits(self) -> tuple[Any, ...]:
        """Return what two of the same dtype, shape and bits have alike; a Python number is of no dtype."""
        if isinstance(self.value, np.ndarray):
            return str(self.value.dtype), self.value.shape, self.value.tobytes()
        return type(self.value), np.float64(self.value).tobytes() if isinstance(self.value, float) else self.value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Known) and self._bits() == other._bits()

    def __hash__(self) -> int:
        return hash(self._bits())

    def __repr__(self) -> str:
        return f"Known({self.value!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Known, (self.value,)


def _serialized(known: Known) -> bytes:
    if not isinstance(known.value, np.ndarray):
        return json.dumps({"number": known.value}).encode()
    array = known.value
    return json.dumps({"dtype": array.dtype.name, "shape": array.shape, "bits": array.tobytes().hex()}).encode()


def _deserialized(data: bytes) -> Known:
    parts = json.loads(data)
    if "number" in parts:
        return Known(parts["number"])
    return Known(np.frombuffer(bytes.fromhex(parts["bits"]), jnp.dtype(parts["dtype"])).reshape(parts["shape"]))


export.register_pytree_node_serialization(
    Known, serialized_name="jaxdml.Known", serialize_auxdata=_serialized, deserialize_auxdata=_deserialized
)
