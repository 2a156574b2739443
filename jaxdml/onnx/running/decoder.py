"""Decode with a language model: caches of a fixed length, and the masks and positions that its file expects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxdml._base import errors
from jaxdml._networks.caches import tensor_scatter
from jaxdml.onnx._graph import Node, TensorType
from jaxdml.onnx.nodes._quantized_cache import width
from jaxdml.onnx.running.model import Model
from jaxdml.onnx.running.program import jit_for

_SHORTEST_PROMPT = 16
"""Prompts are padded to this length, or to twice that, and so on: there is one program for each."""

_POSITIONS, _MASK = "position_ids", "attention_mask"

_SUMMING = ("CausalConvWithState", "LinearAttention")
"""Operators whose state has no place for each token: what pads a prompt would stay in it."""


class DecoderState(NamedTuple):
    """What a decoder knows of the tokens that it has seen; a pytree.

    Attributes:
      cache: keys and values by the name of the model's input.
      lengths: how many tokens each row of the batch has seen, int32 ``[batch]``.
    """

    cache: Mapping[str, jax.Array]
    lengths: jax.Array | np.ndarray


@dataclass(frozen=True, eq=False)
class Decoder:
    """A language model with caches of a fixed length; ``jaxdml.onnx.decoder`` makes it.

    Attributes:
      model: the model.
      length: how many tokens the caches hold.
      caches: for each input that is a cache, by name: the output that is the cache after a step, and its shape for a
        batch of one.
      growing: whether the model appends to its caches instead of writing into them.
    """

    model: Model
    length: int
    caches: Mapping[str, tuple[int, tuple[int, ...]]]
    growing: bool

    def start(self, batch: int = 1) -> DecoderState:
        """Return the state before the first token, with caches of zeros."""
        dtypes = {value.name: value.dtype for value in self.model.inputs}
        cache = {name: jnp.zeros((batch, *shape[1:]), dtypes[name]) for name, (_, shape) in self.caches.items()}
        return DecoderState(cache, np.zeros(batch, np.int32))

    def report(self, batch: int = 1, step: int = 1) -> str:
        """Say which operators the nodes became, as ``Model.report`` does, for a step of so many tokens."""
        state = self.start(batch)
        given = self._inputs(state, jnp.zeros((batch, step), jnp.int32), jnp.full(batch, step, jnp.int32))
        return self.model.report(*given)

    def apply(
        self,
        params: Mapping[str, Any],
        state: DecoderState,
        tokens: jax.Array | np.ndarray,
        counts: ArrayLike | Sequence[int] | None = None,
    ) -> tuple[jax.Array, DecoderState]:
        """Read tokens: a pure function for jit, scan, export and sharded caches.

        Args:
          params: ``self.model.params``, or a pytree like it.
          state: what ``start`` or a step before returned. No row may get longer than ``self.length``: what does not fit
            is not written.
          tokens: int ``[batch, step]``.
          counts: how many of the tokens of each row count, ``[batch]``; the others stand at its end. None means all.
            Only the first step may have such rows.

        Returns:
          The scores of the token that follows each row, ``[batch, vocabulary]``, and the state after the step.
        """
        batch, step = tokens.shape
        counts = jnp.full(batch, step, jnp.int32) if counts is None else jnp.asarray(counts, jnp.int32)
        before = state.lengths
        outputs = self.model.apply(params, *self._inputs(state, tokens, counts))
        cache = {
            name: self._kept(state.cache[name], outputs[place], before, step)
            for name, (place, _) in self.caches.items()
        }
        places = {place for place, _ in self.caches.values()}
        scores = next(output for place, output in enumerate(outputs) if place not in places)
        last = jnp.take_along_axis(scores, (counts - 1).reshape(-1, 1, 1), axis=1)[:, 0]
        return last, DecoderState(cache, before + counts)

    def _inputs(self, state: DecoderState, tokens: Any, counts: Any) -> list[Any]:
        """Return what the model takes in a step."""
        places, before = jnp.arange(tokens.shape[1])[None], state.lengths[:, None]
        seen = jnp.arange(self.length)[None] < (before if self.growing else before + counts[:, None])
        mask = jnp.concatenate((seen, places < counts[:, None]), axis=1) if self.growing else seen
        given = {_MASK: mask, _POSITIONS: before + places}
        return [
            state.cache[value.name] if value.name in self.caches else _of_dtype(given.get(value.name, tokens), value)
            for value in self.model.inputs
        ]

    def _kept(self, cache: Any, present: Any, before: Any, step: int) -> Any:
        """Return the cache after a step; what a model has appended is written behind what each row has."""
        if not self.growing:
            return present
        return tensor_scatter(cache, present[:, :, -step:], before, axis=2)

    def __call__(
        self, state: DecoderState, tokens: jax.Array | np.ndarray, counts: ArrayLike | Sequence[int] | None = None
    ) -> tuple[jax.Array, DecoderState]:
        """Read tokens, compiled: one program for single tokens, and one for each length that prompts are padded to.

        The caches are updated in place: ``state`` cannot be used again.

        Args:
          state: what ``start`` or a step before returned.
          tokens: int ``[batch, step]``.
          counts: as for ``apply``.

        Returns:
          As ``apply`` does.

        Raises:
          ValueError: a row gets longer than ``self.length``, or rows of a later step are padded.
        """
        batch, step = tokens.shape
        counts = np.full(batch, step, np.int32) if counts is None else np.asarray(counts, np.int32)
        before = np.asarray(state.lengths)
        self._check(before, counts, step)
        padded = (
            step if step == 1 or before.any() else min(max(_SHORTEST_PROMPT, 1 << (step - 1).bit_length()), self.length)
        )
        tokens = tokens if padded == step else np.pad(np.asarray(tokens), ((0, 0), (0, padded - step)))
        scores, after = self._compiled(self.model.passed_to(self._compiled), state, tokens, counts)
        return scores, after._replace(lengths=before + counts)

    def _check(self, before: np.ndarray, counts: np.ndarray, step: int) -> None:
        where = f"lengths: {before.tolist()}, counts: {counts.tolist()}"
        if (before + counts).max(initial=0) > self.length or step > self.length:
            rule = f"a row gets {(before + counts).max(initial=step)} tokens; the caches hold {self.length}."
            raise ValueError(errors.compose("onnx.Decoder", rule, where, "Make the decoder with a greater length."))
        if (counts > step).any() or (counts < 1).any() or (before.any() and (counts != step).any()):
            rule = f"counts must be between 1 and {step}, and {step} after the first step."
            raise ValueError(errors.compose("onnx.Decoder", rule, where, "Pad the first step alone, at its end."))

    @cached_property
    def _compiled(self) -> Any:
        def step(leaves: Any, *others: Any) -> Any:
            return self.apply(self.model.params_from(leaves), *others)

        return jit_for(self.model.params)(step, donate_argnums=1)


def _of_dtype(array: Any, value: TensorType) -> Any:
    return array.astype(jax.dtypes.canonicalize_dtype(value.dtype)) if value.dtype is not None else array


def decoder(model: Model, *, length: int, sizes: Mapping[str, int] | None = None) -> Decoder:
    """Return a language model as a decoder that compiles once for prompts of a length, and once for single tokens.

    Its caches have a fixed length and are updated in place. The model has tokens ``[batch, step]`` as an input, perhaps
    ``attention_mask`` and ``position_ids``, and caches ``[batch, heads, tokens, size]``: inputs and outputs whose names
    begin with ``past`` and ``present``. It writes into its caches, as ``GroupQueryAttention`` does, or appends to them.
    Sampling is the caller's: the scores go to ``jaxdml.top_k``, for example.

    Args:
      model: what ``load`` returned.
      length: how many tokens the caches hold. A cache of a sliding window holds a window.
      sizes: of dimensions that the file gives a name but no number, by name; those of heads are found without.

    Returns:
      A ``Decoder``.

    Raises:
      ValueError: the model has no caches, or one that has no place for each token, or another input, or a size is
        unknown.

    Example:
      A loop that takes the best token::

        decoder = jaxdml.onnx.decoder(jaxdml.onnx.load("model.onnx"), length=256)
        state = decoder.start(batch=1)
        scores, state = decoder(state, prompt)
        for _ in range(32):
            token = jaxdml.top_k(scores, 1).indices
            scores, state = decoder(state, token)
    """
    outputs = [output.name for output in model.outputs]
    pairs = {
        value.name: outputs.index(present)
        for value in model.inputs
        if (present := _present(value.name, outputs)) is not None
    }
    others = [value for value in model.inputs if value.name not in {*pairs, _MASK, _POSITIONS}]
    if not pairs or len(others) != 1 or len(outputs) == len(pairs):
        rule = f"the model has {len(pairs)} caches, and the inputs {', '.join(map(str, others)) or 'of caches alone'}."
        advice = "Give a model with caches 'past...' and 'present...', and one more input: the tokens."
        raise ValueError(errors.compose("onnx.decoder", rule, f"inputs: {', '.join(map(str, model.inputs))}", advice))
    made_by = {name: node for node in model.graph.nodes for name in node.outputs}
    nodes = {name: made_by.get(outputs[place]) for name, place in pairs.items()}
    _must_have_places(nodes)
    growing = not all(node and node.op_type == "GroupQueryAttention" for node in nodes.values())
    if growing and _POSITIONS not in {value.name for value in model.inputs}:
        rule = "the model appends to its caches, and finds the positions of tokens by the lengths of these."
        raise ValueError(errors.compose("onnx.decoder", rule, "Export it with an input 'position_ids'."))
    size = None if growing else _head_size(model)
    shapes = {
        value.name: _shape(value, nodes[value.name], size, length, dict(sizes or {}))
        for value in model.inputs
        if value.name in pairs
    }
    return Decoder(model, length, {name: (place, shapes[name]) for name, place in pairs.items()}, growing)


def _must_have_places(nodes: Mapping[str, Node | None]) -> None:
    """Refuse caches that have no place for each token."""
    for name, node in nodes.items():
        if node and node.op_type in _SUMMING:
            rule = f"the cache '{name}' is the state of {node}, which has no place for each token."
            why = "A decoder pads prompts, and what pads them would stay in that state."
            advice = "Call the model itself, with prompts that are not padded, and pass its states on."
            raise ValueError(errors.compose("onnx.decoder", rule, why, advice))


def _present(name: str, outputs: list[str]) -> str | None:
    """Return the output that is the cache of an input after a step, or None."""
    if not name.startswith("past"):
        return None
    rest = name.removeprefix("past_key_values").removeprefix("past")
    return next((output for output in outputs if output in (f"present{rest}", f"present_key_values{rest}")), None)


def _shape(
    value: TensorType, node: Node | None, size: int | None, length: int, sizes: dict[str, int]
) -> tuple[int, ...]:
    """Return the shape of a cache for a batch of one."""
    shape = list(value.shape or ())
    if len(shape) == 4:
        window = node.attributes["local_window_size"] if node and node.attributes.get("sliding_window_cache") else None
        stored = size and width(size, node.attributes if node else {})
        shape = [1, shape[1], window or length, shape[3] if isinstance(shape[3], int) else stored or shape[3]]
    known = [sizes.get(size, size) if isinstance(size, str) else size for size in shape]
    if len(known) != 4 or not all(isinstance(size, int) for size in known):
        rule = f"the cache {value} must have the shape [batch, heads, tokens, size]."
        raise ValueError(errors.compose("onnx.decoder", rule, f"sizes: {sizes}", "Give numbers for names in sizes."))
    return tuple(size for size in known if isinstance(size, int))


def _head_size(model: Model) -> int:
    """Return the size of a head, from the queries of the first layer, which do not depend on the caches."""
    node = next(node for node in model.graph.nodes if node.op_type == "GroupQueryAttention")
    heads = node.attributes["num_heads"] + (0 if node.inputs[1] else 2 * node.attributes["kv_num_heads"])
    alone = replace(model, graph=replace(model.graph, outputs=(TensorType(node.inputs[0], None, None),)))
    token = jax.ShapeDtypeStruct((1, 1), np.int32)  # type: ignore[no-untyped-call]
    given = {value.name: token for value in model.inputs if not value.name.startswith("past")}
    (queries,) = jax.eval_shape(alone.compute, dict(model.params), given)
    return int(queries.shape[-1]) // heads
