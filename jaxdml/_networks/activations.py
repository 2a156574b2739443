"""Activations: functions of one tensor of floats, element by element."""

from typing import Any

import jax
import jax.numpy as jnp


def celu(x: Any, alpha: float) -> Any:
    """Return ELU with its argument divided by ``alpha``: the derivative at 0 is 1."""
    return jnp.where(x < 0, alpha * jnp.expm1(jnp.minimum(x, 0) / alpha), x)


def elu(x: Any, alpha: float) -> Any:
    """Return ``alpha * (exp(x) - 1)`` where x is negative, else x."""
    # The minimum keeps exp, and so the derivative, finite where it is not chosen.
    return jnp.where(x < 0, alpha * jnp.expm1(jnp.minimum(x, 0)), x)


def hard_sigmoid(x: Any, alpha: float, beta: float) -> Any:
    """Return ``alpha * x + beta``, clamped to 0 and 1."""
    return jnp.clip(alpha * x + beta, 0, 1)


def leaky_relu(x: Any, slope: Any) -> Any:
    """Return x, times ``slope`` where it is negative."""
    return jnp.where(x < 0, slope * x, x)


def shrink(x: Any, bias: Any, threshold: Any) -> Any:
    """Return x moved towards 0 by ``bias`` where its distance from 0 exceeds ``threshold``, else 0."""
    return jnp.where(x < -threshold, x + bias, jnp.where(x > threshold, x - bias, 0)).astype(x.dtype)


def softsign(x: Any) -> Any:
    """Return ``x / (1 + abs(x))``."""
    return x / (1 + jnp.abs(x))


def swish(x: Any, scale: float) -> Any:
    """Return x times the logistic function of ``scale * x``."""
    return x * jax.nn.sigmoid(scale * x)


def thresholded_relu(x: Any, threshold: float) -> Any:
    """Return x where it exceeds ``threshold``, else 0."""
    return jnp.where(x > threshold, x, 0)
