"""Programs that are exported ahead of calls, for lengths of a model's open dimensions, with its weights beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import export
from jax.tree_util import keystr, tree_flatten_with_path

from jaxdml._base import errors
from jaxdml.onnx._errors import UnsupportedModelError, unsupported
from jaxdml.onnx._graph import Graph, TensorType
from jaxdml.onnx.running import artifact
from jaxdml.onnx.running.calls import Calls
from jaxdml.onnx.running.inputs import declared, dimensions
from jaxdml.onnx.running.model import Model
from jaxdml.onnx.running.open_dimensions import Lengths, must_be_lengths, names
from jaxdml.onnx.running.program import NUMERICS
from jaxdml.onnx.running.programs import Place, Programs
from jaxdml.onnx.values.held import LEAST, Free, Held
from jaxdml.onnx.values.obstacles import InTheWayError
from jaxdml.onnx.values.stored import from_host

Table = Mapping[str, Sequence[int]]
"""Lengths by the name of an open dimension."""


@dataclass(frozen=True, eq=False, repr=False)
class Artifact(Model):
    """A model whose programs were exported ahead: a call traces nothing. It is called as any other model is.

    ``python -m jaxdml.onnx MODEL --compile NAME=LENGTHS --out FILE`` writes one; ``load`` reads it.

    Attributes:
      lengths: for which there are programs, by the name of an open dimension.
      programs: of ``jax.export``, for their combinations; the last length varies fastest.
    """

    lengths: Table = field(default_factory=dict)
    programs: Sequence[export.Exported] = ()

    def apply(self, *_: Any, **__: Any) -> tuple[Any, ...]:
        """Refuse: there are no nodes to trace."""
        rule = "an artifact has programs, and no nodes that JAX could trace."
        raise NotImplementedError(errors.compose("onnx.Model", rule, "Call it, or load the model's file."))

    def report(self, *_: Any) -> str:
        """Say for which platforms and lengths there are programs."""
        lengths = (f"{name}: {', '.join(map(str, sizes))}" for name, sizes in self.lengths.items())
        count = "1 program" if len(self.programs) == 1 else f"{len(self.programs)} programs"
        return "\n".join([f"{count} for {', '.join(self.programs[0].platforms)}.", *lengths])

    def __str__(self) -> str:
        return self.report()

    def __repr__(self) -> str:
        return super().__repr__().replace("Model(", "Artifact(").replace("0 nodes", f"{len(self.programs)} programs")

    @cached_property
    def _calls(self) -> Calls:
        # A dimension of one length has no other.
        how = {name: sizes if len(sizes) > 1 else "exact" for name, sizes in self.lengths.items()}
        return Calls(replace(self, lengths=how), _Ahead(self))  # type: ignore[arg-type]


class _Ahead(Programs):
    """Programs that are there."""

    def __init__(self, model: Artifact) -> None:
        super().__init__(model)
        some = ", ".join(f"{name} {list(sizes)}" for name, sizes in model.lengths.items())
        self._some = f"It has some for {some}; 0, 1 and what stands alone serve no other."
        pairs = zip(_operands(model.inputs, model.lengths), map(self._called, model.programs), strict=True)
        self._there = {self._place((), given, key): program for given, program in pairs for key in (None, 0)}

    def compiled(self, place: Place) -> Any:
        program = self._there.get(place)
        if program is None:
            rest: Any = place[1]
            _, structure, leaves, _ = rest
            given = jax.tree.unflatten(structure, [shape for shape, _ in leaves])
            sizes = {name: list(getattr(shape, "array", shape)) for name, shape in given.items()}
            wanted = ", ".join(f"{value.name} {sizes[value.name]}" for value in self._program.inputs)
            raise ValueError(errors.compose("onnx.Model", f"the artifact has no program for {wanted}.", self._some))
        return program

    def _called(self, program: export.Exported) -> Callable[[Any, Any, Any], Any]:
        """Return a program as a function of the leaves of weights, inputs and a key, which it may not need."""
        bits = program.in_avals[-1]
        is_random = len(program.in_avals) - 1 in program.module_kept_var_idx

        @jax.jit
        def function(leaves: Any, given: Any, bits: Any) -> Any:
            weights = self._program.params_from(leaves)
            return program.call(weights, given, bits)  # type: ignore[no-untyped-call]

        def call(leaves: Any, given: Any, key: Any) -> Any:
            if not is_random:
                return function(leaves, given, np.zeros(bits.shape, bits.dtype))
            if key is None:
                rule = "the model is random, and the call gives no key."
                raise ValueError(errors.compose("onnx.Model", rule, "Give one: model(..., key=jax.random.key(0))."))
            return function(leaves, given, jax.random.key_data(key))

        return call


def _operands(inputs: Sequence[TensorType], lengths: Table) -> Iterator[dict[str, Any]]:
    """Yield what stands for the inputs of each program: for shorter ones, too, where there are several lengths."""
    served = {name for name, sizes in lengths.items() if len(sizes) > 1}
    for sizes in product(*lengths.values()):
        by_name = dict(zip(lengths, sizes, strict=True))
        longer = {name for name in served if by_name[name] >= LEAST}
        yield {value.name: _operand(value, by_name, longer) for value in inputs}


def _operand(value: TensorType, by_name: Mapping[str, int], longer: set[str]) -> Any:
    own = list(zip(dimensions(value), names(value, 0), strict=True))
    array = declared(value, {size: by_name[name] for size, name in own if name is not None})
    keys = tuple(Free(name) if name is not None and name in longer else None for _, name in own)
    numbers = tuple(_struct((), np.int32) for key in keys if key is not None)
    return Held(array, numbers, keys) if numbers else array


def _struct(shape: Sequence[int], dtype: Any) -> Any:
    return jax.ShapeDtypeStruct(shape, dtype)  # type: ignore[no-untyped-call]


def write(model: Model, lengths: Table, path: Path, platforms: Sequence[str] | None = None) -> int:
    """Export a model's programs and write them with its weights; return the size of the file.

    Args:
      model: which takes tensors, and is one program.
      lengths: for each open dimension by name, in increasing order. What is shorter than one of them is served by the
        program for it; where there is one only, every call has this length.
      path: of the file.
      platforms: as for ``jax.export``; None for the one that JAX has here.

    Raises:
      ValueError: there are lengths for other dimensions than those that the model leaves open.
      UnsupportedModelError: a node cannot mask one of the lengths, or calls code outside of the program.
      NotImplementedError: an input must be known while tracing, or a shape depends on values.
    """
    _must_be_all(model.inputs, lengths)
    leaves, _ = tree_flatten_with_path(dict(model.params))
    weights = {keystr(place): leaf for place, leaf in leaves}
    of_model = Programs(model)

    def program(params: Mapping[str, Any], given: Mapping[str, Any], bits: Any) -> Any:
        return of_model.traced((), [params[name] for name in weights], given, jax.random.wrap_key_data(bits))

    exporting = export.export(jax.jit(program), platforms=platforms)
    params = {name: _struct(leaf.shape, leaf.dtype) for name, leaf in weights.items()}
    bits = jax.eval_shape(lambda: jax.random.key_data(jax.random.key(0)))
    try:
        programs = [exporting(params, given, bits) for given in _operands(model.inputs, lengths)]
    except InTheWayError as error:
        reasons = {key.name: why for key, why in error.why.items() if isinstance(key, Free)}
        rules = (f"several lengths of '{name}' cannot be served: {why}." for name, why in reasons.items())
        raise unsupported(*rules, "Give it one length.") from None
    _must_be_plain(programs)
    description = {
        "convention": programs[0].calling_convention_version,
        "x64": _has_64_bits(),
        "numerics": model.numerics,
        "inputs": [_described(value) for value in model.inputs],
        "outputs": [_described(value) for value in model.outputs],
        "lengths": lengths,
        "weights": [(name, str(leaf.dtype), leaf.shape) for name, leaf in weights.items()],
    }
    blocks = [np.asarray(leaf).tobytes() for leaf in weights.values()]
    return artifact.write(path, description, [*blocks, *(bytes(each.serialize()) for each in programs)])


def _must_be_all(inputs: Sequence[TensorType], lengths: Table) -> None:
    """Refuse inputs that no program is exported for, and lengths unless they are of all open dimensions."""
    for value in inputs:
        if value.within or value.shape is None or value.dtype is None:
            rule = f"the model declares no tensor of known dtype and rank: {value}."
            raise NotImplementedError(errors.compose("onnx.Model", rule, "Programs ahead take no other inputs."))
    wanted = dict.fromkeys(name for value in inputs for name in names(value, 0) if name)
    if wanted.keys() != lengths.keys():
        rule = f"open dimensions are {', '.join(wanted) or 'none'}; lengths are for {', '.join(lengths) or 'none'}."
        raise ValueError(errors.compose("onnx.Model", rule, "Give lengths for each: --compile NAME=1,16 NAME=320,640."))
    must_be_lengths(inputs, lengths)


def _must_be_plain(programs: Sequence[export.Exported]) -> None:
    """Refuse programs that call code outside of them, which whoever wrote a file could choose.

    Bytecode of MLIR has the names of operations as they are. JAX reads MLIR's text as well, which need not.
    """
    for program in programs:
        code = program.mlir_module_serialized
        if code[:4] != b"ML\xefR" or b"custom_call" in code:
            rule = f"a program for {', '.join(program.platforms)} calls code outside of it, which no artifact may."
            raise unsupported(rule, "Det is such an operator: call the model instead.")


def _has_64_bits() -> bool:
    return jax.dtypes.canonicalize_dtype(np.int64) == np.int64


def _described(value: TensorType) -> Any:
    return value.name, None if value.dtype is None else str(value.dtype), value.shape, value.within


def _declared(name: str, dtype: str | None, shape: Sequence[Any] | None, within: Sequence[str]) -> TensorType:
    sizes = None if shape is None else tuple(shape)
    return TensorType(name, None if dtype is None else jnp.dtype(dtype), sizes, tuple(within))


def opened(model: Any, numerics: str, lengths: Lengths) -> Artifact:
    """Return what a file, or its bytes, hold; nothing of it runs."""
    try:
        found = _artifact(*artifact.read(model))
    except (UnsupportedModelError, OSError):
        raise
    except Exception as error:  # Of JSON, NumPy, flatbuffers: no jaxdml wrote this, since the digest is right.
        raise unsupported(f"the artifact is malformed: {error}.", artifact.AGAIN) from None
    if numerics != found.numerics:
        rule = f"numerics is {numerics!r}, and the artifact was written with {found.numerics!r}."
        raise ValueError(errors.compose("onnx.load", rule, f"Give numerics={found.numerics!r}, or write it again."))
    if not isinstance(lengths, str):
        raise ValueError(errors.compose("onnx.load", "an artifact has lengths of its own.", found.report()))
    return found


def _artifact(described: Any, blocks: Iterator[memoryview]) -> Artifact:
    version, wide = described["convention"], described["x64"]
    least, most = (
        export.minimum_supported_calling_convention_version,
        export.maximum_supported_calling_convention_version,
    )
    if not least <= version <= most:
        rule = f"its programs have calling convention {version}; JAX {jax.__version__} knows {least} to {most}."
        raise unsupported(rule, artifact.AGAIN)
    if wide != _has_64_bits():
        raise unsupported(
            f"the artifact was written with jax_enable_x64 {wide}; here it is {not wide}.", artifact.AGAIN
        )
    if described["numerics"] not in NUMERICS:
        raise unsupported(f"the artifact has numerics {described['numerics']!r}.", artifact.AGAIN)
    weights = {
        name: from_host(np.frombuffer(next(blocks), jnp.dtype(dtype)).reshape(shape))
        for name, dtype, shape in described["weights"]
    }
    inputs, outputs = (tuple(_declared(*value) for value in described[which]) for which in ("inputs", "outputs"))
    lengths = {name: tuple(sizes) for name, sizes in described["lengths"].items()}
    programs = tuple(export.deserialize(bytearray(block)) for block in blocks)
    _must_be_plain(programs)
    found = Artifact(Graph(inputs, outputs, {}, ()), weights, described["numerics"], lengths, programs)
    _Ahead(found)  # As many programs as lengths are checked there.
    return found
