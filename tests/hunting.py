"""Run random programs and compare them with the oracle, in a process of their own: XLA has programs that crash.

``python -m tests.hunting --programs 500 --seed 1`` prints what differs, and the command that runs one such program
again and tells which part of it is wrong.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from threading import Timer
from typing import Any

import jax
import numpy as np

from tests.kit import bits
from tests.random_programs import Program, Runnable, draw_program

LIMIT_S = 120
"""A program that takes longer hangs."""

_BETWEEN_RELEASES = 100
"""So many programs are compiled before all are released."""


def command(seed: int, number: int) -> str:
    """Return the command that runs one program again."""
    return f"python -m tests.hunting --seed {seed} --start {number} --programs 1"


def differences(program: Runnable) -> list[str]:
    """Run a program; return what differs, in one line for each result."""
    results = jax.jit(program.function)(*program.arguments)
    return [
        line
        for place, (got, want) in enumerate(zip(results, program.expected, strict=True))
        if (line := _difference(place, np.asarray(got), want))
    ]


def _difference(place: int, got: np.ndarray, want: np.ndarray) -> str:
    exact = want.dtype != np.float64
    if got.shape != want.shape or (exact and got.dtype != want.dtype):
        return f"result {place} is {got.dtype}{list(got.shape)} and not {want.dtype}{list(want.shape)}"
    wrong = bits(got) != bits(want) if exact else got.astype(np.float64) != want
    if not wrong.any():
        return ""
    first = tuple(np.argwhere(wrong)[0].tolist())
    return f"{wrong.sum()} of {wrong.size} elements of result {place}: at {first} {got[first]} and not {want[first]}"


def explained(program: Program) -> list[str]:
    """Return the parts of a program that are wrong, and the parts that are right."""
    return [f"{part}: {'; '.join(differences(left)) or 'right'}" for part, left in program.parts().items()]


def report(seed: int, number: int) -> dict[str, Any]:
    """Run the program of a number."""
    program = draw_program(seed, number)
    whole = program.whole()
    wrong = differences(whole)
    if not wrong:
        return {"arrays": len(whole.expected), "elements": sum(result.size for result in whole.expected)}
    return {"arrays": 0, "elements": 0, "wrong": [str(program), *wrong, *explained(program)]}


def child(seed: int, start: int, end: int) -> None:
    """Report each program in a line of its own."""
    for number in range(start, end):
        try:
            found = report(seed, number)
        except Exception as error:
            found = {"arrays": 0, "elements": 0, "wrong": [f"{type(error).__name__}: {error}"[:2000]]}
        print(json.dumps({"number": number, **found}), flush=True)
        if number % _BETWEEN_RELEASES == 0:
            jax.clear_caches()


def reports(seed: int, start: int, end: int) -> Iterator[dict[str, Any]]:
    """Run programs in a process, and in another one after one that crashed or hangs; return a report of each."""
    while start < end:
        arguments = "--child", "--seed", str(seed), "--start", str(start), "--programs", str(end - start)
        command_line = [sys.executable, "-m", __spec__.name, *arguments]
        with subprocess.Popen(command_line, stdout=subprocess.PIPE, text=True) as process:
            timer = _killed_in_time(process)
            for line in process.stdout or ():
                timer.cancel()
                found = json.loads(line)
                yield found
                start = found["number"] + 1
                timer = _killed_in_time(process)
        timer.cancel()
        if start < end:
            wrong = [f"the process ended with {process.returncode}"]
            yield {"number": start, "arrays": 0, "elements": 0, "wrong": wrong}
            start += 1


def _killed_in_time(process: "subprocess.Popen[str]") -> Timer:
    timer = Timer(LIMIT_S, process.kill)
    timer.start()
    return timer


def main() -> int:
    """Run programs and print what differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.hunting", description=__doc__)
    parser.add_argument("--programs", type=int, default=100, help="how many programs to run")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0, help="the number of the first program")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    end = chosen.start + chosen.programs
    if chosen.child:
        child(chosen.seed, chosen.start, end)
        return 0
    began, all_found = time.perf_counter(), []
    for found in reports(chosen.seed, chosen.start, end):
        all_found.append(found)
        if "wrong" in found:
            print(command(chosen.seed, found["number"]), *found["wrong"], sep="\n  ", flush=True)
    wrong, minutes = sum("wrong" in found for found in all_found), (time.perf_counter() - began) / 60
    arrays, elements = (sum(found[what] for found in all_found) for what in ("arrays", "elements"))
    print(f"JAX {jax.__version__}: {len(all_found)} programs, {wrong} wrong, {minutes:.1f} minutes")
    print(f"right: {arrays} arrays with {elements} elements")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
