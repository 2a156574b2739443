"""Every operator under every transformation of JAX and at every placement: what tests/test_composition.py runs."""
