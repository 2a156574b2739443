"""The rules of ai.onnx and ai.onnx.preview. ``_language`` says how to read them."""

from collections.abc import Mapping
from math import prod

import numpy as np

from jaxdml.onnx.nodes._recurrence import DIRECTIONS
from jaxdml.onnx.nodes._sizes import axis_of, refusal
from jaxdml.onnx.nodes.operands._rule import Operands, Rule, Texts, written

ONE = "() | 1"
"""A number."""

CONV = "X: N group*C ...; W: M C ...; B: M"

QLINEAR_CONV = "; ".join(
    (
        f"x: N group*C ...; x_scale: {ONE}; x_zero_point: {ONE}; w: M C ...; w_scale: {ONE} | M",
        f"w_zero_point: {ONE} | M; y_scale: {ONE}; y_zero_point: {ONE}; B: M",
    )
)

MATRICES = "A: K | *A M K; B: K | *B K N"
ROWS, COLUMNS = f"{ONE} | M | *A M 1", f"{ONE} | N | *B 1 N"
"""Scales and zero points of these."""


def gemm(o: Operands) -> str:
    """Return the rule of a product of two matrices, each of which may be transposed."""
    a = "K M" if o.attributes["transA"] else "M K"
    b = "N K" if o.attributes["transB"] else "K N"
    return f"A: {a}; B: {b}; C: ~ M N"


def recurrent(gates: int, further: str = "") -> Rule:
    """Return the rule of an operator with so many gates; ``further`` are inputs after the first state."""

    def rule(o: Operands) -> str:
        shape = o.shape(0)
        must_be_within(o.known(4), None if shape is None or len(shape) < 2 else shape[o.attributes["layout"]])
        d = len(DIRECTIONS[o.attributes["direction"]])
        x, state = ("N T I", f"N {d} hidden_size") if o.attributes["layout"] else ("T N I", f"{d} N hidden_size")
        weights = f"X: {x}; W: {d} {gates}*hidden_size I; R: {d} {gates}*hidden_size hidden_size"
        others = f"B: {d} {2 * gates}*hidden_size; sequence_lens: N; initial_h: {state}"
        return f"{weights}; {others}{further.format(d=d, state=state)}"

    return rule


def must_be_within(lengths: np.ndarray | None, limit: int | None) -> None:
    """Refuse lengths of sequences that are known, and negative or more than there is."""
    if lengths is not None and limit is not None and not ((lengths >= 0) & (lengths <= limit)).all():
        raise refusal(f"sequence_lens must be between 0 and {limit}; got {lengths.tolist()}.")


