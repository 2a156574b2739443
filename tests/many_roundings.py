"""Compare millions of requantized outputs with exact rationals: ``python -m tests.many_roundings [--outputs N]``."""

import argparse
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from jaxdml._arithmetic.residuals import by_residuals
from jaxdml._kernels.integer_sums import RawProduct
from tests.kit.exact_rounding import one_multiply, rounded_quotients, scale_triples
from tests.kit.forms import rounded_on_cpu

_PER_TRIPLE = 500_000


def main() -> int:
    """Count outputs that differ from the exact one, ours and those of the usual float32 multiplier."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--outputs", type=int, default=50_000_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    rng = np.random.default_rng(arguments.seed)
    quantize = jax.jit(partial(by_residuals, zero_point=None, dtype=np.dtype(np.int8)))

    @jax.jit
    def by_multiplier(accumulators: jax.Array, *scales: jax.Array) -> jax.Array:
        shape = (1, *accumulators.shape)
        raw = RawProduct(accumulators.reshape(shape))
        return rounded_on_cpu(raw, scales, None, shape)[0]

    compared = ours = usual = 0
    while compared < arguments.outputs:
        # Depths of a few, a thousand, the longest single sum, and beyond it.
        for span in (2**12, 2**22, 2**31 - 1, 2**46):
            for triple in scale_triples(rng, 4, span):
                accumulators = rng.integers(-span, span, _PER_TRIPLE, endpoint=True)
                deep = span >= 2**31
                parts = (accumulators & 0xFFFF, accumulators >> 16) if deep else (accumulators, None)
                low, high = (None if part is None else jnp.asarray(part.astype(np.int32)) for part in parts)
                got = np.asarray(quantize(low, high, tuple(jnp.float32(s) for s in triple)))
                if not deep:
                    other = np.asarray(by_multiplier(low, *(jnp.float32(s) for s in triple)))
                    ours += int((got != other).sum())
                want = np.clip(rounded_quotients(accumulators, triple), -128, 127)
                ours += int((got != want).sum())
                usual += int((np.clip(one_multiply(accumulators, triple), -128, 127) != want).sum())
                compared += want.size
    print(f"{jax.devices()[0].device_kind}: {compared:,} outputs, {ours} of ours wrong, {usual:,} by one multiply")
    return int(ours > 0)


if __name__ == "__main__":
    raise SystemExit(main())
