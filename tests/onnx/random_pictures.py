"""What ``random_input_lengths`` draws of pictures, which are kind "p": two images of four channels, of any size."""

from typing import Any

import numpy as np

from tests.onnx.random_lengths import Drawn, Graph, put


def picture(g: Graph) -> Drawn:
    return g.some("p")


def filters(g: Graph, *shape: int) -> str:
    return g.constant(g.rng.integers(-2, 3, shape) / 4, np.float32)


def window(g: Graph, **others: Any) -> dict[str, Any]:
    """Return where windows lie."""
    options = {"kernel_shape": g.choice([3, 3], [2, 3], [1, 1], [4, 2]), "strides": g.choice([1, 1], [2, 2], [1, 3])}
    automatic = g.choice("NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")
    if automatic != "NOTSET":
        return {**options, "auto_pad": automatic}
    pads = g.choice([1, 1, 1, 1], [0, 0, 0, 0], [0, 1, 1, 2], [1, 0, 0, 1])
    return {**options, "pads": pads, "dilations": g.choice([1, 1], [1, 1], [2, 1]), **others}


def of_windows(g: Graph, x: Drawn, name: str, options: dict[str, Any]) -> Drawn:
    """Return what windows make of a picture, of the same sizes where that is usual."""
    same = "SAME" in options.get("auto_pad", "") and options["strides"] == [1, 1]
    usual = [options.get(each) for each in ("kernel_shape", "pads", "strides", "dilations")]
    keeps = same or usual == [[3, 3], [1, 1, 1, 1], [1, 1], [1, 1]]
    return Drawn(name, "p", x.sizes if keeps else (2, 4, f"{name}h", f"{name}w"))


