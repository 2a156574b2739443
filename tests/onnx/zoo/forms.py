"""What exporters, quantizers, optimizers and converters make of a network."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from onnxruntime import quantization
from onnxruntime.quantization import shape_inference
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
from onnxruntime.transformers import float16, optimizer

from tests.onnx.zoo.architectures import Architecture, examples, network

QDQ, Q_OPERATOR = quantization.QuantFormat.QDQ, quantization.QuantFormat.QOperator
U8, S8, U16 = quantization.QuantType.QUInt8, quantization.QuantType.QInt8, quantization.QuantType.QUInt16


def by_tracing(architecture: Architecture, path: Path) -> None:
    """Export by TorchScript, with the batch and the sequence as symbols."""
    dynamic = {
        name: {0: "batch", **({1: f"length_{name}"} if kind in ("token", "mask") else {})}
        for name, (kind, _) in architecture.inputs.items()
    }
    _export(architecture, path, dynamo=False, opset_version=17, dynamic_axes=dynamic)


def by_dynamo(architecture: Architecture, path: Path) -> None:
    """Export by torch.export, for the shapes of the examples."""
    _export(architecture, path, dynamo=True, opset_version=20, external_data=False, verbose=False)


def _export(architecture: Architecture, path: Path, **options: Any) -> None:
    inputs = examples(architecture)
    with torch.no_grad():
        torch.onnx.export(network(architecture), tuple(inputs.values()), str(path), input_names=list(inputs), **options)


class _Examples(quantization.CalibrationDataReader):
    """What the quantizer watches activations on."""

    def __init__(self, feeds: Mapping[str, Any]) -> None:
        self.batches = iter([dict(feeds)])

    def get_next(self) -> Any:
        return next(self.batches, None)


def static(source: Path, path: Path, feeds: Mapping[str, Any], **options: Any) -> None:
    """Quantize weights and activations."""
    quantization.quantize_static(str(_prepared(source)), str(path), _Examples(feeds), **options)


def dynamic(source: Path, path: Path, feeds: Mapping[str, Any]) -> None:
    """Quantize weights; activations are quantized as they come."""
    quantization.quantize_dynamic(str(_prepared(source)), str(path), weight_type=U8)


def _prepared(source: Path) -> Path:
    """Return the model with shapes, and optimized, as quantizers want it; the model itself if that fails."""
    prepared = source.with_suffix(".prepared")
    if not prepared.exists():
        try:
            shape_inference.quant_pre_process(str(source), str(prepared), skip_symbolic_shape=True)
        except Exception:
            return source
    return prepared


def four_bits(source: Path, path: Path, feeds: Mapping[str, Any], **options: Any) -> None:
    """Quantize the weights of matrices to 4 bits."""
    quantizer = MatMulNBitsQuantizer(onnx.load(source), block_size=32, **options)
    quantizer.process()
    if not any("MatMulNBits" in node.op_type or "DQ" in node.name for node in quantizer.model.model.graph.node):
        raise ValueError("no matrix is quantized")
    onnx.save(quantizer.model.model, path)


def half(source: Path, path: Path, feeds: Mapping[str, Any]) -> None:
    """Convert to float16 by onnxruntime's converter."""
    onnx.save(float16.convert_float_to_float16(onnx.load(source)), path)


def half_by_onnx(source: Path, path: Path, feeds: Mapping[str, Any]) -> None:
    """Convert to float16 by onnxconverter-common, with float32 inputs and outputs."""
    from onnxconverter_common import float16 as other

    onnx.save(other.convert_float_to_float16(onnx.load(source), keep_io_types=True), path)


def saved(source: Path, path: Path, feeds: Mapping[str, Any]) -> None:
    """Save what onnxruntime's own optimizations of the EXTENDED level make."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(path)
    onnxruntime.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])


def fused(source: Path, path: Path, architecture: Architecture, half: bool) -> None:
    """Fuse by onnxruntime.transformers.optimizer."""
    made = optimizer.optimize_model(
        str(source), architecture.optimizer, architecture.heads, architecture.hidden, opt_level=0
    )
    if half:
        made.convert_float_to_float16(keep_io_types=True)
    made.save_model_to_file(str(path))


_STATIC: Mapping[str, Mapping[str, Any]] = {
    "int8.qdq": {"quant_format": QDQ, "activation_type": U8, "weight_type": S8, "per_channel": True},
    "int8.qdq.signed": {"quant_format": QDQ, "activation_type": S8, "weight_type": S8},
    "int8.qoperator": {"quant_format": Q_OPERATOR, "activation_type": U8, "weight_type": U8},
    "int16.qdq": {"quant_format": QDQ, "activation_type": U16, "weight_type": S8},
}

_FOUR_BITS: Mapping[str, Mapping[str, Any]] = {
    "int4.nbits": {"quant_format": Q_OPERATOR, "is_symmetric": True},
    "int4.nbits.zeros": {"quant_format": Q_OPERATOR, "is_symmetric": False, "accuracy_level": 4},
    "int4.qdq": {"quant_format": QDQ, "is_symmetric": True},
}

EXPORTS: Mapping[str, Callable[[Architecture, Path], None]] = {"torchscript": by_tracing, "dynamo": by_dynamo}


def forms(architecture: Architecture) -> dict[str, Callable[[Path, Path, Mapping[str, Any]], None]]:
    """Return what is made of a float32 file, by name: functions of the file, the new file and inputs."""
    made: dict[str, Callable[[Path, Path, Mapping[str, Any]], None]] = {
        "float16": half,
        "float16.onnxconverter": half_by_onnx,
        "saved": saved,
        "int8.dynamic": dynamic,
    }

    def of_static(options: Mapping[str, Any]) -> Any:
        return lambda source, path, feeds: static(source, path, feeds, **options)

    def of_four_bits(options: Mapping[str, Any]) -> Any:
        return lambda source, path, feeds: four_bits(source, path, feeds, **options)

    made |= {name: of_static(options) for name, options in _STATIC.items()}
    made |= {name: of_four_bits(options) for name, options in _FOUR_BITS.items()}
    if architecture.optimizer:
        made["fused"] = lambda source, path, feeds: fused(source, path, architecture, half=False)
        made["fused.float16"] = lambda source, path, feeds: fused(source, path, architecture, half=True)
    return made


def feeds_of(architecture: Architecture) -> dict[str, Any]:
    """Return inputs by name, as NumPy arrays."""
    return {name: np.asarray(value) for name, value in examples(architecture).items()}
