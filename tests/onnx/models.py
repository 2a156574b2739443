"""Small models of the usual kinds with seeded weights, as floats and as onnxruntime's quantizers leave them."""

import tempfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper
from onnxruntime import quantization
from onnxruntime.quantization import QuantFormat, QuantType

from benchmarks.models import networks
from benchmarks.models.net import Net
from benchmarks.models.networks import Block, Image, quietly
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


class AnyOpset(Net):
    """A network in any opset from 11 on."""

    def unsqueeze(self, x: Any, *axes: int) -> str:
        """Add dimensions of size 1."""
        return self("Unsqueeze", x, np.int64(axes)) if self.opset >= 13 else self("Unsqueeze", x, axes=axes)

    def mean(self, x: str) -> str:
        """Take the mean over the last dimension."""
        axes = ([np.int64([-1])], {}) if self.opset >= 18 else ([], {"axes": [-1]})
        return self("ReduceMean", x, *axes[0], keepdims=1, **axes[1])

    def layer_norm(self, x: str, size: int = HIDDEN) -> str:
        """Normalize the last dimension, by the steps that exporters wrote before there was an operator for it."""
        if self.opset >= 17:
            return super().layer_norm(x, size)
        centred = self("Sub", x, self.mean(x))
        variance = self.mean(self("Pow", centred, np.float32(2)))
        spread = self("Sqrt", self("Add", variance, np.float32(1e-5)))
        scaled = self("Mul", self("Div", centred, spread), 1 + self.normal(size, spread=0.1))
        return self("Add", scaled, self.normal(size, spread=0.1))

    def heads(self, x: str, *perm: int) -> str:
        """Divide the last dimension into heads."""
        return self("Transpose", self("Reshape", x, np.int64([0, 0, HEADS, HIDDEN // HEADS])), perm=perm)

    def finished(self, **outputs: tuple[int | str, ...]) -> onnx.ModelProto:
        """Return the model with the shapes of all values."""
        inferred = onnx.shape_inference.infer_shapes(super().finished(**outputs))
        onnx.checker.check_model(inferred)
        return inferred


_MOBILE = (Block(4, 12, 1, 2), Block(4, 12, squeezed=8), Block(4, 12))[: 1 + BLOCKS]
_RESIDUAL = (Block(1, 8), Block(1, 16, 1, 2), Block(1, 16))[: 1 + BLOCKS]


def _vgg(net: AnyOpset) -> onnx.ModelProto:
    x = net.input("image", np.float32, 3, 16, 16)
    for taken, given in ((3, 8), (8, 16)):
        x = net.convolve(x, taken, given, 3, "Relu")
        x = net.convolve(x, given, given, 3, "Relu")
        x = net("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = net("Relu", net.dense(net("Flatten", x), 256, 32))
    x = net("Relu", net.dense(net("Dropout", x), 32, 32))
    return net.finished(**{net("Softmax", net.dense(x, 32, 10), axis=-1): (10,)})


def _inception(net: AnyOpset) -> onnx.ModelProto:
    x = net.convolve(net.input("image", np.float32, 3, 16, 16), 3, 8, 3, "Relu")
    x = net("LRN", x, size=5, alpha=1e-3, beta=0.75, bias=1.0)
    x = net("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], **({"ceil_mode": 1} if net.opset >= 10 else {}))
    for taken, include in ((8, 0), (32, 1)):
        window = {"kernel_shape": [3, 3], "strides": [1, 1], "pads": [1] * 4}
        branches = [
            net.convolve(x, taken, 8, 1, "Relu"),
            net.convolve(net.convolve(x, taken, 8, 1, "Relu"), 8, 8, 3, "Relu"),
            net.convolve(net.convolve(x, taken, 4, 1, "Relu"), 4, 8, 5, "LeakyRelu"),
            net.convolve(net("AveragePool", x, count_include_pad=include, **window), taken, 8, 1, "Relu"),
        ]
        x = net("Concat", *branches, axis=1)
    moments = (1 + net.normal(32, spread=0.1), *(net.normal(32, spread=0.1) for _ in range(2)))
    x = net("Relu", net("BatchNormalization", x, *moments, 1 + abs(net.normal(32, spread=0.2)), epsilon=1e-3))
    x = net("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = net("Reshape", net("GlobalAveragePool", x), np.int64([-1, 32]))
    return net.finished(**{net.dense(x, 32, 10): (10,)})


def _bert(net: AnyOpset) -> onnx.ModelProto:
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


def _gpt_2(net: AnyOpset) -> onnx.ModelProto:
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


BUILDERS: dict[str, Callable[[AnyOpset], onnx.ModelProto]] = {
    "mobilenet_v2": partial(networks.mobilenet_v2, sizes=Image(_MOBILE, 8, 32, 32, 10)),
    "resnet": partial(networks.resnet, sizes=Image(_RESIDUAL, 8, size=32, classes=10)),
    "vgg": _vgg,
    "inception": _inception,
    "bert": _bert,
    "gpt_2": _gpt_2,
}
NAMES = tuple(BUILDERS)
BUILDERS["one_block"] = partial(networks.resnet, sizes=Image(_RESIDUAL[:1], 8, size=32, classes=10))


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
        return BUILDERS[name](AnyOpset(name, opset, batch))
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
