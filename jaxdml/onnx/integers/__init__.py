"""Operators on quantized values, rounded once."""
