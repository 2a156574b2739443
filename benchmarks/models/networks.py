"""Make whole networks with random weights as ONNX models, as floats and as onnxruntime's quantizer leaves them."""

import logging
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import helper, numpy_helper

from benchmarks.models.language_model import Sizes, language_model
from benchmarks.models.net import Net


class Block(NamedTuple):
    """A kind of block of a network for images."""

    ratio: int
    """How much wider its middle is, or narrower in a residual network."""
    channels: int
    """That it gives."""
    times: int = 1
    """How often it comes."""
    stride: int = 1
    """Of the first."""
    squeezed: int = 0
    """The channels of the squeeze that weighs its middle, as MobileNetV3 has it; 0 for none."""


class Image(NamedTuple):
    """What a network for images takes and gives, and its channels and blocks."""

    blocks: tuple[Block, ...]
    first: int
    """The channels of its first convolution."""
    last: int = 0
    """And of the last one; 0 for none after the blocks."""
    size: int = 224
    classes: int = 1000


class Text(NamedTuple):
    """The sizes of an encoder."""

    layers: int = 12
    hidden: int = 768
    heads: int = 12
    wide: int = 3072
    words: int = 30522
    length: int = 128


MOBILE = Image(
    (
        *(Block(1, 16), Block(6, 24, 2, 2), Block(6, 32, 3, 2), Block(6, 64, 4, 2)),
        *(Block(6, 96, 3), Block(6, 160, 3, 2), Block(6, 320)),
    ),
    first=32,
    last=1280,
)
RESIDUAL = Image((Block(4, 256, 3), Block(4, 512, 4, 2), Block(4, 1024, 6, 2), Block(4, 2048, 3, 2)), first=64)
ENCODER = Text()
SMALL_DECODER = Sizes(30, 576, 1536, 9, 3, 49152, 256)
"""The sizes of SmolLM2-135M."""


def mobilenet_v2(net: Net, sizes: Image = MOBILE) -> onnx.ModelProto:
    """Return MobileNetV2, whose normalizations are in its convolutions."""
    x = net.input("image", np.float32, 3, sizes.size, sizes.size)
    x, taken = net.convolve(x, 3, sizes.first, 3, "Clip", strides=[2, 2]), sizes.first
    for block in sizes.blocks:
        for stride in (block.stride, *[1] * (block.times - 1)):
            wide, given = block.ratio * taken, block.channels
            y = net.convolve(x, taken, wide, 1, "Clip") if block.ratio > 1 else x
            y = net.convolve(y, wide, wide, 3, "Clip", group=wide, strides=[stride] * 2)
            if block.squeezed:
                weights = net.convolve(net("GlobalAveragePool", y), wide, block.squeezed, 1, "Relu")
                y = net("Mul", y, net.convolve(weights, block.squeezed, wide, 1, "Sigmoid"))
            y = net.convolve(y, wide, given)
            x = net("Add", x, y) if stride == 1 and taken == given else y
            taken = given
    return _classified(net, net.convolve(x, taken, sizes.last, 1, "Clip"), sizes.last, sizes.classes)


