"""Draw graphs whose shapes depend on values, with operators that index one array by another; onnxruntime judges.

``python -m tests.onnx.random_lengths --graphs 500 --seed 1`` prints what differs. Each graph is called with masks that
keep nothing, one row, some and all, and compiled once more with bounds.

The sizes of a drawn array are numbers, or names: arrays with one name have one length if the model keeps its promises.
"""

import argparse
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import Any

import jax
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from jaxdml.onnx import load
from tests.kit.compiling import quickly
from tests.onnx.sessions import session

MASKS = "none", "one", "some", "all"
BOUND = 40
OPSET = 18

BETWEEN_RELEASES = 25
"""So many graphs are compiled before all programs are released."""

Size = int | str
Model = tuple[onnx.ModelProto, list[list[np.ndarray]]]


@dataclass(frozen=True)
class Drawn:
    """An array of a graph.

    Attributes:
      name: of the value.
      kind: "f", "i" or "b": float, int64 or bool.
      sizes: numbers and names.
      into: the sizes of the dimensions that its elements, or its rows, are indices into.
      distinct: whether no two indices are equal.
    """

    name: str
    kind: str
    sizes: tuple[Size, ...]
    into: tuple[Size, ...] = ()
    distinct: bool = False


@dataclass
class Graph:
    """A graph while it is drawn."""

    rng: np.random.Generator
    values: list[Drawn]
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    sizes: dict[Size, str] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=count)

    def name(self) -> str:
        return f"v{next(self.numbers)}"

    def constant(self, value: Any, dtype: Any = np.int64) -> str:
        name = f"c{next(self.numbers)}"
        self.constants[name] = np.asarray(value, dtype)
        return name

    def node(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        names = [self.name() for _ in range(outputs)]
        self.nodes.append(helper.make_node(kind, inputs, names, **attributes))
        return names[0] if outputs == 1 else names

    def add(self, *drawn: Drawn) -> None:
        self.values.extend(drawn)

    def some(self, kind: str = "f", fits: Callable[[Drawn], Any] = lambda x: True) -> Drawn:
        """Draw one of the arrays, rather one of the last."""
        found = [each for each in self.values if each.kind in kind and fits(each)]
        if not found:
            raise LookupError
        weights = np.arange(1, len(found) + 1.0) ** 2
        return found[self.rng.choice(len(found), p=weights / weights.sum())]

    def axis(self, x: Drawn, fits: Callable[[Size], Any] = lambda size: True) -> int:
        found = [d for d, size in enumerate(x.sizes) if fits(size)]
        if not found:
            raise LookupError
        return int(self.rng.choice(found))

    def size(self, size: Size) -> str:
        """Return an array of one element that has a size in it."""
        if isinstance(size, int):
            return self.constant([size])
        x = next(each for each in self.values if size in each.sizes)
        d = x.sizes.index(size)
        return self.node("Shape", x.name, start=d, end=d + 1)

    def any_size(self) -> Size:
        # A set of names has another order in each process.
        return self.choice(*dict.fromkeys(size for x in self.values for size in x.sizes))

    def shape(self, sizes: tuple[Size, ...]) -> str:
        return self.node("Concat", *map(self.size, sizes), axis=0)

    def choice(self, *options: Any) -> Any:
        return options[self.rng.integers(len(options))]


def named(size: Size) -> bool:
    return isinstance(size, str)


def has_length(x: Drawn) -> bool:
    return any(map(named, x.sizes))


def is_row(x: Drawn) -> bool:
    return x.kind == "i" and len(x.sizes) == len(x.into) == 1


def put(sizes: tuple[Size, ...], d: int, *others: Size) -> tuple[Size, ...]:
    return (*sizes[:d], *others, *sizes[d + 1 :])


# What selects


def mask(g: Graph) -> None:
    x = g.some("fi")
    zero = g.constant(g.choice(0, 0, 1), np.float32 if x.kind == "f" else np.int64)
    g.add(Drawn(g.node(g.choice("Greater", "Less"), x.name, zero), "b", x.sizes))


def non_zero(g: Graph) -> None:
    m = g.some("b", lambda x: x.sizes)
    length = f"#{m.name}"
    at = g.node("NonZero", m.name)
    g.add(Drawn(g.node("Transpose", at), "i", (length, len(m.sizes)), m.sizes, True))
    if len(m.sizes) == 1:
        row = g.choice(
            lambda: g.node("Squeeze", at, g.constant([0])),
            lambda: g.node("Gather", at, g.constant(0)),
            lambda: g.node("Reshape", at, g.constant([-1])),
        )()
        g.add(Drawn(row, "i", (length,), m.sizes, True))


def compress(g: Graph) -> None:
    m = g.some("b", lambda x: len(x.sizes) == 1)
    x = g.some("fi", lambda x: m.sizes[0] in x.sizes)
    d = x.sizes.index(m.sizes[0])
    made = replace(x, name=g.node("Compress", x.name, m.name, axis=d), sizes=put(x.sizes, d, f"#{m.name}"))
    g.add(made)


def unique(g: Graph) -> None:
    x = g.some("f", lambda x: len(x.sizes) == 1)
    values, first, inverse, _ = g.node("Unique", x.name, outputs=4)
    length = f"u{values}"
    g.add(
        Drawn(values, "f", (length,)),
        Drawn(first, "i", (length,), x.sizes, True),
        Drawn(inverse, "i", x.sizes, (length,)),
    )


def top_k(g: Graph) -> None:
    x = g.some("f", lambda x: x.sizes)
    d = g.axis(x)
    least = g.choice(1, 2, 5)
    size, k = x.sizes[d], g.size(x.sizes[d])
    if g.choice(0, 1):
        k = g.node("Min", k, g.constant([least]))
        size = f"min({size},{least})" if named(size) else min(size, least)
    values, places = g.node("TopK", x.name, k, axis=d, largest=g.choice(0, 1), outputs=2)
    g.add(Drawn(values, "f", put(x.sizes, d, size)))
    if len(x.sizes) == 1:
        g.add(Drawn(places, "i", (size,), x.sizes, True))


def arg(g: Graph) -> None:
    x = g.some("f", lambda x: len(x.sizes) > 1)
    d = g.axis(x)
    made = g.node(g.choice("ArgMax", "ArgMin"), x.name, axis=d, keepdims=0)
    g.add(Drawn(made, "i", put(x.sizes, d), (x.sizes[d],)))


def numbered(g: Graph) -> None:
    size = g.any_size()
    end = g.node("Squeeze", g.size(size), g.constant([0]))
    g.add(Drawn(g.node("Range", g.constant(0), end, g.constant(1)), "i", (size,), (size,), True))


def from_the_end(g: Graph) -> None:
    x = g.some("i", is_row)
    g.add(replace(x, name=g.node("Sub", x.name, g.size(x.into[0]))))


# What reads and writes at indices


def gather(g: Graph) -> None:
    at = g.some("i", lambda x: len(x.into) == 1 and len(x.sizes) < 3 and x.sizes[-1:] != x.into)
    x = g.some("fib", lambda x: at.into[0] in x.sizes and len(x.sizes) < 3)
    d = x.sizes.index(at.into[0])
    into = x.into if is_row(x) else ()
    made = g.node("Gather", x.name, at.name, axis=d)
    g.add(Drawn(made, x.kind, put(x.sizes, d, *at.sizes), into, at.distinct and x.distinct))


def tuples(g: Graph) -> Drawn:
    """Draw rows of indices."""
    at = g.some("i", lambda x: x.into)
    if len(at.sizes) == 2 and at.sizes[1] == len(at.into):
        return at
    name = g.node("Unsqueeze", at.name, g.constant([len(at.sizes)]))
    return replace(at, name=name, sizes=(*at.sizes, 1))


def gather_nd(g: Graph) -> None:
    at = tuples(g)
    depth = len(at.into)
    batch = g.choice(0, 0, 1)
    if batch and not (len(at.sizes) > 1 and depth == 1):
        batch = 0
    x = g.some("fib", lambda x: x.sizes[batch : batch + depth] == at.into and x.sizes[:batch] == at.sizes[:batch])
    made = g.node("GatherND", x.name, at.name, batch_dims=batch)
    g.add(Drawn(made, x.kind, (*at.sizes[:-1], *x.sizes[batch + depth :])))


def spread(g: Graph, x: Drawn, d: int, at: Drawn) -> str:
    """Return indices along one dimension, repeated along all others."""
    others = [axis for axis in range(len(x.sizes)) if axis != d]
    name = g.node("Unsqueeze", at.name, g.constant(others)) if others else at.name
    return g.node("Expand", name, g.shape(put(x.sizes, d, at.sizes[0]))) if others else name


def gather_elements(g: Graph) -> None:
    at = g.some("i", is_row)
    x = g.some("fi", lambda x: at.into[0] in x.sizes)
    d = x.sizes.index(at.into[0])
    made = g.node("GatherElements", x.name, spread(g, x, d, at), axis=d)
    g.add(Drawn(made, x.kind, put(x.sizes, d, at.sizes[0])))


def updates(g: Graph, kind: str, sizes: tuple[Size, ...]) -> Drawn:
    """Draw an array of such sizes, or cut one to them."""
    rank = len(sizes)
    ways: list[Callable[[], Drawn]] = [
        lambda: g.some(kind, lambda x: x.sizes == sizes),
        lambda: cut(g, g.some(kind, lambda x: len(x.sizes) == rank and x.sizes[1:] == sizes[1:]), sizes[0]),
        lambda: Drawn(g.node("Expand", g.constant(2, TYPES[kind]), g.shape(sizes)), kind, sizes),
    ]
    for place in g.rng.permutation(3):
        try:
            return ways[place]()
        except LookupError:
            pass
    raise LookupError


def cut(g: Graph, x: Drawn, size: Size) -> Drawn:
    """Return as many of the first elements."""
    end = g.size(size)
    if x.sizes[0] == size:
        raise LookupError
    return replace(x, name=g.node("Slice", x.name, g.constant([0]), end, g.constant([0])), sizes=put(x.sizes, 0, size))


def sliced(g: Graph) -> None:
    size = g.any_size()
    g.add(cut(g, g.some("fi", lambda x: x.sizes), size))


STRICTER = "more than its bound|conditions are given|Compress .* of which the first must not be"
"""What onnxruntime does not refuse: it ignores more conditions of Compress than there are elements."""

LENGTHS = "NonZero", "Compress", "TopK"
REDUCTIONS = "none", "none", "add", "mul", "min", "max"


def scatter_nd(g: Graph) -> None:
    at = tuples(g)
    x = g.some("fi", lambda x: x.sizes[: len(at.into)] == at.into)
    written = updates(g, x.kind, (*at.sizes[:-1], *x.sizes[len(at.into) :]))
    reduction = g.choice(*REDUCTIONS[0 if at.distinct else 2 :])
    made = g.node("ScatterND", x.name, at.name, written.name, reduction=reduction)
    g.add(Drawn(made, x.kind, x.sizes))


def scatter_elements(g: Graph) -> None:
    at = g.some("i", is_row)
    x = g.some("fi", lambda x: at.into[0] in x.sizes)
    d = x.sizes.index(at.into[0])
    written = updates(g, x.kind, put(x.sizes, d, at.sizes[0]))
    reduction = g.choice(*REDUCTIONS[0 if at.distinct else 2 :])
    made = g.node("ScatterElements", x.name, spread(g, x, d, at), written.name, axis=d, reduction=reduction)
    g.add(Drawn(made, x.kind, x.sizes))


def reverse_sequence(g: Graph) -> None:
    x = g.some("f", lambda x: len(x.sizes) > 1 and isinstance(x.sizes[1], int) and x.sizes[1] > 0)
    row = g.some("i", lambda y: y.sizes == x.sizes[:1])
    lengths = g.node("Add", g.node("Mod", row.name, g.constant(x.sizes[1])), g.constant(1))
    g.add(Drawn(g.node("ReverseSequence", x.name, lengths, batch_axis=0, time_axis=1), "f", x.sizes))


def one_hot(g: Graph) -> None:
    at = g.some("i", lambda x: is_row(x) and isinstance(x.into[0], int) and x.into[0])
    values = g.constant([0, 1], np.float32)
    made = g.node("OneHot", at.name, g.constant([at.into[0]]), values, axis=-1)
    g.add(Drawn(made, "f", (*at.sizes, *at.into)))


# What else meets such lengths


def elementwise(g: Graph) -> None:
    x = g.some("fi")
    y = g.some(x.kind, lambda y: y.sizes == x.sizes[len(x.sizes) - len(y.sizes) :])
    g.add(Drawn(g.node(g.choice("Add", "Sub", "Max", "Min"), x.name, y.name), x.kind, x.sizes))


def where(g: Graph) -> None:
    m = g.some("b")
    x = updates(g, "f", m.sizes)
    g.add(Drawn(g.node("Where", m.name, x.name, g.constant(3, np.float32)), "f", m.sizes))


def concat(g: Graph) -> None:
    x = g.some("f", lambda x: x.sizes)
    d = g.axis(x)
    y = g.some("f", lambda y: len(y.sizes) == len(x.sizes) and put(y.sizes, d) == put(x.sizes, d))
    parts = x.sizes[d], y.sizes[d]
    size = "+".join(map(str, parts)) if any(map(named, parts)) else sum(parts)
    g.add(Drawn(g.node("Concat", x.name, y.name, axis=d), "f", put(x.sizes, d, size)))


def reduced(g: Graph) -> None:
    x = g.some("f", lambda x: x.sizes)
    d = g.axis(x)
    made = g.node(g.choice("ReduceSum", "ReduceSum", "ReduceMax"), x.name, g.constant([d]), keepdims=0)
    g.add(Drawn(made, "f", put(x.sizes, d)))


def cumulative(g: Graph) -> None:
    x = g.some("f", lambda x: x.sizes)
    made = g.node("CumSum", x.name, g.constant(g.axis(x)), reverse=g.choice(0, 1), exclusive=g.choice(0, 1))
    g.add(Drawn(made, "f", x.sizes))


def matmul(g: Graph) -> None:
    x = g.some("f", lambda x: len(x.sizes) in (1, 2))
    y = g.some("f", lambda y: 0 < len(y.sizes) < 3 and y.sizes[0] == x.sizes[-1])
    bounded = g.node("Clip", g.node("MatMul", x.name, y.name), *(g.constant(c, np.float32) for c in (-9, 9)))
    g.add(Drawn(bounded, "f", x.sizes[:-1] + y.sizes[1:]))


def moved(g: Graph) -> None:
    x = g.some("fi", lambda x: len(x.sizes) == 2 and not x.into)
    a, b = x.sizes
    size = f"{a}*{b}" if has_length(x) else a * b
    flat = Drawn(g.node("Reshape", x.name, g.constant([-1])), x.kind, (size,))
    g.add(g.choice(replace(x, name=g.node("Transpose", x.name), sizes=(b, a)), flat))


def expanded(g: Graph) -> None:
    x = g.some("f", lambda x: len(x.sizes) < 2)
    size = g.any_size()
    g.add(Drawn(g.node("Expand", x.name, g.shape((size, *x.sizes))), "f", (size, *x.sizes)))


def branches(g: Graph) -> None:
    x = g.some("f", has_length)
    none = g.node("Squeeze", g.node("Equal", g.size(next(filter(named, x.sizes))), g.constant([0])))
    bodies = {}
    for name, kind in (("then_branch", g.choice("Abs", "Identity")), ("else_branch", "Neg")):
        out = g.name()
        value = helper.make_tensor_value_info(out, TensorProto.FLOAT, [None] * len(x.sizes))
        bodies[name] = helper.make_graph([helper.make_node(kind, [x.name], [out])], name, [], [value])
    g.add(Drawn(g.node("If", none, **bodies), "f", x.sizes))


def loop(g: Graph) -> None:
    """Add up elements, as many times as there are."""
    x = g.some("f", lambda x: len(x.sizes) == 1)
    turns = g.node("Squeeze", g.size(x.sizes[0]), g.constant([0]))
    i, on, total, one, off, after = (g.name() for _ in range(6))
    inputs = [
        helper.make_tensor_value_info(name, kind, [])
        for name, kind in ((i, TensorProto.INT64), (on, TensorProto.BOOL), (total, TensorProto.FLOAT))
    ]
    outputs = [helper.make_tensor_value_info(off, TensorProto.BOOL, [])]
    outputs.append(helper.make_tensor_value_info(after, TensorProto.FLOAT, []))
    nodes = [
        helper.make_node("Gather", [x.name, i], [one]),
        helper.make_node("Add", [total, one], [after]),
        helper.make_node("Identity", [on], [off]),
    ]
    body = helper.make_graph(nodes, "body", inputs, outputs)
    yes = g.constant(True, np.bool_)
    g.add(Drawn(g.node("Loop", turns, yes, g.constant(0, np.float32), body=body), "f", ()))


TYPES = {"f": np.float32, "i": np.int64, "b": np.bool_}
SELECTING = mask, non_zero, compress, top_k
INDEXING = gather, gather_nd, gather_elements, scatter_nd, scatter_elements, reverse_sequence, one_hot
OTHERS = (arg, numbered, from_the_end, unique, sliced, elementwise, where, concat, reduced, cumulative, matmul, moved)
OTHERS += expanded, branches, loop


def draw(seed: int, number: int) -> Model:
    """Return a model, and what to call it with: for each kind of mask the inputs."""
    rng = np.random.default_rng([seed, number])
    rows, columns = int(rng.choice([0, 1, 4, 5, 6, 20])), int(rng.choice([1, 3, 4]))
    more = int(rng.choice([rows, rows + 2, 3]))
    inputs = {"x": (rows, columns), "f": (rows,), "s": (more,), "t": (more, columns)}
    g = Graph(rng, [Drawn(name, "f", shape) for name, shape in inputs.items()])
    g.add(Drawn(g.node("Greater", "f", g.constant(0, np.float32)), "b", (rows,)))
    non_zero(g)
    for _ in range(rng.integers(4, 12)):
        step = g.choice(*g.choice(SELECTING, INDEXING, INDEXING, OTHERS))
        before = len(g.nodes), len(g.values)
        try:
            step(g)
        except LookupError:  # No array fits.
            del g.nodes[before[0] :], g.values[before[1] :]
    read = {name for node in g.nodes for name in node.input}
    left = [each for each in g.values if each.name not in read and each.name not in inputs]
    types = {kind: helper.np_dtype_to_tensor_dtype(np.dtype(dtype)) for kind, dtype in TYPES.items()}
    graph = helper.make_graph(
        g.nodes,
        "drawn",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(each.name, types[each.kind], [None] * len(each.sizes)) for each in left[-4:]],
        [numpy_helper.from_array(value, name) for name, value in g.constants.items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
    return proto, [[given(rng, name, shape, kept) for name, shape in inputs.items()] for kept in MASKS]


def given(rng: np.random.Generator, name: str, shape: tuple[int, ...], kept: str) -> np.ndarray:
    """Return an input: small integers, or signs by which rows are kept."""
    if name != "f":
        return rng.integers(-3, 4, shape).astype(np.float32)
    signs = {"none": -1, "one": np.eye(1, *shape, min(2, shape[0]))[0], "some": rng.integers(-1, 2, shape), "all": 1}
    return np.broadcast_to(signs[kept], shape).astype(np.float32)


def problems(drawn: Model, seen: Counter[str]) -> list[str]:
    """Return what differs from onnxruntime, in one line for each call; count what came of the calls."""
    proto, calls = drawn
    try:
        wanted_by = session(proto)
    except Exception:  # What onnxruntime knows of the sizes does not fit.
        seen["no graphs"] += 1
        return []
    model, found = load(proto), []
    bounds = {name: BOUND for node in model.graph.nodes if node.op_type in LENGTHS for name in node.outputs}
    for kept, inputs in zip(MASKS, calls, strict=True):
        try:
            wanted = list(
                wanted_by(**{value.name: x for value, x in zip(proto.graph.input, inputs, strict=True)}).values()
            )
        except Exception as error:
            wanted = error
        for way in ({}, {"bounds": bounds}):
            outcome = compared(partial(model, *inputs, **way), wanted)
            seen[f"{'bounds' if way else 'call'}: {outcome.split(':')[0]}"] += 1
            if ":" in outcome:
                found.append(f"{kept}, {way or 'called'}, {outcome}")
    return found


def compared(call: Callable[[], Any], wanted: Any) -> str:
    """Say what came of a call; with a colon if it is wrong."""
    try:
        got = call()
    except Exception as error:
        # onnxruntime ignores more conditions of Compress than there are elements.
        refused = isinstance(error, NotImplementedError) or re.search(STRICTER, str(error))
        kind = "refused" if refused else "an error of both" if isinstance(wanted, Exception) else "raised: "
        return kind + (f"{type(error).__name__} {error}" if ":" in kind else "")
    if isinstance(wanted, Exception):
        return "onnxruntime refuses"
    for place, (one, other) in enumerate(zip(got, wanted, strict=True)):
        if one.shape != other.shape:
            return f"differs: output {place} has shape {one.shape} and not {other.shape}"
        if not np.allclose(one, other, 1e-5, 1e-5, equal_nan=True):
            return f"differs: output {place} is\n{one}\nand not\n{other}"
    return "equal"


def hunt(
    about: str | None, draw: Callable[[int, int], Any], problems: Callable[[Any, Counter[str]], list[str]]
) -> None:
    """Look for graphs that are wrong, as the command line says, and print how to draw them again."""
    parser = argparse.ArgumentParser(description=about)
    for option, default in (("graphs", 100), ("seed", 0), ("start", 0)):
        parser.add_argument(f"--{option}", type=int, default=default)
    asked = parser.parse_args()
    seen: Counter[str] = Counter()
    for number in range(asked.start, asked.start + asked.graphs):
        with quickly():
            wrong = problems(draw(asked.seed, number), seen)
        for line in wrong:
            print(f"--seed {asked.seed} --start {number}: {line}", flush=True)
        seen["graphs"] += 1
        seen["wrong graphs"] += bool(wrong)
        if number % BETWEEN_RELEASES == BETWEEN_RELEASES - 1:
            jax.clear_caches()
            print(dict(seen), flush=True)
    print(dict(seen))


if __name__ == "__main__":
    hunt(__doc__, draw, problems)
