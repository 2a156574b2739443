"""Convolutions, products, poolings and normalizations, against the pages' examples, NumPy and onnxruntime."""

import numpy as np
import pytest

from jaxdml import directml as dml
from tests.directml.calls import Call, check, onnx
from tests.kit import quick

pytestmark = quick

RNG = np.random.default_rng(0)


def drawn(*sizes, dtype="float32"):
    return RNG.normal(size=sizes).astype(dtype)


def test_pages_examples():
    window = {"strides": (1, 1), "window_size": (1, 3), "start_padding": (0, 0), "end_padding": (0, 0)}
    two = window | {"window_size": (2, 2)}
    old = np.float32([[[[3, 5, 7, 1], [9, 4, 2, 8]]]])
    places = np.uint32([[[[2, 2], [4, 7]]]])
    gradient = np.float32([[[[1, 2], [3, 4]]]])
    check(
        [
            Call("MAX_POOLING1", [old], [np.float32([[[[7, 7], [9, 8]]]]), places], window),
            Call(
                "AVERAGE_POOLING_GRAD",
                [gradient],
                [np.float32([[[[0.25, 0.75, 0.5], [1, 2.5, 1.5], [0.75, 1.75, 1]]]])],
                two | {"include_padding": 0},
            ),
            Call(
                "MAX_POOLING_GRAD",
                [np.float32([[[[1, 2, 3], [2, 4, 2], [5, 6, 7]]]]), np.float32([[[[1, 2], [4, 5]]]])],
                [np.float32([[[[0, 0, 0], [0, 3, 0], [0, 4, 5]]]])],
                two | {"dilations": (1, 1)},
            ),
        ]
    )


def convolution(**given):
    return {
        "mode": 1,
        "direction": 0,
        "strides": (1, 1),
        "dilations": (1, 1),
        "start_padding": (0, 0),
        "end_padding": (0, 0),
        "output_padding": (0, 0),
        "group_count": 1,
        **given,
    }


def pads(fields):
    return [*fields["start_padding"], *fields["end_padding"]]


FORWARD = [
    ((2, 4, 7, 6), (6, 4, 3, 2), {}),
    ((1, 4, 9, 8), (6, 2, 3, 3), {"group_count": 2, "strides": (2, 3), "start_padding": (1, 2), "end_padding": (0, 1)}),
    ((1, 3, 9, 8), (3, 1, 2, 3), {"group_count": 3, "dilations": (2, 3)}),
    (
        (2, 3, 9),
        (4, 3, 3),
        {"strides": (2,), "dilations": (1,), "start_padding": (1,), "end_padding": (1,), "output_padding": (0,)},
    ),
    (
        (1, 2, 4, 5, 6),
        (3, 2, 2, 2, 2),
        {
            "strides": (1, 2, 1),
            "dilations": (1,) * 3,
            "start_padding": (0,) * 3,
            "end_padding": (1,) * 3,
            "output_padding": (0,) * 3,
        },
    ),
]


@pytest.mark.parametrize("mirrored", [False, True])
def test_convolutions(mirrored):
    calls = []
    for place, (sizes, filters, given) in enumerate(FORWARD):
        fields = convolution(**given, mode=1 - mirrored)
        x, w, bias = drawn(*sizes), drawn(*filters), drawn(filters[0])
        turned = np.flip(w, tuple(range(2, w.ndim))) if mirrored else w
        (wanted,) = onnx(
            "Conv",
            x,
            turned,
            bias,
            strides=fields["strides"],
            dilations=fields["dilations"],
            pads=pads(fields),
            group=fields["group_count"],
        )
        shaped = bias.reshape(1, -1, *(1,) * (x.ndim - 2))
        calls.append(
            Call(
                "CONVOLUTION",
                [x, w, shaped if place % 2 else None],
                [wanted if place % 2 else wanted - shaped],
                fields,
                1e-5,
            )
        )
    check(calls)


