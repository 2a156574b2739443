"""The records of which the cases of an operator are made."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from inspect import signature
from typing import Any, Literal

import numpy as np

Array = np.ndarray[Any, Any]
Arguments = tuple[Array | None, ...]
Answers = tuple[Array, ...]
Way = Literal["all at once", "one after another", "vmap", "eager"]

SHARDS = 16
"""How many shards there are at most. The size of every dimension that a ``Sharding`` names is a multiple of this."""

_OF_THE_DATA = frozenset({"given", "memory", "scales", "sharding"})
"""Options of a ``NamedCall`` that describe how it is measured or drawn; the operator has no such parameter."""


@dataclass(frozen=True)
class Example:
    """A worked example of a source page: the call, and the answers printed there."""

    operator: str
    arguments: Arguments
    options: Mapping[str, Any]
    expected: Answers


@dataclass(frozen=True)
class Scenario:
    """Cases of one shape with the same options, so that one compiled program serves them all."""

    trap: str
    """What these cases are meant to catch."""
    draw: Callable[[np.random.Generator, int], Arguments]
    """Draws so many cases, stacked along a leading axis."""
    options: Mapping[str, Any]
    cases: int
    """How many cases to draw in a full run."""
    way: Way = "vmap"
    """How the operator is called: with the stacked cases as one batch (``all at once``), in a loop of one program
    (``one after another``), under ``vmap``, or without ``jit``, case by case (``eager``)."""


@dataclass(frozen=True)
class Sharding:
    """Cases to run on several devices, with one dimension sharded."""

    dimension: str
    """Its name in the table: ``rows``, ``K``."""
    letter: str
    """Its letter in the dimensions."""
    scenarios: tuple[Scenario, ...]
    """The cases, for programs that call the operator ``all at once`` or under ``vmap``."""
    dimensions: str | None = None
    """Those of the cases, if they are not those of the record. Stacked arrays have more in front, or fewer."""


@dataclass(frozen=True)
class NamedCall:
    """A call to time: where its size comes from, and what it has to move and compute at least."""

    operator: str
    group: str
    """What it is measured for: ``grid``, ``models``, ``growth in n``, ``growth in k``, ``accelerators``."""
    size: str
    dtype: str
    data: str
    origin: str
    draw: Callable[[np.random.Generator], tuple[Array, ...]] = field(repr=False, compare=False)
    bytes: int
    """Every input read once and every output written once."""
    operations: int = 0
    """Multiplications and additions of integers; 0 where the time goes into moving bytes."""
    options: Mapping[str, Any] = field(default_factory=dict)
    at: int | None = None
    """The size that a growth group varies: n or k."""
    draws: int = 1
    """How many draws of the data to run on in turn: more than one where the time depends on the data."""
    known: tuple[int, ...] = ()
    """The places of arguments that are constants of the program, as scales and zero points are in most of them."""

    @property
    def name(self) -> str:
        """Return the unique name that ``--cases`` of ``python -m benchmarks`` matches."""
        choices = [str(value) for value in self.options.values() if isinstance(value, str)]
        return " ".join([self.operator, self.size, self.dtype, self.data, *choices])

    @property
    def keywords(self) -> Mapping[str, Any]:
        """Return the options that are parameters of the operator."""
        return {name: value for name, value in self.options.items() if name not in _OF_THE_DATA}

    def program(self, function: Callable[..., Any], arguments: Sequence[Any]) -> Callable[..., Any]:
        """Return a function of the data, in which the other arguments are constants."""
        constants = [x if place in self.known else None for place, x in enumerate(arguments)]
        return partial(with_constants, function, constants)

    def inputs(self, arguments: Sequence[Any]) -> tuple[Any, ...]:
        """Return the arguments that are no constants of the program."""
        return tuple(x for place, x in enumerate(arguments) if place not in self.known)


def with_constants(function: Callable[..., Any], constants: Sequence[Array | None], *data: Any) -> Any:
    """Call a function with constants in their places, and with data in the places of None."""
    rest = iter(data)
    return function(*(next(rest) if constant is None else constant for constant in constants))


@dataclass(frozen=True)
class Operator:
    """All that the self-check, the tests and the benchmarks know of one operator."""

    name: str
    examples: tuple[Example, ...]
    dimensions: str
    """The dimensions of the arguments and of the results, by letters: ``"m c, u t, u c -> m c; m"``. Equal letters mean
    the same dimension. After the semicolon stand those that the operator combines: blocks of such a dimension have to
    know of each other. ``dimensions.of`` reads it."""
    sample: Callable[..., Arguments]
    """Draws one small call: ``sample(rng, tame, m=4, c=8)`` has a size for each letter that tests may shard or vary.

    By default these are small. A mesh of 2 x 4 devices can shard multiples of 4 over either axis, other even ones over
    the first, and leaves the rest whole. Tame arguments have small integers and powers of two, of which no result is
    rounded, and no index out of range."""
    dtypes: tuple[str, ...]
    """The dtypes that the self-check runs, one row of its table for each."""
    scenarios: Callable[[str], tuple[Scenario, ...]]
    """Returns what to compare with the oracle, for one of ``dtypes``."""
    shardings: Callable[[str], tuple[Sharding, ...]]
    """Returns what to compare with the oracle where there are several devices, for one of ``dtypes``."""
    sharded_dtypes: tuple[str, ...]
    """Those of ``dtypes`` that the default self-check runs sharded."""
    races: tuple[NamedCall, ...]
    """What the self-check times; the default runs only the first, if ``raced``."""
    small: NamedCall
    """A call so small that its overhead is most of it."""
    stock: Callable[[NamedCall], Callable[..., Any]]
    """Returns the usual way to write a call in stock JAX."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The options with which ``sample`` is called."""
    judged_rows: int | None = None
    """How many leading rows of the first argument the oracle's loops can answer in a race; None means all."""
    raced: bool = True
    """Whether the default self-check times it. Of operators that share a kernel, one is enough."""
    programs: int = 2
    """How many pairs of a dtype and a scenario the default self-check runs; ``--thorough`` runs all.

    README's first command has to stay under a minute, and compiling takes most of it."""

    @property
    def sizes(self) -> Mapping[str, int]:
        """Return the sizes that tests may shard or vary, by letter, as ``sample`` has them by default."""
        choices = signature(self.sample).parameters.values()
        return {choice.name: choice.default for choice in choices if choice.kind is choice.KEYWORD_ONLY}
