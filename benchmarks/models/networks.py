"""Make whole networks with random weights as ONNX models, as floats and as onnxruntime's quantizer leaves them."""

import logging
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import helper, numpy_helper

from benchmarks.models.language_model import Sizes, language_model

OPSET = 22
"""The first one whose convolutions take bfloat16."""


class Image(NamedTuple):
    """What a network for images takes, and how it is divided into blocks."""

    size: int = 224
    classes: int = 1000
    blocks: tuple[tuple[int, int, int, int], ...] = ()
    """Of each kind of block: how much wider its middle is, the channels it gives, how often it comes, its stride."""


class Text(NamedTuple):
    """The sizes of an encoder."""

    layers: int = 12
    hidden: int = 768
    heads: int = 12
    wide: int = 3072
    words: int = 30522
    length: int = 128


MOBILE = Image(
    blocks=(
        *((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2)),
        *((6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)),
    )
)
RESIDUAL = Image(blocks=((4, 256, 3, 1), (4, 512, 4, 2), (4, 1024, 6, 2), (4, 2048, 3, 2)))
ENCODER = Text()
SMALL_DECODER = Sizes(30, 576, 1536, 9, 3, 49152, 256)
"""The sizes of SmolLM2-135M."""


class _Net:
    """Collects the nodes and weights of a model, and counts its multiplications."""

    def __init__(self, seed: int = 0) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def __call__(self, kind: str, *inputs: Any, **attributes: Any) -> str:
        """Add a node; inputs that are no names become initializers."""
        names = [value if isinstance(value, str) else self._constant(value) for value in inputs]
        name = f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, names, [f"{name}_out"], name, **attributes))
        return f"{name}_out"

    def _constant(self, value: Any) -> str:
        name = f"constant_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def normal(self, *shape: int, spread: float) -> np.ndarray[Any, Any]:
        return self.random.standard_normal(shape, np.float32) * np.float32(spread)

    def convolve(self, x: str, taken: int, given: int, window: int = 1, after: str = "", **options: Any) -> str:
        """Add a convolution with bias, and what follows it: ``Relu``, or ``Clip`` at 6."""
        each = taken // options.get("group", 1) * window**2
        # A Relu halves the squares; a sum with what went around the block doubles them.
        weights = self.normal(given, taken // options.get("group", 1), window, window, spread=(1 + bool(after)) ** 0.5)
        weights /= np.float32(each**0.5)
        pads = [window // 2] * 4
        x = self("Conv", x, weights, self.normal(given, spread=0.05), kernel_shape=[window] * 2, pads=pads, **options)
        return self("Clip", x, np.float32(0), np.float32(6)) if after == "Clip" else self(after, x) if after else x

    def linear(self, x: str, taken: int, given: int) -> str:
        product = self("MatMul", x, self.normal(taken, given, spread=taken**-0.5))
        return self("Add", product, self.normal(given, spread=0.05))

    def classes(self, x: str, taken: int, given: int) -> str:
        x = self("Flatten", self("GlobalAveragePool", x))
        return self("Gemm", x, self.normal(given, taken, spread=taken**-0.5), self.normal(given, spread=0.05), transB=1)

    def norm(self, x: str, size: int) -> str:
        weights = 1 + self.normal(size, spread=0.1), self.normal(size, spread=0.1)
        return self("LayerNormalization", x, *weights, axis=-1, epsilon=1e-5)

    def finished(self, name: str, result: str, shape: tuple[int, ...], **inputs: Any) -> onnx.ModelProto:
        """Return the model, whose first dimension is any batch."""
        self.nodes.append(helper.make_node("Identity", [result], ["result"], "result"))
        given = [
            helper.make_tensor_value_info(each, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), ("batch", *sizes))
            for each, (dtype, sizes) in inputs.items()
        ]
        output = helper.make_tensor_value_info("result", onnx.TensorProto.FLOAT, ("batch", *shape))
        graph = helper.make_graph(self.nodes, name, given, [output], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)


def mobilenet_v2(sizes: Image = MOBILE) -> onnx.ModelProto:
    """Return MobileNetV2, whose normalizations are in its convolutions."""
    net = _Net()
    x = net.convolve("image", 3, 32, 3, "Clip", strides=[2, 2])
    taken = 32
    for wider, given, times, first in sizes.blocks:
        for stride in (first, *[1] * (times - 1)):
            wide = wider * taken
            y = net.convolve(x, taken, wide, 1, "Clip") if wider > 1 else x
            y = net.convolve(y, wide, wide, 3, "Clip", group=wide, strides=[stride] * 2)
            y = net.convolve(y, wide, given)
            x = net("Add", x, y) if stride == 1 and taken == given else y
            taken = given
    x = net.convolve(x, taken, 1280, 1, "Clip")
    image = {"image": (np.float32, (3, sizes.size, sizes.size))}
    return net.finished("mobilenet_v2", net.classes(x, 1280, sizes.classes), (sizes.classes,), **image)


def resnet_50(sizes: Image = RESIDUAL) -> onnx.ModelProto:
    """Return ResNet-50 with the strides in its 3 x 3 convolutions."""
    net = _Net()
    x = net.convolve("image", 3, 64, 7, "Relu", strides=[2, 2])
    x = net("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    taken = 64
    for narrower, given, times, first in sizes.blocks:
        for stride in (first, *[1] * (times - 1)):
            narrow = given // narrower
            y = net.convolve(x, taken, narrow, 1, "Relu")
            y = net.convolve(y, narrow, narrow, 3, "Relu", strides=[stride] * 2)
            y = net.convolve(y, narrow, given)
            x = net.convolve(x, taken, given, strides=[stride] * 2) if taken != given else x
            x = net("Relu", net("Add", y, x))
            taken = given
    image = {"image": (np.float32, (3, sizes.size, sizes.size))}
    return net.finished("resnet_50", net.classes(x, taken, sizes.classes), (sizes.classes,), **image)


def bert_base(sizes: Text = ENCODER) -> onnx.ModelProto:
    """Return the encoder of BERT-base with its table of words."""
    net, hidden, heads = _Net(), sizes.hidden, sizes.heads
    x = net("Gather", net.normal(sizes.words, hidden, spread=1), "ids")
    x = net.norm(net("Add", x, net.normal(1, sizes.length, hidden, spread=0.5)), hidden)
    for _ in range(sizes.layers):
        parts = []
        for last in ((1, 3), (3, 1), (1, 3)):
            part = net("Reshape", net.linear(x, hidden, hidden), np.array([0, 0, heads, hidden // heads]))
            parts.append(net("Transpose", part, perm=[0, 2, *last]))
        scores = net("Mul", net("MatMul", *parts[:2]), np.float32((hidden // heads) ** -0.5))
        mixed = net("MatMul", net("Softmax", scores, axis=-1), parts[2])
        mixed = net("Reshape", net("Transpose", mixed, perm=[0, 2, 1, 3]), np.array([0, 0, hidden]))
        x = net.norm(net("Add", net.linear(mixed, hidden, hidden), x), hidden)
        wide = net("Gelu", net.linear(x, hidden, sizes.wide))
        x = net.norm(net("Add", net.linear(wide, sizes.wide, hidden), x), hidden)
    ids = {"ids": (np.int64, (sizes.length,))}
    return net.finished("bert_base", x, (sizes.length, hidden), **ids)


def as_int8(model: onnx.ModelProto) -> onnx.ModelProto:
    """Quantize: uint8 activations, int8 weights with a scale for each channel, operators on integers (QOperator)."""
    from onnxruntime import quantization

    class Drawn(quantization.CalibrationDataReader):  # type: ignore[misc]
        left = iter([_calibrating(model, np.random.default_rng(seed)) for seed in (100, 101)])

        def get_next(self) -> Any:
            return next(self.left, None)

    with quietly(), tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "floats.onnx", Path(folder) / "int8.onnx"
        onnx.save(model, source)
        quantization.quantize_static(
            source,
            target,
            Drawn(),
            quant_format=quantization.QuantFormat.QOperator,
            activation_type=quantization.QuantType.QUInt8,
            weight_type=quantization.QuantType.QInt8,
            per_channel=True,
        )
        return onnx.load(target)


def _calibrating(model: onnx.ModelProto, random: np.random.Generator) -> dict[str, np.ndarray[Any, Any]]:
    """Draw an image, or numbers of words."""
    (given,) = model.graph.input
    shape = (1, *(each.dim_value for each in given.type.tensor_type.shape.dim[1:]))
    if given.type.tensor_type.elem_type == onnx.TensorProto.INT64:
        return {given.name: random.integers(0, model.graph.initializer[0].dims[0], shape)}
    return {given.name: random.standard_normal(shape, np.float32)}


@contextmanager
def quietly() -> Iterator[None]:
    """Leave out what the quantizer says."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def as_floats(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a language model whose packed weights of 8 bits are written out as float32."""
    held = {tensor.name: tensor for tensor in model.graph.initializer}
    whole: dict[str, onnx.TensorProto] = {}

    def floats(name: str) -> str:
        if name not in whole:
            data, scales = (numpy_helper.to_array(held.pop(each)) for each in (name, f"{name}_scales"))
            numbers = (data.astype(np.float32) - 128) * scales[..., None]
            whole[name] = numpy_helper.from_array(numbers.reshape(len(data), -1), f"{name}_floats")
        return whole[name].name

    nodes = []
    for node in model.graph.node:
        if node.op_type == "MatMulNBits":
            turned = f"{node.name}_turned"
            nodes.append(helper.make_node("Transpose", [floats(node.input[1])], [turned], turned, perm=[1, 0]))
            nodes.append(helper.make_node("MatMul", [node.input[0], turned], node.output, node.name))
        elif node.op_type == "GatherBlockQuantized":
            table = node.input[2].removesuffix("_scales")
            nodes.append(helper.make_node("Gather", [floats(table), node.input[1]], node.output, node.name))
        elif node.op_type != "Reshape":  # The only one is of the packed table.
            nodes.append(node)
    found = onnx.ModelProto()
    found.CopyFrom(model)
    for field, content in (("node", nodes), ("initializer", [*held.values(), *whole.values()])):
        found.graph.ClearField(field)
        getattr(found.graph, field).extend(content)
    return found


def as_bfloat16(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the same model with weights and images of bfloat16."""
    import ml_dtypes

    found = onnx.ModelProto()
    found.CopyFrom(model)
    for tensor in found.graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT:
            narrow = numpy_helper.to_array(tensor).astype(ml_dtypes.bfloat16)
            tensor.CopyFrom(numpy_helper.from_array(narrow, tensor.name))
    for value in (*found.graph.input, *found.graph.output):
        kind = value.type.tensor_type
        if kind.elem_type == onnx.TensorProto.FLOAT:
            kind.elem_type = onnx.TensorProto.BFLOAT16
    return found


def language_model_of_bytes(sizes: Sizes = SMALL_DECODER) -> onnx.ModelProto:
    """Return a language model with weights of 8 bits."""
    return language_model(sizes, dtype=np.float32, bits=8)


def multiplications(model: onnx.ModelProto) -> int:
    """Count those of convolutions and products, for one image or text."""
    inferred = onnx.shape_inference.infer_shapes(model)
    known = {
        value.name: value.type.tensor_type.shape.dim for value in (*inferred.graph.value_info, *inferred.graph.output)
    }
    weights = {tensor.name: tensor.dims for tensor in model.graph.initializer}
    total = 0
    for node in inferred.graph.node:
        if node.op_type in ("Conv", "Gemm", "MatMul"):
            results = int(np.prod([each.dim_value for each in known[node.output[0]][1:]]))
            if node.input[1] in weights:
                sizes = list(weights[node.input[1]])
                # Filters are stored as [outputs, inputs, ...], and so is Gemm's matrix; MatMul's as [inputs, outputs].
                total += results * int(np.prod(sizes[1:] if node.op_type != "MatMul" else sizes[:-1]))
            else:
                total += results * known[node.input[0]][-1].dim_value
    return total


NETWORKS: Mapping[str, Callable[[], onnx.ModelProto]] = {
    "mobilenet_v2": mobilenet_v2,
    "resnet_50": resnet_50,
    "bert_base": bert_base,
    "language_model": language_model_of_bytes,
}
"""By name; the language model comes with weights of 8 bits, the others as floats."""


@cache
def made(name: str, kind: str) -> onnx.ModelProto:
    """Return a network: ``int8``, ``float32`` or ``bfloat16``."""
    if kind == "bfloat16":
        return as_bfloat16(made(name, "float32"))
    if name == "language_model":
        return NETWORKS[name]() if kind == "int8" else as_floats(made(name, "int8"))
    return as_int8(made(name, "float32")) if kind == "int8" else NETWORKS[name]()
