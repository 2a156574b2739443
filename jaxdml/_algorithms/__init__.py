"""Floor 1: methods on ``jax.lax``, named by what they do. Canonical input only; no checks, no platform."""
