"""Make a language model with random weights, as onnxruntime-genai's builder lays it out."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


@dataclass(frozen=True)
class Sizes:
    """Sizes of a network like Llama's."""

    layers: int = 2
    hidden: int = 64
    intermediate: int = 128
    heads: int = 4
    groups: int = 2
    vocabulary: int = 256
    longest: int = 256

    @property
    def head(self) -> int:
        """The size of a head."""
        return self.hidden // self.heads

    @property
    def weights(self) -> int:
        """How many weights each token multiplies."""
        of_layer = self.hidden * (2 * self.hidden + 2 * self.groups * self.head + 3 * self.intermediate)
        return self.layers * of_layer + self.vocabulary * self.hidden


MODELS = {
    "tiny": Sizes(),
    "350M": Sizes(24, 1024, 2816, 16, 8, 32000, 4096),
    "1B": Sizes(16, 2048, 8192, 32, 8, 128256, 4096),
    "3B": Sizes(28, 3072, 8192, 24, 8, 128256, 4096),
}
"""By name; 1B and 3B have the sizes of Llama 3.2, 350M is a model for CPUs."""

_CONTRIB = "com.microsoft"


class _Builder:
    """Collect the nodes and the weights of a graph."""

    def __init__(self, sizes: Sizes, dtype: Any, bits: int, level: int, seed: int) -> None:
        self.sizes, self.dtype, self.bits, self.level, self.block = sizes, np.dtype(dtype), bits, level, 32
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[TensorProto] = []

    def constant(self, name: str, array: np.ndarray) -> str:
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def node(self, kind: str, inputs: list[str], outputs: int = 1, domain: str = _CONTRIB, **attributes: Any) -> str:
        name = f"{kind}_{len(self.nodes)}"
        results = [name, *(f"{name}_{place}" for place in range(1, outputs))]
        self.nodes.append(helper.make_node(kind, inputs, results, name, domain=domain, **attributes))
        return name

    def norm(self, x: str, name: str) -> str:
        weight = self.constant(name, self.random.uniform(0.5, 1.5, self.sizes.hidden).astype(self.dtype))
        return self.node("SimplifiedLayerNormalization", [x, weight], domain="", axis=-1, epsilon=1e-5, stash_type=1)

    def table(self, name: str, rows: int, columns: int) -> list[str]:
        """Return random weights of a few bits ``[rows, blocks, bytes]``, and their scales."""
        blocks = columns // self.block
        data = self.random.integers(0, 256, (rows, blocks, self.block * self.bits // 8), np.uint8)
        # The spread of weights is such that activations keep theirs.
        scales = self.random.uniform(0.5, 1.5, (rows, blocks)) / 2 ** (self.bits - 2) / columns**0.5
        return [self.constant(name, data), self.constant(f"{name}_scales", scales.astype(self.dtype))]

    def product(self, x: str, name: str, columns: int, rows: int, table: list[str] | None = None) -> str:
        """Multiply by a matrix ``[rows, columns]``, or by the transposed table that is given."""
        if self.bits == 16:
            matrix = self.random.normal(0, columns**-0.5, (columns, rows)).astype(self.dtype)
            return self.node("MatMul", [x, self.constant(name, matrix)], domain="")
        options: dict[str, Any] = {"K": columns, "N": rows, "bits": self.bits, "block_size": self.block}
        weights = table or self.table(name, rows, columns)
        return self.node("MatMulNBits", [x, *weights], **options, accuracy_level=self.level)

    def embedded(self, ids: str) -> str:
        if self.bits == 16:
            shape = self.sizes.vocabulary, self.sizes.hidden
            return self.node(
                "Gather", [self.constant("tokens", self.random.normal(0, 1, shape).astype(self.dtype)), ids], domain=""
            )
        data, scales = self.table("tokens", self.sizes.vocabulary, self.sizes.hidden)
        flat = self.constant("table_shape", np.array([self.sizes.vocabulary, -1]))
        rows = self.node("Reshape", [data, flat], domain="")
        options: dict[str, Any] = {"bits": self.bits, "block_size": self.block, "gather_axis": 0, "quantize_axis": 1}
        return self.node("GatherBlockQuantized", [rows, ids, scales], **options)


def language_model(
    sizes: Sizes,
    *,
    dtype: Any = np.float16,
    bits: int = 4,
    level: int = 1,
    seed: int = 0,
    sliding: int = 0,
    cache_bits: int = 0,
) -> onnx.ModelProto:
    """Return a network like Llama's, with packed projections and rotations inside GroupQueryAttention.

    Args:
      sizes: of the network.
      dtype: of activations and scales.
      bits: of weights: 4 or 8; 16 for weights of ``dtype``.
      level: the accuracy that products must have at least: 1 for float32, 4 for activations of 8 bits.
      seed: of the weights.
      sliding: the window of the first layer, whose cache holds just that; 0 for none.
      cache_bits: of the caches: 4 or 8 for integers with one scale; 0 for ``dtype``.
    """
    make = _Builder(sizes, dtype, bits, level, seed)
    hidden, head, groups = sizes.hidden, sizes.head, sizes.groups
    kind = helper.np_dtype_to_tensor_dtype(make.dtype)
    angles = np.arange(sizes.longest)[:, None] / 10000 ** (np.arange(0, head, 2) / head)
    tables = [make.constant(name, f(angles).astype(dtype)) for name, f in (("cos", np.cos), ("sin", np.sin))]
    one, axis = make.constant("one", np.array(1)), make.constant("axis", np.array([1]))
    count = make.node("ReduceSum", ["attention_mask", axis], domain="", keepdims=0)
    last = make.node("Cast", [make.node("Sub", [count, one], domain="")], domain="", to=TensorProto.INT32)
    shape = make.node("Shape", ["attention_mask"], domain="")
    total = make.node("Gather", [shape, one], domain="", axis=0)
    total = make.node("Cast", [total], domain="", to=TensorProto.INT32)
    kept: dict[str, Any] = {}
    if cache_bits:
        scale = make.constant("cache_scale", np.array([6 / 2 ** (cache_bits - 1)], np.float32))
        kept = {"k_quant_type": "PER_TENSOR", "v_quant_type": "PER_TENSOR", "kv_cache_bit_width": cache_bits}
    x = make.embedded("input_ids")
    caches = []
    for layer in range(sizes.layers):
        normal = make.norm(x, f"norm_{layer}")
        qkv = make.product(normal, f"qkv_{layer}", hidden, hidden + 2 * groups * head)
        past = [f"past_key_values.{layer}.{part}" for part in ("key", "value")]
        window = sliding if layer == 0 else 0
        options = {"local_window_size": window, "sliding_window_cache": 1} if window else {}
        name = f"attention_{layer}"
        present = [f"present.{layer}.{part}" for part in ("key", "value")]
        inputs = [qkv, "", "", *past, last, total, *tables, *(["", "", "", scale, scale] if cache_bits else [])]
        options |= kept | {"num_heads": sizes.heads, "kv_num_heads": groups, "do_rotary": 1, "scale": head**-0.5}
        make.nodes.append(
            helper.make_node("GroupQueryAttention", inputs, [name, *present], name, domain=_CONTRIB, **options)
        )
        caches += [(old, new, window) for old, new in zip(past, present, strict=True)]
        out = make.product(name, f"output_{layer}", hidden, hidden)
        weight = make.constant(f"second_norm_{layer}", np.ones(hidden, dtype))
        normal = make.node("SkipSimplifiedLayerNormalization", [x, out, weight], outputs=4, epsilon=1e-5)
        x = f"{normal}_3"
        gate = make.product(normal, f"gate_{layer}", hidden, sizes.intermediate)
        up = make.product(normal, f"up_{layer}", hidden, sizes.intermediate)
        activated = make.node("QuickGelu", [gate], alpha=1.0)
        product = make.node("Mul", [activated, up], domain="")
        down = make.product(product, f"down_{layer}", sizes.intermediate, hidden)
        x = make.node("Add", [x, down], domain="")
    normal = make.norm(x, "last_norm")
    scores = make.product(normal, "scores_weight", hidden, sizes.vocabulary, ["tokens", "tokens_scales"])
    make.nodes.append(helper.make_node("Identity", [scores], ["logits"], "logits"))

    def cache(name: str, window: int, when: str) -> onnx.ValueInfoProto:
        length = f"{when}_sliding_length" if window else f"{when}_sequence_length"
        stored = {0: kind, 4: TensorProto.UINT8, 8: TensorProto.INT8}[cache_bits]
        return helper.make_tensor_value_info(name, stored, ["batch", groups, length, "head_size"])

    integers = [("input_ids", "step"), ("attention_mask", "total_sequence_length")]
    graph = helper.make_graph(
        make.nodes,
        "language_model",
        [
            *(helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", size]) for name, size in integers),
            *(cache(old, window, "past") for old, _, window in caches),
        ],
        [
            helper.make_tensor_value_info("logits", kind, ["batch", "step", sizes.vocabulary]),
            *(cache(new, window, "total") for _, new, window in caches),
        ],
        make.weights,
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(_CONTRIB, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)
