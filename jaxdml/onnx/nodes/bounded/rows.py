"""Layers of other domains than ai.onnx that compute each row, or each element, for itself."""

from jaxdml.onnx.nodes._sizes import resized
from jaxdml.onnx.nodes.bounded._fitting import fitted, must_not_have_lengths, stretched
from jaxdml.onnx.nodes.bounded._masking import masked
from jaxdml.onnx.nodes.bounded._task import Rule, Rules, Task, array
from jaxdml.onnx.nodes.bounded.elementwise import elementwise, like_first
from jaxdml.onnx.values.bounded import bounded, inner, sizes_of
from jaxdml.onnx.values.kinds import Value
from jaxdml.onnx.values.lengths import Length, LengthError, limits
from jaxdml.onnx.values.promises import broadcast, equal_shapes


def each_sample(task: Task, x: Value, *others: Value) -> tuple[Value, ...]:
    """Compute each row of features for itself; what has one dimension is one row."""
    if x.ndim != 2:
        raise LengthError(f"the result for an operand of {x.ndim} dimensions")
    first, features = sizes_of(x)
    must_not_have_lengths(others)
    if not isinstance(first, Length) or isinstance(features, Length):
        raise LengthError(f"the result for sizes {list(sizes_of(x))}")
    results = task.compute(inner(x), *others)
    return tuple(bounded(result, (first, *result.shape[1:])) for result in results)


def each_row(task: Task, x: Value, scale: Value) -> tuple[Value, ...]:
    """Normalize from an axis on, where nothing from it on has a length."""
    sizes = sizes_of(x)
    axis = task.axis(len(sizes))
    must_not_have_lengths([bounded(inner(x), sizes[axis:]), scale])
    results = task.compute(inner(x), scale)
    return tuple(bounded(y, (*sizes[:axis], *y.shape[axis:])) for y in results)


def element_by_element(*places: int) -> Rule:
    """Return the rule of what computes with quantized arrays at these positions; others are scales and zero points."""

    def run(task: Task, *operands: Value) -> tuple[Value, ...]:
        given = list(operands)
        must_not_have_lengths(x for place, x in enumerate(given) if place not in places)
        sizes = broadcast(task.call.node, *(sizes_of(given[place]) for place in places))
        for place in places:
            given[place] = inner(stretched(given[place], sizes))
        return tuple(bounded(y, sizes) for y in task.compute(*given))

    return run


def sum_of_rows(task: Task, x: Value, skip: Value, *others: Value) -> tuple[Value, ...]:
    """Add, and normalize along the last axis."""
    sizes = broadcast(task.call.node, sizes_of(x), sizes_of(skip))
    must_not_have_lengths((*others, bounded(inner(x), sizes[-1:])))
    results = task.compute(inner(stretched(x, sizes)), inner(stretched(skip, sizes)), *others)
    return tuple(None if y is None else bounded(y, (*sizes[:-1], y.shape[-1])) for y in results)


def embeddings(
    task: Task, ids: Value, segments: Value, words: Value, positions: Value, *others: Value
) -> tuple[Value, ...]:
    """Add the embeddings of words, positions and segments, and normalize; count what a mask keeps of each row."""
    names = task.call.handler.names(4 + len(others))
    of_words = dict(zip(names, (ids, segments, words, positions, *others), strict=True))
    own = [name for name in ("input_ids", "segment_ids", "mask", "position_ids") if of_words.get(name) is not None]
    must_not_have_lengths(x for name, x in of_words.items() if name not in own)
    batch, length = equal_shapes(task.call.node, *(sizes_of(of_words[name]) for name in own))
    for name in own:
        of_words[name] = masked(fitted(of_words[name], (batch, length)), (batch, length), 0)
    # The table may have fewer rows than the capacity.
    rows = max(limits(length).bound, positions.shape[0])
    of_words["position_embedding"] = resized(array(positions), (rows, *positions.shape[1:]))
    results = task.compute(*of_words.values())
    sizes = [(batch, length), (batch,), (batch, length)]
    return tuple(bounded(y, (*each, *y.shape[len(each) :])) for y, each in zip(results, sizes, strict=False))


def block_gather(task: Task, data: Value, indices: Value, *others: Value) -> tuple[Value, ...]:
    """Read slices of a table that stays packed; what does not count reads the first one."""
    must_not_have_lengths((data, *others))
    axis, sizes = task.attribute("gather_axis"), sizes_of(indices)
    (y,) = task.compute(data, masked(indices, sizes, 0), *others)
    axis %= y.ndim - len(sizes) + 1
    return (bounded(y, (*y.shape[:axis], *sizes, *y.shape[axis + len(sizes) :])),)


def rotated(task: Task, x: Value, first: Value, second: Value, third: Value = None) -> tuple[Value, ...]:
    """Rotate the elements of each head by what belongs to its position."""
    sizes = sizes_of(x)
    batch, length = sizes[0], sizes[-2]
    microsoft = bool(task.call.node.domain)
    given = [first, second, third]
    positions = given.pop(0) if microsoft else given.pop(2)
    if positions is not None and positions.ndim == 2:
        positions = fitted(positions, equal_shapes(task.call.node, sizes_of(positions), (batch, length)))
        positions = masked(positions, sizes_of(positions), 0)
    tables = [
        inner(fitted(table, (*equal_shapes(task.call.node, sizes_of(table)[:2], (batch, length)), sizes_of(table)[2])))
        if table.ndim == 3
        else table
        for table in given
    ]
    must_not_have_lengths((positions, *tables))
    operands = [positions, *tables] if microsoft else [*tables, *([] if third is None else [positions])]
    return tuple(bounded(y, sizes) for y in task.compute(inner(x), *operands))


_OF_SAMPLES = """
    Binarizer Imputer LabelEncoder LinearClassifier LinearRegressor Normalizer OneHotEncoder Scaler TreeEnsemble
    TreeEnsembleClassifier TreeEnsembleRegressor ZipMap
"""

CLASSICAL: Rules = dict.fromkeys(_OF_SAMPLES.split(), each_sample)
"""Of the domain ai.onnx.ml."""

RULES: Rules = {"RotaryEmbedding": rotated, "SimplifiedLayerNormalization": each_row}

MICROSOFT: Rules = {
    **dict.fromkeys(("DequantizeLinear", "QuantizeLinear"), like_first),
    **dict.fromkeys(("EmbedLayerNormalization", "QEmbedLayerNormalization"), embeddings),
    **dict.fromkeys(("QLinearLeakyRelu", "QLinearSigmoid"), like_first),
    **dict.fromkeys(("QLinearAdd", "QLinearMul"), element_by_element(0, 3)),
    **dict.fromkeys(("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"), sum_of_rows),
    "BiasAdd": elementwise,
    "GatherBlockQuantized": block_gather,
    "QLinearWhere": element_by_element(0, 1, 4),
    "RotaryEmbedding": rotated,
    "SimplifiedLayerNormalization": each_row,
}
"""Of the domain com.microsoft."""
