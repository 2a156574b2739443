"""Read from an optimized program what it computes anew in each call although it depends on weights alone."""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

_FREE = frozenset({"bitcast", "get-tuple-element", "parameter", "tuple", "copy", "copy-start", "copy-done"})
"""Instructions that compute nothing. A TPU copies weights into its fast memory while it computes something else."""

_LINE = re.compile(r"^\s+(?:ROOT )?%?(?P<name>[\w.-]+) = (?P<rest>.*)$")
_OPCODE = re.compile(r"(?:^|[\s)}\]])(?P<opcode>[a-z][\w-]*)\(")


class Instruction(NamedTuple):
    """An instruction of the entry of a program."""

    name: str
    opcode: str
    operands: tuple[str, ...]
    text: str


def entry(program: str) -> Iterator[Instruction]:
    """Return the instructions of the entry of an optimized program, in their order."""
    for line in program[program.index("\nENTRY ") :].splitlines()[2:]:
        found = _LINE.match(line)
        opcode = _OPCODE.search(found["rest"]) if found else None
        if not found or not opcode:
            continue
        inside = _parenthesis(found["rest"][opcode.end() - 1 :])
        yield Instruction(found["name"], opcode["opcode"], tuple(re.findall(r"%([\w.-]+)", inside)), line.strip())


def of_weights(program: str, is_weight: Callable[[str], bool]) -> list[Instruction]:
    """Return the instructions that compute something from weights, or from weights and constants.

    Args:
      program: the text of an optimized program.
      is_weight: tells from its name whether a parameter is a weight.
    """
    constants, weights, found = set[str](), set[str](), []
    for each in entry(program):
        operands = set(each.operands)
        if each.opcode == "constant" or (operands and operands <= constants):
            constants.add(each.name)
        elif is_weight(each.name) if each.opcode == "parameter" else operands and operands <= constants | weights:
            weights.add(each.name)
            found += [] if each.opcode in _FREE else [each]
    return found


def _parenthesis(text: str) -> str:
    """Return the parenthesis that a text begins with."""
    depth = 0
    for place, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if not depth:
            return text[:place]
    return text
