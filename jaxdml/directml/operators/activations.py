"""Activations: functions that networks apply to every element, and softmax and its like."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from jaxdml._networks import activations as of
from jaxdml._networks.along_axes import hardmax, log_softmax, softmax
from jaxdml._networks.integers import is_integer, to_integers
from jaxdml.directml._checks import axes_in_range
from jaxdml.directml._enums import FeatureLevel
from jaxdml.directml._errors import Violation, Violations
from jaxdml.directml._operator import Operator
from jaxdml.directml.operators._pointwise import pointwise, widened

_COUNTS = "1_0 4, 2_0 4-5, 3_0 1-8"
_SAME = "input_tensor output_tensor"
_Function = Callable[..., Any]


def _alone(
    number: int, doc: str, compute: _Function, types: str = "1_0 F", groups: str = _SAME, **facts: Any
) -> Operator:
    """Return the facts of an activation that is never fused into another operator."""
    return pointwise(number, f"Compute {doc}.", compute, (groups, types), counts=_COUNTS, **facts)


def _fusable(number: int, doc: str, compute: _Function, types: str = "1_0 F", **facts: Any) -> Operator:
    first = FeatureLevel[f"LEVEL_{types[:3]}"]
    return _alone(number, doc, compute, types, **{"fused_from": first, **facts})


def _softplus(x: Any, steepness: float) -> Any:
    return jnp.logaddexp(steepness * x, jnp.zeros_like(x))


def _shrink(desc: Any, x: Any) -> Any:
    if is_integer(x):
        return to_integers(jnp, of.shrink(x.astype(jnp.float32), desc.bias, desc.threshold), x.dtype)
    return of.shrink(x, desc.bias, desc.threshold)


def _along_last(function: _Function) -> _Function:
    return lambda desc, x: widened(lambda x: function(x, (x.ndim - 1,)), x)


def _along_axes(function: _Function) -> _Function:
    return lambda desc, x: widened(lambda x: function(x, desc.axes), x)


def _flat(desc: Any) -> Violations:
    sizes = desc.input_tensor.sizes
    if any(size != 1 for size in sizes[:-2]):
        yield Violation("InputTensor.Sizes", "must be 1 in all dimensions but the last 2", sizes)


def _axes(desc: Any) -> Violations:
    return axes_in_range(desc, "input_tensor")


def _steep(desc: Any) -> Violations:
    if not desc.steepness > 0:
        yield Violation("Steepness", "must be greater than 0", desc.steepness)


_SOFTMAXES: Mapping[str, tuple[int, int, str, _Function]] = {
    "HARDMAX": (36, 160, "1 for the first of the greatest elements, else 0", hardmax),
    "LOG_SOFTMAX": (41, 159, "the logarithm of SOFTMAX", log_softmax),
    "SOFTMAX": (48, 158, "e**x, divided by the sum of e**x", softmax),
}
_INTO_GEMM: Mapping[str, Any] = {"fused_from": FeatureLevel.LEVEL_6_1, "fused_into": ("GEMM",)}

_ACTIVATIONS: Mapping[str, Operator] = {
    "CELU": _fusable(
        128, "max(0, x) + min(0, Alpha (e**(x / Alpha) - 1))", lambda desc, x: of.celu(x, desc.alpha), "3_0 F"
    ),
    "ELU": _fusable(35, "x if x >= 0, else Alpha (e**x - 1)", lambda desc, x: of.elu(x, desc.alpha)),
    "GELU": _fusable(157, "x / 2 (1 + erf(x / sqrt(2)))", lambda desc, x: jax.nn.gelu(x, approximate=False), "5_1 F"),
    "HARD_SIGMOID": _fusable(
        37, "max(0, min(Alpha x + Beta, 1))", lambda desc, x: of.hard_sigmoid(x, desc.alpha, desc.beta)
    ),
    "HARD_SWISH": _alone(
        168, "x max(0, min(Alpha x + Beta, 1))", lambda desc, x: x * of.hard_sigmoid(x, desc.alpha, desc.beta), "6_2 F"
    ),
    "IDENTITY": _fusable(38, "x", lambda desc, x: x),
    "LEAKY_RELU": _fusable(39, "x if x >= 0, else Alpha x", lambda desc, x: of.leaky_relu(x, desc.alpha)),
    "LINEAR": _fusable(40, "Alpha x + Beta", lambda desc, x: desc.alpha * x + desc.beta),
    "PARAMETERIZED_RELU": _alone(
        42,
        "x if x >= 0, else the slope at its place times x",
        lambda desc, x, slope: of.leaky_relu(x, slope),
        "1_0 F, 5_1 F+S",
        "input_tensor slope_tensor output_tensor",
    ),
    "PARAMETRIC_SOFTPLUS": _fusable(
        43, "Alpha ln(1 + e**(Beta x))", lambda desc, x: desc.alpha * _softplus(x, desc.beta)
    ),
    "RELU": _fusable(44, "max(0, x)", lambda desc, x: jax.nn.relu(x), "1_0 F, 5_1 F+S"),
    "RELU_GRAD": _alone(
        129,
        "the gradient where x > 0, else 0",
        lambda desc, x, gradient: jnp.where(x > 0, gradient, jnp.zeros_like(gradient)),
        "3_0 F, 5_1 F+S",
        "input_tensor input_gradient_tensor output_gradient_tensor",
    ),
    "SCALED_ELU": _fusable(
        45, "Gamma x if x > 0, else Gamma Alpha (e**x - 1)", lambda desc, x: desc.gamma * of.elu(x, desc.alpha)
    ),
    "SCALED_TANH": _fusable(46, "Alpha tanh(Beta x)", lambda desc, x: desc.alpha * jnp.tanh(desc.beta * x)),
    "SHRINK": _fusable(90, "x - Bias if x > Threshold, x + Bias if x < -Threshold, else 0", _shrink, "2_0 F, 2_1 F+I"),
    "SIGMOID": _fusable(47, "1 / (1 + e**-x)", lambda desc, x: jax.nn.sigmoid(x)),
    "SOFTPLUS": _fusable(
        49,
        "ln(1 + e**(Steepness x)) / Steepness",
        lambda desc, x: _softplus(x, desc.steepness) / desc.steepness,
        constraints=_steep,
    ),
    "SOFTSIGN": _fusable(50, "x / (1 + abs(x))", lambda desc, x: of.softsign(x)),
    "SWISH": _alone(
        167, "x / (1 + e**(-SigmoidInputScale x))", lambda desc, x: of.swish(x, desc.sigmoid_input_scale), "6_2 F"
    ),
    "TANH": _fusable(51, "tanh(x)", lambda desc, x: jnp.tanh(x)),
    "THRESHOLDED_RELU": _fusable(52, "x if x > Alpha, else 0", lambda desc, x: of.thresholded_relu(x, desc.alpha)),
    **{
        name: _alone(
            number,
            f"{doc}, along the last dimension",
            _along_last(function),
            constraints=_flat,
            **_INTO_GEMM if name == "SOFTMAX" else {},
        )
        for name, (number, _, doc, function) in _SOFTMAXES.items()
    },
    **{
        f"{name}1": _alone(
            number,
            f"{doc}, along Axes together",
            _along_axes(function),
            "5_1 F",
            constraints=_axes,
            **_INTO_GEMM if name == "SOFTMAX" else {},
        )
        for name, (_, number, doc, function) in _SOFTMAXES.items()
    },
}

OPERATORS: Mapping[str, Operator] = {f"ACTIVATION_{name}": one for name, one in _ACTIVATIONS.items()}
