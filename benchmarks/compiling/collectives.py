"""Read from the HLO of a compiled program what it sends between devices."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

KINDS = (
    *("all-gather", "all-reduce", "reduce-scatter", "all-to-all", "ragged-all-to-all"),
    *("collective-permute", "collective-broadcast"),
)
"""The operations that move data between devices. Each may be split into a ``-start`` and a ``-done``."""


@dataclass(frozen=True)
class Collective:
    """One collective of a program, as one device sees it."""

    kind: str
    elements: int
    """Elements of its operands or of its results, whichever are more."""
    bytes: int
    rounds: int | None = 1
    """How often it runs: the rounds of the loops around it. None where the program does not say how many."""


class _Instruction(NamedTuple):
    shape: str
    opcode: str
    operands: list[str]
    attributes: str


_Computation = dict[str, _Instruction]

_COMPUTATION = re.compile(r"(ENTRY )?%?([\w.-]+) .*\{$")
_INSTRUCTION = re.compile(r"\s+(?:ROOT )?%?([\w.-]+) = (.*)")
_OPCODE = re.compile(r"\s([a-z][a-z0-9-]*)\(")
_NAME = re.compile(r"%([\w.-]+)")
_ARRAY = re.compile(r"\b(pred|[a-z]+(\d+)\w*)\[([\d,<= ]*)\]")
_TRIP_COUNT = re.compile(r'"known_trip_count":\{"n":"(\d+)"')


def collectives(hlo: str) -> list[Collective]:
    """Return the collectives of a compiled program, given its text.

    A pair of ``-start`` and ``-done`` is one collective, and so is one whose operands are a tuple. A collective in a
    computation that is called twice counts twice. All branches of a conditional count.
    """
    computations, entry = _parsed(hlo)
    return list(_of(computations, entry, 1))


def _parsed(hlo: str) -> tuple[dict[str, _Computation], str]:
    computations: dict[str, _Computation] = {}
    entry, current = "", None
    for line in hlo.splitlines():
        header = _COMPUTATION.match(line)
        if header:
            entry = header[2] if header[1] else entry
            current = computations[header[2]] = {}
        elif line.startswith("}"):
            current = None
        elif current is not None and (found := _INSTRUCTION.match(line)):
            current[found[1]] = _instruction(found[2])
    return computations, entry


def _instruction(text: str) -> _Instruction:
    opcode = _OPCODE.search(text)
    if opcode is None:
        raise ValueError(f"this is no HLO instruction: {text}")
    end = _closing(text, opcode.end())
    return _Instruction(text[: opcode.start()], opcode[1], _NAME.findall(text[opcode.end() : end]), text[end:])


def _closing(text: str, start: int) -> int:
    """Return where the parenthesis closes that was opened just before ``start``."""
    depth = 1
    for position in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[position], 0)
        if depth == 0:
            return position
    raise ValueError(f"a parenthesis is not closed: {text}")


def _of(computations: dict[str, _Computation], name: str, rounds: int | None) -> Iterator[Collective]:
    computation = computations[name]
    for instruction in computation.values():
        kind = instruction.opcode.removesuffix("-done")
        if kind in KINDS:
            # The shape of a start holds operands, results and contexts. So the operands of a pair are read from its
            # start, and the results from its done.
            done = instruction.opcode.endswith("-done")
            operands = computation[instruction.operands[0]].operands if done else instruction.operands
            sent = _sizes(computation[operand].shape for operand in operands)
            elements, size = max(sent, _sizes([instruction.shape]))
            yield Collective(kind, elements, size, rounds)
        elif instruction.opcode not in ("async-update", "async-done"):  # Each names the computation of its start again.
            inside = _inner_rounds(instruction, rounds)
            for called in _NAME.findall(instruction.attributes):
                if called in computations:
                    yield from _of(computations, called, inside)


def _inner_rounds(instruction: _Instruction, rounds: int | None) -> int | None:
    if instruction.opcode != "while":
        return rounds
    known = _TRIP_COUNT.search(instruction.attributes)
    return rounds * int(known[1]) if known and rounds is not None else None


def _sizes(shapes: Iterable[str]) -> tuple[int, int]:
    """Return the elements and the bytes of arrays, or of tuples of arrays."""
    elements = bits = 0
    for shape in shapes:
        for dtype, width, dimensions in _ARRAY.findall(shape):
            size = 1
            for dimension in re.findall(r"\d+", dimensions):
                size *= int(dimension)
            elements += size
            bits += size * (8 if dtype == "pred" else int(width))
    return elements, bits // 8
