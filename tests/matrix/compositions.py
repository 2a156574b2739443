"""One small call of every operator, for tests of transformations and of meshes: its record has it."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from typing import Any

import numpy as np

import jaxdml
from jaxdml import reference
from jaxdml._cases import OPERATORS
from jaxdml._cases.records import Operator
from tests.kit.methods import METHODS
from tests.matrix import layouts as _layouts
from tests.matrix.layouts import Layout

Arrays = tuple[np.ndarray, ...]
Groups = Mapping[str, tuple[int, ...]]
"""Arguments that ``vmap`` maps together, by a name."""

RECORDS = {record.name: record for record in OPERATORS}


@dataclass(frozen=True)
class Composition:
    """The sample of an operator, and what tests of transformations need to know beside its record."""

    record: Operator
    derivative: Callable[..., np.ndarray] | None = None
    """Takes the arguments with tangents in the place of floats, and the arguments; returns the first result's tangent.

    None if the first result is linear in all floats together, or integers."""
    bilinear: bool = False
    """Whether the first result is linear in each differentiable argument, but not in all of them together."""
    donated: Mapping[str, Any] = field(default_factory=dict)
    """The options with which the first result can take the place of the first argument."""
    long: Mapping[str, int] = field(default_factory=dict)
    """Sizes that every method can serve, if those of the sample are too short."""
    methods: tuple[str, ...] = ()
    """What ``implementation`` can be, on the machine that runs the tests; nothing if the operator does not take it."""
    groups: Groups | None = None
    """What ``vmap`` maps, if it is not what ``mapped`` says."""
    function: Callable[[Any], Callable[..., Any]] | None = None
    """Takes ``jaxdml`` or the oracle, and returns what to call; by default the operator of that name."""

    def of(self, module: Any) -> Callable[..., tuple[Any, ...]]:
        """Return the operator or its oracle, as a function that returns a tuple of results."""
        function = self.function(module) if self.function else getattr(module, self.record.name)

        def call(*arguments, **more):
            result = function(*arguments, **{**self.record.options, **more})
            return tuple(result) if isinstance(result, tuple) else (result,)

        return call

    @cached_property
    def differentiable(self) -> tuple[int, ...]:
        """Return which arguments are floats."""
        return tuple(i for i, x in enumerate(self._drawn()) if x.dtype.kind == "f")

    @cached_property
    def has_derivative(self) -> bool:
        """Tell whether the first result is a float."""
        return self.of(reference)(*self._drawn())[0].dtype.kind == "f"

    @property
    def has_indices(self) -> bool:
        """Tell whether an argument holds indices, of which some that are not tame are out of range."""
        return "indices" in self._parameters()

    def mapped(self, on_mesh: bool) -> Groups:
        """Return what ``vmap`` maps alone: each array, all float parameters, and all others; on meshes two of these."""
        if self.groups is not None:
            return self.groups
        names, arrays, floats, others = self._parameters(), [], (), ()
        for i, x in enumerate(self._drawn()):
            if i == 0 or x.ndim > 1:
                arrays.append((i,))
            elif x.dtype.kind == "f":
                floats += (i,)
            else:
                others += (i,)
        groups = [*arrays, *filter(None, (floats, others))]
        if on_mesh:
            groups = [sum(half, ()) for half in (groups[::2], groups[1::2]) if half]
        return {"_and_".join(names[i] for i in group): group for group in groups}

    def _drawn(self):
        return self.record.sample(np.random.default_rng(0), True)

    def _parameters(self):
        return list(inspect.signature(getattr(jaxdml, self.record.name)).parameters)


@cache
def layouts(name: str) -> dict[str, Layout]:
    """Return the layouts of a call by their names."""
    return _layouts.layouts(COMPOSITIONS[name].record)


def call(module: Any, name: str, *arguments: Any, **more: Any) -> tuple[Any, ...]:
    """Call an operator, or its oracle, and return a tuple of results."""
    return COMPOSITIONS[name].of(module)(*arguments, **more)


operator, oracle = partial(call, jaxdml), partial(call, reference)


def operands(name: str, seed: int = 0, *, tame: bool = False, long: bool = False) -> Arrays:
    """Draw the arguments of one call."""
    composition = COMPOSITIONS[name]
    return composition.record.sample(np.random.default_rng(seed), tame, **(composition.long if long else {}))


def _taken(tangents, at):
    _, indices = oracle("top_k", *at)
    return np.take_along_axis(tangents[0], indices.astype(int), -1)


def _scaled(tangents, at):
    total = oracle("matrix_multiply_integer", at[0], at[2], at[3], at[5])[0].astype(np.float32)
    return total * (tangents[1][:, None] * at[4] + at[1][:, None] * tangents[4]) + tangents[6]


def _packed(rng, tame, *, b=2, m=4, k=8, n=8):
    """Draw the arguments of a product, with the two arrays of a packed matrix that is stored as uint8."""
    *of_a, right, b_scale, b_zero, output_scale, output_zero = RECORDS["quantized_linear_matrix_multiply"].sample(
        rng, tame, b=b, m=m, k=k, n=n
    )
    matrix = right.swapaxes(-1, -2).copy().view(np.uint8) ^ np.uint8(0x80)
    return *of_a, matrix, matrix.sum(-1, dtype=np.int32), b_scale, b_zero, output_scale, output_zero


def _packed_product(module):
    """Return the product of arguments that ``_packed`` has drawn, or of blocks of them with the sums of the whole K."""

    def multiply(a, a_scale, a_zero, matrix, sums, *rest, **options):
        if module is jaxdml:
            b = jaxdml.PackedMatrix(matrix=matrix, sums=sums, dtype="int8", k=8)
        else:
            b = (matrix ^ np.uint8(0x80)).view(np.int8).swapaxes(-1, -2)
        return module.quantized_linear_matrix_multiply(a, a_scale, a_zero, b, *rest, **options)

    return multiply


_KNOWN = {
    "top_k": {"derivative": _taken, "donated": {"k": 8}, "long": {"n": 48}},
    "argmax": {"long": {"n": 1032}},
    "argmin": {"long": {"n": 1032}},
    "matrix_multiply_integer_to_float": {"derivative": _scaled, "bilinear": True},
    # The other methods need channels last, or filters of one channel: tests/test_convolutions.py.
    **{
        name: {"methods": METHODS["matrix_multiply_integer"]}
        for name in ("convolution_integer", "quantized_linear_convolution")
    },
}
"""What does not follow from the records. The sample of most operators needs no entry."""

COMPOSITIONS = {
    name: Composition(record, **{"methods": METHODS.get(name, ()), **_KNOWN.get(name, {})})
    for name, record in RECORDS.items()
}
"""By the operator's name, or by that of another way to call it."""

COMPOSITIONS["packed_product"] = replace(
    COMPOSITIONS["quantized_linear_matrix_multiply"],
    record=replace(
        RECORDS["quantized_linear_matrix_multiply"],
        dimensions="b m k, m, m, b n k, b n, n, n, , -> b m n; k",
        sample=_packed,
    ),
    function=_packed_product,
    groups={"b": (3, 4), "zero_points": (2, 6, 8)},
)
