"""Move arrays from the host to the device without a program."""

from typing import TypeVar

import jax
import numpy as np

Tree = TypeVar("Tree")


def from_host(tree: Tree) -> Tree:
    """Return a pytree with its NumPy arrays as arrays of JAX.

    ``jnp.asarray`` compiles a program for each shape. They are copied, because on a CPU ``device_put`` goes on to read
    the memory that it is given, which may be the caller's.
    """
    return jax.tree.map(
        lambda array: jax.device_put(np.array(array, order="C")) if isinstance(array, np.ndarray) else array,
        tree,
    )
