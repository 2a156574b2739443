"""Recurrent networks. They compute in float32, and round their outputs once."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax.numpy as jnp

from jaxdml._networks.recurrence import (
    Activation,
    both_biases,
    by_direction,
    gru,
    input_products,
    lstm_step,
    product,
    rnn_step,
    run,
)
from jaxdml.directml._checks import alike, sized
from jaxdml.directml._enums import RecurrentNetworkDirection
from jaxdml.directml._errors import Violation, Violations
from jaxdml.directml._operator import Operator, activated
from jaxdml.directml._support import growing

_BACKWARDS: Mapping[int, tuple[bool, ...]] = {
    RecurrentNetworkDirection.FORWARD: (False,),
    RecurrentNetworkDirection.BACKWARD: (True,),
    RecurrentNetworkDirection.BIDIRECTIONAL: (False, True),
}
"""For each direction of a network whether time goes backwards."""


@dataclass(frozen=True)
class _Function:
    """A function of gates, of what is clipped before."""

    activation: Any
    clip: float | None

    def __call__(self, x: Any) -> Any:
        return activated(self.activation, x if self.clip is None else jnp.clip(x, -self.clip, self.clip))


def _functions(desc: Any, *clips: float | None) -> tuple[Activation, ...]:
    """Return the functions of a step: those of the directions lie one after the other."""
    each = len(clips)
    return tuple(
        by_direction([_Function(one, clip) for one in desc.activation_descs[place::each]])
        for place, clip in enumerate(clips)
    )


def _rnn(desc: Any, x: Any, w: Any, r: Any, bias: Any, hidden: Any, lengths: Any) -> Any:
    (function,), bias = _functions(desc, None), _biases(bias)
    step = partial(rnn_step, function, _wide(r))
    return _outputs(desc, step, x, w, None if bias is None else both_biases(bias), (hidden,), lengths)


def _gru(desc: Any, x: Any, w: Any, r: Any, bias: Any, hidden: Any, lengths: Any) -> Any:
    step, bias = gru(_functions(desc, None, None), _wide(r), _biases(bias), desc.linear_before_reset)
    return _outputs(desc, step, x, w, bias, (hidden,), lengths)


def _lstm(desc: Any, x: Any, w: Any, r: Any, bias: Any, hidden: Any, cell: Any, lengths: Any, peepholes: Any) -> Any:
    clip, bias = desc.clip_threshold if desc.use_clip_threshold else None, _biases(bias)
    functions = _functions(desc, clip, clip, None)
    step = partial(lstm_step, functions, partial(product, _wide(r)), _biases(peepholes), desc.couple_input_forget)
    return _outputs(desc, step, x, w, None if bias is None else both_biases(bias), (hidden, cell), lengths)


def _wide(x: Any) -> Any:
    """Return a tensor without its first dimension, in float32."""
    return None if x is None else x[0].astype(jnp.float32)


def _biases(x: Any) -> Any:
    """Return [directions, n]."""
    return None if x is None else _wide(x)[0]


def _outputs(desc: Any, step: Any, x: Any, w: Any, bias: Any, states: tuple[Any, ...], lengths: Any) -> Any:
    """Return the states of all times, then the last ones."""
    if lengths is not None:
        lengths = jnp.minimum(lengths[0, 0, 0], x.shape[1]).astype(jnp.int32)
    initial, products = map(_wide, states), input_products(_wide(x), _wide(w), bias)
    size = desc.recurrence_tensor.sizes[-1]
    sequence, *lasts = run(step, products, tuple(initial), size, lengths, _BACKWARDS[desc.direction])
    return tuple(part.astype(x.dtype) for part in (sequence, *(last[None] for last in lasts)))


def _constraints(gates: int, functions: int, desc: Any) -> Violations:
    floats = [name for name in desc.tensors if name not in ("input_tensor", "sequence_lengths_tensor")]
    yield from alike(desc, "data_type", "input_tensor", *floats)
    directions = len(_BACKWARDS[desc.direction])
    want, got = directions * functions, len(desc.activation_descs)
    if got != want:
        yield Violation("ActivationDescCount", f"must be {want}, {functions} for each direction", got)
    sizes, weights = desc.input_tensor.sizes, desc.recurrence_tensor.sizes
    if len(sizes) != 4 or len(weights) != 4:
        return
    (_, times, batch, inputs), size = sizes, weights[-1]
    yield from sized(desc, "input_tensor", "times, batch and inputs behind a 1", (1, *sizes[1:]))
    why = f"for {directions} direction{'s' * (directions > 1)} and a state of {size}"
    for name, wanted in (
        ("weight_tensor", (1, directions, gates * size, inputs)),
        ("recurrence_tensor", (1, directions, gates * size, size)),
        ("bias_tensor", (1, 1, directions, 2 * gates * size)),
        ("hidden_init_tensor", (1, directions, batch, size)),
        ("cell_mem_init_tensor", (1, directions, batch, size)),
        ("sequence_lengths_tensor", (1, 1, 1, batch)),
        ("peephole_tensor", (1, 1, directions, 3 * size)),
        ("output_sequence_tensor", (times, directions, batch, size)),
        ("output_single_tensor", (1, directions, batch, size)),
        ("output_cell_single_tensor", (1, directions, batch, size)),
    ):
        if name in desc.tensors:
            yield from sized(desc, name, why, wanted)


_WEIGHTS = "input_tensor weight_tensor recurrence_tensor bias_tensor hidden_init_tensor"
_STATES = "output_sequence_tensor output_single_tensor"
_FIELDS: Mapping[str, str] = {
    "bias_tensor": "first those of the inputs, then those of the states.",
    "sequence_lengths_tensor": "how many times each sequence has; None for all.",
    "output_single_tensor": "the state at the end of each sequence.",
    "output_cell_single_tensor": "the cell at the end of each sequence.",
    "peephole_tensor": "weights of the cell for the gates input, output and forget.",
    "clip_threshold": "the bound of what the gates and the cell's input are functions of.",
    "couple_input_forget": "whether the cell forgets as much as it takes in.",
    "linear_before_reset": "whether the product of the state is reset, and not the state.",
}


def _operator(
    number: int, gates: int, functions: int, doc: str, compute: Callable[..., Any], more: str = ""
) -> Operator:
    levels = growing("1_0 4", (f"{_WEIGHTS} {_STATES} {more}", "1_0 F"), ("sequence_lengths_tensor", "1_0 UINT32"))
    constraints = partial(_constraints, gates, functions)
    return Operator(number, levels, compute, constraints, doc=doc, fields=_FIELDS)


OPERATORS: Mapping[str, Operator] = {
    "RNN": _operator(76, 1, 1, "Run a simple recurrent network.", _rnn),
    "LSTM": _operator(
        *(77, 4, 3, "Run a long short-term memory. Gates are input, output, forget, cell.", _lstm),
        "cell_mem_init_tensor peephole_tensor output_cell_single_tensor",
    ),
    "GRU": _operator(78, 3, 2, "Run gated recurrent units. Gates are update, reset, hidden.", _gru),
}
