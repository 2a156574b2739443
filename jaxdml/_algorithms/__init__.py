"""Floor 1: algorithms on ``jax.lax``, named by method, one folder per family. No checks, no choice by platform."""
