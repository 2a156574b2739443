"""Steps of training."""

import math
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp

from jaxdml.directml._checks import alike, sized
from jaxdml.directml._errors import Violation, Violations
from jaxdml.directml._operator import Operator
from jaxdml.directml._support import growing


def _adam(desc: Any, *inputs: Any) -> Any:
    """Return parameters and moments after a step, from float32 and rounded once."""
    *arrays, step = inputs
    x, m, v, gradient = (array.astype(jnp.float32) for array in arrays)
    m = desc.beta1 * m + (1 - desc.beta1) * gradient
    v = desc.beta2 * v + (1 - desc.beta2) * jnp.square(gradient)
    of_mean, of_square = (_corrected(beta, step) for beta in (desc.beta1, desc.beta2))
    x = x - desc.learning_rate * jnp.sqrt(of_square) / of_mean * m / (jnp.sqrt(v) + desc.epsilon)
    return tuple(part.astype(arrays[0].dtype) for part in (x, m, v))


def _corrected(beta: float, step: Any) -> Any:
    """Return ``1 - beta ** step``; near 1 the powers would lose digits."""
    return -jnp.expm1(step.astype(jnp.float32) * (math.log(beta) if beta else -math.inf))


def _constraints(desc: Any) -> Violations:
    (first, tensor), *others = desc.tensors.items()
    yield from alike(desc, "dimension_count", first, *desc.tensors)
    for name, _ in others:
        if name == "training_step_tensor":
            yield from sized(desc, name, "one number", (1,) * tensor.dimension_count)
        else:
            yield from alike(desc, "data_type", first, name)
            yield from sized(desc, name, "those of InputParametersTensor", tensor.sizes)
    for field, beta in (("Beta1", desc.beta1), ("Beta2", desc.beta2)):
        if not 0 <= beta < 1:
            yield Violation(field, "must be at least 0 and less than 1", beta)


_TENSORS = (
    "input_parameters_tensor input_first_moment_tensor input_second_moment_tensor gradient_tensor "
    "output_parameters_tensor output_first_moment_tensor output_second_moment_tensor"
)

OPERATORS: Mapping[str, Operator] = {
    "ADAM_OPTIMIZER": Operator(
        136,
        growing("3_0 4, 4_0 1-8", (_TENSORS, "3_0 F"), ("training_step_tensor", "3_0 UINT32")),
        _adam,
        _constraints,
        doc="Update parameters and the moments of their gradients: a step of Adam.",
        fields={
            "training_step_tensor": "which step it is; the first is 1.",
            "epsilon": "is added to the root of the second moment, which is not corrected.",
        },
    ),
}
