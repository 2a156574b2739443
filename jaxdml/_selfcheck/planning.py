"""Derive from the cases of all operators what the self-check has to do."""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from jaxdml._cases import OPERATORS
from jaxdml._cases.records import NamedCall, Operator, Scenario
from jaxdml._selfcheck.batches import Batch


@dataclass(frozen=True)
class Check:
    """An operator and dtype to compare with the oracle: one row of the table."""

    record: Operator
    dtype: str

    @property
    def operator(self) -> str:
        """Return the operator's name."""
        return self.record.name

    @property
    def label(self) -> str:
        """Say what is being done."""
        return f"{self.operator} {self.dtype}"

    def scenarios(self, thorough: bool) -> list[tuple[int, Scenario]]:
        """Return the scenarios to run, numbered: all, or by default those of a few pairs of a dtype and a scenario.

        The pairs are spread evenly over the dtypes and over the scenarios.
        """
        every = list(enumerate(self.record.scenarios(self.dtype)))
        dtypes, count = self.record.dtypes, self.record.programs
        if thorough or count >= len(dtypes) * len(every):
            return every
        pairs = ((i * len(dtypes) // count, i * len(every) // count) for i in range(count))
        return [every[number] for number in sorted({n for d, n in pairs if dtypes[d] == self.dtype})]

    def batches(self, seed: int, share: float, thorough: bool) -> Iterator[Batch]:
        """Draw this share of the cases of every scenario to run."""
        for number, scenario in self.scenarios(thorough):
            cases = max(min(scenario.cases, _FEWEST), round(share * scenario.cases))
            yield Batch(self.operator, scenario, scenario.draw(generator(seed, f"{self.label} {number}"), cases))


@dataclass(frozen=True)
class Race:
    """A call to time against stock JAX: one row of the table."""

    record: Operator
    call: NamedCall

    @property
    def operator(self) -> str:
        """Return the operator's name."""
        return self.record.name

    @property
    def label(self) -> str:
        """Say what is being done."""
        return f"{self.operator} {self.call.dtype}, {self.call.size} against stock JAX"


_FEWEST = 9
"""Cases of a scenario that there are at least; some scenarios set as many traps in turn."""


def generator(seed: int, label: str) -> np.random.Generator:
    """Return the source of the data of one label, which no other label's data depends on."""
    return np.random.default_rng([seed, zlib.crc32(label.encode())])


EXAMPLES = tuple(example for record in OPERATORS for example in record.examples)
CHECKS = tuple(Check(record, dtype) for record in OPERATORS for dtype in record.dtypes)


def races(thorough: bool) -> tuple[Race, ...]:
    """Return the calls to time: one for each kernel, or with ``thorough`` all of every operator."""
    raced = [record for record in OPERATORS if thorough or record.raced]
    return tuple(Race(record, call) for record in raced for call in record.races[: None if thorough else 1])
