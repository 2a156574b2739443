"""Programs of JAX: jaxdml's own, and the usual way to write each operator in stock JAX."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from typing import Any

import jax
import numpy as np

import jaxdml
from benchmarks.cases import STOCK, Arguments, Case
from benchmarks.peers.contender import Contender, Prepare
from benchmarks.timing.by_chains import later


@dataclass(frozen=True)
class Program:
    """A function of the case's arguments, and what its answers promise."""

    function: Callable[..., Any]
    promises: str = "exact"
    jit: Callable[..., Any] = jax.jit


def ours(case: Case) -> Program:
    """Return the call of jaxdml."""
    return Program(partial(getattr(jaxdml, case.operator), **case.keywords))


def stock(case: Case) -> Program:
    """Return the stock form, where it gives the oracle's answer."""
    return Program(STOCK[case.operator](case))


def ready(program: Callable[[Case], Program]) -> Prepare:
    """Return what prepares the program that a case has."""
    return lambda case, draws: prepare(program(case), case, draws)


def prepare(program: Program, case: Case, draws: Sequence[Arguments]) -> Contender:
    """Compile a program and put the data of the draws on the device, to run on them in turn."""
    donated = case.options.get("memory") == "donated"
    function, data = case.program(program.function, draws[0]), [case.inputs(arguments) for arguments in draws]
    jitted = program.jit(function, donate_argnums=(0,) if donated else ())
    begin = time.perf_counter()
    jitted.lower(*data[0]).compile()
    compile_s = time.perf_counter() - begin
    placed = [list(jax.device_put(arguments, may_alias=False)) for arguments in data]
    turns = cycle(placed)

    def start() -> Any:
        given = next(turns)
        result = jitted(*given)
        if donated:
            given[0] = result  # The buffer that was given has become the result.
        return result

    # Of a donated array a chain needs one of its own.
    linked = later(function, lambda: jax.device_put(data[0], may_alias=False), donated=donated)
    run, many = waiting(start)
    return Contender(run, _answers, program.promises, compile_s, linked, many)


def waiting(start: Callable[[], Any]) -> tuple[Callable[[], Any], Callable[[int], Any]]:
    """Return what makes a call and waits for it, and what makes several and then waits for all."""
    return (
        lambda: jax.block_until_ready(start()),
        lambda calls: jax.block_until_ready([start() for _ in range(calls)]),
    )


def _answers(result: Any) -> Arguments:
    return tuple(map(np.asarray, jax.tree.leaves(result)))
