"""A model that JAX can trace."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import numpy as np
from jax.typing import ArrayLike

from jaxdml._base.display import lined_up
from jaxdml.onnx._errors import NotKnownError
from jaxdml.onnx.running.calls import Calls, unpadded
from jaxdml.onnx.running.inputs import checked, in_order, must_not_be_cut
from jaxdml.onnx.running.needs import must_be_known
from jaxdml.onnx.running.open_dimensions import padded_inputs
from jaxdml.onnx.running.program import Program
from jaxdml.onnx.running.randomness import must_be_key
from jaxdml.onnx.running.report import fitted, text, traced
from jaxdml.onnx.running.signatures import keep_their_dtypes, signature
from jaxdml.onnx.values.bounded import checking

MANY = 1024
"""So many signatures of calls are kept."""


@dataclass(frozen=True, eq=False)
class Model(Program):
    """An ONNX model as a function of JAX arrays.

    ``jaxdml.onnx.load`` makes it. It never changes: it may be closed over by what JAX traces. For other weights make
    another one: ``dataclasses.replace(model, params=...)``.

    Attributes:
      graph: what it computes.
      params: its weights by name, a pytree for ``apply``: float and 8-bit initializers of at least one dimension.
        Floats are arrays, shaped as in the file; filters that only ``Conv`` reads are ``[*spatial, I, O]``. Integers
        may be packed, several matrices as one, which has the name of the first. Scales, zero points, shapes and other
        initializers that must be known while tracing are not among them.
      numerics: "exact" or "literal".
      lengths: what ``load`` was told of the lengths for which calls compile programs.

    Example:
      >>> import numpy as np, onnx.parser, jaxdml.onnx
      >>> text = '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = Relu(x) }'
      >>> model = jaxdml.onnx.load(onnx.parser.parse_model(text))
      >>> model(np.float32([-1, 2]))
      (Array([0., 2.], dtype=float32),)
    """

    @cached_property
    def static_inputs(self) -> frozenset[str]:
        """Names of the inputs that must be known while tracing, because shapes depend on their values.

        Where only one branch of an If fits the sizes of a call, what chooses it must be known, too; an error names it.
        """
        return must_be_known(self.graph) & {value.name for value in (*self.graph.inputs, *self.graph.optional)}

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
            element None. Those of ``self.static_inputs`` must be NumPy arrays. ``Padded(array, lengths)`` is an array
            of which only the beginning counts along dimensions that the model leaves open: what an output has that
            depends on values, or an input that is padded so that one program serves several lengths.
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
          NotImplementedError: a shape, or which branch of an If fits, depends on a traced value. If it is an input of
            a few numbers, the error says which.
          UnsupportedModelError: a bound is missing, or a node has an operand of such a length and cannot mask it.
          OverflowError: a constant of 64 bits, or an input on the host, does not fit in JAX's 32. JAX has cut what is
            traced before it is seen here.

        Where the model is malformed in a way that ``load`` does not see, such as shapes that do not fit, it is a
        TypeError or ValueError that names the node and shows its operands; of other errors the notes name it.
        """
        wanted = self.graph.inputs
        named = {value.name: array for value, array in zip(wanted, checked(wanted, inputs), strict=True)}
        must_not_be_cut({name: array for name, array in named.items() if name not in self.static_inputs})
        with checking(checks):
            try:
                return self.compute(params, padded_inputs(wanted, named), key, bounds=bounds)
            except NotKnownError as error:
                raise self._advised(error, {**params, **named}) from None

    def _advised(self, error: NotKnownError, given: Mapping[str, Any]) -> NotKnownError:
        """Return an error that names the inputs, if those that must be known are few numbers."""
        wanted = must_be_known(self.graph.with_decided(error.undecided))
        traced = {name: x for name, x in given.items() if name in wanted and not isinstance(x, np.ndarray)}
        if not traced or any(name in self.params or not _is_short(x) for name, x in traced.items()):
            return error
        names = ", ".join(map(repr, sorted(traced)))
        return error.with_way(f"pass {names} untraced, as a number or a NumPy array")

    def __call__(
        self,
        *inputs: ArrayLike | Sequence[Any] | None,
        key: ArrayLike | Sequence[Any] | None = None,
        bounds: Mapping[str, int] | None = None,
        **by_name: ArrayLike | Sequence[Any] | None,
    ) -> tuple[Any, ...]:
        """Compute the outputs, compiled for the first shapes, and then for lengths that many calls share.

        ``lengths`` of ``load`` says which. Where a shape depends on a value, it runs as several programs, and waits for
        that value between them.

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
          ValueError: an input has another shape, or a length beyond those that ``lengths`` names; a node is random, and
            there is no key; there is more than a bound says, or, with bounds, an index is out of range.
          UnsupportedModelError: ``lengths`` names some for a dimension that a node cannot mask.
          OverflowError: an input holds integers of 64 bits that do not fit in JAX's 32.
        """
        like = signature(inputs, by_name) if key is None and bounds is None else None
        if (passed := self._passed.get(like)) is not None:
            names, again = passed
            return again(dict(zip(names, (*inputs, *by_name.values()), strict=True)))
        named: dict[str, Any] = by_name
        known = {value.name for value in (*self.inputs, *self.optional_inputs)}
        if key is not None and "key" in known:
            named, key = named | {"key": key}, None
        if bounds is not None and "bounds" in known:
            named, bounds = named | {"bounds": bounds}, None
        must_be_key(key)
        wanted = (*self.inputs, *(value for value in self.optional_inputs if value.name in named))
        arrays = checked(wanted, in_order(self.inputs, wanted, inputs, named))
        given = dict(zip((value.name for value in wanted), map(unpadded, arrays), strict=True))
        called = self._calls.call(given, key, bounds)
        if like is not None and called.again is not None and keep_their_dtypes(arrays):
            if len(self._passed) == MANY:
                self._passed.clear()
            self._passed[like] = (*(value.name for value in self.inputs[: len(inputs)]), *by_name), called.again
        return called.results

    @cached_property
    def _passed(self) -> dict[Hashable, tuple[tuple[str, ...], Callable[[Mapping[str, Any]], tuple[Any, ...]]]]:
        """Signatures of calls that have passed all checks and are one program: names of what they give, the program."""
        return {}

    @cached_property
    def _calls(self) -> Calls:
        return Calls(self)

    def report(self, *inputs: ArrayLike | Sequence[Any] | None) -> str:
        """Say which operators the nodes became, and which stayed float and why.

        Args:
          inputs: arrays or ``jax.ShapeDtypeStruct`` for each of ``self.inputs``; by default what the model declares,
            with 1 for each open dimension, or where that does not fit the first of 64, 256 and so on that does. Of
            inputs whose values must be known without one, they are zeros. What is found in values has room for 16.

        Returns:
          One line for each node that is computed: its name, its operator, what became of it. Then one for each thing
          that the file leaves open, such as a domain that it does not import, and what was taken for it.

        Raises:
          ValueError: no size that was tried fits.
        """
        found = traced(self, checked(self.inputs, inputs)) if inputs else fitted(self)
        return text(self, found, chosen=not inputs)

    def __str__(self) -> str:
        lines = [
            (node.name, node.kind, ", ".join(filter(None, node.inputs)), ", ".join(filter(None, node.outputs)))
            for node in self.graph.nodes
        ]
        return "\n".join(lined_up({"node": "left", "operator": "left", "inputs": "left", "outputs": "left"}, lines))

    def __repr__(self) -> str:
        inputs, outputs = (", ".join(map(str, values)) for values in (self.inputs, self.outputs))
        return f"Model({inputs} -> {outputs}; {len(self.graph.nodes)} nodes, {len(self.params)} params)"


def _is_short(given: Any) -> bool:
    """Whether an input is a number, or a row of them, as what says a shape is."""
    return not isinstance(given, list) and given is not None and given.ndim <= 1
