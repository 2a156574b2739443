"""Files of today's exporters, quantizers and builders against onnxruntime: ``python -m tests.onnx.zoo``."""
