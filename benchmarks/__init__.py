"""Measure jaxdml's operators against their peers, on whatever device JAX finds: ``python -m benchmarks --help``."""

from jaxdml import _commands as _commands  # Settles what Ctrl-C does, also while JAX is imported.
