"""Mixtures of experts of com.microsoft: each token goes to a few of several two-layer networks.

Of few tokens, as in decoding, the chosen experts alone are read. For more, all experts are computed for all tokens, and
those that are not chosen count for nothing. Neither has shapes that depend on values.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

import jaxdml
from jaxdml.onnx._graph import Node
from jaxdml.onnx.nodes._handler import Handler, NodeCall, Table
from jaxdml.onnx.nodes.block_quantized import unpacked

EXACTLY = lax.Precision.HIGHEST


def _swiglu(x: Any, alpha: float, beta: float, limit: float | None, fusion: int) -> Any:
    """Multiply the gates, through a sigmoid, by the linear part."""
    gate, linear = (x[..., 0::2], x[..., 1::2]) if fusion != 2 else jnp.split(x, 2, axis=-1)
    if limit is not None:
        gate, linear = jnp.minimum(gate, limit), jnp.clip(linear, -limit, limit)
    return gate * lax.logistic(alpha * gate) * (linear + beta)


_ACTIVATIONS: Mapping[str, Callable[[Any], Any]] = {
    "gelu": lambda x: jax.nn.gelu(x, approximate=True),
    "identity": lambda x: x,
    "relu": lambda x: jnp.maximum(x, 0),
    "silu": jax.nn.silu,
}


class _Routing(NamedTuple):
    """The experts of each token and the weights of their results, each ``[tokens, k]``."""

    experts: jax.Array
    weights: jax.Array


class _Layers(NamedTuple):
    """Two layers of experts: matrices ``[experts, outputs, inputs]``, and biases or None."""

    first: Any
    bias1: Any
    second: Any
    bias2: Any


def _routing(logits: Any, weights: Any, k: int, *, normalize: bool) -> _Routing:
    """Choose the experts of each token; of equal ones the last."""
    scores = jax.nn.softmax(logits.astype(jnp.float32), axis=-1)
    chosen = scores.shape[-1] - 1 - jaxdml.top_k(jnp.flip(scores, -1), k, axis=-1, index_dtype="int32").indices
    taken = scores if weights is None else weights.astype(jnp.float32)
    kept = jaxdml.gather_elements(taken, chosen, axis=-1)
    return _Routing(chosen, kept / kept.sum(-1, keepdims=True) if normalize else kept)


def _mixture(x: Any, routing: _Routing, stored: Any, layers: Callable[[Any], _Layers], activate: Any) -> jax.Array:
    """Add up the results of the chosen experts.

    Args:
      x: tokens ``[..., inputs]``.
      routing: of each token.
      stored: a pytree of arrays ``[experts, ...]``.
      layers: makes the layers of some experts from what is stored of them.
      activate: what stands between the layers.
    """
    wide = x.reshape(-1, x.shape[-1]).astype(jnp.float32)
    count = len(jax.tree.leaves(stored)[0])
    if routing.experts.size < count and not _is_partitioned():
        read = routing.experts.reshape(-1)
        chosen = layers(jax.tree.map(lambda array: jaxdml.gather(array, read, axis=0), stored))
        y = _of_experts("rd,rid->ri", "ri,rdi->rd", jnp.repeat(wide, routing.experts.shape[1], 0), chosen, activate)
        y, weights = y.reshape(*routing.experts.shape, -1), routing.weights
    else:
        y = _of_experts("td,eid->tei", "tei,edi->ted", wide, layers(stored), activate)
        is_chosen = routing.experts[..., None] == jnp.arange(count)
        weights = jnp.where(is_chosen, routing.weights[..., None], 0).sum(1)
    # An expert that counts for nothing may have overflown.
    return jnp.where(weights[..., None] == 0, 0, weights[..., None] * y).sum(1).astype(x.dtype).reshape(x.shape)


def _of_experts(before: str, after: str, x: Any, layers: _Layers, activate: Any) -> Any:
    """Return the results of experts; the products are written as ``einsum`` takes them."""
    first, bias1, second, bias2 = layers
    hidden = jnp.einsum(before, x, first.astype(jnp.float32), precision=EXACTLY)
    hidden = activate(hidden if bias1 is None else hidden + bias1)
    y = jnp.einsum(after, hidden, second.astype(jnp.float32), precision=EXACTLY)
    return y if bias2 is None else y + bias2


def _is_partitioned() -> bool:
    """Tell whether a mesh is set whose axes may shard experts: reading some of them would move them."""
    return any(kind != jax.sharding.AxisType.Manual for kind in jax.sharding.get_abstract_mesh().axis_types)


def _activation(kind: str, alpha: float, beta: float, limit: float | None, fusion: int) -> Callable[[Any], Any]:
    return _ACTIVATIONS.get(kind, lambda x: _swiglu(x, alpha, beta, limit, fusion))


def moe(
    call: NodeCall,
    input: Any,
    router_probs: Any,
    fc1_experts_weights: Any,
    fc1_experts_bias: Any,
    fc2_experts_weights: Any,
    fc2_experts_bias: Any = None,
    fc3_experts_weights: Any = None,
    fc3_experts_bias: Any = None,
    *,
    activation_alpha: float = 1.0,
    activation_beta: float = 0.0,
    activation_type: str = "relu",
    k: int = 1,
    normalize_routing_weights: int = 0,
    swiglu_fusion: int = 0,
    swiglu_limit: float | None = None,
    use_sparse_mixer: int = 0,
) -> jax.Array:
    """Route each token to its best experts."""
    activate = _activation(activation_type, activation_alpha, activation_beta, swiglu_limit, swiglu_fusion)
    routing = _routing(router_probs, None, k, normalize=bool(normalize_routing_weights))
    stored = _Layers(fc1_experts_weights, fc1_experts_bias, fc2_experts_weights, fc2_experts_bias)
    return _mixture(input, routing, stored, lambda stored: stored, activate)


def qmoe(
    call: NodeCall,
    input: Any,
    router_probs: Any,
    fc1_experts_weights: Any,
    fc1_scales: Any,
    fc1_experts_bias: Any,
    fc2_experts_weights: Any,
    fc2_scales: Any,
    fc2_experts_bias: Any = None,
    fc3_experts_weights: Any = None,
    fc3_scales: Any = None,
    fc3_experts_bias: Any = None,
    fc1_zero_points: Any = None,
    fc2_zero_points: Any = None,
    fc3_zero_points: Any = None,
    router_weights: Any = None,
    *,
    activation_alpha: float = 1.0,
    activation_beta: float = 0.0,
    activation_type: str = "relu",
    block_size: int = 0,
    expert_weight_bits: int = 4,
    k: int = 1,
    normalize_routing_weights: int = 0,
    quant_type: str = "int",
    swiglu_fusion: int = 0,
    swiglu_limit: float | None = None,
    use_sparse_mixer: int = 0,
    weights_prepacked: int = 0,
) -> jax.Array:
    """Route each token to its best experts, whose weights have few bits.

    Without ``router_weights`` the weights of the chosen are divided by their sum, as onnxruntime does on CPUs.
    """
    activate = _activation(activation_type, activation_alpha, activation_beta, swiglu_limit, swiglu_fusion)
    normalize = router_weights is None or bool(normalize_routing_weights)
    routing = _routing(router_probs, router_weights, k, normalize=normalize)

    def placed(data: Any, scales: Any, zero_points: Any) -> tuple[Any, Any, Any]:
        # Zero points are packed along the blocks, or along the rows where a row is one block.
        rows = data.shape[:2] if block_size else data.shape[:1]
        zeros = None if zero_points is None else zero_points.reshape(*rows, -1)
        return data, scales.reshape(*data.shape[:2], -1), zeros

    def floats(stored: tuple[Any, Any, Any]) -> jax.Array:
        return _dequantized(*stored, bits=expert_weight_bits, block_size=block_size)

    def layers(stored: _Layers) -> _Layers:
        return stored._replace(first=floats(stored.first), second=floats(stored.second))

    stored = _Layers(
        placed(fc1_experts_weights, fc1_scales, fc1_zero_points),
        fc1_experts_bias,
        placed(fc2_experts_weights, fc2_scales, fc2_zero_points),
        fc2_experts_bias,
    )
    return _mixture(input, routing, stored, layers, activate)


def _dequantized(data: Any, scales: Any, zero_points: Any, *, bits: int, block_size: int) -> jax.Array:
    """Return ``[experts, rows, columns]``, with one scale for each row or for each block of one."""
    elements = unpacked(data, bits, signed=False).astype(jnp.uint8)
    _, rows, columns = elements.shape
    scale = scales.astype(jnp.float32)
    zero = jnp.full_like(scale, 2 ** (bits - 1), jnp.uint8)
    if zero_points is not None:
        given = unpacked(zero_points, bits, signed=False).astype(jnp.uint8)
        zero = given[..., : scale.shape[-1]] if block_size else given[:, :rows, None]
    return jaxdml.dequantize_linear(elements, scale, zero, axis=-1, block_size=block_size or columns)


def _refuses(node: Node, dtypes: Mapping[str, Any]) -> str | None:
    kind = node.attributes.get("activation_type", "relu")
    third = 6 if node.op_type == "MoE" else 8
    if kind not in (*_ACTIVATIONS, "swiglu"):
        return f"activation_type {kind!r} is not supported"
    if any(node.inputs[third : third + 1]):
        return "a third layer is not supported"
    if node.attributes.get("quant_type", "int") != "int" or node.attributes.get("weights_prepacked", 0) > 0:
        return "weights that are no plain integers are not supported"
    return None


TABLE: Table = {
    "MoE": (Handler(1, moe, optional="fc1_experts_bias", refuses=_refuses),),
    "QMoE": (Handler(1, qmoe, optional="fc1_experts_bias", refuses=_refuses),),
}
