"""jaxdml, and the obvious way to write each operator in stock JAX."""

import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import jaxdml
from benchmarks.cases import Arguments, Case
from benchmarks.peers.contender import Absent, Contender


@dataclass(frozen=True)
class Program:
    """A function of the case's arguments, and what its answers promise."""

    function: Callable[..., Any]
    promises: str = "exact"


def prepare(program: Program, case: Case, draws: Sequence[Arguments]) -> Contender:
    """Compile a program and put the draws on the device, to run on them in turn."""
    donated = case.options.get("memory") == "donated"
    jitted = jax.jit(program.function, donate_argnums=(0,) if donated else ())
    begin = time.perf_counter()
    jitted.lower(*draws[0]).compile()
    compile_s = time.perf_counter() - begin
    turns = cycle([list(jax.device_put(arguments, may_alias=False)) for arguments in draws])

    def run() -> Any:
        given = next(turns)
        result = jax.block_until_ready(jitted(*given))
        if donated:
            given[0] = result  # The buffer that was given has become the result.
        return result

    return Contender(run, _answers, program.promises, compile_s)


def _answers(result: Any) -> Arguments:
    return tuple(map(np.asarray, jax.tree.leaves(result)))


def _our_top_k(case: Case) -> Program:
    return Program(lambda x: tuple(jaxdml.top_k(x, **case.options)))


def _our_scatter(case: Case) -> Program:
    options = {name: value for name, value in case.options.items() if name != "memory"}
    return Program(partial(getattr(jaxdml, case.operator), **options))


def _our_product(case: Case) -> Program:
    return Program(jaxdml.quantized_linear_matrix_multiply)


def _stock_top_k(case: Case, **options: Any) -> Program:
    k = case.options["k"]
    # The usual way to the smallest: the complement of an integer and the negative of a float reverse the order.
    reverse = lax.bitwise_not if "int" in case.dtype else lax.neg

    def largest(x: jax.Array) -> tuple[jax.Array, ...]:
        return tuple(lax.top_k(x, k, **options))

    def smallest(x: jax.Array) -> tuple[jax.Array, ...]:
        values, indices = lax.top_k(reverse(x), k, **options)
        return reverse(values), indices

    # It puts NaNs by their sign, and what it does with them differs from device to device.
    promises = "values" if case.data == "with NaN" or options else "exact"
    return Program(largest if case.options["direction"] == "decreasing" else smallest, promises)


def _unstable_top_k(case: Case) -> Program:
    if "is_stable" not in inspect.signature(lax.top_k).parameters:
        raise Absent("lax.top_k is always stable here")
    return _stock_top_k(case, is_stable=False)


def _stock_scatter(case: Case) -> Program:
    duplicates = case.options.get("duplicates")
    if duplicates == "last":
        raise Absent("no rule for duplicates")

    def by_row(x: jax.Array, places: jax.Array, updates: jax.Array) -> jax.Array:
        return x.at[places[:, 0]].set(updates, unique_indices=duplicates == "unique")

    def by_element(x: jax.Array, places: jax.Array, updates: jax.Array) -> jax.Array:
        return x.at[places, jnp.arange(x.shape[1])[None]].set(updates)

    return Program(by_row if case.operator == "scatter_nd" else by_element)


def _stock_product(case: Case) -> Program:
    def function(*operands: jax.Array) -> jax.Array:
        a, a_scale, a_zero, b, b_scale, b_zero, output_scale, output_zero = operands
        bounds = jnp.iinfo(output_zero.dtype)
        wide = [part.astype(jnp.int32) for part in (a, a_zero, b, b_zero, output_zero)]
        total = jnp.matmul(wide[0] - wide[1], wide[2] - wide[3])
        real = total.astype(jnp.float32) * (a_scale * b_scale / output_scale)
        return jnp.clip(jnp.round(real).astype(jnp.int32) + wide[4], bounds.min, bounds.max).astype(output_zero.dtype)

    return Program(function, "within one")


JAXDML: Mapping[str, Callable[[Case], Program]] = {
    "top_k": _our_top_k,
    "scatter_nd": _our_scatter,
    "scatter_elements": _our_scatter,
    "quantized_linear_matrix_multiply": _our_product,
}

UNSTABLE: Mapping[str, Callable[[Case], Program]] = {"top_k": _unstable_top_k}
"""What does not promise the order of ties."""

LAX: Mapping[str, Callable[[Case], Program]] = {
    "top_k": _stock_top_k,
    "scatter_nd": _stock_scatter,
    "scatter_elements": _stock_scatter,
    "quantized_linear_matrix_multiply": _stock_product,
}