def convolved(g: Graph) -> None:
    x = picture(g)
    options, group = window(g), g.choice(1, 2, 4)
    w = filters(g, 4, 4 // group, *options["kernel_shape"])
    g.add(of_windows(g, x, g.node("Conv", x.name, w, group=group, **options), options))


def spread(g: Graph) -> None:
    x = picture(g)
    options = {"strides": g.choice([2, 2], [1, 2]), "pads": g.choice([0, 0, 0, 0], [1, 0, 1, 1])}
    options |= {"output_padding": [g.choice(0, 1), 0]} if options["strides"][0] == 2 else {}
    made = g.node("ConvTranspose", x.name, filters(g, 4, 4, *g.choice([2, 2], [3, 4])), **options)
    g.add(Drawn(made, "p", (2, 4, f"{made}h", f"{made}w")))


def pooled(g: Graph) -> None:
    x = picture(g)
    kind = g.choice("MaxPool", "AveragePool", "AveragePool", "LpPool")
    options = window(g, ceil_mode=g.choice(0, 1))
    if kind == "LpPool" and "auto_pad" in options:  # onnxruntime reads what is beside the input.
        raise LookupError
    options |= {"count_include_pad": g.choice(0, 1)} if kind == "AveragePool" else {}
    g.add(of_windows(g, x, g.node(kind, x.name, **options), options))


def over_all(g: Graph) -> None:
    x = picture(g)
    made = g.node(g.choice("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"), x.name)
    g.add(Drawn(g.node("Flatten", made), "g", (2, 4)), Drawn(g.node("Mul", x.name, made), "p", x.sizes))


def normalized(g: Graph) -> None:
    x = picture(g)
    four = [filters(g, 4) for _ in range(3)]
    kinds = [
        lambda: g.node("InstanceNormalization", x.name, *four[:2]),
        lambda: g.node("BatchNormalization", x.name, *four, g.constant([1, 2, 0.5, 3], np.float32)),
        lambda: g.node("LRN", x.name, size=3),
        lambda: g.node("MeanVarianceNormalization", x.name),
        lambda: g.node("LpNormalization", x.name, axis=g.choice(2, 3)),
        lambda: g.node("LayerNormalization", x.name, g.constant(2, np.float32), axis=g.choice(1, 2, 3)),
    ]
    g.add(Drawn(g.choice(*kinds)(), "p", x.sizes))


COORDINATES = "half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"
WAYS = {"mode": "nearest"}, {"mode": "linear"}, {"mode": "cubic"}, {"mode": "nearest", "nearest_mode": "floor"}


def resized(g: Graph) -> None:
    x = picture(g)
    options = {"coordinate_transformation_mode": g.choice(*COORDINATES), **g.choice(*WAYS)}
    if g.choice(0, 1):
        # onnxruntime places corners by the sizes that are rounded.
        whole = options["coordinate_transformation_mode"] == "align_corners"
        scales = g.choice([2, 2], [1, 3], *([] if whole else ([0.5, 2], [1.5, 1], [3, 0.7])))
        made = g.node("Resize", x.name, "", g.constant([1, 1, *scales], np.float32), **options)
        g.add(Drawn(made, "p", (2, 4, f"{made}h", f"{made}w")))
        return
    y = picture(g)
    wanted = g.node("Concat", g.constant([2, 4]), g.node("Shape", y.name, start=2), axis=0)
    g.add(Drawn(g.node("Resize", x.name, "", "", wanted, **options), "p", y.sizes))


def framed(g: Graph) -> None:
    x = picture(g)
    mode = g.choice("constant", "edge", "reflect")
    edges = g.choice([1, 0, 2, 1], [0, 2, 0, 0], [0, 0, 1, 3], *([[-1, 0, 0, -1]] if mode == "constant" else []))
    pads = g.constant([0, 0, *edges[:2], 0, 0, *edges[2:]])
    made = g.node("Pad", x.name, pads, *([g.constant(3, np.float32)] if mode == "constant" else []), mode=mode)
    g.add(Drawn(made, "p", (2, 4, f"{made}h", f"{made}w")))


def blocks(g: Graph) -> None:
    x = picture(g)
    mode = g.choice("DCR", "CRD")
    larger = g.node("DepthToSpace", x.name, blocksize=2, mode=mode)
    g.add(Drawn(g.node("SpaceToDepth", larger, blocksize=2), "p", x.sizes))


def beside(g: Graph) -> None:
    x = picture(g)
    d = g.choice(2, 3)
    y = g.some("p", lambda y: put(y.sizes, d) == put(x.sizes, d))
    g.add(Drawn(g.node("Concat", x.name, y.name, axis=d), "p", put(x.sizes, d, f"{x.sizes[d]}+{y.sizes[d]}")))


def added(g: Graph) -> None:
    x = picture(g)
    y = g.some("p", lambda y: y.sizes == x.sizes)
    g.add(Drawn(g.node(g.choice("Add", "Max"), x.name, g.node("Relu", y.name)), "p", x.sizes))


def stacked(g: Graph) -> None:
    """Put channels beside one another, and mix them."""
    x = picture(g)
    y = g.some("p", lambda y: y.sizes == x.sizes)
    both = g.node("Concat", x.name, y.name, axis=1)
    g.add(Drawn(g.node("Conv", both, filters(g, 4, 8, 3, 3), pads=[1, 1, 1, 1]), "p", x.sizes))


def requantized(g: Graph) -> None:
    """Compute with integers that stand for pictures."""
    x = picture(g)
    scale, zero = g.constant(0.25, np.float32), g.constant(g.choice(100, 128), np.uint8)

    def integers(name: str) -> str:
        return g.node("DequantizeLinear", g.node("QuantizeLinear", name, scale, zero), scale, zero)

    options = window(g)
    kind = g.choice("Conv", "MaxPool", "AveragePool", "GlobalAveragePool", "Concat")
    image = integers(x.name)
    if kind == "GlobalAveragePool":
        mean = integers(g.node(kind, image))
        g.add(Drawn(integers(g.node("Mul", image, mean)), "p", x.sizes))
    elif kind == "Concat":
        other = g.node("QuantizeLinear", x.name, scale, zero)
        other = g.node("DequantizeLinear", other, g.constant(0.5, np.float32), zero)
        made = integers(g.node(kind, image, other, axis=2))
        g.add(Drawn(made, "p", put(x.sizes, 2, f"{x.sizes[2]}+{x.sizes[2]}")))
    else:
        given = []
        if kind == "Conv":
            steps = g.constant(g.rng.integers(-3, 4, (4, 4, *options["kernel_shape"])), np.int8)
            given = [g.node("DequantizeLinear", steps, g.constant(0.125, np.float32))]
        g.add(of_windows(g, x, integers(g.node(kind, image, *given, **options)), options))


INPUTS = {"p": (2, 4, "H", "W"), "r": (2, 4, "H", "W")}
PICTURES = convolved, pooled, resized, added, requantized, *(convolved, pooled, resized, added, requantized)
PICTURES += spread, over_all, normalized, framed, blocks, beside, stacked
