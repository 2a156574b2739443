"""Functions of arrays that both doors need, floats as JAX computes them. They know neither ONNX nor DirectML."""
