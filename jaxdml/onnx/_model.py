"""A model that JAX can trace."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import count
from typing import Any

import jax
import numpy as np
from jax.experimental import checkify
from jax.typing import ArrayLike

from jaxdml._base import errors
from jaxdml._base.display import lined_up
from jaxdml.onnx._bounded import NONE, Bounded, Bounds, Padded, checking, must_be_bounds, padded
from jaxdml.onnx._errors import UnsupportedModelError
from jaxdml.onnx._graph import Graph, TensorType
from jaxdml.onnx._interpreter import Report, needed, run
from jaxdml.onnx._parameters import Parameter, constant_inputs, must_be_known
from jaxdml.onnx._randomness import must_be_key, randomness
from jaxdml.onnx._rounding import exact, held, on_device_exactly, opened, rounded
from jaxdml.onnx._stages import Stage, stages
from jaxdml.onnx._stored import on_device, without_uniform_constants
from jaxdml.onnx._values import Value, channels_first

NUMERICS = ("exact", "literal")


class _Known:
    """An array as a static argument of jax.jit: compared by its bytes."""

    def __init__(self, array: np.ndarray):
        self.array = array
        self._key = (array.shape, array.dtype.str, array.tobytes())

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Known) and self._key == other._key


@dataclass(frozen=True, eq=False)
class Model:
    """An ONNX model as a function of JAX arrays.

    ``jaxdml.onnx.load`` makes it. It never changes: it may be closed over by what JAX traces.

    Attributes:
      graph: what it computes.
      params: its weights by name, a pytree for ``apply``: float and 8-bit initializers of at least one dimension.
        Scales, zero points, shapes and other initializers that must be known while tracing are not among them.
      numerics: "exact" or "literal".

    Example:
      >>> import numpy as np, onnx.parser, jaxdml.onnx
      >>> text = '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = Relu(x) }'
      >>> model = jaxdml.onnx.load(onnx.parser.parse_model(text))
      >>> model(np.float32([-1, 2]))
      (Array([0., 2.], dtype=float32),)
    """

    graph: Graph
    params: Mapping[str, Parameter]
    numerics: str

    @property
    def inputs(self) -> tuple[TensorType, ...]:
        """Name, dtype and shape of each input."""
        return self.graph.inputs

    @property
    def optional_inputs(self) -> tuple[TensorType, ...]:
        """Name, dtype and shape of each initializer that a call may override by name."""
        return self.graph.optional

    @property
    def outputs(self) -> tuple[TensorType, ...]:
        """Name, dtype and shape of each output."""
        return self.graph.outputs

    @cached_property
    def static_inputs(self) -> frozenset[str]:
        """Names of the inputs that must be known while tracing, because shapes depend on their values."""
        return must_be_known(self.graph) & {value.name for value in (*self.inputs, *self.optional_inputs)}

    def apply(
        self,
        params: Mapping[str, Any],
        *inputs: ArrayLike | Sequence[Any] | None,
        key: jax.Array | None = None,
        bounds: Mapping[str, int] | None = None,
        checks: bool = False,
    ) -> tuple[Any, ...]:
        """Compute the outputs: a pure function for jit, vmap, grad, export and shard_map.

        Args:
          params: ``self.params``, or a pytree like it.
          inputs: one array for each of ``self.inputs``; for a sequence a list of arrays, for an optional without an
            element None. Those of ``self.static_inputs`` must be NumPy arrays.
          key: of ``jax.random``, for operators that are random, such as Dropout in training. It is folded with the
            place of each node, and with the number of each turn of a loop, so all draw other numbers. The nodes'
            attribute ``seed`` is ignored.
          bounds: how long what depends on values may become, such as ``{"NonZero_5": 100}``: by name of the node that
            finds it, of its output, or of a dimension that the model declares. Static.
          checks: whether ``jax.experimental.checkify`` with ``user_checks`` finds out of range indices and more than a
            bound, and names the node. Such a program cannot be serialized by ``jax.export``. Static.

        Returns:
          A tuple of one array for each of ``self.outputs``, or a list of arrays, or None. Where an output's shape
          depends on values, it is ``Padded(array, lengths)``: its elements, followed by zeros up to the bound, and the
          size of each of its dimensions. More than a bound is dropped.

        Raises:
          TypeError: an input has another dtype, or their number differs; the key is none.
          ValueError: an input has another shape; a node is random, and there is no key.
          NotImplementedError: a shape depends on a traced value.
          UnsupportedModelError: a bound is missing, or a node has an operand of such a length and cannot mask it.
          OverflowError: a constant of 64 bits does not fit in JAX's 32.

        Where the model is malformed in a way that ``load`` does not see, such as shapes that do not fit, it is a
        TypeError or ValueError, and the node's name is in its text or among its notes.
        """
        arrays = checked(self.inputs, inputs)
        given = dict(params) | {value.name: array for value, array in zip(self.inputs, arrays, strict=True)}
        with checking(checks):
            return self.compute(given, key, bounds=bounds)

    def compute(
        self,
        given: Mapping[str, Any],
        key: Any = None,
        report: Report | None = None,
        bounds: Mapping[str, int] | None = None,
    ) -> tuple[Any, ...]:
        """Compute the outputs from values by name, without checks."""
        return self._computed(_array, given, key, report or Report(), must_be_bounds(self.graph, bounds))

    def _computed(
        self, returned: Callable[[Value], Any], given: Mapping[str, Any], key: Any, report: Report, bounds: Bounds
    ) -> tuple[Any, ...]:
        random, whole = randomness(self.graph, key), self.numerics == "exact"
        with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
            values = {name: opened(value) for name, value in without_uniform_constants(given).items()}
            results = run(self.graph, values, exact=whole, report=report, random=random, bounds=bounds)
            return tuple(map(returned, results))

    def __call__(
        self,
        *inputs: ArrayLike | Sequence[Any] | None,
        key: ArrayLike | Sequence[Any] | None = None,
        bounds: Mapping[str, int] | None = None,
        **by_name: ArrayLike | Sequence[Any] | None,
    ) -> tuple[Any, ...]:
        """Compute the outputs, compiled once for each combination of shapes.

        Where a shape depends on a value, it runs as several programs, and waits for that value between them.

        Args:
          inputs: arrays in the order of ``self.inputs``.
          key: as for ``apply``. Where an input of the model has this name, it is that input, and ``apply`` takes keys.
          bounds: as for ``apply``: what depends on values has a bound, and all is one program. The outputs have their
            true shapes. Where an input of the model has this name, it is that input.
          by_name: further inputs by name, among them any of ``self.optional_inputs``.

        Returns:
          A tuple of one array for each of ``self.outputs``, or a list of arrays, or None.

        Raises:
          TypeError: an input is missing, unknown, given twice or of another dtype.
          ValueError: an input has another shape; a node is random, and there is no key; there is more than a bound
            says, or, with bounds, an index is out of range.
        """
        named: dict[str, Any] = by_name
        names = {value.name for value in (*self.inputs, *self.optional_inputs)}
        if key is not None and "key" in names:
            named, key = named | {"key": key}, None
        if bounds is not None and "bounds" in names:
            named, bounds = named | {"bounds": bounds}, None
        must_be_key(key)
        wanted = (*self.inputs, *(value for value in self.optional_inputs if value.name in named))
        arrays = checked(wanted, in_order(self.inputs, wanted, inputs, named))
        known, traced = {}, {}
        for value, array in zip(wanted, arrays, strict=True):
            if value.name in self._constant_inputs and not value.within:
                known[value.name] = _Known(np.asarray(array))
            else:
                traced[value.name] = array
        if bounds is not None:
            return self._within_bounds(tuple(known.items()), traced, key, bounds)
        if self._parts is None:
            return self._compiled(tuple(known.items()), dict(self.params), traced, key)
        return self._in_stages(tuple(known.items()), traced, key)

    @cached_property
    def _constant_inputs(self) -> frozenset[str]:
        return constant_inputs(self.graph)

    @cached_property
    def _parts(self) -> tuple[tuple[Stage, Model], ...] | None:
        """The stages of a call, each with the model that computes it; None where all is one program."""
        traced = {value.name for value in self.inputs} - self._constant_inputs | set(self.params)
        found = stages(self.graph, traced)
        if len(found) == 1 and not found[0].on_host:
            return None
        return tuple((stage, replace(self, graph=stage.graph)) for stage in found)

    def _in_stages(self, known: tuple[tuple[str, _Known], ...], traced: dict[str, Any], key: Any) -> tuple[Any, ...]:
        """Compute the stages one after another: programs, and what must know their results."""
        values = dict(self.params) | traced
        overridden = [value.name for value in self.optional_inputs if value.name in traced]
        for number, (stage, part) in enumerate(self._parts or ()):
            # Nodes are numbered within a stage.
            own = None if key is None else jax.random.fold_in(key, number)
            given = {name: values[name] for name in {*stage.given, *overridden}}
            names = [output.name for output in stage.graph.outputs]
            if stage.on_host:
                constants = {name: each.array for name, each in known}
                given = {name: jax.tree.map(np.asarray, exact(value)) for name, value in given.items()}
                results = part._computed(_on_host, given | constants, own, Report(), NONE)
                results = tuple(rounded(stage.graph, *each) for each in zip(names, results, strict=True))
            else:
                results = part._with_rounded_lengths(number, known, given, own)
            values = values | dict(zip(names, results, strict=True))
        return tuple(on_device_exactly(values[output.name]) for output in self.outputs)

    def _with_rounded_lengths(
        self, number: int, known: tuple[tuple[str, _Known], ...], given: dict[str, Any], key: Any
    ) -> tuple[Any, ...]:
        """Compute a program of a call on arrays that are longer than what counts, or else on their true shapes."""
        if not self._refusing:
            try:
                return self._rounding(known, number, given, key)
            except UnsupportedModelError:
                self._refusing.append(number)
        return self._compiled(known, {}, {name: exact(value) for name, value in given.items()}, key)

    @cached_property
    def _refusing(self) -> list[int]:
        """Whether an operator refuses arrays that are longer than what counts: holds the number of the stage then."""
        return []

    @cached_property
    def _rounding(self) -> Any:
        @partial(jax.jit, static_argnums=(0, 1))
        def compiled(known: Any, number: int, given: Any, key: Any) -> Any:
            given = given | {name: each.array for name, each in known}
            places = count()

            def returned(result: Value) -> Any:
                place = next(places)
                return held(result, number, place) if isinstance(result, Bounded) else _array(result)

            return self._computed(returned, given, key, Report(), Bounds(active=True))

        return compiled

    def _within_bounds(
        self, known: tuple[tuple[str, _Known], ...], traced: dict[str, Any], key: Any, bounds: Mapping[str, int]
    ) -> tuple[Any, ...]:
        """Compute all in one program, and cut what it returns to its true shape."""
        must_be_bounds(self.graph, bounds)
        error, results = self._checked(known, tuple(sorted(bounds.items())), dict(self.params), traced, key)
        if error.get():
            rule = error.get().split("\n")[0].removesuffix(" (`check` failed)")
            raise ValueError(errors.compose("onnx.Model", f"{rule}."))
        return tuple(map(_cut, results))

    @cached_property
    def _checked(self) -> Any:
        def checked(known: Any, bounds: Any, params: Any, traced: Any, key: Any) -> Any:
            given = params | traced | {name: each.array for name, each in known}
            with checking(True):
                return self.compute(given, key, bounds=dict(bounds))

        @partial(jax.jit, static_argnums=(0, 1))
        def compiled(known: Any, bounds: Any, *operands: Any) -> Any:
            return checkify.checkify(partial(checked, known, bounds), errors=checkify.user_checks)(*operands)

        return compiled

    @cached_property
    def _compiled(self) -> Any:
        @partial(jax.jit, static_argnums=0)
        def compiled(known: Any, params: Any, traced: Any, key: Any) -> Any:
            return self.compute(params | traced | {name: each.array for name, each in known}, key)

        return compiled

    def report(self, *inputs: ArrayLike | Sequence[Any] | None) -> str:
        """Say which operators the nodes became, and which stayed float and why.

        Args:
          inputs: arrays or ``jax.ShapeDtypeStruct`` for each of ``self.inputs``; by default what the model declares,
            with 1 for each unknown dimension. Of inputs whose values must be known without one, they are zeros.

        Returns:
          One line for each node that is computed: its name, its operator, what became of it. Then one for each thing
          that the file leaves open, such as a domain that it does not import.
        """
        report = Report()
        values = checked(self.inputs, inputs) if inputs else tuple(_declared(value) for value in self.inputs)
        known = {
            value.name: np.zeros(given.shape, given.dtype) if isinstance(given, jax.ShapeDtypeStruct) else given
            for value, given in zip(self.inputs, values, strict=True)
            if value.name in self.static_inputs and not value.within
        }
        traced = {
            value.name: given for value, given in zip(self.inputs, values, strict=True) if value.name not in known
        }
        key = jax.random.key(0)  # For what is random; nothing is drawn.
        jax.eval_shape(
            lambda params, given: self.compute(params | given | known, key, report), dict(self.params), traced
        )
        lines = [(node.name, node.kind, report.notes.get(node.name, "as it is written")) for node in needed(self.graph)]
        table = lined_up({"node": "left", "operator": "left", "runs as": "left"}, lines)
        return "\n".join([*table, *self.graph.remarks])

    def __str__(self) -> str:
        lines = [
            (node.name, node.kind, ", ".join(filter(None, node.inputs)), ", ".join(filter(None, node.outputs)))
            for node in self.graph.nodes
        ]
        return "\n".join(lined_up({"node": "left", "operator": "left", "inputs": "left", "outputs": "left"}, lines))

    def __repr__(self) -> str:
        inputs, outputs = (", ".join(map(str, values)) for values in (self.inputs, self.outputs))
        return f"Model({inputs} -> {outputs}; {len(self.graph.nodes)} nodes, {len(self.params)} params)"


def _on_host(result: Any) -> Any:
    """Return what the host has computed, as it is if it has."""
    return result if isinstance(result, np.ndarray) else _array(result)


def _array(result: Any) -> Any:
    if isinstance(result, list):
        return [_array(each) for each in result]
    if isinstance(result, Bounded):
        return padded(on_device(channels_first(result.value)), result.sizes)
    return None if result is None else on_device(channels_first(result))


def _cut(result: Any) -> Any:
    """Return an output in its true shape."""
    if not isinstance(result, Padded):
        return result
    sizes = tuple(map(int, np.asarray(result.lengths)))
    return jax.device_put(np.asarray(result.array)[tuple(map(slice, sizes))])


def _declared(value: TensorType) -> Any:
    if value.within:
        element = _declared(value.element())
        return [element] if value.within[0] == "sequence" else element
    shape = tuple(size if isinstance(size, int) else 1 for size in value.shape or ())
    return jax.ShapeDtypeStruct(shape, jax.dtypes.canonicalize_dtype(value.dtype or np.float32))  # type: ignore[no-untyped-call]


def in_order(
    positional: Sequence[TensorType], wanted: Sequence[TensorType], inputs: Sequence[Any], by_name: Mapping[str, Any]
) -> tuple[Any, ...]:
    """Return inputs that are given by position, or by name, in the order in which they are wanted."""
    names = [value.name for value in positional]
    given = dict(zip(names, inputs, strict=False))
    twice = sorted(set(given) & set(by_name))
    unknown = sorted(set(by_name) - {value.name for value in wanted})
    missing = [name for name in names if name not in given and name not in by_name]
    for what, which in (("unknown", unknown), ("given twice", twice), ("missing", missing)):
        if which:
            rule = f"input {', '.join(map(repr, which))} is {what}."
            raise TypeError(errors.compose("onnx.Model", rule, _all(wanted), "Give each input once."))
    if len(inputs) > len(names):
        rule = f"{len(inputs)} inputs are given; the model takes {len(names)}."
        raise TypeError(errors.compose("onnx.Model", rule, _all(wanted), "Give each input once."))
    given |= by_name
    return tuple(given[value.name] for value in wanted)


def _all(wanted: Sequence[TensorType]) -> str:
    return f"inputs: {', '.join(map(str, wanted))}"


def checked(wanted: Sequence[TensorType], inputs: Sequence[Any]) -> tuple[Any, ...]:
    """Return the inputs as arrays, if their dtypes and shapes are those that the model declares."""
    if len(inputs) != len(wanted):
        rule = f"{len(inputs)} inputs are given; the model takes {len(wanted)}."
        raise TypeError(errors.compose("onnx.Model", rule, _all(wanted), "Give one array for each."))
    sizes: dict[str, Any] = {}
    return tuple(_checked(value, given, sizes) for given, value in zip(inputs, wanted, strict=True))


def _checked(value: TensorType, given: Any, sizes: dict[str, Any]) -> Any:
    """Return one input; ``sizes`` holds those of dimensions that have a name."""
    if value.within[:1] == ("optional",):
        return None if given is None else _checked(value.element(), given, sizes)
    if value.within:
        if not isinstance(given, list | tuple):
            rule = f"input '{value.name}' is a sequence."
            raise TypeError(errors.message("onnx.Model", rule, {value.name: given}, "Give a list of arrays."))
        return [_checked(value.element(), each, {}) for each in given]  # Their sizes may differ.
    array = _as_array(given, value.dtype)
    operands = {value.name: array}
    if value.dtype is not None and array.dtype not in (value.dtype, jax.dtypes.canonicalize_dtype(value.dtype)):
        rule = f"input '{value.name}' must be {value.dtype}, not {array.dtype}."
        raise TypeError(errors.message("onnx.Model", rule, operands, f"Convert it to {value.dtype}."))
    if value.shape is None:
        return array
    same = len(value.shape) == len(array.shape)
    for size, found in zip(value.shape, array.shape, strict=False):
        expected = sizes.setdefault(size, found) if isinstance(size, str) else size
        same &= expected is None or expected == found
    if not same:
        rule = f"input {value} has shape {list(array.shape)}."
        advice = "Give the shape that the model declares; dimensions of one name have one size."
        raise ValueError(errors.message("onnx.Model", rule, operands, advice))
    return array


def _as_array(given: Any, dtype: Any) -> Any:
    """Return what has no dtype, such as a list of numbers, as an array of the declared one."""
    if hasattr(given, "dtype") and hasattr(given, "shape"):
        return given
    array = np.asarray(given)
    return array.astype(dtype) if dtype is not None and array.dtype.kind == dtype.kind else array
