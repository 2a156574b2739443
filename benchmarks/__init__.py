"""Measure jaxdml's operators against their peers, on whatever device JAX finds: ``python -m benchmarks --help``."""

from jaxdml import _commands

_commands.end_at_ctrl_c("benchmarks")
