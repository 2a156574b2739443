"""Multiply 8-bit integers exactly, and round the results once."""
