"""Check the arguments that only products with float results have: the output's dtype and the bias."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxdml._base.shapes import Shape, broadcasts_to
from jaxdml._operators._arguments import Call

_DTYPES = "float32", "float16", "bfloat16"


def float_dtype(call: Call, requested: Any) -> np.dtype[Any]:
    """Return the output's dtype."""
    call.static("output_dtype", requested)
    try:
        dtype = None if requested is None else jnp.dtype(requested)
    except TypeError:
        dtype = None
    if str(dtype) not in _DTYPES:
        rule = f"output_dtype must be one of {', '.join(_DTYPES)}; got {requested!r}."
        call.fail(TypeError, rule, "Pass output_dtype='float32', and convert the result.", "a", "b")
    return np.dtype(dtype)


def bias(call: Call, shape: Shape) -> jax.Array | None:
    """Return the bias with the rank of the result, or None.

    Args:
      call: the call that has the operand ``bias``.
      shape: that of the result.
    """
    if call.operands["bias"] is None:
        return None
    given = call.array("bias")
    if given.weak_type and jnp.issubdtype(given.dtype, jnp.number) and not jnp.iscomplexobj(given):
        given = lax.convert_element_type(given, jnp.float32)
    if given.dtype != jnp.float32:
        call.fail(TypeError, f"bias must be float32; got {given.dtype}.", "Pass bias as float32.", "bias")
    if not broadcasts_to(given.shape, shape):
        rule = f"bias must broadcast to {list(shape)}, the shape of the result; got {list(given.shape)}."
        advice = f"Pass one value, or {shape[-1]}: one for each column."
        call.fail(TypeError, rule, advice, "a", "b", "bias")
    return lax.expand_dims(given, range(len(shape) - given.ndim))
