"""Floor 1: methods on ``jax.lax``, named by what they do, one folder a family. No checks, no platform."""
