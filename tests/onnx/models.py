"""Small models of the usual kinds with seeded weights, as floats and as onnxruntime's quantizers leave them."""

import tempfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper
from onnxruntime import quantization
from onnxruntime.quantization import QuantFormat, QuantType

from benchmarks.models.networks import quietly
from tests.kit import THOROUGH

SEQUENCE = 8
WORDS = 32
HIDDEN = 32
HEADS = 4
BLOCKS = 2 if THOROUGH else 1
"""Of a transformer, and of each kind in a network for images: each takes seconds to compile."""
SIZES = {"mobilenet_v2": 32, "resnet": 32, "one_block": 32, "vgg": 16, "inception": 16}
"""Height and width of the images that a model takes."""

STATIC = {
    "qoperator": {},
    "qoperator_channels": {"per_channel": True},
    "qoperator_s8": {"activation_type": QuantType.QInt8, "extra_options": {"ActivationSymmetric": True}},
    "qoperator_powers": {},
    "qdq": {},
    "qdq_channels": {"per_channel": True},
    "qdq_s8": {"activation_type": QuantType.QInt8, "extra_options": {"ActivationSymmetric": True}},
    "qdq_symmetric": {"extra_options": {"ActivationSymmetric": True}},
    "qdq_powers": {"per_channel": True},
    "qoperator_u8": {"weight_type": QuantType.QUInt8},
    "qoperator_forced": {"extra_options": {"ForceQuantizeNoInputCheck": True}},
    "qdq_pairs": {"extra_options": {"AddQDQPairToWeight": True, "DedicatedQDQPair": True}},
    "qdq_kept": {"extra_options": {"QDQKeepRemovableActivations": True, "UseQDQContribOps": True}},
    "qdq_partly": {"extra_options": {"OpTypesToExcludeOutputQuantization": ["Conv", "MatMul", "Add"]}},
    "qdq_float_biases": {"extra_options": {"QuantizeBias": False}},
    "qdq_16": {"activation_type": QuantType.QUInt16},
}
DYNAMIC = {
    "dynamic_u8": {"weight_type": QuantType.QUInt8},
    "dynamic_s8": {"weight_type": QuantType.QInt8},
    "dynamic_channels": {"weight_type": QuantType.QInt8, "per_channel": True},
}
FORMS = ("float", *STATIC, *DYNAMIC)
"""How a model is stored: ``_powers`` has scales that are powers of two, so exact halves abound."""
SAVED = tuple(f"{form}_saved" for form in ("float", "qoperator", "qdq_channels", "dynamic_s8"))
"""The same after onnxruntime has optimized and saved them: with operators that only it writes."""


