"""Draw graphs whose inputs have dimensions that are left open; programs for each length, and onnxruntime, judge.

``python -m tests.onnx.random_input_lengths --graphs 500 --seed 1`` prints what differs. One program serves all lengths
of a graph, and inputs are padded with NaN. Integers have to be equal, and floats as close as those of two programs.

Kinds of arrays beside those of ``random_lengths``: "g", floats that are rounded, which nothing orders or compares, and
"q", integers of 8 bits that stand for floats.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from jaxdml.onnx import UnsupportedModelError, load
from tests.onnx import padded, random_lengths, random_pictures
from tests.onnx.random_lengths import Drawn, Graph, Size, is_row, named, put
from tests.onnx.sessions import session

OPSET = 18
TYPES = random_lengths.TYPES | {"g": np.float32, "p": np.float32, "q": np.uint8}
MICROSOFT = "com.microsoft"
SOFTMAXES = "Hardmax", "LogSoftmax", "Softmax"


def floats(g: Graph, *shape: int) -> str:
    return g.constant(g.rng.integers(-2, 3, shape), np.float32)


# What the rules of sequences and products are about


def softmax(g: Graph) -> None:
    x = g.some("fg", lambda x: x.sizes)
    kind = g.choice("Softmax", "LogSoftmax")
    g.add(Drawn(g.node(kind, x.name, axis=g.axis(x)), "g", x.sizes))


def hardmax(g: Graph) -> None:
    x = g.some("f", lambda x: x.sizes)
    g.add(Drawn(g.node("Hardmax", x.name, axis=g.axis(x)), "f", x.sizes))


EXACT = "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL1"
ROUNDED = "ReduceMean", "ReduceL2", "ReduceLogSumExp", "ReduceSumSquare", "ReduceProd", "ReduceLogSum"


def reduced(g: Graph) -> None:
    x = g.some("fg", lambda x: x.sizes)
    kind = g.choice(*EXACT, *ROUNDED)
    made = "f" if x.kind == "f" and kind in EXACT else "g"
    if g.choice(0, 0, 1):
        g.add(Drawn(g.node(kind, x.name, keepdims=0), made, ()))
        return
    d = g.axis(x)
    keeps = g.choice(0, 1)
    name = g.node(kind, x.name, g.constant([d]), keepdims=keeps)
    g.add(Drawn(name, made, put(x.sizes, d, *([1] if keeps else []))))


def extreme(g: Graph) -> None:
    x = g.some("f", lambda x: len(x.sizes) > 1)
    d = g.axis(x)
    options = {"axis": d, "keepdims": 0, "select_last_index": g.choice(0, 1)}
    g.add(Drawn(g.node(g.choice("ArgMax", "ArgMin"), x.name, **options), "i", put(x.sizes, d), (x.sizes[d],)))


def einsum(g: Graph) -> None:
    x = g.some("f", lambda x: len(x.sizes) == 2)
    y = g.some("f", lambda y: len(y.sizes) == 2 and y.sizes[0] == x.sizes[1])
    (a, b), (_, c) = x.sizes, y.sizes
    equation, sizes = g.choice(
        ("ab,bc->ac", (a, c)), ("ab,bc->cab", (c, a, b)), ("ab,bc->b", (b,)), ("ab,bc", (a, c)), ("ab,bc->", ())
    )
    made = g.node("Einsum", x.name, y.name, equation=equation)
    g.add(Drawn(g.node("Clip", made, *(g.constant(c, np.float32) for c in (-9, 9))), "f", sizes))


def gemm(g: Graph) -> None:
    x = g.some("f", lambda x: len(x.sizes) == 2)
    turned = g.choice(0, 1)
    inside, rows = x.sizes[:: 1 if turned else -1]
    y = g.some("f", lambda y: len(y.sizes) == 2 and y.sizes[0] == inside)
    made = g.node("Gemm", x.name, y.name, transA=turned, alpha=0.5)
    g.add(Drawn(g.node("Clip", made, *(g.constant(c, np.float32) for c in (-9, 9))), "f", (rows, y.sizes[1])))


def recurrent(g: Graph) -> None:
    """Run a network over the first dimension; the second one is the batch."""
    x = g.some("fg", lambda x: len(x.sizes) == 2)
    kind, gates = g.choice(("LSTM", 4), ("GRU", 3), ("RNN", 1))
    direction = g.choice("forward", "reverse", "bidirectional")
    count = 2 if direction == "bidirectional" else 1
    weights = [floats(g, count, gates * 2, n) for n in (1, 2)]
    series = g.node("Unsqueeze", x.name, g.constant([2]))
    outputs, last = g.node(kind, series, *weights, hidden_size=2, direction=direction, outputs=2)
    time, batch = x.sizes
    g.add(Drawn(outputs, "g", (time, count, batch, 2)), Drawn(last, "g", (count, batch, 2)))


def attention(g: Graph) -> None:
    x = g.some("fg", lambda x: len(x.sizes) == 2 and x.sizes[1] == 4)
    y = g.some("fg", lambda y: len(y.sizes) == 2 and y.sizes[1] == 4)
    q, k = (g.node("Unsqueeze", each.name, g.constant([0])) for each in (x, y))
    options = {"num_heads": 2, "domain": MICROSOFT, "unidirectional": g.choice(0, 1) if x is y else 0}
    made = g.node("MultiHeadAttention", q, k, k, **options)
    g.add(Drawn(g.node("Squeeze", made, g.constant([0])), "g", x.sizes))


def normalized(g: Graph) -> None:
    x = g.some("fg", lambda x: x.sizes and x.sizes[-1] == 4)
    made = g.node("LayerNormalization", x.name, floats(g, 4), axis=-1)
    g.add(Drawn(made, "g", x.sizes))


def over_space(g: Graph) -> None:
    """Move windows along the second dimension of an array of four channels."""
    x = g.some("fg", lambda x: len(x.sizes) == 2 and x.sizes[0] == 4 and named(x.sizes[1]))
    image = g.node("Unsqueeze", x.name, g.constant([0]))
    stride = g.choice(1, 2)
    options = {"kernel_shape": [3], "strides": [stride], "pads": [1, 1]}
    kind = g.choice("Conv", "MaxPool", "AveragePool")
    given = [floats(g, 4, 4, 3)] if kind == "Conv" else []
    made = g.node("Squeeze", g.node(kind, image, *given, **options), g.constant([0]))
    size = x.sizes[1] if stride == 1 else f"half({x.sizes[1]})"
    g.add(Drawn(made, x.kind if kind == "MaxPool" else "g", (4, size)))


# Integers


def quantized(g: Graph) -> None:
    x = g.some("f")
    scale, zero = g.constant(0.5, np.float32), g.constant(120, np.uint8)
    g.add(Drawn(g.node("QuantizeLinear", x.name, scale, zero), "q", x.sizes))


def by_range(g: Graph) -> None:
    x = g.some("f", lambda x: x.sizes)
    y, scale, _ = g.node("DynamicQuantizeLinear", x.name, outputs=3)
    g.add(Drawn(y, "q", x.sizes), Drawn(scale, "g", ()))


def dequantized(g: Graph) -> None:
    x = g.some("q")
    scale, zero = g.constant(g.choice(0.3, 0.5), np.float32), g.constant(g.choice(120, 99), np.uint8)
    g.add(Drawn(g.node("DequantizeLinear", x.name, scale, zero), "d", x.sizes))


def requantized(g: Graph) -> None:
    """Compute with what stands for floats, and round once."""
    x = g.some("d")
    ways: list[Callable[[], tuple[str, tuple[Size, ...]]]] = []
    if x.sizes:
        d = g.axis(x)
        ways += [
            lambda: (g.node("ReduceMax", x.name, g.constant([d]), keepdims=0), put(x.sizes, d)),
            lambda: (g.node("Softmax", x.name, axis=d), x.sizes),
            lambda: (g.node("Sigmoid", x.name), x.sizes),
            lambda: (g.node("Concat", x.name, x.name, axis=d), put(x.sizes, d, twice(x.sizes[d]))),
        ]
    others = [y for y in g.values if y.kind == "d" and len(y.sizes) == len(x.sizes) == 2 and y.sizes[0] == x.sizes[1]]
    ways += [lambda y=y: (g.node("MatMul", x.name, y.name), (x.sizes[0], y.sizes[1])) for y in others[-2:]]
    ways += [lambda: (g.node("Add", x.name, x.name), x.sizes)]
    name, sizes = g.choice(*ways)()
    scale, zero = g.constant(g.choice(0.2, 0.7, 0.004), np.float32), g.constant(g.choice(0, 120), np.uint8)
    g.add(Drawn(g.node("QuantizeLinear", name, scale, zero), "q", sizes))


def twice(size: Size) -> Size:
    return f"{size}+{size}" if named(size) else 2 * size


def as_bytes(g: Graph, x: Drawn) -> tuple[str, str, str]:
    """Return integers that stand for an array, their scale and their zero point."""
    scale, zero = g.constant(0.5, np.float32), g.constant(g.choice(0, 120, 7), np.uint8)
    return g.node("QuantizeLinear", x.name, scale, zero), scale, zero


def integer_product(g: Graph) -> None:
    x = g.some("f", lambda x: len(x.sizes) == 2)
    y = g.some("f", lambda y: len(y.sizes) == 2 and y.sizes[0] == x.sizes[1])
    (a, *of_a), (b, *of_b) = as_bytes(g, x), as_bytes(g, y)
    if g.choice(0, 1):
        out = g.constant(0.7, np.float32), g.constant(99, np.uint8)
        g.add(Drawn(g.node("QLinearMatMul", a, *of_a, b, *of_b, *out), "q", (x.sizes[0], y.sizes[1])))
        return
    made = g.node("MatMulInteger", a, b, of_a[1], of_b[1])
    g.add(Drawn(g.node("Cast", made, to=TensorProto.INT64), "i", (x.sizes[0], y.sizes[1])))


# Movement


def tiled(g: Graph) -> None:
    x = g.some("fgiq", lambda x: len(x.sizes) == 2 and not x.into)
    d = g.axis(x)
    if g.choice(0, 1):
        made = g.node("Tile", x.name, g.constant([2 if axis == d else 1 for axis in range(2)]))
        g.add(replace(x, name=made, sizes=put(x.sizes, d, twice(x.sizes[d]))))
        return
    flat = g.some("fg", lambda x: len(x.sizes) == 1)
    size = g.any_size()
    row = g.node("Unsqueeze", flat.name, g.constant([0]))
    made = g.node("Tile", row, g.node("Concat", g.size(size), g.constant([1]), axis=0))
    g.add(replace(flat, name=made, sizes=(size, *flat.sizes), into=()))


def split(g: Graph) -> None:
    x = g.some("fgi", lambda x: any(map(named, x.sizes)) and not x.into)
    d = g.axis(x, named)
    whole = g.node("Concat", x.name, x.name, axis=d)
    first, second = g.node("Split", whole, axis=d, num_outputs=2, outputs=2)
    g.add(replace(x, name=first), replace(x, name=second))


def cut(g: Graph) -> None:
    """Slice by numbers, from either end and in steps."""
    x = g.some("fgq", lambda x: x.sizes)
    d = g.axis(x)
    first, end = (int(n) for n in g.rng.integers(-4, 5, 2))
    step = g.choice(1, 1, 2, -1, -2)
    made = g.node("Slice", x.name, *(g.constant([n]) for n in (first, end, d, step)))
    g.add(replace(x, name=made, sizes=put(x.sizes, d, f"{first}:{end}:{step}({x.sizes[d]})")))


def triangle(g: Graph) -> None:
    x = g.some("f", lambda x: len(x.sizes) == 2)
    g.add(replace(x, name=g.node("Trilu", x.name, g.constant(g.choice(-1, 0, 2)), upper=g.choice(0, 1))))


def diagonal(g: Graph) -> None:
    x = g.some("f", lambda x: len(x.sizes) == 2)
    g.add(replace(x, name=g.node("EyeLike", x.name, k=g.choice(-1, 0, 1))))


def scalars(g: Graph) -> None:
    """Compute a float of a size, and multiply by it."""
    x, size = g.some("fg"), g.any_size()
    number = g.node("Cast", g.size(size), to=TensorProto.FLOAT)
    way = g.choice("Sqrt", "Floor", "Reciprocal")
    one = g.node(way, g.node("Mul", number, g.constant(0.3, np.float32)))
    made = g.node("Mul", x.name, g.node("Squeeze", one, g.constant([0])))
    g.add(Drawn(made, "g", x.sizes))


def sizes(g: Graph) -> None:
    """Make an array of a size that is computed of another."""
    size = g.any_size()
    kind, number = g.choice(("Add", 3), ("Mul", 2), ("Div", 2), ("Mod", 3), ("Max", 5), ("Min", 5))
    made = g.node(kind, g.size(size), g.constant([number]))
    name = f"{kind}({size},{number})"
    if g.choice(0, 1):
        g.add(Drawn(g.node("Expand", g.constant(2, np.float32), made), "f", (name,)))
        return
    end, step = g.node("Squeeze", made, g.constant([0])), g.choice(1, 2, 3)
    numbers = g.node("Range", g.constant(0), end, g.constant(step))
    g.add(Drawn(numbers, "i", (name if step == 1 else f"{name}/{step}",)))


def one_hot(g: Graph) -> None:
    at = g.some("i", is_row)
    values = g.constant([0, 1], np.float32)
    made = g.node("OneHot", at.name, g.size(at.into[0]), values, axis=-1)
    g.add(Drawn(made, "f", (*at.sizes, *at.into)))


def scanned(g: Graph) -> None:
    """Add up slices along a dimension, and stack the sums."""
    x = g.some("f", lambda x: len(x.sizes) == 2)
    d = g.axis(x)
    start = g.node("ReduceMin", x.name, g.constant([d]), keepdims=0)
    before, slices, after, output = (g.name() for _ in range(4))
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [None])  # noqa: E731
    nodes = [helper.make_node("Add", [before, slices], [after]), helper.make_node("Neg", [after], [output])]
    body = helper.make_graph(nodes, "body", [value(before), value(slices)], [value(after), value(output)])
    options = {"scan_input_axes": [d], "scan_input_directions": [g.choice(0, 1)], "scan_output_axes": [d]}
    last, stacked = g.node("Scan", start, x.name, num_scan_inputs=1, body=body, outputs=2, **options)
    g.add(Drawn(last, "f", put(x.sizes, d)), Drawn(stacked, "f", x.sizes))


def sequence(g: Graph) -> None:
    x = g.some("fg", lambda x: x.sizes)
    both = g.node("SequenceConstruct", x.name, x.name)
    g.add(replace(x, name=g.node("SequenceAt", both, g.constant(g.choice(0, -1)))))


def as_it_is(g: Graph) -> None:
    x = g.some("f", lambda x: x.sizes)
    way = g.choice("Identity", "Dropout", "CastLike", "PRelu", "Size", "ConstantOfShape")
    if way == "Size":
        g.add(Drawn(g.node(way, x.name), "i", ()))
        return
    given = g.node("Shape", x.name) if way == "ConstantOfShape" else x.name
    others = [g.constant(2, np.float32)] if way in ("CastLike", "PRelu") else []
    g.add(Drawn(g.node(way, given, *others), "f", x.sizes))


def unary(g: Graph) -> None:
    x = g.some("fg")
    kind = g.choice("Exp", "Tanh", "Sigmoid", "Log", "Neg", "Abs")
    g.add(Drawn(g.node(kind, x.name), x.kind if kind in ("Neg", "Abs") else "g", x.sizes))


SHARED = (
    *random_lengths.INDEXING,
    *(random_lengths.mask, random_lengths.top_k, random_lengths.numbered, random_lengths.from_the_end),
    *(random_lengths.sliced, random_lengths.elementwise, random_lengths.where, random_lengths.concat),
    *(random_lengths.cumulative, random_lengths.matmul, random_lengths.moved, random_lengths.expanded),
    *(random_lengths.branches, random_lengths.loop),
)
PRODUCTS = einsum, gemm, recurrent, attention, normalized, over_space, softmax, hardmax, reduced, extreme
INTEGERS = quantized, by_range, dequantized, dequantized, requantized, requantized, integer_product
MOVEMENT = tiled, split, cut, triangle, diagonal, scalars, sizes, one_hot, scanned, sequence, unary, as_it_is


@dataclass(frozen=True)
class Model:
    """A drawn model.

    Attributes:
      proto: the model.
      capacities: of its open dimensions.
      calls: inputs by name.
    """

    proto: onnx.ModelProto
    capacities: dict[str, list[int]]
    calls: list[dict[str, np.ndarray]]


INPUTS = {"x": ("N", 4), "y": (4, "N"), "s": ("M", "N"), "t": ("N",), "u": ("M", 4)}


def draw(seed: int, number: int) -> Model:
    """Return a model, and what to call it with."""
    rng = np.random.default_rng([seed, number])
    of_pictures = number % 3 == 2
    inputs = random_pictures.INPUTS if of_pictures else INPUTS
    g = Graph(rng, [Drawn(name, "p" if of_pictures else "f", shape) for name, shape in inputs.items()])
    if not of_pictures:
        random_lengths.numbered(g)
    for _ in range(rng.integers(3, 10)):
        families = (random_pictures.PICTURES,) if of_pictures else (SHARED, PRODUCTS, INTEGERS, MOVEMENT)
        step = g.choice(*g.choice(*families))
        before = len(g.nodes), len(g.values)
        try:
            step(g)
        except LookupError:  # No array fits.
            del g.nodes[before[0] :], g.values[before[1] :]
    read = {name for node in g.nodes for name in node.input}
    left = [each for each in g.values if each.name not in read and each.name not in inputs]
    types = {kind: helper.np_dtype_to_tensor_dtype(np.dtype(TYPES.get(kind, np.float32))) for kind in "fgdibpq"}
    graph = helper.make_graph(
        g.nodes,
        "drawn",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(each.name, types[each.kind], [None] * len(each.sizes)) for each in left[-4:]],
        [numpy_helper.from_array(value, name) for name, value in g.constants.items()],
    )
    versions = [helper.make_opsetid("", OPSET), helper.make_opsetid(MICROSOFT, 1)]
    first, second = sorted(
        {size for shape in inputs.values() for size in shape if named(size)}, reverse=not of_pictures
    )
    most = {first: int(rng.choice([4, 16, 70])), second: int(rng.choice([3, 9, 40]))}
    sizes = [{name: int(rng.integers(2, limit + 1)) for name, limit in most.items()} for _ in range(2)]
    calls = [
        {name: rng.integers(-3, 4, [own.get(n, n) for n in shape]).astype(np.float32) for name, shape in inputs.items()}
        for own in [*sizes, {first: 1, second: most[second]}]
    ]
    lengths = {name: [limit] for name, limit in most.items()}
    return Model(helper.make_model(graph, opset_imports=versions, ir_version=8), lengths, calls)


def problems(drawn: Model, seen: Counter[str]) -> list[str]:
    """Return what differs from programs for each length and from onnxruntime; count what came of the calls."""
    if not drawn.proto.graph.output:
        return []
    model, exact = load(drawn.proto, lengths=drawn.capacities), load(drawn.proto, lengths="exact")
    rounds = any("Quant" in node.op_type for node in drawn.proto.graph.node)
    kinds = {node.op_type for node in drawn.proto.graph.node}
    # Of an empty array onnxruntime divides by zero in these, and the process ends.
    crashes = not kinds.isdisjoint(("Slice", "Mod", "Div")) and not kinds.isdisjoint(SOFTMAXES)
    try:
        wanted_by = None if rounds or crashes else session(drawn.proto)
    except Exception:  # What onnxruntime knows of the sizes does not fit.
        wanted_by = None
    found: list[str] = []
    for given in drawn.calls:
        try:
            wanted = [np.asarray(each) for each in exact(**given)]
        except Exception:
            seen["an error of the exact program"] += 1
            continue
        try:
            with padded.with_nan():
                got = [np.asarray(each) for each in model(**given)]
        except UnsupportedModelError:  # Lengths are named for what a node cannot mask.
            break
        except Exception as error:
            found.append(f"raised {type(error).__name__} {error}")
            continue
        found += compared("the exact program", got, wanted)
        seen["calls"] += 1
        if wanted_by is not None:
            try:
                judged = list(wanted_by(**given).values())
            except Exception:
                continue
            found += compared("onnxruntime", got, judged)
            seen["calls that onnxruntime judges"] += 1
    for reason in model._calls.programs.in_the_way.values():
        seen["in the way: " + reason.split("'")[0]] += 1
    seen["graphs of one program"] += not model._calls.programs.in_the_way
    return found


def compared(judge: str, got: list[Any], wanted: list[Any]) -> list[str]:
    found = []
    for place, (one, other) in enumerate(zip(got, wanted, strict=True)):
        scale = np.abs(other[np.isfinite(other)]).max(initial=1) if other.dtype.kind == "f" else 0
        if one.shape != other.shape:
            found.append(f"{judge}: output {place} has shape {one.shape} and not {other.shape}")
        elif not np.allclose(one, other, 1e-4 if scale else 0, 1e-5 * scale, equal_nan=True):
            found.append(f"{judge}: output {place} is\n{one}\nand not\n{other}")
    return found


if __name__ == "__main__":
    random_lengths.hunt(__doc__, draw, problems)