def test_transposed_convolutions():
    calls = []
    for given, more in (
        ({}, (0, 0)),
        ({"group_count": 2, "strides": (2, 3), "start_padding": (1, 0), "end_padding": (0, 1)}, (1, 2)),
        ({"dilations": (2, 1)}, (0, 0)),
    ):
        fields = convolution(**given, direction=1)
        groups = fields["group_count"]
        x, w, bias = drawn(2, 4, 5, 6), drawn(4, 6 // groups, 3, 2), drawn(6)
        (wanted,) = onnx(
            "ConvTranspose",
            x,
            w,
            bias,
            strides=fields["strides"],
            dilations=fields["dilations"],
            pads=pads(fields),
            group=groups,
            output_padding=more,
        )
        calls.append(Call("CONVOLUTION", [x, w, bias.reshape(1, 6, 1, 1)], [wanted], fields, 1e-5))
        # The struct's own padding appends zeros to what there is without it.
        (least,) = onnx(
            "ConvTranspose",
            x,
            w,
            bias,
            strides=fields["strides"],
            dilations=fields["dilations"],
            pads=pads(fields),
            group=groups,
        )
        longer = np.pad(least, [(0, 0), (0, 0), (0, 2), (0, 1)])
        calls.append(
            Call("CONVOLUTION", [x, w, bias.reshape(1, 6, 1, 1)], [longer], fields | {"output_padding": (2, 1)}, 1e-5)
        )
    check(calls)


def test_products():
    calls = []
    for turned in range(4):
        a, b, c = drawn(1, 2, 3, 5), drawn(1, 2, 5, 4), drawn(1, 2, 3, 4)
        wanted = (0.5 * a.astype(float) @ b + 2.0 * c).astype(np.float32)
        a, b = (np.swapaxes(x, -1, -2).copy() if turned & bit else x for x, bit in ((a, 1), (b, 2)))
        calls.append(
            Call(
                "GEMM",
                [a, b, c],
                [wanted],
                {"trans_a": turned & 1, "trans_b": turned >> 1, "alpha": 0.5, "beta": 2.0},
                1e-5,
            )
        )
    half = [x.astype(np.float16) for x in (drawn(4, 64), drawn(64, 2))]
    wanted = (half[0].astype(float) @ half[1].astype(float)).astype(np.float16)
    calls.append(Call("GEMM", [*half, None], [wanted], {"trans_a": 0, "trans_b": 0, "alpha": 1.0, "beta": 3.0}, 1e-3))
    check(calls)


WINDOWS = [
    {"strides": (1, 1), "window_size": (2, 3), "start_padding": (0, 0), "end_padding": (0, 0), "dilations": (1, 1)},
    {"strides": (2, 3), "window_size": (3, 3), "start_padding": (1, 2), "end_padding": (1, 0), "dilations": (1, 1)},
    {"strides": (2, 1), "window_size": (2, 2), "start_padding": (1, 0), "end_padding": (0, 1), "dilations": (2, 3)},
]


@pytest.mark.parametrize("place", range(len(WINDOWS)))
def test_poolings(place):
    fields = WINDOWS[place]
    of = {
        "kernel_shape": fields["window_size"],
        "strides": fields["strides"],
        "pads": pads(fields),
        "dilations": fields["dilations"],
    }
    plain = {name: value for name, value in fields.items() if name != "dilations"}
    x = drawn(2, 3, 8, 9)
    calls = []
    for up in (0, 1):
        values, indices = onnx("MaxPool", x, outputs=2, **of, ceil_mode=up)
        calls.append(Call("MAX_POOLING2", [x], [values, indices.astype(np.uint32)], fields))
        gradient = drawn(*values.shape)
        wanted = np.zeros(x.size, np.float32)
        np.add.at(wanted, indices.reshape(-1), gradient.reshape(-1))
        calls.append(Call("MAX_POOLING_GRAD", [x, gradient], [wanted.reshape(x.shape)], fields, 1e-6))
        for counted in (0, 1 - up):
            (wanted,) = onnx("AveragePool", x, **of, ceil_mode=up, count_include_pad=counted, opset=19)
            calls.append(Call("AVERAGE_POOLING1", [x], [wanted], fields | {"include_padding": counted}, 1e-6))
        for p in (1, 2, 3):
            (wanted,) = onnx("LpPool", x, **of, ceil_mode=up, p=p, opset=18)
            calls.append(Call("LP_POOLING1", [x], [wanted], fields | {"p": p}, 1e-5))
            if set(fields["dilations"]) == {1}:
                calls.append(Call("LP_POOLING", [x], [wanted], plain | {"p": p}, 1e-5))
    if set(fields["dilations"]) == {1}:
        (wanted,) = onnx("AveragePool", x, **of, opset=19)
        calls.append(Call("AVERAGE_POOLING", [x], [wanted], plain | {"include_padding": 0}, 1e-6))
        calls.append(Call("MAX_POOLING", [x], [onnx("MaxPool", x, **of)[0]], plain))
        calls.append(Call("MAX_POOLING1", [x], [onnx("MaxPool", x, **of)[0], None], plain))
    check(calls)


def numeric(function, x, gradient, step=1e-5):
    """Return the gradient of ``sum(function(x) * gradient)`` in ``x``, by differences in float64."""
    x, result = x.astype(float), np.zeros(x.shape)
    for place in np.ndindex(*x.shape):
        moved = np.zeros(x.shape)
        moved[place] = step
        result[place] = ((function(x + moved) - function(x - moved)) * gradient).sum() / (2 * step)
    return result.astype(np.float32)


def test_gradients_of_means():
    x, gradient = drawn(1, 2, 5, 4), drawn(1, 2, 3, 2)
    fields = {"strides": (2, 2), "window_size": (3, 2), "start_padding": (1, 0), "end_padding": (1, 1)}
    calls = []
    for counted in (0, 1):
        of = {"kernel_shape": fields["window_size"], "strides": fields["strides"], "pads": pads(fields)}

        def pooled(x, counted=counted, of=of):
            return onnx("AveragePool", x.astype(np.float32), **of, count_include_pad=counted)[0].astype(float)

        wanted = numeric(pooled, x, gradient, 0.5)
        calls.append(Call("AVERAGE_POOLING_GRAD", [gradient], [wanted], fields | {"include_padding": counted}, 1e-5))
    check(calls)


def test_windows_of_nothing_and_nan():
    fields = {"strides": (1, 1), "window_size": (1, 1), "start_padding": (0, 1), "end_padding": (0, 0)}
    x = np.float32([[[[-np.inf, np.nan, 2, np.nan]]]])
    wanted = np.float32([[[[-np.inf, -np.inf, np.nan, 2, np.nan]]]])
    wide = fields | {"dilations": (1, 1)}
    first = fields | {"window_size": (1, 5), "dilations": (1, 1)}
    ints = np.int8([[[[-128, 5, 5, -128]]]])
    check(
        [
            Call("MAX_POOLING2", [x], [wanted, np.uint32([[[[0, 0, 1, 2, 3]]]])], wide),
            Call("MAX_POOLING2", [x], [np.float32([[[[np.nan]]]]), np.uint32([[[[1]]]])], first),
            Call("MAX_POOLING2", [ints], [np.int8([[[[5]]]]), np.uint32([[[[1]]]])], first),
            Call(
                "AVERAGE_POOLING",
                [np.ones((1, 1, 1, 4), np.float32)],
                [np.float32([[[[0, 1, 1, 1, 1]]]])],
                fields | {"include_padding": 0},
            ),
        ]
    )


def batch(x, scale, bias, mean, variance, epsilon):
    return scale * (x - mean) / np.sqrt(variance + epsilon) + bias


def test_normalizations():
    x, scale, bias = drawn(2, 3, 4, 5), drawn(3), drawn(3)
    mean, variance = drawn(3), np.abs(drawn(3))
    of_channels = [part.reshape(1, 3, 1, 1) for part in (mean, variance, scale, bias)]
    (wanted,) = onnx("BatchNormalization", x, scale, bias, mean, variance, epsilon=1e-3)
    (instance,) = onnx("InstanceNormalization", x, scale, bias, epsilon=1e-3)
    layer, *_ = onnx("LayerNormalization", x, drawn(3, 4, 5) * 0 + 1, axis=1, epsilon=1e-3)
    (response,) = onnx("LRN", x, size=4 - 1, alpha=0.1, beta=0.6, bias=0.9)
    (l1,), (l2,) = (onnx("LpNormalization", x, axis=2, p=p) for p in (1, 2))
    eps = {"epsilon": 1e-3}
    around = {"cross_channel": 1, "local_size": 3, "alpha": 0.1, "beta": 0.6, "bias": 0.9}
    root = x / np.sqrt((x.astype(float) ** 2).mean((2, 3), keepdims=True) + 1e-3)
    centered = x - x.astype(float).mean((1, 2), keepdims=True)
    check(
        [
            Call("BATCH_NORMALIZATION", [x, *of_channels], [wanted], {"spatial": 1, **eps}, 1e-5),
            Call(
                "MEAN_VARIANCE_NORMALIZATION",
                [x, *of_channels[2:]],
                [instance],
                {"cross_channel": 0, "normalize_variance": 1, **eps},
                1e-5,
            ),
            Call(
                "MEAN_VARIANCE_NORMALIZATION",
                [x, None, None],
                [layer],
                {"cross_channel": 1, "normalize_variance": 1, **eps},
                1e-5,
            ),
            Call(
                "MEAN_VARIANCE_NORMALIZATION1",
                [x, *of_channels[2:]],
                [instance],
                {"axes": (2, 3), "normalize_variance": 1, **eps},
                1e-5,
            ),
            Call(
                "MEAN_VARIANCE_NORMALIZATION1",
                [x, None, None],
                [centered.astype(np.float32)],
                {"axes": (1, 2), "normalize_variance": 0, **eps},
                1e-5,
            ),
            Call(
                "MEAN_VARIANCE_NORMALIZATION2",
                [x, None, None],
                [root.astype(np.float32)],
                {"axes": (2, 3), "use_mean": 0, "use_variance": 1, **eps},
                1e-5,
            ),
            Call(
                "MEAN_VARIANCE_NORMALIZATION2",
                [x, *of_channels[2:]],
                [x * of_channels[2] + of_channels[3]],
                {"axes": (2,), "use_mean": 0, "use_variance": 0, **eps},
                1e-6,
            ),
            Call("LOCAL_RESPONSE_NORMALIZATION", [x], [response], around, 1e-5),
            Call("LP_NORMALIZATION", [x], [l1], {"axis": 2, "epsilon": 0.0, "p": 1}, 1e-5),
            Call("LP_NORMALIZATION", [x], [l2], {"axis": 2, "epsilon": 0.0, "p": 2}, 1e-5),
            Call("LP_NORMALIZATION", [x * 0], [x * 0], {"axis": 2, "epsilon": 1e-5, "p": 2}, 0),
        ]
    )


def test_gradients_of_normalizations():
    x, gradient, scale = (drawn(*sizes).astype(np.float32) for sizes in ((2, 3, 2, 2), (2, 3, 2, 2), (1, 3, 1, 1)))
    mean, variance = x.mean((0, 2, 3), keepdims=True), x.var((0, 2, 3), keepdims=True)
    eps, axes = 1e-2, (0, 2, 3)
    bias, added = drawn(1, 3, 1, 1), drawn(*x.shape)

    def trained(x):
        return batch(x, scale, bias, x.mean(axes, keepdims=True), x.var(axes, keepdims=True), eps)

    of_bias = gradient.sum(axes, keepdims=True)
    of_scale = (gradient * (x - mean) / np.sqrt(variance + eps)).sum(axes, keepdims=True)
    given = numeric(lambda x: batch(x, scale, bias, mean, variance, eps), x, gradient)
    operands = [x, gradient, mean, variance, scale]
    fields, more = {"epsilon": eps}, numeric(trained, x, gradient)
    around = {"cross_channel": True, "local_size": 2, "alpha": 0.3, "beta": 0.7, "bias": 1.1}

    def response(x):
        padded = np.pad(x * x, [(0, 0), (0, 1), (0, 0), (0, 0)])
        return x / (1.1 + 0.3 / 2 * (padded[:, :-1] + padded[:, 1:])) ** 0.7

    def nearby(x):
        padded = np.pad(x * x, [(0, 0), (0, 0), (0, 1), (0, 1)])
        total = sum(padded[:, :, i : i + 2, j : j + 2] for i in (0, 1) for j in (0, 1))
        return x / (1.1 + 0.3 / 2 * total) ** 0.7

    check(
        [
            Call("BATCH_NORMALIZATION_GRAD", operands, [given, of_scale, of_bias], fields, 1e-4),
            Call("BATCH_NORMALIZATION_TRAINING_GRAD", operands, [more, of_scale, of_bias], fields, 1e-4),
            Call(
                "BATCH_NORMALIZATION_TRAINING",
                [x, scale, bias, added],
                [(trained(x) + added).astype(np.float32), mean, variance],
                fields,
                1e-5,
            ),
            Call(
                "BATCH_NORMALIZATION_TRAINING",
                [x, scale, bias, None],
                [trained(x).astype(np.float32), mean, variance],
                fields,
                1e-5,
            ),
            Call("LOCAL_RESPONSE_NORMALIZATION", [x], [response(x).astype(np.float32)], around, 1e-5),
            Call(
                "LOCAL_RESPONSE_NORMALIZATION", [x], [nearby(x).astype(np.float32)], around | {"cross_channel": 0}, 1e-5
            ),
            Call("LOCAL_RESPONSE_NORMALIZATION_GRAD", [x, gradient], [numeric(response, x, gradient)], around, 1e-4),
        ]
    )


def test_activations_are_fused_after_the_bias():
    x, w, bias = drawn(1, 2, 3, 3), drawn(2, 2, 1, 1), drawn(1, 2, 1, 1)
    relu = {"fused_activation": dml.ActivationReluOperatorDesc(input_tensor=None, output_tensor=None)}
    (plain,) = onnx("Conv", x, w, bias.reshape(-1))
    a, b = drawn(2, 3), drawn(3, 2)
    check(
        [
            Call("CONVOLUTION", [x, w, bias], [np.maximum(plain, 0)], convolution(**relu), 1e-5),
            Call(
                "GEMM",
                [a, b, None],
                [np.maximum(a @ b, 0)],
                {"trans_a": 0, "trans_b": 0, "alpha": 1.0, "beta": 0.0, **relu},
                1e-5,
            ),
        ]
    )
