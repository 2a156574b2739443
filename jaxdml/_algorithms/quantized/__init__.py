"""Multiply 8-bit integers exactly, and round what comes out once."""