class Net:
    """Collects the nodes and weights of a model."""

    def __init__(self, name: str, opset: int, batch: int | str):
        self.name, self.opset, self.batch = name, opset, batch
        self.rng = np.random.default_rng(sum(map(ord, name)))
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []

    def input(self, name: str, dtype: Any, *shape: int | str) -> str:
        """Add an input whose first dimension is the batch."""
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        self.inputs.append(helper.make_tensor_value_info(name, kind, (self.batch, *shape)))
        return name

    def constant(self, value: Any) -> str:
        """Add an initializer."""
        name = f"constant_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def __call__(self, op_type: str, *inputs: Any, outputs: int = 1, **attributes: Any) -> Any:
        """Add a node; inputs that are not names of values become initializers."""
        names = [value if isinstance(value, str) else self.constant(value) for value in inputs]
        label = f"{op_type.lower()}_{len(self.nodes)}"
        made = [f"{label}_out{i or ''}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op_type, names, made, name=label, **attributes))
        return made[0] if outputs == 1 else made

    def normal(self, *shape: int, spread: float | None = None) -> np.ndarray:
        """Draw weights that keep the size of what they multiply."""
        spread = np.sqrt(2 / max(int(np.prod(shape[1:])), 1)) if spread is None else spread
        return self.rng.normal(0, spread, shape).astype(np.float32)

    def conv(self, x: str, channels: tuple[int, int], kernel: int = 1, activation: str = "", **attributes: Any) -> str:
        """Add a convolution with bias that keeps the size but for its strides, and what follows it."""
        taken, given = channels
        weight = self.normal(given, taken // attributes.get("group", 1), kernel, kernel)
        sizes = {"kernel_shape": [kernel] * 2, "pads": [kernel // 2] * 4}
        x = self("Conv", x, weight, self.normal(given, spread=0.1), **sizes | attributes)
        if activation == "Clip":
            return self("Clip", x, np.float32(0), np.float32(6))
        return self(activation, x) if activation else x

    def dense(self, x: str, taken: int, given: int) -> str:
        """Add a Gemm whose weight is stored transposed."""
        return self("Gemm", x, self.normal(given, taken), self.normal(given, spread=0.1), transB=1)

    def linear(self, x: str, taken: int, given: int) -> str:
        """Add a product with a weight, and a bias, as transformers have it."""
        product = self("MatMul", x, self.normal(given, taken).T.copy() / np.float32(np.sqrt(2)))
        return self("Add", product, self.normal(given, spread=0.1))

    def unsqueeze(self, x: Any, *axes: int) -> str:
        """Add dimensions of size 1."""
        return self("Unsqueeze", x, np.int64(axes)) if self.opset >= 13 else self("Unsqueeze", x, axes=axes)

    def mean(self, x: str) -> str:
        """Take the mean over the last dimension."""
        axes = ([np.int64([-1])], {}) if self.opset >= 18 else ([], {"axes": [-1]})
        return self("ReduceMean", x, *axes[0], keepdims=1, **axes[1])

    def layer_norm(self, x: str) -> str:
        """Normalize the last dimension, by the steps that exporters wrote before there was an operator for it."""
        scale, bias = 1 + self.normal(HIDDEN, spread=0.1), self.normal(HIDDEN, spread=0.1)
        if self.opset >= 17:
            return self("LayerNormalization", x, scale, bias, axis=-1, epsilon=1e-5)
        centred = self("Sub", x, self.mean(x))
        variance = self.mean(self("Pow", centred, np.float32(2)))
        spread = self("Sqrt", self("Add", variance, np.float32(1e-5)))
        return self("Add", self("Mul", self("Div", centred, spread), scale), bias)

    def heads(self, x: str, *perm: int) -> str:
        """Divide the last dimension into heads."""
        return self("Transpose", self("Reshape", x, np.int64([0, 0, HEADS, HIDDEN // HEADS])), perm=perm)

    def finished(self, **outputs: tuple[int | str, ...]) -> onnx.ModelProto:
        """Return the model, whose outputs are these values, with their shapes but for the batch."""
        results = []
        for number, (value, shape) in enumerate(outputs.items()):
            name = f"output_{number}"
            self.nodes.append(helper.make_node("Identity", [value], [name], name=f"{name}_identity"))
            results.append(helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, (self.batch, *shape)))
        graph = helper.make_graph(self.nodes, self.name, self.inputs, results, self.weights)
        # IR 8 has all that these opsets need, and every onnxruntime reads it.
        opsets = [helper.make_opsetid("", self.opset)]
        inferred = onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=opsets, ir_version=8))
        onnx.checker.check_model(inferred)
        return inferred


def _mobilenet_v2(net: Net) -> onnx.ModelProto:
    x = net.conv(net.input("image", np.float32, 3, 32, 32), (3, 8), 3, "Clip", strides=[2, 2])
    for taken, given, stride, weighted in ((8, 12, 2, False), (12, 12, 1, True), (12, 12, 1, False))[: 1 + BLOCKS]:
        wide = 4 * taken
        y = net.conv(x, (taken, wide), 1, "Clip")
        y = net.conv(y, (wide, wide), 3, "Clip", group=wide, strides=[stride, stride])
        if weighted:  # Squeeze and excite, as version 3 has it.
            squeezed = net.conv(net("GlobalAveragePool", y), (wide, 8), 1, "Relu")
            y = net("Mul", y, net.conv(squeezed, (8, wide), 1, "Sigmoid"))
        y = net.conv(y, (wide, given))
        x = net("Add", x, y) if taken == given else y
    x = net.conv(x, (12, 32), 1, "Clip")
    return net.finished(**{net.dense(net("Flatten", net("GlobalAveragePool", x)), 32, 10): (10,)})


def _resnet(net: Net, blocks: int = 1 + BLOCKS) -> onnx.ModelProto:
    x = net.conv(net.input("image", np.float32, 3, 32, 32), (3, 8), 7, "Relu", strides=[2, 2])
    x = net("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for taken, given, stride in ((8, 8, 1), (8, 16, 2), (16, 16, 1))[:blocks]:
        y = net.conv(x, (taken, given), 3, "Relu", strides=[stride, stride])
        y = net.conv(y, (given, given), 3)
        if taken != given:
            x = net.conv(x, (taken, given), 1, strides=[stride, stride])
        x = net("Relu", net("Add", y, x))
    return net.finished(**{net.dense(net("Flatten", net("GlobalAveragePool", x)), given, 10): (10,)})


def _vgg(net: Net) -> onnx.ModelProto:
    x = net.input("image", np.float32, 3, 16, 16)
    for taken, given in ((3, 8), (8, 16)):
        x = net.conv(x, (taken, given), 3, "Relu")
        x = net.conv(x, (given, given), 3, "Relu")
        x = net("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = net("Relu", net.dense(net("Flatten", x), 256, 32))
    x = net("Relu", net.dense(net("Dropout", x), 32, 32))
    return net.finished(**{net("Softmax", net.dense(x, 32, 10), axis=-1): (10,)})


def _inception(net: Net) -> onnx.ModelProto:
    x = net.conv(net.input("image", np.float32, 3, 16, 16), (3, 8), 3, "Relu")
    x = net("LRN", x, size=5, alpha=1e-3, beta=0.75, bias=1.0)
    x = net("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], **({"ceil_mode": 1} if net.opset >= 10 else {}))
    for taken, include in ((8, 0), (32, 1)):
        window = {"kernel_shape": [3, 3], "strides": [1, 1], "pads": [1] * 4}
        branches = [
            net.conv(x, (taken, 8), 1, "Relu"),
            net.conv(net.conv(x, (taken, 8), 1, "Relu"), (8, 8), 3, "Relu"),
            net.conv(net.conv(x, (taken, 4), 1, "Relu"), (4, 8), 5, "LeakyRelu"),
            net.conv(net("AveragePool", x, count_include_pad=include, **window), (taken, 8), 1, "Relu"),
        ]
        x = net("Concat", *branches, axis=1)
    moments = (1 + net.normal(32, spread=0.1), *(net.normal(32, spread=0.1) for _ in range(2)))
    x = net("Relu", net("BatchNormalization", x, *moments, 1 + abs(net.normal(32, spread=0.2)), epsilon=1e-3))
    x = net("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = net("Reshape", net("GlobalAveragePool", x), np.int64([-1, 32]))
    return net.finished(**{net.dense(x, 32, 10): (10,)})


def _bert(net: Net) -> onnx.ModelProto:
    ids, types, mask = (net.input(name, np.int64, SEQUENCE) for name in ("ids", "types", "mask"))
    words = net("Gather", net.normal(WORDS, HIDDEN, spread=1), ids)
    kinds = net("Gather", net.normal(2, HIDDEN, spread=0.5), types)
    x = net("Add", net("Add", words, kinds), net.normal(1, SEQUENCE, HIDDEN, spread=0.5))
    x = net.layer_norm(x)
    # Exporters write a much larger number than 10: with it a quantized sum holds nothing but the mask.
    hidden = net("Sub", np.float32(1), net("Cast", net.unsqueeze(mask, 1, 2), to=onnx.TensorProto.FLOAT))
    hidden = net("Mul", hidden, np.float32(-10))
    for _ in range(BLOCKS):
        query, key, value = (net.heads(net.linear(x, HIDDEN, HIDDEN), 0, 2, *last) for last in ((1, 3), (3, 1), (1, 3)))
        scores = net("Div", net("MatMul", query, key), np.float32(np.sqrt(HIDDEN // HEADS)))
        weights = net("Softmax", net("Add", scores, hidden), axis=-1 if net.opset >= 13 else 3)
        mixed = net("Transpose", net("MatMul", weights, value), perm=[0, 2, 1, 3])
        mixed = net("Reshape", mixed, np.int64([0, 0, HIDDEN]))
        x = net.layer_norm(net("Add", net.linear(mixed, HIDDEN, HIDDEN), x))
        wide = net.linear(x, HIDDEN, 2 * HIDDEN)
        erf = net("Add", net("Erf", net("Div", wide, np.float32(np.sqrt(2)))), np.float32(1))
        gelu = net("Mul", net("Mul", wide, erf), np.float32(0.5))
        x = net.layer_norm(net("Add", net.linear(gelu, 2 * HIDDEN, HIDDEN), x))
    pooled = net("Tanh", net.dense(net("Gather", x, np.int64(0), axis=1), HIDDEN, HIDDEN))
    return net.finished(**{net.dense(pooled, HIDDEN, 3): (3,), x: (SEQUENCE, HIDDEN)})


def _gpt_2(net: Net) -> onnx.ModelProto:
    ids = net.input("ids", np.int64, "T")
    length = net("Gather", net("Shape", ids), np.int64(1), axis=0)
    places = net.unsqueeze(net("Range", np.int64(0), length, np.int64(1)), 0)
    table = net.constant(net.normal(WORDS, HIDDEN, spread=1))
    x = net("Add", net("Gather", table, ids), net("Gather", net.normal(16, HIDDEN, spread=0.5), places))
    ends = net.unsqueeze(length, 0)
    causal = np.tril(np.ones((1, 1, 16, 16), bool))
    causal = net("Slice", net("Slice", causal, np.int64([0]), ends, np.int64([2])), np.int64([0]), ends, np.int64([3]))

    def reshaped(x: str, like: str, *sizes: int) -> str:
        shape = net("Shape", like)
        kept = [net.unsqueeze(net("Gather", shape, np.int64(i), axis=0), 0) for i in (0, 1)]
        return net("Reshape", x, net("Concat", *kept, np.int64(sizes), axis=0))

    for _ in range(BLOCKS):
        packed = net.linear(net.layer_norm(x), HIDDEN, 3 * HIDDEN)
        sizes = ([np.int64([HIDDEN] * 3)], {}) if net.opset >= 13 else ([], {"split": [HIDDEN] * 3})
        parts = net("Split", packed, *sizes[0], outputs=3, axis=2, **sizes[1])
        query, key, value = (reshaped(part, part, HEADS, HIDDEN // HEADS) for part in parts)
        product = net("MatMul", net("Transpose", query, perm=[0, 2, 1, 3]), net("Transpose", key, perm=[0, 2, 3, 1]))
        scores = net("Where", causal, net("Div", product, np.float32(np.sqrt(HIDDEN // HEADS))), np.float32(-10))
        weights = net("Softmax", scores, axis=-1 if net.opset >= 13 else 3)
        mixed = net("MatMul", weights, net("Transpose", value, perm=[0, 2, 1, 3]))
        mixed = reshaped(net("Transpose", mixed, perm=[0, 2, 1, 3]), x, HIDDEN)
        x = net("Add", net.linear(mixed, HIDDEN, HIDDEN), x)
        wide = net.linear(net.layer_norm(x), HIDDEN, 2 * HIDDEN)
        cubed = net("Mul", net("Pow", wide, np.float32(3)), np.float32(0.044715))
        tanh = net("Tanh", net("Mul", net("Add", wide, cubed), np.float32(np.sqrt(2 / np.pi))))
        gelu = net("Mul", net("Mul", wide, np.float32(0.5)), net("Add", tanh, np.float32(1)))
        x = net("Add", x, net.linear(gelu, 2 * HIDDEN, HIDDEN))
    logits = net("MatMul", net.layer_norm(x), net("Transpose", table, perm=[1, 0]))
    return net.finished(**{logits: ("T", WORDS)})


BUILDERS: dict[str, Callable[[Net], onnx.ModelProto]] = {
    "mobilenet_v2": _mobilenet_v2,
    "resnet": _resnet,
    "vgg": _vgg,
    "inception": _inception,
    "bert": _bert,
    "gpt_2": _gpt_2,
}
NAMES = tuple(BUILDERS)
BUILDERS["one_block"] = partial(_resnet, blocks=1)


def inputs(name: str, batch: int = 2, seed: int = 0) -> dict[str, np.ndarray]:
    """Draw inputs of a model."""
    rng = np.random.default_rng(seed)
    if name in SIZES:
        return {"image": rng.normal(0, 1, (batch, 3, SIZES[name], SIZES[name])).astype(np.float32)}
    ids = rng.integers(0, WORDS, (batch, SEQUENCE))
    if name == "gpt_2":
        return {"ids": ids}
    lengths = rng.integers(SEQUENCE // 2, SEQUENCE + 1, (batch, 1))
    places = np.arange(SEQUENCE)
    return {"ids": ids, "types": (places >= lengths // 2).astype(np.int64), "mask": (places < lengths).astype(np.int64)}


@cache
def model(name: str, form: str = "float", opset: int = 17, batch: int | str = "N") -> onnx.ModelProto:
    """Build a model and quantize it as the form says; the same model each time."""
    if form == "float":
        return BUILDERS[name](Net(name, opset, batch))
    if form.endswith("_saved"):
        return _optimized(model(name, form.removesuffix("_saved"), opset, batch))
    floats = model(name, "float", opset, batch)
    with quietly(), tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "float.onnx", Path(folder) / "quantized.onnx"
        onnx.save(floats, source)
        if form in DYNAMIC:
            quantization.quantize_dynamic(source, target, **DYNAMIC[form])
        else:
            of_format = QuantFormat.QDQ if form.startswith("qdq") else QuantFormat.QOperator
            usual = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8, "quant_format": of_format}
            quantization.quantize_static(source, target, _Calibration(name, batch), **usual | STATIC[form])
        quantized = onnx.load(target)
    return _with_powers_of_two(quantized) if form.endswith("_powers") else quantized


def _optimized(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return what onnxruntime saves."""
    levels = onnxruntime.GraphOptimizationLevel
    quantized = any(node.op_type in ("QLinearConv", "QuantizeLinear") for node in model.graph.node)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # It warns that such a file is for this machine.
    # The highest level gives float convolutions a layout of this machine's own.
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if quantized else levels.ORT_ENABLE_EXTENDED
    with tempfile.TemporaryDirectory() as folder:
        options.optimized_model_filepath = str(Path(folder) / "saved.onnx")
        onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return onnx.load(options.optimized_model_filepath)


class _Calibration(quantization.CalibrationDataReader):
    """Gives four inputs."""

    def __init__(self, name: str, batch: int | str):
        size = batch if isinstance(batch, int) else 2
        self.drawn = iter([inputs(name, size, seed) for seed in range(100, 104)])

    def get_next(self) -> dict[str, np.ndarray] | None:
        """Return the next input, or None."""
        return next(self.drawn, None)


def _with_powers_of_two(model: onnx.ModelProto) -> onnx.ModelProto:
    """Round every scale to a power of two; those of biases to the product of the other two."""
    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    makers = {node.output[0]: node for node in model.graph.node}

    def set_to(name: str, value: np.ndarray) -> None:
        kept = numpy_helper.to_array(tensors[name])
        tensors[name].CopyFrom(numpy_helper.from_array(np.broadcast_to(value, kept.shape).astype(np.float32), name))

    for name, tensor in tensors.items():
        if name.endswith("_scale"):
            set_to(name, np.exp2(np.rint(np.log2(numpy_helper.to_array(tensor)))))
    for node in model.graph.node:
        made = [makers.get(name) for name in node.input]
        if (
            node.op_type in ("Conv", "Gemm")
            and len(made) == 3
            and all(m and m.op_type == "DequantizeLinear" for m in made)
        ):
            x, weight, bias = (m.input[1] for m in made)
            set_to(bias, numpy_helper.to_array(tensors[x]) * numpy_helper.to_array(tensors[weight]))
    return model


def with_outputs(model: onnx.ModelProto, names: list[str]) -> onnx.ModelProto:
    """Return the model with further values among its outputs."""
    shown = onnx.ModelProto()
    shown.CopyFrom(model)
    present = {value.name for value in shown.graph.output}
    shown.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in present)
    return shown


QUANTIZED_CASES = [
    ("mobilenet_v2", "qoperator_channels", 17),
    ("mobilenet_v2", "qdq_powers", 13),
    ("mobilenet_v2", "dynamic_s8", 11),
    ("resnet", "qoperator_powers", 17),
    ("resnet", "qdq", 21),
    ("resnet", "dynamic_u8", 17),
    ("vgg", "qoperator_s8", 13),
    ("vgg", "qdq_symmetric", 17),
    ("vgg", "dynamic_channels", 21),
    ("inception", "qoperator", 11),
    ("inception", "qdq_channels", 18),
    ("inception", "dynamic_s8", 17),
    ("bert", "qoperator_powers", 17),
    ("bert", "qdq_s8", 18),
    ("bert", "dynamic_u8", 11),
    ("gpt_2", "qoperator", 21),
    ("gpt_2", "qdq_channels", 13),
    ("gpt_2", "dynamic_s8", 18),
]
FLOAT_CASES = [(name, "float", opset) for name, opset in zip(NAMES, (17, 11, 13, 21, 11, 18), strict=True)]
SAVED_CASES = [
    ("resnet", "qdq_channels_saved", 17),
    ("vgg", "float_saved", 17),
    ("bert", "float_saved", 17),
    ("bert", "dynamic_s8_saved", 17),
    ("gpt_2", "qdq_channels_saved", 17),
]
if THOROUGH:
    OPSETS = range(11, 22)
    FLOAT_CASES = [(name, "float", opset) for name in NAMES for opset in OPSETS]
    # Below 13 onnxruntime's quantizer writes a DequantizeLinear by channel, or of its own domain, that nothing loads.
    QUANTIZED_CASES = [
        (name, form, opset)
        for name in NAMES
        for i, form in enumerate((*STATIC, *DYNAMIC))
        for opset in {17, OPSETS[i % 11]}
        if opset >= 13 or form not in ("qdq_channels", "qdq_powers", "qdq_kept", "qdq_16")
    ]
    SAVED_CASES = [(name, form, 17) for name in NAMES for form in SAVED]


LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
LIGHT_NAMES = (
    "bvlc_alexnet",
    "densenet121",
    "inception_v1",
    "inception_v2",
    "resnet50",
    "shufflenet",
    "squeezenet",
    "vgg19",
    "zfnet512",
)


def light(name: str) -> tuple[onnx.ModelProto, np.ndarray, np.ndarray]:
    """Return one of onnx's own models, all of whose weights are one number, its input and the output beside it."""
    found = onnx.load(LIGHT / f"light_{name}.onnx")
    known = {tensor.name for tensor in found.graph.initializer}
    (taken,) = (value for value in found.graph.input if value.name not in known)
    shape = [size.dim_value for size in taken.type.tensor_type.shape.dim]
    tensor = onnx.TensorProto()
    tensor.ParseFromString((LIGHT / f"light_{name}_output_0.pb").read_bytes())
    count = int(np.prod(shape))
    return found, (np.arange(count, dtype=np.float32) / count).reshape(shape), numpy_helper.to_array(tensor)
