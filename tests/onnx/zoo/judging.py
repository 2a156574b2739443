"""Compare what jaxdml.onnx makes of a file with what onnxruntime does, without its optimizations."""

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

import jaxdml.onnx

BOUNDS = {"float32": 1e-4, "float16": 2e-2}
"""How much outputs may differ, as a share of the span of onnxruntime's; float16 where a file has such tensors."""

STEPS = 0.1
"""The same for files of integers, where both round and one step in an early layer moves all that follow."""

_WINDOW = 24
"""The length of caches that a window slides over: more than it."""

VERDICTS = ("agrees", "steps", "refused", "raises", "wrong", "not run by onnxruntime")


def judge(path: Path, feeds: Mapping[str, Any] | int) -> dict[str, Any]:
    """Return what became of a file: one of ``VERDICTS``, why, and seconds.

    Args:
      path: of the file.
      feeds: inputs by name, which take the dtypes of the file; or the size of a head, for a language model with caches.
    """
    proto = onnx.load(path)
    row: dict[str, Any] = {"nodes": len(proto.graph.node)}
    try:
        calls = _by_onnxruntime(proto, feeds)
    except Exception as error:
        calls, row["onnxruntime"] = [], _first_line(error)
    verdict, why = _by_jaxdml(path, proto, calls, row)
    if not calls:
        row["jaxdml"] = "loads" if verdict == "agrees" else f"{verdict}: {why}"
        verdict, why = "not run by onnxruntime", row.pop("onnxruntime")
    return {"verdict": verdict, "why": why, **row}


Calls = list[tuple[dict[str, Any], list[Any]]]
"""Inputs by name and the outputs for them, for each call."""


def _by_onnxruntime(proto: Any, feeds: Mapping[str, Any] | int) -> Calls:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        _of_full_accuracy(proto).SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    if not isinstance(feeds, int):
        given = _typed(session, feeds)
        return [(given, session.run(None, given))]
    prompt = _prompt(session, feeds)
    outputs = session.run(None, prompt)
    token = _token(session, prompt, outputs)
    return [(prompt, outputs), (token, session.run(None, token))]


def _of_full_accuracy(proto: Any) -> Any:
    """Return a model whose products of few bits do not round activations to 8 bits, which the attribute permits."""
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    for node in copy.graph.node:
        for attribute in node.attribute:
            if attribute.name == "accuracy_level":
                attribute.i = 0
    return copy


_DTYPES = {"float": np.float32, "float16": np.float16, "int64": np.int64, "int32": np.int32, "bool": np.bool_}


def _dtype(value: Any) -> Any:
    return _DTYPES[value.type.removeprefix("tensor(").removesuffix(")")]


def _typed(session: Any, feeds: Mapping[str, Any]) -> dict[str, Any]:
    return {value.name: feeds[value.name].astype(_dtype(value)) for value in session.get_inputs()}


def _prompt(session: Any, head: int, batch: int = 2, length: int = 6) -> dict[str, Any]:
    """Return the inputs of a language model for a first prompt: tokens, a mask, positions, and empty caches."""
    random = np.random.default_rng(0)
    symbols = {"kv_cache_dim": head, "past_sliding_length": _WINDOW}
    made = {}
    for value in session.get_inputs():
        dtype = _dtype(value)
        if value.name == "input_ids":
            made[value.name] = random.integers(3, 90, (batch, length)).astype(dtype)
        elif value.name == "attention_mask":
            made[value.name] = np.ones((batch, length), dtype)
        elif value.name == "position_ids":
            made[value.name] = np.tile(np.arange(length, dtype=dtype), (batch, 1))
        else:
            sizes = [size if isinstance(size, int) else symbols.get(size, 0) for size in value.shape]
            made[value.name] = np.zeros([batch, *sizes[1:]], dtype)
    return made


def _token(session: Any, prompt: Mapping[str, Any], outputs: list[Any]) -> dict[str, Any]:
    """Return the inputs for one more token, with the caches that the prompt has filled."""
    batch, length = prompt["input_ids"].shape
    made = {value.name.replace("present", "past"): x for value, x in zip(session.get_outputs(), outputs, strict=True)}
    made = {name: made.get(name.replace("past_key_values", "past"), old) for name, old in prompt.items()}
    made["input_ids"] = prompt["input_ids"][:, :1] + 1
    made["attention_mask"] = np.ones((batch, length + 1), prompt["attention_mask"].dtype)
    if "position_ids" in made:
        made["position_ids"] = np.full((batch, 1), length, made["position_ids"].dtype)
    return made


