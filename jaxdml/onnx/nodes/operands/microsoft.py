"""The rules of com.microsoft. ``_language`` says how to read them."""

from collections.abc import Mapping
from math import prod

from jaxdml.onnx.nodes._recurrence import DIRECTIONS
from jaxdml.onnx.nodes.operands._rule import Operands, Rule, Texts, written
from jaxdml.onnx.nodes.operands.standard import (
    CONV,
    ONE,
    QLINEAR_CONV,
    causal_convolution,
    gemm,
    half,
    must_be_within,
    quantizing,
    total,
)


def _with_numbers(*operands: str) -> str:
    """Return a rule of quantized operands of any shape; a scale and a zero point, numbers, follow each."""
    *inputs, result = operands
    return "; ".join((*(f"{name}: *; {_numbers(name)}" for name in inputs), _numbers(result)))


def _numbers(name: str) -> str:
    return f"{name}_scale: {ONE}; {name}_zero_point: {ONE}"


def _by_columns(rule: str) -> tuple[str, str]:
    """Return a rule for a right matrix, and for several, with what each column may have of its own."""
    one, several = f"{ONE} | N | 1 N", f"{ONE} | *B 1 N"
    return rule.replace("COLUMNS", one).replace("*B ", ""), rule.replace("COLUMNS", several)


def _dynamic_quantize_lstm(o: Operands) -> str:
    shape = o.shape(0)
    must_be_within(o.known(4), shape[0] if shape else None)
    d, rows = len(DIRECTIONS[o.attributes["direction"]]), "4*hidden_size"
    weights = f"X: T N I; W: {d} I {rows}; R: {d} hidden_size {rows}; B: {d} 8*hidden_size; sequence_lens: N"
    states = f"initial_h: {d} N hidden_size; initial_c: {d} N hidden_size; P: {d} 3*hidden_size"
    scales = (f"{of}_{what}: {d} | {d} {rows}" for of in "WR" for what in ("scale", "zero_point"))
    return "; ".join((weights, states, *scales))


