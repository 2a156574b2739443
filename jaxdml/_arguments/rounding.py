"""Find out what is known of the scales of a call, and of the sums that they round."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from jaxdml._arguments.call import Call
from jaxdml._kernels import integer_product, requantization


def multiplier(
    call: Call, scales: Mapping[str, jax.Array | None], greatest: int, count: np.ndarray[Any, Any] | int = 1
) -> requantization.Multiplier | None:
    """Return the multiplier with which a short formula is proved to round every sum, if the scales are known.

    Args:
      call: the call that has the operands.
      scales: of the factors and of the output, by name; they broadcast against the sums. A name without a scale is 1.
      greatest: no sum is greater than this in magnitude.
      count: what sums are divided by too; it broadcasts against the scales.
    """
    known = []
    for name, given in scales.items():
        value = np.ones((), np.float32) if given is None else call.known(name, np.float32)
        if value is None:
            return None
        known.append(value if given is None else value.reshape(given.shape))
    return requantization.proved(known, greatest, count)


def greatest_sum(call: Call, terms: int, **operands: Any) -> int:
    """Bound sums of products, with their bias, by what is known of zero points and of the bias.

    Args:
      call: the call.
      terms: how many products a sum adds up.
      operands: the factors, by the names that they have in the call.
    """
    zeros = {name: call.known(f"{name}_zero_point", x.dtype) for name, x in operands.items()}
    bias = call.known("bias", np.int32)
    of_bias = 2**31 if bias is None else int(np.abs(bias.astype(np.int64)).max(initial=0))
    factors = [(x, zeros[name]) for name, x in operands.items()]
    return integer_product.greatest_sum(terms, *factors) + of_bias
