"""Whole networks with random weights, as ONNX models."""