def _packed(count: int, bits: int) -> int:
    """Return how many bytes hold so many elements."""
    return -(-count * bits // 8)


def _mask(o: Operands, keys: str) -> str:
    """Return what shapes a mask of keys may have. One key stands for no mask; 4 dimensions are refused later."""
    return f"N | 2*N | 3*N+2 | N {keys} | N? 1 | N L {keys} | N 1 _ _"


def _attention(o: Operands) -> str:
    keys = total(o, 1, 4, key=0)
    layer = f"input: N L I; weights: I W; bias: W; mask_index: {_mask(o, keys)}"
    return f"{layer}; past: 2 N num_heads P _; attention_bias: N? num_heads? L {keys}"


def _quantized_attention(o: Operands) -> str:
    layer = f"input: N L I; weight: I W; bias: W; input_scale: {ONE}; weight_scale: {ONE} | W"
    zeros = f"input_zero_point: {ONE}; weight_zero_point: {ONE} | W"
    return f"{layer}; mask_index: {_mask(o, total(o, 1, 8, key=0))}; {zeros}; past: 2 N num_heads P _"


def _multi_head_attention(o: Operands) -> str:
    by_rank = {
        3: "key: N S num_heads*E; value: N S num_heads*D",
        4: "key: N num_heads S E; value: N num_heads S D",
        5: "key: N S num_heads 2 E; value: *",
    }
    if o.rank(0) == 5:
        parts, keys = "query: N L num_heads 3 E; key: *; value: *", total(o, 1, 6, key=0)
    else:
        rank = o.rank(1, 2)
        parts = f"query: N L num_heads*E; {by_rank.get(3 if rank is None else rank, by_rank[3])}"
        keys = total(o, 2 if rank == 4 else 1, 6)
    masks = f"key_padding_mask: N | 3*N+2 | N {keys} | N L {keys}; attention_bias: N? num_heads? L {keys}"
    return f"{parts}; bias: 2*num_heads*E+num_heads*D; {masks}; past_key: N num_heads P E; past_value: N num_heads P D"


def _group_query_attention(o: Operands) -> str:
    if o.given(1):
        # A step without new keys reads those of a cache.
        new = "N L kv_num_heads*E | N 0 kv_num_heads*E"
        parts = f"query: N L num_heads*E; key: {new}; value: {new}"
    else:
        parts = "query: N L _; key: *; value: *"
    cache = "past_key: N kv_num_heads P _; past_value: N kv_num_heads P _; seqlens_k: N | N 1 | 1 N"
    total = o.known(6)
    least = "" if total is None or total.size != 1 or o.attributes["sliding_window_cache"] else f">={int(total.item())}"
    rotation = f"total_sequence_length: {ONE}; cos_cache: R{least} h; sin_cache: R h; position_ids: N L"
    rest = "attention_bias: N? num_heads? L _; head_sink: num_heads; k_scale: *; v_scale: *"
    return f"{parts}; {cache}; {rotation}; {rest}; q_norm_weight: E; k_norm_weight: E; query_seqlens: N"


def _rotary_embedding(o: Operands) -> str:
    x, heads = o.shape(0), o.attributes["num_heads"]
    h = half(o, None if x is None or len(x) != 4 else x[3])
    image = f"N L {heads}*2*{h}" if x is not None and len(x) == 3 and heads and h == "h" else "N L _ | N H L _"
    return f"input: {image}; position_ids: {ONE} | N L; cos_cache: R>=L {h}; sin_cache: R {h}"


def _skip(others: str) -> Texts:
    return f"input: N L H; skip: N? L H | L H; {others}", f"input: L H; skip: L H; {others}"


def _embedding(o: Operands) -> str:
    return f"{_embedded('_' if o.given(8) else '_>=L')}; position_ids: N? L"


def _embedded(rows: str) -> str:
    """Return the rule of inputs that embed; ``rows`` says how many positions have one."""
    tables = f"word_embedding: _ H; position_embedding: {rows} H; segment_embedding: _ H"
    return f"input_ids: N L; segment_ids: N L; {tables}; gamma: H; beta: H; mask: N L"


def _quantized_embedding(o: Operands) -> str:
    numbers = "; ".join(f"{kind}_{what}: {ONE}" for what in ("scale", "zero_point") for kind in _TABLES)
    return f"{_embedded('_>=L')}; {numbers}"


_TABLES = "word", "position", "segment", "gamma", "beta"


def _concatenated(o: Operands) -> str:
    count = (len(o.names) - 2) // 3
    parts = (f"x{i}: *; scale{i}: {ONE}; zero_point{i}: {ONE}" for i in range(count))
    return "; ".join((f"Y_scale: {ONE}; Y_zero_point: {ONE}", *parts))


def _convolved(o: Operands) -> str:
    last = o.attributes["channels_last"]
    return QLINEAR_CONV.replace("x: N group*C ...", "x: N ... group*C") if last else QLINEAR_CONV


def _q_gemm(o: Operands) -> str:
    a, b, c = gemm(o).split("; ")
    of_a, of_b = (f"{x}_scale: {kind}; {x}_zero_point: {kind}" for x, kind in (("a", ONE), ("b", f"{ONE} | N")))
    return f"{a}; {of_a}; {b}; {of_b}; {c}; y_scale: {ONE}; y_zero_point: {ONE}"


def _matmul_nbits(o: Operands) -> str:
    n, k, block, bits = (o.attributes[name] for name in ("N", "K", "block_size", "bits"))
    blocks = -(-k // block)
    zeros = _packed(blocks, bits) if o.dtype(3) == "uint8" else blocks
    data = f"B: N {blocks} {_packed(block, bits)}; scales: {n * blocks} | N {blocks}"
    return f"A: * K; {data}; zero_points: {n * zeros} | N {zeros}; g_idx: K | {blocks * block}; bias: N"


def _gather_block_quantized(o: Operands) -> str:
    data, bits, block = o.shape(0), o.attributes["bits"], o.attributes["block_size"]
    if not data:
        return "data: *"
    packed = 8 // bits if o.dtype(0) == "uint8" else 1
    whole = [*data[:-1], None if data[-1] is None else data[-1] * packed]
    axis = o.attributes["quantize_axis"] % len(data)
    blocks = [-(-n // block) if d == axis and n is not None else n for d, n in enumerate(whole)]
    zeros = [*blocks[:-1], None if blocks[-1] is None else -(-blocks[-1] // packed)]
    return f"data: *; indices: *; scales: {written(blocks)}; zero_points: {written(zeros)}"


def _tokens(o: Operands) -> str:
    shape = o.shape(0)
    return "_" if shape is None or None in shape else str(prod(n or 0 for n in shape[:-1]))


_INPUT = "input: _ H | _ _ H"


def _moe(o: Operands) -> str:
    width = "2*I" if o.attributes["activation_type"] == "swiglu" else "I"
    # The second layer says how wide the first one is.
    layers = f"fc1_experts_weights: X {width} H; fc1_experts_bias: X {width}; fc2_experts_weights: X H I"
    return f"{_INPUT}; router_probs: {_tokens(o)} X; {layers}; fc2_experts_bias: X H"


def _qmoe(o: Operands) -> str:
    bits, block = o.attributes["expert_weight_bits"], o.attributes["block_size"]
    x, second = o.shape(0), o.shape(5)
    per_byte = 8 // bits
    hidden = x[-1] if x else None
    inner = second[2] * per_byte if second is not None and len(second) == 3 and second[2] is not None else None
    rows = None if inner is None else inner * (2 if o.attributes["activation_type"] == "swiglu" else 1)

    def size(count: int | None, each: int = 1) -> str:
        return "_" if count is None else str(-(-count // each))

    def quantized(rows: int | None, columns: int | None) -> tuple[str, str]:
        """Return the shapes of the scales and of the zero points of a layer."""
        if not block:
            return f"X {size(rows)} | X {size(rows)} 1", f"X {size(rows, per_byte)}"
        blocks = None if columns is None else -(-columns // block)
        return f"X {size(rows)} {size(blocks)}", f"X {size(rows)} {size(blocks, per_byte)}"

    (scales1, zeros1), (scales2, zeros2) = quantized(rows, hidden), quantized(hidden, inner)
    first = f"fc1_experts_weights: X {size(rows)} {size(hidden, per_byte)}; fc1_scales: {scales1}"
    then = f"fc2_experts_weights: X H _; fc2_scales: {scales2}; fc2_experts_bias: X H"
    third = "fc3_experts_weights: *; fc3_scales: *; fc3_experts_bias: *"
    zeros = f"fc1_zero_points: {zeros1}; fc2_zero_points: {zeros2}; fc3_zero_points: *"
    layers = f"{first}; fc1_experts_bias: X {size(rows)}; {then}; {third}; {zeros}"
    return f"{_INPUT}; router_probs: {_tokens(o)} X; {layers}; router_weights: {_tokens(o)} X"


RULES: Mapping[str, Rule] = {
    "Attention": _attention,
    "BiasAdd": "X: N S C; bias: C; skip: N S C",
    "BiasGelu": "A: * C; B: C",
    "CausalConvWithState": causal_convolution,
    "DequantizeLinear": quantizing,
    "DynamicQuantizeLSTM": _dynamic_quantize_lstm,
    "DynamicQuantizeMatMul": _by_columns("A: * K; B: *B K N; b_scale: COLUMNS; b_zero_point: COLUMNS; bias: N | 1 N"),
    "EmbedLayerNormalization": _embedding,
    "FastGelu": "X: * C; bias: C",
    "FusedConv": CONV,
    "FusedGemm": gemm,
    "GatherBlockQuantized": _gather_block_quantized,
    "GroupQueryAttention": _group_query_attention,
    "MatMulIntegerToFloat": _by_columns(
        f"A: * K; B: *B K N; a_scale: {ONE}; b_scale: COLUMNS; a_zero_point: {ONE}; b_zero_point: COLUMNS; "
        "bias: N | 1 N"
    ),
    "MatMulNBits": _matmul_nbits,
    "MoE": _moe,
    "MultiHeadAttention": _multi_head_attention,
    "QAttention": _quantized_attention,
    "QEmbedLayerNormalization": _quantized_embedding,
    "QGemm": _q_gemm,
    "QLinearAdd": _with_numbers("A", "B", "C"),
    "QLinearAveragePool": _with_numbers("X", "Y"),
    "QLinearConcat": _concatenated,
    "QLinearConv": _convolved,
    "QLinearGlobalAveragePool": _with_numbers("X", "Y"),
    "QLinearLeakyRelu": _with_numbers("X", "Y"),
    "QLinearMul": _with_numbers("A", "B", "C"),
    "QLinearSigmoid": _with_numbers("X", "Y"),
    "QLinearSoftmax": _with_numbers("X", "Y"),
    "QLinearWhere": f"condition: *; {_with_numbers('X', 'Y', 'Z')}",
    "QMoE": _qmoe,
    "QuantizeLinear": quantizing,
    "RotaryEmbedding": _rotary_embedding,
    "SimplifiedLayerNormalization": "X: *X; scale: ~ *X",
    "SkipLayerNormalization": _skip("gamma: H; beta: H; bias: H"),
    "SkipSimplifiedLayerNormalization": _skip("gamma: H; bias: H"),
}
"""By operator."""