def _by_jaxdml(path: Path, proto: Any, calls: Calls, row: dict[str, Any]) -> tuple[str, str]:
    begun = time.perf_counter()
    try:
        model = jaxdml.onnx.load(path)
        row["load_s"] = round(time.perf_counter() - begun, 2)
        half = _has_half(proto)
        row["difference"] = _greatest(model, calls, half)
    except jaxdml.onnx.UnsupportedModelError as error:
        return "refused", str(error)
    except Exception as error:
        return "raises", _first_line(error)
    row["first_call_s"] = round(time.perf_counter() - begun - row["load_s"], 2)
    bound = BOUNDS["float16" if half else "float32"]
    if row["difference"] <= bound:
        return "agrees", ""
    if not _rounds(proto):
        return "wrong", f"{row['difference']:.2g} of the span"
    row["literal_difference"] = _greatest(jaxdml.onnx.load(path, numerics="literal"), calls, half)
    steps = row["literal_difference"] <= bound or row["difference"] <= STEPS
    return "steps" if steps else "wrong", f"{row['difference']:.2g} of the span"


def _greatest(model: Any, calls: Calls, half: bool) -> float:
    pairs = ((_known(given, model(**given)), _known(given, expected)) for given, expected in calls)
    return max((difference(*pair, half) for pair in pairs), default=0.0)


def _known(given: Mapping[str, Any], outputs: Sequence[Any]) -> list[Any]:
    """Return outputs without what no operator defines: rows of caches for tokens that are still to come."""
    length = given["attention_mask"].shape[1] if any(name.startswith("past") for name in given) else None
    return [array[:, :, :length] if array.ndim == 4 else array for array in map(np.asarray, outputs)]


def difference(found: list[Any], expected: list[Any], half: bool = False) -> float:
    """Return the greatest difference as a share of the span of what is expected; infinity where shapes differ.

    A span is at least the smallest normal number, of float16 if ``half``: what is below is steps of subnormals. Of
    these onnxruntime may keep more than the file says, since it computes in float32.
    """
    return max((_difference(*pair, half) for pair in zip(found, expected, strict=True)), default=0.0)


def _difference(found: Any, expected: Any, half: bool) -> float:
    if found.shape != expected.shape:
        return float("inf")
    if not expected.size:
        return 0.0
    if expected.dtype.kind != "f":
        return float(np.mean(found != expected))
    left, right = (array.astype(np.float64) for array in (found, expected))
    finite = np.isfinite(right)
    if not np.array_equal(np.where(finite, 0, left), np.where(finite, 0, right), equal_nan=True):
        return float("inf")
    left, right = left[finite], right[finite]
    span = float(np.ptp(right)) or float(np.abs(right).max())
    span = max(span, float(np.finfo(np.float16 if half else expected.dtype).smallest_normal))
    return float(np.abs(left - right).max() / span) if np.isfinite(left).all() else float("inf")


def _kinds(proto: Any) -> Iterator[str]:
    yield from (node.op_type for node in proto.graph.node)
    yield from (node.op_type for function in proto.functions for node in function.node)


def _rounds(proto: Any) -> bool:
    """Tell whether a file quantizes activations."""
    words = ("QuantizeLinear", "QLinear", "QGemm", "QAttention", "DynamicQuantize")
    return any(kind.startswith(words) for kind in _kinds(proto))


def _has_half(proto: Any) -> bool:
    half = onnx.TensorProto.FLOAT16
    values = (*proto.graph.input, *proto.graph.output, *proto.graph.value_info)
    cast = any(a.name == "to" and a.i == half for node in proto.graph.node for a in node.attribute)
    return (
        cast
        or any(tensor.data_type == half for tensor in proto.graph.initializer)
        or any(value.type.tensor_type.elem_type == half for value in values)
    )


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    notes = "; ".join(getattr(error, "__notes__", []))
    return f"{type(error).__name__}: {' '.join(lines[:3])[:400]} {notes}".strip()
