"""Exact operations that several kernels need: on bits, order keys, indices and IEEE floats. No platform, no checks."""
