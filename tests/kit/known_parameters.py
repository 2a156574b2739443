"""Parameters that are known when weights are packed, and programs of calls with them."""

import jax
import numpy as np

_RNG = np.random.default_rng(0)
COLUMNS = 12
PARAMETERS = {
    "scale": np.float32(0.02), "zero_point": np.uint8(3),
    "w_scale": _RNG.uniform(0.5, 1, COLUMNS).astype(np.float32) / 64,
    "output_scale": np.float32(0.07), "output_zero_point": np.uint8(9),
    "bias": _RNG.integers(-999, 999, COLUMNS).astype(np.int32),
}  # fmt: skip


def named(x, w, **changes):
    """Return the parameters by the names that an operator has for its factors."""
    given = PARAMETERS | changes
    names = {
        "scale": f"{x}_scale",
        "zero_point": f"{x}_zero_point",
        "w_scale": f"{w}_scale",
        "w_zero": f"{w}_zero_point",
    }
    return {names.get(name, name): value for name, value in given.items()}


def lowered(function, *operands):
    """Return the text of a program for CUDA, before XLA."""
    return jax.jit(function).trace(*operands).lower(lowering_platforms=("cuda",)).as_text()
