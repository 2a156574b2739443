"""Activations: functions of one tensor of floats, and Clip."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdml._networks import activations
from jaxdml.onnx.nodes._handler import Handler, NodeCall, Table

FLOAT_MAX = float(np.finfo(np.float32).max)
SELU_ALPHA = 1.67326319217681884765625
SELU_GAMMA = 1.05070102214813232421875


def _celu(call: NodeCall, x: Any, *, alpha: float = 1.0) -> Any:
    return activations.celu(x, alpha)


def _clip(call: NodeCall, x: Any, minimum: Any = None, maximum: Any = None) -> Any:
    x = x if minimum is None else call.xp.maximum(x, minimum)
    return x if maximum is None else call.xp.minimum(x, maximum)


def _clip_6(call: NodeCall, x: Any, *, min: float = -FLOAT_MAX, max: float = FLOAT_MAX) -> Any:
    return _clip(call, x, *np.clip([min, max], *_finite(x.dtype)).astype(x.dtype))


def _finite(dtype: Any) -> tuple[float, float]:
    """Return the lowest and the greatest finite float."""
    info = jnp.finfo(dtype)
    return float(info.min), float(info.max)


def _elu(call: NodeCall, x: Any, *, alpha: float = 1.0) -> Any:
    return activations.elu(x, alpha)


def _erf(call: NodeCall, x: Any) -> Any:
    return jax.scipy.special.erf(x).astype(x.dtype)


def gelu(call: NodeCall, x: Any, *, approximate: str = "none") -> Any:
    """Return x times the probability that a normal random number is less than x."""
    return jax.nn.gelu(x, approximate=approximate == "tanh")


def _hard_sigmoid(call: NodeCall, x: Any, *, alpha: float = 0.2, beta: float = 0.5) -> Any:
    return activations.hard_sigmoid(x, alpha, beta)


def _hard_swish(call: NodeCall, x: Any) -> Any:
    return x * activations.hard_sigmoid(x, 1 / 6, 0.5)


def _leaky_relu(call: NodeCall, x: Any, *, alpha: float = 0.01) -> Any:
    return activations.leaky_relu(x, alpha)


def _mish(call: NodeCall, x: Any) -> Any:
    return x * jnp.tanh(jax.nn.softplus(x))


def _prelu(call: NodeCall, x: Any, slope: Any) -> Any:
    return activations.leaky_relu(x, slope)


def _relu(call: NodeCall, x: Any) -> Any:
    return jax.nn.relu(x)  # Its derivative at 0 is 0.


def _selu(call: NodeCall, x: Any, *, alpha: float = SELU_ALPHA, gamma: float = SELU_GAMMA) -> Any:
    return gamma * activations.elu(x, alpha)


def _shrink(call: NodeCall, x: Any, *, bias: float = 0.0, lambd: float = 0.5) -> Any:
    return activations.shrink(x, bias, lambd)


def _sigmoid(call: NodeCall, x: Any) -> Any:
    return jax.nn.sigmoid(x)


def _softplus(call: NodeCall, x: Any) -> Any:
    return jax.nn.softplus(x)


def _softsign(call: NodeCall, x: Any) -> Any:
    return activations.softsign(x)


def _swiglu(call: NodeCall, a: Any, b: Any, *, alpha: float = 1.0) -> Any:
    return activations.swish(a, alpha) * b


def swish(call: NodeCall, x: Any, *, alpha: float = 1.0) -> Any:
    """Return x times the logistic function of ``alpha * x``."""
    return activations.swish(x, alpha)


def _tanh(call: NodeCall, x: Any) -> Any:
    return jnp.tanh(x)


def _thresholded_relu(call: NodeCall, x: Any, *, alpha: float = 1.0) -> Any:
    return activations.thresholded_relu(x, alpha)


_SINCE: Mapping[str, tuple[int, Callable[..., Any]]] = {
    "Celu": (12, _celu),
    "Elu": (6, _elu),
    "Erf": (9, _erf),
    "Gelu": (20, gelu),
    "HardSigmoid": (6, _hard_sigmoid),
    "HardSwish": (14, _hard_swish),
    "LeakyRelu": (6, _leaky_relu),
    "Mish": (18, _mish),
    "PRelu": (7, _prelu),
    "Relu": (6, _relu),
    "Selu": (6, _selu),
    "Shrink": (9, _shrink),
    "Sigmoid": (6, _sigmoid),
    "Softplus": (1, _softplus),
    "Softsign": (1, _softsign),
    "SwiGLU": (28, _swiglu),
    "Swish": (24, swish),
    "Tanh": (6, _tanh),
    "ThresholdedRelu": (1, _thresholded_relu),
}

ACTIVATIONS: Mapping[str, Callable[..., Any]] = {"Clip": _clip} | {name: run for name, (_, run) in _SINCE.items()}
"""By operator: ``run(call, x, ...)``, as in the table. Clip's is the one with its bounds as inputs."""

TABLE: Table = {
    "Clip": (
        Handler(6, _clip_6, host=True, elementwise=True),
        Handler(11, _clip, host=True, elementwise=True, constant="minimum maximum"),
    ),
    **{name: (Handler(since, run, elementwise=True),) for name, (since, run) in _SINCE.items()},
}
