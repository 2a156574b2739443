"""Recurrent networks: a padded time is past the end of every sequence, and a padded row is a sequence without times."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from jaxdml.onnx.nodes.bounded._fitting import fitted, must_not_have_lengths
from jaxdml.onnx.nodes.bounded._task import Rules, Task, array
from jaxdml.onnx.values.bounded import bounded, counts, filled, inner, sizes_of
from jaxdml.onnx.values.kinds import Value
from jaxdml.onnx.values.lengths import Length, limits, true
from jaxdml.onnx.values.promises import equal

_LENGTHS, _STATES = 4, (5, 6)
"""Positions of the lengths of the sequences, and of the first states."""


def recurrent(task: Task, X: Value, *others: Value) -> tuple[Value, ...]:
    """Run the sequences as far as they go."""
    layout = bool(task.takes("layout") and task.attribute("layout"))
    operands = [*others, *[None] * (_STATES[-1] - len(others))]
    lengths, states = operands[_LENGTHS - 1], [operands[place - 1] for place in _STATES]
    must_not_have_lengths(x for place, x in enumerate(others, 1) if place not in (_LENGTHS, *_STATES))
    time, batch, features = _swapped(sizes_of(X), layout)
    rows = [_swapped(sizes_of(state), layout)[1] for state in states if state is not None]
    batch = equal(task.call.node, batch, *rows, *([] if lengths is None else sizes_of(lengths)))
    directions = limits(sizes_of(others[0])[0]).bound

    def of_batch(value: Value, *sizes: Any) -> Any:
        sizes = _swapped(sizes, layout)
        # What counts for no element counts for the range of all, where that is what they are quantized by.
        return filled(array(fitted(value, sizes)), sizes, 0) if task.call.node.domain else inner(fitted(value, sizes))

    for place, state in zip(_STATES, states, strict=True):
        if state is not None:
            operands[place - 1] = of_batch(state, directions, batch, sizes_of(state)[2])
    if lengths is not None or _needs_ends(task, time, batch):
        operands[_LENGTHS - 1] = _ends(time, batch, lengths)
    Y, *lasts = task.compute(of_batch(X, time, batch, features), *operands[: max(len(others), _LENGTHS)])
    outer = (batch, time, directions) if layout else (time, directions, batch)
    of_last = _swapped((directions, batch), layout)
    return bounded(Y, (*outer, Y.shape[3])), *(bounded(last, (*of_last, last.shape[2])) for last in lasts)


def _needs_ends(task: Task, time: Any, batch: Any) -> bool:
    """Whether a result depends on where sequences end: the outputs of a network that goes forward do not."""
    if isinstance(time, Length) and (task.attribute("direction") != "forward" or any(task.call.outputs[1:])):
        return True
    return isinstance(batch, Length) and bool(task.call.node.domain)


def _swapped(sizes: Sequence[Any], layout: bool) -> tuple[Any, ...]:
    first, second, *rest = sizes
    return (second, first, *rest) if layout else tuple(sizes)


def _ends(time: Any, batch: Any, lengths: Value) -> Any:
    """Return where the sequences end."""
    rows = limits(batch).bound
    ends = jnp.broadcast_to(jnp.asarray(true(time), jnp.int32), (rows,))
    if lengths is not None:
        ends = jnp.minimum(array(fitted(lengths, (batch,))), ends)
    return jnp.where(counts((batch,)), ends, 0)


RULES: Rules = dict.fromkeys(("GRU", "LSTM", "RNN"), recurrent)

MICROSOFT: Rules = {"DynamicQuantizeLSTM": recurrent}
"""Of the domain com.microsoft."""
