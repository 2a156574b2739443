"""Measure how fast the device can copy bytes, and multiply 8-bit integers."""

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from benchmarks.environment import busy, busy_elsewhere, platform
from benchmarks.peers import Absent, prepare
from benchmarks.timing.by_chains import Chain, later
from benchmarks.timing.clocks import interleaved
from jaxdml._cases.quantized_linear_matrix_multiply import call as multiply

_EXPONENTS = range(12, 29, 2)
"""Working sets of 4 KiB to 256 MiB: from within the innermost cache to beyond all of them."""


def measure(rounds: int, budget_s: float) -> dict[str, Any]:
    """Measure the device that JAX finds.

    Returns:
      ``copy_gb_per_s``: bytes read and written in a second, by the size of their working set; ``int8_gop_per_s``:
      multiplications and additions in a second of a large product of int8 matrices; ``empty_us``: how long a program
      takes that copies one number, no call takes less; and, as of a case, ``busy_elsewhere`` and ``seconds``.
    """
    start, before = time.perf_counter(), busy()
    empty = _best([_jax(lambda x: x + 1, jnp.int32(0))], rounds, budget_s)
    square = 2048 if platform() == "cpu" else 8192
    products = _best(_products(square), rounds, budget_s)
    copies = {2**exponent: _best(_copies(2**exponent // 8), rounds, budget_s) for exponent in _EXPONENTS}
    elapsed = time.perf_counter() - start
    return {
        "copy_gb_per_s": {size: size / us / 1e3 for size, us in copies.items()},
        "int8_gop_per_s": 2 * square**3 / products / 1e3,
        "empty_us": empty,
        "busy_elsewhere": busy_elsewhere(before, elapsed),
        "seconds": elapsed,
    }


class _Timed(NamedTuple):
    run: Callable[[], Any]
    chain: Chain | None = None


def _best(contenders: Iterable[_Timed], rounds: int, budget_s: float) -> float:
    """Return the lowest median, in microseconds."""
    named = {str(number): each for number, each in enumerate(contenders)}
    for each in named.values():
        each.run()
    runs, chains = {name: each.run for name, each in named.items()}, {name: each.chain for name, each in named.items()}
    found = interleaved(runs, chains=chains, rounds=rounds, budget_s=budget_s)
    return min(timing.median_us for timing in found.values())


def _copies(words: int) -> Iterator[_Timed]:
    yield _jax(lambda x: x + 1, jnp.zeros(words, jnp.int32))
    if platform() == "cpu":
        # To start a program of XLA takes microseconds, more than to copy a small set.
        yield _Timed(partial(np.copyto, np.ones(words, np.int32), np.zeros(words, np.int32)))


def _products(square: int) -> Iterator[_Timed]:
    # How well a product vectorizes depends on which axes are contracted.
    ones = jnp.ones((square, square), jnp.int8)
    for contracted in ((1, 0), (1, 1), (0, 0), (0, 1)):
        yield _jax(partial(_product, contracted=contracted), ones, ones)
    # On CPUs other libraries multiply integers faster than XLA.
    case = multiply("roofline", (), square, square, square, "uint8", "int8", origin="the roofline")
    arguments = case.draw(np.random.default_rng(0))
    for peer in ("onnxruntime prepacked", "torch prepacked"):
        with contextlib.suppress(Absent):
            yield _Timed(prepare(peer, case, [arguments]).run)


def _product(a: jax.Array, b: jax.Array, contracted: tuple[int, int]) -> jax.Array:
    left, right = contracted
    return lax.dot_general(a, b, (((left,), (right,)), ((), ())), preferred_element_type=jnp.int32)


def _jax(function: Callable[..., Any], *arguments: Any) -> _Timed:
    jitted = jax.jit(function)
    return _Timed(lambda: jax.block_until_ready(jitted(*arguments)), later(function, lambda: arguments))
