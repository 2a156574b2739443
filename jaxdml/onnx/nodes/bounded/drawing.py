"""Random numbers of arrays that are longer than what counts: those that a program for each length draws."""

from typing import Any

import jax
import jax.numpy as jnp

from jaxdml.onnx.nodes.bounded._task import Rules, Task, array
from jaxdml.onnx.nodes.bounded.movement import reshaped
from jaxdml.onnx.values.bounded import bounded, sizes_of
from jaxdml.onnx.values.kinds import Value
from jaxdml.onnx.values.lengths import LengthError, bounds, product


def like(task: Task, x: Value) -> tuple[Value, ...]:
    """Draw as many numbers as count, one after another, and bring each to its place."""
    sizes = sizes_of(x)
    independent = "fry" in str(jax.random.key_impl(task.call.key())) and jax.config.values["jax_threefry_partitionable"]
    if not independent:
        raise LengthError(f"the numbers for sizes {list(sizes)}, since these depend on them")
    count = product(sizes)
    (numbers,) = task.compute(jnp.zeros(bounds([count]), x.dtype))

    def in_order(value: Any) -> tuple[Value, ...]:
        return (array(value).reshape(bounds(sizes)),)

    return reshaped(bounded(numbers, [count]), sizes, in_order)


RULES: Rules = dict.fromkeys(("RandomNormalLike", "RandomUniformLike"), like)
