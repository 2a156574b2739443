"""Time calls without a profiler: by the clock, over a program in which each call waits for the one before it."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.timing import FEWEST, Timing, seconds, summary

LONG_S = 0.03
"""A chain is lengthened until it takes this long, so that its start does not count."""

_LONGEST = 2**16

Chain = Callable[[int], Any]
"""Makes so many calls, one after another, in one program, and waits for the last."""


def chain(function: Callable[..., Any], arguments: tuple[Any, ...], *, donated: bool = False) -> Chain:
    """Make a program that calls a function again and again.

    Nothing of a call can be computed before the one before it has ended, and all of each result is computed.

    Args:
      function: to call.
      arguments: its arguments, on the device.
      donated: whether the first argument of a call is the result of the one before it.
    """

    def step(_: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
        given, token = lax.optimization_barrier(state)
        results = lax.optimization_barrier(function(*given))
        first = jax.tree.leaves(results)[0]
        token = token + (first[(0,) * first.ndim] == 0).astype(jnp.int32)
        return ((results, *given[1:]) if donated else given), token

    @jax.jit
    def program(calls: Any, given: Any) -> Any:
        return lax.fori_loop(0, calls, step, (given, jnp.int32(0)))[1]

    return lambda calls: jax.block_until_ready(program(calls, arguments))


def interleaved(chains: Mapping[str, Chain], *, rounds: int, budget_s: float, spread: float = 0.0) -> dict[str, Timing]:
    """Time chains in turn, at most ``rounds`` times over.

    A sample is the difference of a chain and one of half its length, for each call of the difference: what a start
    costs is in both.
    """
    half = {name: _length(each) for name, each in chains.items()}
    samples: dict[str, list[float]] = {name: [] for name in chains}
    spent = dict.fromkeys(chains, 0.0)
    for turn in range(rounds):
        if turn >= FEWEST and all(summary(taken, 1).spread <= spread for taken in samples.values()):
            break
        for name, each in chains.items():
            if turn and spent[name] > budget_s:
                continue
            calls = half[name]
            short, long = _seconds(each, calls), _seconds(each, 2 * calls)
            spent[name] += short + long
            samples[name].append(max(long - short, 0.0) / calls)
    return {name: summary(taken, half[name]) for name, taken in samples.items()}


def _seconds(each: Chain, calls: int) -> float:
    return seconds(lambda: each(calls))


def _length(each: Chain) -> int:
    """Return how many calls take ``LONG_S``."""
    each(1)  # It compiles.
    calls = 1
    while (took := _seconds(each, calls)) < LONG_S and calls < _LONGEST:
        calls = min(_LONGEST, max(2 * calls, int(calls * LONG_S / max(took, 1e-6))))
    return calls