def resnet(net: Net, sizes: Image = RESIDUAL) -> onnx.ModelProto:
    """Return a residual network, with the stride of a block in its first 3 x 3 convolution.

    Blocks with a narrower middle are those of ResNet-50, the others those of ResNet-18.
    """
    x = net.input("image", np.float32, 3, sizes.size, sizes.size)
    x, taken = net.convolve(x, 3, sizes.first, 7, "Relu", strides=[2, 2]), sizes.first
    x = net("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for block in sizes.blocks:
        for stride in (block.stride, *[1] * (block.times - 1)):
            given, narrow = block.channels, block.channels // block.ratio
            if block.ratio > 1:
                y = net.convolve(x, taken, narrow, 1, "Relu")
                y = net.convolve(y, narrow, narrow, 3, "Relu", strides=[stride] * 2)
                y = net.convolve(y, narrow, given)
            else:
                y = net.convolve(x, taken, given, 3, "Relu", strides=[stride] * 2)
                y = net.convolve(y, given, given, 3)
            x = net.convolve(x, taken, given, strides=[stride] * 2) if taken != given else x
            x = net("Relu", net("Add", y, x))
            taken = given
    return _classified(net, x, taken, sizes.classes)


def _classified(net: Net, x: str, taken: int, classes: int) -> onnx.ModelProto:
    return net.finished(**{net.dense(net("Flatten", net("GlobalAveragePool", x)), taken, classes): (classes,)})


def bert_base(net: Net, sizes: Text = ENCODER) -> onnx.ModelProto:
    """Return the encoder of BERT-base with its table of words."""
    hidden, heads = sizes.hidden, sizes.heads
    ids = net.input("ids", np.int64, sizes.length)
    x = net("Gather", net.normal(sizes.words, hidden, spread=1), ids)
    x = net.layer_norm(net("Add", x, net.normal(1, sizes.length, hidden, spread=0.5)), hidden)
    for _ in range(sizes.layers):
        parts = []
        for last in ((1, 3), (3, 1), (1, 3)):
            part = net("Reshape", net.linear(x, hidden, hidden), np.array([0, 0, heads, hidden // heads]))
            parts.append(net("Transpose", part, perm=[0, 2, *last]))
        scores = net("Mul", net("MatMul", *parts[:2]), np.float32((hidden // heads) ** -0.5))
        mixed = net("MatMul", net("Softmax", scores, axis=-1), parts[2])
        mixed = net("Reshape", net("Transpose", mixed, perm=[0, 2, 1, 3]), np.array([0, 0, hidden]))
        x = net.layer_norm(net("Add", net.linear(mixed, hidden, hidden), x), hidden)
        wide = net("Gelu", net.linear(x, hidden, sizes.wide))
        x = net.layer_norm(net("Add", net.linear(wide, sizes.wide, hidden), x), hidden)
    return net.finished(**{x: (sizes.length, hidden)})


def as_int8(model: onnx.ModelProto, form: str = "QOperator") -> onnx.ModelProto:
    """Quantize: uint8 activations, int8 weights with a scale for each channel.

    Args:
      model: of floats.
      form: ``QOperator``, operators on integers; or ``QDQ``, nodes that quantize and dequantize around those on floats.
    """
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
            quant_format=quantization.QuantFormat[form],
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
    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    written: dict[str, onnx.TensorProto] = {}

    def floats(name: str) -> str:
        if name not in written:
            data, scales = (numpy_helper.to_array(tensors.pop(each)) for each in (name, f"{name}_scales"))
            numbers = (data.astype(np.float32) - 128) * scales[..., None]
            written[name] = numpy_helper.from_array(numbers.reshape(len(data), -1), f"{name}_floats")
        return written[name].name

    nodes = []
    for node in model.graph.node:
        if node.op_type == "MatMulNBits":
            transposed = f"{node.name}_transposed"
            nodes.append(helper.make_node("Transpose", [floats(node.input[1])], [transposed], transposed, perm=[1, 0]))
            nodes.append(helper.make_node("MatMul", [node.input[0], transposed], node.output, node.name))
        elif node.op_type == "GatherBlockQuantized":
            table = node.input[2].removesuffix("_scales")
            nodes.append(helper.make_node("Gather", [floats(table), node.input[1]], node.output, node.name))
        elif node.op_type != "Reshape":  # The only one is of the packed table.
            nodes.append(node)
    found = onnx.ModelProto()
    found.CopyFrom(model)
    for field, content in (("node", nodes), ("initializer", [*tensors.values(), *written.values()])):
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


_BUILT: Mapping[str, Callable[[Net], onnx.ModelProto]] = {
    "mobilenet_v2": mobilenet_v2,
    "resnet_50": resnet,
    "bert_base": bert_base,
}

_SPREAD = 0.7
"""Of channels, in powers of two."""


def _of_channels(name: str, spread: float = 0.0) -> onnx.ModelProto:
    return _BUILT[name](Net(name, spread=spread))


NETWORKS: Mapping[str, Callable[[], onnx.ModelProto]] = {
    **{name: partial(_of_channels, name) for name in _BUILT},
    **{f"{name}_trained": partial(_of_channels, name, _SPREAD) for name in _BUILT},
    "language_model": language_model_of_bytes,
}
"""By name; the language model comes with weights of 8 bits, the others as floats. Channels of those that are named so
differ as those of trained networks do."""


@cache
def made(name: str, kind: str) -> onnx.ModelProto:
    """Return a network: ``int8``, ``int8 QDQ``, ``float32`` or ``bfloat16``."""
    if kind == "bfloat16":
        return as_bfloat16(made(name, "float32"))
    if name == "language_model":
        return NETWORKS[name]() if kind == "int8" else as_floats(made(name, "int8"))
    if kind.startswith("int8"):
        return as_int8(made(name, "float32"), kind.removeprefix("int8").strip() or "QOperator")
    return NETWORKS[name]()
