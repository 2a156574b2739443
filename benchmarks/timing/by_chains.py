"""Time calls without a profiler: by the clock, over a program in which each call waits for the one before it."""

from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.timing.by_calls import FEWEST, Timing, seconds, summary

LONG_S = 0.03
"""A chain is lengthened until it takes this long, so that its start does not count."""

_MOST_STEPS = 2**16

_MANY = 16
"""Calls in a step of the loop, where a step costs what a short call does: a GPU waits for the host after each."""

_DEAR_S = 1e-6
"""A step that costs more has many calls."""

_LEAST_S = 1e-9
"""No call is said to take less."""

_State = tuple[Any, Any, Any]
"""The arguments, the results of the call before, and a number that depends on them."""

Chain = Callable[[int], Any]
"""Runs so many steps of a loop, one after another, in one program, and waits for the last."""


def chain(function: Callable[..., Any], arguments: tuple[Any, ...], calls: int, *, donated: bool = False) -> Chain:
    """Make a program that calls a function again and again.

    Nothing of a call can be computed before the one before it has ended, and all of each result is computed.

    Args:
      function: to call.
      arguments: its arguments, on the device.
      calls: in each step of the loop.
      donated: whether the first argument of a call is the result of the one before it.
    """

    def call(state: _State) -> _State:
        given, _, token = lax.optimization_barrier(state)
        # Some compilers look through the barrier: so an element depends on the call before, though it stays as it is.
        first = (0,) * given[0].ndim
        element = jnp.where(token < 0, jnp.zeros_like(given[0][first]), given[0][first])
        results = lax.optimization_barrier(function(given[0].at[first].set(element), *given[1:]))
        answer = jax.tree.leaves(results)[0]
        token = token + (answer[(0,) * answer.ndim] == 0).astype(jnp.int32)
        return ((results, *given[1:]) if donated else given), results, token

    def step(_: Any, state: _State) -> _State:
        for _ in range(calls):
            state = call(state)
        return state

    @jax.jit
    def program(steps: Any, given: Any) -> Any:
        # All of a result is computed, for it is what the program returns.
        nothing = jax.tree.map(lambda each: jnp.zeros(each.shape, each.dtype), jax.eval_shape(function, *given))
        return lax.fori_loop(0, steps, step, (given, nothing, jnp.int32(0)))[1:]

    return lambda steps: jax.block_until_ready(program(steps, arguments))


def later(function: Callable[..., Any], arguments: Callable[[], Iterable[Any]], *, donated: bool = False) -> Chain:
    """Return a chain that is made when it is first run."""

    @cache
    def made() -> Chain:
        return chain(function, tuple(arguments()), calls_a_step(), donated=donated)

    def run(steps: int) -> Any:
        return made()(steps)

    return run


@cache
def calls_a_step() -> int:
    """Return how many calls a step of the loop should have on this device."""
    nothing = chain(lambda x: x, (jnp.int32(0),), 1)
    steps = _steps(nothing)
    return _MANY if min(_of_a_step(nothing, steps)[0] for _ in range(FEWEST)) > _DEAR_S else 1


def interleaved(chains: Mapping[str, Chain], *, rounds: int, budget_s: float, spread: float = 0.0) -> dict[str, Timing]:
    """Time chains in turn, at most ``rounds`` times over.

    A sample is the difference of a chain and one of half its length, for each call of the difference: what a start
    costs is in both. The gaps between the calls count: a microsecond for each on an H100.
    """
    calls = calls_a_step()
    half = {name: _steps(each) for name, each in chains.items()}
    samples: dict[str, list[float]] = {name: [] for name in chains}
    spent = dict.fromkeys(chains, 0.0)
    for turn in range(rounds):
        if turn >= FEWEST and all(summary(taken, 1).spread <= spread for taken in samples.values()):
            break
        for name, each in chains.items():
            if turn and spent[name] > budget_s:
                continue
            took, together = _of_a_step(each, half[name])
            spent[name] += together
            samples[name].append(max(took / calls, _LEAST_S))
    return {name: summary(taken, half[name] * calls) for name, taken in samples.items()}


def _of_a_step(each: Chain, steps: int) -> tuple[float, float]:
    """Return the seconds of a step, and those that it took to find out."""
    short, long = (seconds(partial(each, number)) for number in (steps, 2 * steps))
    return (long - short) / steps, short + long


def _steps(each: Chain) -> int:
    """Return how many steps take ``LONG_S``."""
    each(1)  # It compiles.
    steps = 1
    while (took := seconds(partial(each, steps))) < LONG_S and steps < _MOST_STEPS:
        steps = min(_MOST_STEPS, max(2 * steps, int(steps * LONG_S / max(took, 1e-6))))
    return steps
