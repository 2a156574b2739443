"""Measure jaxdml's operators against their peers, on whatever device JAX finds: ``python -m benchmarks --help``."""
