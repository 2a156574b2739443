"""Operators that carry a state from one call to the next instead of keys and values."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from jaxdml._networks.attention import EXACTLY, merge_heads, split_heads
from jaxdml.onnx._graph import Node
from jaxdml.onnx.nodes._handler import Handler, NodeCall, Table

RULES = {"linear": (False, False), "gated": (True, False), "delta": (False, True), "gated_delta": (True, True)}
"""For each update rule: whether it takes decays, and whether it takes betas."""


def linear_attention(
    call: NodeCall,
    query: Any,
    key: Any,
    value: Any,
    past_state: Any = None,
    decay: Any = None,
    beta: Any = None,
    *,
    chunk_size: int = 64,
    kv_num_heads: int,
    q_num_heads: int,
    scale: float = 0.0,
    update_rule: str = "gated_delta",
) -> tuple[jax.Array, jax.Array]:
    """Read queries from a state to which each position adds key times value, in float32."""
    if RULES[update_rule] != (decay is not None, beta is not None):
        raise ValueError(
            f"update_rule {update_rule!r} does not take these inputs: decay or beta is missing or too many"
        )
    size = query.shape[-1] // q_num_heads
    factor = scale or size**-0.5
    in_time = (
        _in_time(query, q_num_heads),
        *(_in_time(array, kv_num_heads) for array in (key, value)),
        None if decay is None else _in_time(decay, kv_num_heads),
        None if beta is None else _in_time(beta, beta.shape[-1]),  # They may be one for all heads.
    )

    def step(state: Any, inputs: Any) -> tuple[Any, Any]:
        q, k, v, g, b = inputs
        if g is not None:
            state = state * jnp.exp(g)[..., None]
        if b is not None:
            v = b * (v - jnp.einsum("bhdm,bhd->bhm", state, k, precision=EXACTLY))
        state = state + k[..., :, None] * v[..., None, :]
        grouped = q.reshape(q.shape[0], kv_num_heads, q_num_heads // kv_num_heads, size)
        read = jnp.einsum("bhgd,bhdm->bhgm", grouped, state, precision=EXACTLY)
        return state, (factor * read).reshape(*q.shape[:2], v.shape[-1])

    if past_state is None:
        state = jnp.zeros((query.shape[0], kv_num_heads, size, value.shape[-1] // kv_num_heads), jnp.float32)
    else:
        state = past_state.astype(jnp.float32)
    state, outputs = lax.scan(step, state, in_time)
    dtype = query.dtype if past_state is None else past_state.dtype
    return merge_heads(outputs.transpose(1, 2, 0, 3)).astype(query.dtype), state.astype(dtype)


def _in_time(array: Any, heads: int) -> Any:
    """Bring [batch, time, heads * size] to [time, batch, heads, size]."""
    return split_heads(array, heads).transpose(2, 0, 1, 3).astype(jnp.float32)


def causal_conv_with_state(
    call: NodeCall,
    input: Any,
    weight: Any,
    bias: Any = None,
    past_state: Any = None,
    *,
    activation: str = "none",
    dilation: int = 1,
) -> tuple[jax.Array, jax.Array]:
    """Convolve each channel with itself, looking back only; the last inputs are the next state."""
    if activation not in ("none", "silu", "swish"):
        raise ValueError(f"activation is {activation!r}, and must be 'none', 'silu' or 'swish'")
    batch, channels, length = input.shape
    back = (weight.shape[2] - 1) * dilation
    past = jnp.zeros((batch, channels, back), input.dtype) if past_state is None else past_state
    padded = jnp.concatenate((past, input), axis=2)
    output = lax.conv_general_dilated(
        padded,
        weight,
        (1,),
        "VALID",
        rhs_dilation=(dilation,),
        dimension_numbers=("NCH", "OIH", "NCH"),
        feature_group_count=channels,
        precision=EXACTLY,
    )
    if bias is not None:
        output = output + bias[:, None]
    if activation != "none":
        wide = output.astype(jnp.float32)
        output = (wide * lax.logistic(wide)).astype(input.dtype)
    return output, padded[:, :, length:]


def _causal_conv_of_microsoft(
    call: NodeCall,
    input: Any,
    weight: Any,
    bias: Any = None,
    past_state: Any = None,
    *,
    activation: str = "none",
    channels_last: int = 0,
    dilation: int = 1,
    ndim: int = 1,
    state_window: int = 0,
) -> tuple[jax.Array, jax.Array]:
    return causal_conv_with_state(call, input, weight, bias, past_state, activation=activation, dilation=dilation)


def _refuses_conv(node: Node, dtypes: Mapping[str, Any]) -> str | None:
    wanted = {"channels_last": 0, "ndim": 1, "state_window": 0}
    given = {name: node.attributes.get(name, only) for name, only in wanted.items()}
    wrong = [f"{name} {value}" for name, value in given.items() if value != wanted[name]]
    return f"{', '.join(wrong)} is not supported" if wrong else None


TABLE: Table = {
    "CausalConvWithState": (Handler(27, causal_conv_with_state),),
    "LinearAttention": (Handler(27, linear_attention),),
}

MICROSOFT: Table = {
    "CausalConvWithState": (Handler(1, _causal_conv_of_microsoft, refuses=_refuses_conv),),
}
"""Of the domain com.microsoft."""