def quantizing(o: Operands) -> str:
    """Return the rule of QuantizeLinear and DequantizeLinear."""
    x, scale, axis, block = o.shape(0), o.shape(1), o.attributes["axis"], o.attributes.get("block_size", 0)
    if scale is not None and not block and scale in ((), (1,)):
        return f"x: *; scale: *; zero_point: {ONE}"
    if x is None:
        return "x: *; scale: *S; zero_point: *S"
    if not -len(x) <= axis < len(x):
        return f"x: *; scale: {ONE}"
    place = axis % len(x)
    if not block:
        of_axis = written([x[place]])
        return f"x: *; scale: {ONE} | {of_axis}; zero_point: {'*' if scale is None else of_axis}"
    blocks = written([-(-n // block) if d == place and n is not None else n for d, n in enumerate(x)])
    return f"x: *; scale: {blocks}; zero_point: {blocks}"


def _batch_normalization(o: Operands) -> Texts:
    # Before version 9 there may be one parameter for each element of a sample.
    image, own = ("N C *", "C") if o.attributes.get("spatial", 1) else ("N *S", "*S")
    parameters = "; ".join(f"{name}: {own}" for name in ("scale", "B", "mean", "var"))
    return f"X: {image}; {parameters}", "X: N; scale: 1; B: 1; mean: 1; var: 1"


def _attention(o: Operands) -> str:
    packed = o.rank(0, 1, 2) == 3
    h, g = ("q_num_heads", "kv_num_heads") if packed else ("H", "G")
    q, k, v = (f"N L {h}*E", f"N S {g}*E", f"N S {g}*D") if packed else ("N H L E", "N G S E", "N G S D")
    # From version 24 on a mask may end before the keys do.
    keys = "_" if o.opset >= 24 else total(o, 1 if packed else 2, 4)
    cache = f"past_key: N {g} P E; past_value: N {g} P D"
    return f"Q: {q}; K: {k}; V: {v}; attn_mask: ~ N {h} L {keys}; {cache}; nonpad_kv_seqlen: N"


def total(o: Operands, dimension: int, past: int, key: int = 1) -> str:
    """Return how many keys there are, those of a cache among them, as a rule writes it.

    Args:
      o: the operands.
      dimension: of the keys, which counts them.
      past: the position of the cache, whose dimension before the last one counts its keys.
      key: the position of the keys.
    """
    new, before = o.shape(key), o.shape(past) if o.given(past) else (0, 0)
    if new is None or before is None or len(new) <= dimension or len(before) < 2:
        return "_"
    counts = new[dimension], before[-2]
    return "_" if None in counts else str(sum(n or 0 for n in counts))


def _rotary_embedding(o: Operands) -> str:
    x = o.shape(0)
    h = half(o, None if x is None or len(x) != 4 else x[3])
    table, other = (f"R>=L {h}", f"R {h}") if o.given(3) else (f"N L {h}", f"N L {h}")
    image = f"N L num_heads*2*{h}" if x is not None and len(x) == 3 and h == "h" else "N L _ | N H L _"
    return f"X: {image}; cos_cache: {table}; sin_cache: {other}; position_ids: N L"


def half(o: Operands, size: int | None) -> str:
    """Return how many pairs of a head are rotated, as a rule writes it; ``size`` is that of a head."""
    rotated = o.attributes["rotary_embedding_dim"] or size
    return "h" if rotated is None else str(rotated // 2)


def _dft(o: Operands) -> str:
    kinds = "* _ 2" if o.attributes["onesided"] and o.attributes["inverse"] else "* _ 1 | * _ 2"
    return f"input: {kinds}; dft_length: {ONE}; axis: {ONE}"


def _reverse_sequence(o: Operands) -> str:
    x, lengths = o.shape(0), o.known(1)
    if x is None or len(x) < 2:
        return "input: * _ _; sequence_lens: _"
    batch, time = (x[axis_of(o.attributes[name], len(x))] for name in ("batch_axis", "time_axis"))
    must_be_within(lengths, time)
    return f"input: * _ _; sequence_lens: {written([batch])}"


def _deform_conv(o: Operands) -> str:
    filters, parts = o.shape(1), o.attributes["offset_group"]
    sizes = () if filters is None else filters[2:]
    taps = "_" if not sizes or None in sizes else str(parts * prod(size or 0 for size in sizes))
    offset = "_" if taps == "_" else str(int(taps) * len(sizes))
    return f"{CONV.replace('; B: M', '')}; offset: N {offset} ...O; B: M; mask: N {taps} ...O"


def _grid_sample(o: Operands) -> str:
    rank = o.rank(0)
    return f"X: N C ...; grid: N ... {'_' if rank is None else rank - 2}"


def _scatter_nd(o: Operands) -> str:
    data, indices = o.shape(0), o.shape(1)
    if data is None or not indices or indices[-1] is None:
        return "data: *; indices: *I _; updates: *"
    return f"data: *; indices: *I {min(indices[-1], len(data))}; updates: *I {written(data[indices[-1] :])}"


def _tensor_scatter(o: Operands) -> str:
    cache = o.shape(0)
    axis = 0 if cache is None else axis_of(o.attributes["axis"], len(cache))
    if cache is None or not axis:
        return "past_cache: N ...; update: N ...; write_indices: N"
    update = " ".join(f"_<={size}" if d == axis else size for d, size in enumerate(written(cache).split()))
    return f"past_cache: N *; update: {update}; write_indices: N"


def causal_convolution(o: Operands) -> str:
    """Return the rule of CausalConvWithState: the state is what the filters reach back to."""
    filters = o.shape(1)
    reach = filters[2] if filters is not None and len(filters) == 3 else None
    state = "_" if reach is None else (reach - 1) * o.attributes["dilation"]
    return f"input: N C L; weight: C 1 _; bias: C; past_state: N C {state}"


_OF_MELS = "num_mel_bins", "dft_length", "sample_rate", "lower_edge_hertz", "upper_edge_hertz"

RULES: Mapping[str, Rule] = {
    "Attention": _attention,
    "BatchNormalization": _batch_normalization,
    "CausalConvWithState": causal_convolution,
    "Clip": f"input: *; min: {ONE}; max: {ONE}",
    "ConstantOfShape": "shape: _",
    "Conv": CONV,
    "ConvInteger": f"x: N group*C ...; w: M C ...; x_zero_point: {ONE}; w_zero_point: {ONE} | M",
    "ConvTranspose": "X: N C ...; W: C M ...; B: group*M",
    "DFT": _dft,
    "DeformConv": _deform_conv,
    "DequantizeLinear": quantizing,
    "Dropout": f"data: *; ratio: {ONE}; training_mode: {ONE}",
    "Expand": "input: *; shape: _",
    "GRU": recurrent(3),
    "GatherElements": "data: ...; indices: ...",
    "Gemm": gemm,
    "GridSample": _grid_sample,
    "InstanceNormalization": "input: N C *; scale: C; B: C",
    "LSTM": recurrent(4, "; initial_c: {state}; P: {d} 3*hidden_size"),
    "LayerNormalization": "X: *X; Scale: ~ *X; B: ~ *X",
    "LinearAttention": "; ".join(
        (
            "query: N L q_num_heads*E; key: N L kv_num_heads*E; value: N L kv_num_heads*D",
            "past_state: N kv_num_heads E D; decay: N L kv_num_heads | N L kv_num_heads*E",
            "beta: N L kv_num_heads?",
        )
    ),
    "MatMulInteger": f"{MATRICES}; a_zero_point: {ROWS}; b_zero_point: {COLUMNS}",
    "MaxRoiPool": "X: N C H W; rois: _ 5",
    "MaxUnpool": "X: *X; I: *X; output_shape: _",
    "MelWeightMatrix": "; ".join(f"{name}: {ONE}" for name in _OF_MELS),
    "NonMaxSuppression": "boxes: N S 4; scores: N C S",
    "OneHot": f"indices: * _; depth: {ONE}; values: 2",
    "Pad": f"data: *; pads: _ | 1 _; constant_value: {ONE}; axes: _",
    "QLinearConv": QLINEAR_CONV,
    "QLinearMatMul": "; ".join(
        (
            f"a: K | *A M K; a_scale: {ROWS}; a_zero_point: {ROWS}; b: K | *B K N; b_scale: {COLUMNS}",
            f"b_zero_point: {COLUMNS}; y_scale: {ROWS}; y_zero_point: {ROWS}",
        )
    ),
    "QuantizeLinear": quantizing,
    "RMSNormalization": "X: *X; scale: ~ *X",
    "RNN": recurrent(1),
    "Range": f"start: {ONE}; limit: {ONE}; delta: {ONE}",
    "Reshape": "data: *; shape: _",
    "RoiAlign": "X: N C H W; rois: R 4; batch_indices: R",
    "ReverseSequence": _reverse_sequence,
    "RotaryEmbedding": _rotary_embedding,
    "STFT": f"signal: N L | N L 1 | N L 2; frame_step: {ONE}; window: _; frame_length: {ONE}",
    "Scatter": "data: ...; indices: ...I; updates: ...I",
    "ScatterElements": "data: ...; indices: ...I; updates: ...I",
    "ScatterND": _scatter_nd,
    "SimplifiedLayerNormalization": "X: *X; scale: ~ *X",
    "Slice": "data: *; starts: S; ends: S; axes: S; steps: S",
    "Split": "input: *; split: _",
    "Squeeze": "data: *; axes: _",
    "TensorScatter": _tensor_scatter,
    "Tile": "input: *; repeats: _",
    "TopK": "X: *; K: 1",
    "Trilu": f"input: * _ _; k: {ONE}",
    "Unsqueeze": "data: *; axes: () | _",
}
"""By operator."""

PREVIEW: Mapping[str, Rule] = {"FlexAttention": "Q: N H L E; K: N G S E; V: N G S D"}
"""By operator of ai.onnx.preview."""
