"""Draw what follows an operator: operations of stock JAX whose results NumPy knows exactly."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.random_programs.operands import Array

_EXACT = 2**24
"""float32 holds all integers up to this."""

# 0.10.0 and 0.10.1 compute a stock program wrong, or crash, in which an array is reshaped and its windows are reduced:
# lax.reduce_window(x.reshape(32767, 3), 0.0, lax.add, (1, 2), (1, 2), "VALID"). Our results are reshaped arrays.
_LEFTOVERS = jax.__version_info__ >= (0, 10, 2)
"""Whether elements may be left over behind the last window."""


class Step(NamedTuple):
    """An operation of stock JAX that follows the operator."""

    text: str
    numpy: Callable[[Array], Array]
    jax: Callable[..., Any]
    given: tuple[Array, ...] = ()
    terms: int = 1
    """How many numbers are added up at most."""
    alone: bool = False
    """Whether nothing may follow it or stand between it and the operator."""


def _elementwise(rng: np.random.Generator, y: Array) -> Step:
    full = np.full(y.shape, 2, np.float32)
    return [
        Step("relu", lambda y: np.maximum(y, 0), lambda y: jnp.maximum(y, np.float32(0))),
        Step("plus 3", lambda y: y + 3, lambda y: y + jnp.full(y.shape, np.float32(3))),
        Step("times an argument", lambda y: y * full, lambda y, full: y * full, (full,)),
    ][rng.integers(3)]


def _reduction(rng: np.random.Generator, y: Array) -> Step:
    axes = tuple(sorted(rng.choice(y.ndim, rng.integers(1, y.ndim + 1), replace=False).tolist()))
    name = ("sum", "sum", "max", "min")[rng.integers(4)]
    terms = math.prod(y.shape[axis] for axis in axes) if name == "sum" else 1
    return Step(f"{name} over {axes}", lambda y: getattr(y, name)(axes), lambda y: getattr(y, name)(axes), (), terms)


def _window(rng: np.random.Generator, y: Array) -> Step:
    sizes = tuple(min(size, int(rng.integers(1, 4))) for size in y.shape)
    strides = tuple(rng.integers(1, 4, y.ndim).tolist())
    if not _LEFTOVERS:
        strides = tuple(1 if (n - k) % by else by for n, k, by in zip(y.shape, sizes, strides, strict=True))
    is_sum = rng.random() < 0.5
    steps = tuple(slice(None, None, stride) for stride in strides)

    def of_numpy(y: Array) -> Array:
        seen = np.lib.stride_tricks.sliding_window_view(y, sizes)[steps]
        return getattr(seen, "sum" if is_sum else "max")(tuple(range(y.ndim, 2 * y.ndim)))

    first, reduce = (0.0, lax.add) if is_sum else (-np.inf, lax.max)
    return Step(
        f"{'sum' if is_sum else 'max'} of windows {sizes} by {strides}",
        of_numpy,
        lambda y: lax.reduce_window(y, np.float32(first), reduce, sizes, strides, "VALID"),
        terms=math.prod(sizes),
    )


def _matrix(rng: np.random.Generator, y: Array) -> Step:
    shape = (y.shape[-1], *[(), (3,), (16,)][rng.integers(3)])
    way = ("argument", "constant", "uniform", "uniform argument")[rng.integers(4)]
    w = np.full(shape, 2, np.float32) if "uniform" in way else rng.integers(-2, 3, shape).astype(np.float32)
    given = (w,) if "argument" in way else ()

    def of_jax(y: Any, *given: Any) -> Any:
        right = given[0] if given else jnp.full(shape, np.float32(2)) if way == "uniform" else jnp.asarray(w)
        return jnp.matmul(y, right)

    # From 0.10.2 on XLA's CPU backend computes stock programs wrong, or reads outside their arrays, in which a product
    # by equal numbers stands before or after a reduction or a window: so it stands alone.
    return Step(f"product by {way} {shape}", lambda y: y @ w, of_jax, given, shape[0], "uniform" in way)


def _stock_convolution(rng: np.random.Generator, y: Array) -> Step:
    w = rng.integers(-1, 2, (2, 2, y.shape[3], 3)).astype(np.float32)

    def of_numpy(y: Array) -> Array:
        return np.einsum("nhwckl,klco->nhwo", np.lib.stride_tricks.sliding_window_view(y, (2, 2), (1, 2)), w)

    numbers = ("NHWC", "HWIO", "NHWC")
    return Step(
        "convolution",
        of_numpy,
        lambda y, w: lax.conv_general_dilated(y, w, (1, 1), "VALID", dimension_numbers=numbers),
        (w,),
        4 * y.shape[3],
    )


def _running_sum(rng: np.random.Generator, y: Array) -> Step:
    return Step("running sum", lambda y: y.cumsum(-1), lambda y: jnp.cumsum(y, axis=-1), (), y.shape[-1])


def _transposition(rng: np.random.Generator, y: Array) -> Step:
    return Step("transposition", lambda y: y.swapaxes(0, -1), lambda y: jnp.swapaxes(y, 0, -1))


_TO_FLOAT = Step("float", lambda y: y.astype(np.float64), lambda y: y.astype(jnp.float32))


def draw_steps(rng: np.random.Generator, results: list[Array]) -> tuple[list[Step], list[Array]]:
    """Draw what follows the results, which ``vmap`` stacks if there are several; return what that gives, in float64."""
    steps = [_TO_FLOAT]
    results = [_TO_FLOAT.numpy(result) for result in results]
    for _ in range(rng.choice([0, 1, 2, 2, 3, 3])):
        y = results[0]
        if steps[-1].alone or not y.size or not y.ndim:
            break
        kinds = [_elementwise, *[_reduction] * 3, *[_window] * 3, *[_matrix] * 3, _running_sum, _transposition]
        if y.ndim == 4 and min(y.shape[1:3]) > 1:
            kinds += [_stock_convolution] * 3
        step = kinds[rng.integers(len(kinds))](rng, y)
        if step.alone and len(steps) > 1:
            continue
        # Quarters are added up, or 2 times these, or 3 is added.
        if 8 * step.terms * (max(np.abs(result).max() for result in results) + 3) <= _EXACT:
            steps.append(step)
            results = [step.numpy(result) for result in results]
    return steps, results
