"""Make a language model with random weights, as onnxruntime-genai's builder lays it out, and time its decoding.

``python -m benchmarks models`` times single tokens against torch with the same network in bfloat16.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
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


def _ours(proto: onnx.ModelProto, batch: int, prompt: int, tokens: int) -> dict[str, Any]:
    """Decode greedily, all tokens in one program, and return seconds a token and what was compiled."""
    import jax
    import jax.numpy as jnp

    import jaxdml
    from jaxdml import onnx as door

    model = door.load(proto)
    decoder = door.decoder(model, length=prompt + tokens)

    def decode(params: Any, state: Any, token: Any) -> Any:
        def step(carry: Any, _: None) -> Any:
            state, token = carry
            scores, state = decoder.apply(params, state, token)
            best = jaxdml.top_k(scores, 1, index_dtype="int32").indices
            return (state, best), best[:, 0]

        return jax.lax.scan(step, (state, token), None, length=tokens)[1]

    state = decoder.start(batch)
    begun = time.perf_counter()
    scores, state = decoder(state, np.ones((batch, prompt), np.int32))
    token = jaxdml.top_k(scores, 1, index_dtype="int32").indices
    run = jax.jit(decode).lower(dict(model.params), state, token).compile()
    compiled = time.perf_counter() - begun
    seconds = _median(lambda: jax.block_until_ready(run(dict(model.params), state, token)))
    single = jax.jit(decoder.apply)
    step = _median(lambda: jax.block_until_ready(single(dict(model.params), state, jnp.asarray(token))))
    held = sum(leaf.nbytes for leaf in jax.tree.leaves(dict(model.params)))
    return {"s_per_token": seconds / tokens, "s_per_call": step, "compile_s": compiled, "bytes_of_weights": held}


def _onnxruntime(proto: onnx.ModelProto, batch: int, prompt: int, tokens: int) -> dict[str, Any]:
    """Decode with onnxruntime on CPUs, whose caches grow."""
    import onnxruntime

    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_outputs()]
    past = {
        value.name: np.zeros((batch, value.shape[1], 0, _head_size(proto)), np.float32)
        for value in session.get_inputs()[2:]
    }
    ids = np.ones((batch, prompt), np.int64)

    def step(ids: np.ndarray, past: dict[str, np.ndarray], length: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        outputs = session.run(None, {"input_ids": ids, "attention_mask": np.ones((batch, length), np.int64), **past})
        kept = dict(zip((n.replace("present", "past_key_values") for n in names[1:]), outputs[1:], strict=True))
        return outputs[0][:, -1:].argmax(-1), kept

    token, past = step(ids, past, prompt)
    begun = time.perf_counter()
    for count in range(tokens):
        token, past = step(token, past, prompt + count + 1)
    return {"s_per_token": (time.perf_counter() - begun) / tokens}


def _head_size(proto: onnx.ModelProto) -> int:
    """Return the size of a head: twice the width of the table of cosines."""
    table = next(tensor for tensor in proto.graph.initializer if tensor.name == "cos")
    return 2 * int(table.dims[1])


def _torch(sizes: Sizes, batch: int, prompt: int, tokens: int) -> dict[str, Any]:
    """Decode with the same network in bfloat16, compiled by torch, whose caches have a fixed length."""
    import torch

    from benchmarks.peers._torch_networks import step

    device, kind = "cuda" if torch.cuda.is_available() else "cpu", torch.bfloat16
    of_layer = {
        "qkv": (sizes.hidden + 2 * sizes.groups * sizes.head, sizes.hidden),
        "output": (sizes.hidden, sizes.hidden),
        "gate": (sizes.intermediate, sizes.hidden),
        "up": (sizes.intermediate, sizes.hidden),
        "down": (sizes.hidden, sizes.intermediate),
        "norm": (sizes.hidden,),
        "second_norm": (sizes.hidden,),
    }
    shapes = {f"{name}_{layer}": shape for layer in range(sizes.layers) for name, shape in of_layer.items()}
    shapes |= {"tokens": (sizes.vocabulary, sizes.hidden), "last_norm": (sizes.hidden,)}
    weights = {
        name: torch.randn(*shape, device=device, dtype=kind) * shape[-1] ** -0.5
        if len(shape) > 1
        else torch.ones(shape, device=device, dtype=kind)
        for name, shape in shapes.items()
    }
    run = step(weights, sizes.heads, sizes.groups, batch, prompt + tokens)
    compiled = torch.compile(lambda token, at: run(token, at).argmax(-1))
    token, at = torch.ones(batch, 1, dtype=torch.int64, device=device), torch.full((1,), prompt, device=device)

    def advance() -> None:
        token.copy_(compiled(token, at))
        at.add_(1)

    def replay() -> Callable[[], None]:
        """Record a token's kernels, so that their dispatch costs nothing."""
        if device == "cpu":
            return advance
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            advance()
        return graph.replay

    def decode() -> None:
        at.fill_(prompt)
        for _ in range(tokens):
            once()
        token.cpu()

    with torch.no_grad():
        for _ in range(3):
            advance()
        once = replay()
        return {"s_per_token": _median(decode, 5) / tokens}


def _median(run: Callable[[], Any], times: int = 5) -> float:
    """Return the median of the seconds that calls take, after one that is not counted."""
    run()
    samples = []
    for _ in range(times):
        begun = time.perf_counter()
        run()
        samples.append(time.perf_counter() - begun)
    return statistics.median(samples)


def main() -> None:
    """Time one library in this process, and add a line to the report."""
    from benchmarks.rows import Rows, default, earlier

    parser = argparse.ArgumentParser(prog="python -m benchmarks models", description=__doc__)
    parser.add_argument("library", choices=["jaxdml", "onnxruntime", "torch"], help="onnxruntime runs on CPUs")
    parser.add_argument("--model", choices=list(MODELS), default="350M")
    parser.add_argument("--bits", type=int, choices=[4, 8, 16], default=4, help="of jaxdml's and onnxruntime's weights")
    parser.add_argument("--dtype", choices=["float32", "float16"], default="float32", help="of their activations")
    parser.add_argument("--level", type=int, choices=[1, 4], default=1, help="4 lets onnxruntime round activations")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--prompt", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--out", type=Path, metavar="FILE", default=default("models"), help="(default: %(default)s)")
    options = parser.parse_args()
    sizes = MODELS[options.model]
    work = options.batch, options.prompt, options.tokens
    if options.library == "torch":
        result = _torch(sizes, *work)
    else:
        proto = language_model(sizes, dtype=options.dtype, bits=options.bits, level=options.level)
        result = {"jaxdml": _ours, "onnxruntime": _onnxruntime}[options.library](proto, *work)
    out = vars(options).pop("out")
    report = Rows(out, "models", kept=earlier(out))
    report.add(vars(options) | result)
    print(json.dumps(report.rows[-1]))


if __name__ == "__main__":
    main()
