"""Sizes of what moves a window over images: layers of networks."""

import itertools
from collections.abc import Callable, Iterator

from jaxdml._cases import convolution_integer, quantized_linear_average_pooling, quantized_linear_convolution
from jaxdml._cases._layers import Layer
from jaxdml._cases.records import NamedCall

_BATCHES = 1, 32

_RESNET, _MOBILENET = "a layer of ResNet-50", "a depthwise layer of MobileNetV2"

_LAYERS = (
    Layer(_RESNET, 64, 56, 64, 3),
    Layer(_RESNET, 256, 14, 256, 3),
    Layer(_RESNET, 256, 56, 64, 1),
    Layer("the first layer of ResNet-50", 3, 224, 64, 7, stride=2),
    Layer(_MOBILENET, 32, 112, 32, 3, groups=32),
    Layer(_MOBILENET, 192, 56, 192, 3, stride=2, groups=192),
    Layer(_MOBILENET, 384, 14, 384, 3, groups=384),
)


def _convolutions(call: Callable[..., NamedCall]) -> Iterator[NamedCall]:
    for layer, batch in itertools.product(_LAYERS, _BATCHES):
        yield call("models", layer, batch, "uint8", "int8")


def _quantized_linear_average_pooling() -> Iterator[NamedCall]:
    call = quantized_linear_average_pooling.call
    for n, dtype in itertools.product(_BATCHES, ("uint8", "int8")):
        origin = f"global pooling of ResNet-50, batch {n}"
        yield call("models", (n, 2048, 7, 7), dtype, origin=origin, window=7, strides=1)
        if dtype == "uint8":
            origin = f"the poolings of DenseNet-121, batch {n}"
            yield call("models", (n, 128, 56, 56), dtype, origin=origin, window=2, strides=2)
            origin = f"the branches of Inception v3, batch {n}"
            yield call("models", (n, 288, 35, 35), dtype, origin=origin, window=3, strides=1)
    yield call("grid", (8, 64, 64, 64), "int8", origin="the grid", window=3, strides=2)
    limited = "what a GPU's memory limits"
    yield call("accelerators", (32, 256, 56, 56), "uint8", origin=limited, window=2, strides=2)


SIZES = {
    "convolution_integer": tuple(_convolutions(convolution_integer.call)),
    "quantized_linear_convolution": tuple(_convolutions(quantized_linear_convolution.call)),
    "quantized_linear_average_pooling": tuple(_quantized_linear_average_pooling()),
}
