"""What differs between the supported versions of JAX. No other module asks for the version."""

import jax

HAS_FAST_MAXIMUM_OF_BYTES = jax.__version_info__ >= (0, 10, 2)
"""Whether XLA's CPU backend has one. Where it has, maxima in two steps take 2 to 5 times as long, and before a tenth of
the time."""

NESTED_SHARDS_HAVE_AN_INDEX = jax.__version_info__ >= (0, 10, 2)
"""Whether ``lax.axis_index`` can be lowered in a ``shard_map`` that is inside another one."""

FUSES_BITS_WITH_PRODUCTS = jax.__version_info__ >= (0, 11, 1)
"""Whether XLA for CUDA can take int4 and the bits of floats into the kernel of a product. Before, it writes the floats
of int4, and does not compile some products with the option for that."""

BARRIERS_HOLD = jax.__version_info__ >= (0, 11, 1)
"""Whether ``lax.optimization_barrier`` keeps XLA's CPU backend from computing anew what an operation reads. Where it
does not, a branch does, which costs a copy."""
