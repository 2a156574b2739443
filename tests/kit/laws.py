"""Predicates that more than one operator obeys."""

import jax
import numpy as np

from jaxdml._cases.data import unsigned

SHOWN = 5
"""How many places that differ a failure shows."""


def bits(x) -> np.ndarray:
    """Return the array as integers, so that NaNs and zeros compare by their patterns."""
    x = np.asarray(x)
    if x.dtype == bool:
        return x.astype(np.uint8)
    if x.dtype.kind == "c":
        x = np.stack([x.real, x.imag], axis=-1)
    return x.view(unsigned(x.dtype))


def assert_same_bits(got, want) -> None:
    """Require equal dtype, shape and bits. Else say the first elements that differ, with their bits."""
    got, want = np.asarray(got), np.asarray(want)
    assert (got.dtype, got.shape) == (want.dtype, want.shape), (
        f"{got.dtype}{got.shape}, wanted {want.dtype}{want.shape}"
    )
    differ = bits(got) != bits(want)
    places = np.argwhere(differ.any(-1) if got.dtype.kind == "c" else differ)
    shown = [
        f"  {place}: got {_shown(got[place])}, wanted {_shown(want[place])}"
        for place in map(tuple, places[:SHOWN].tolist())
    ]
    assert not shown, "\n".join([f"{len(places)} of {got.size} elements differ:", *shown])


def _shown(x) -> str:
    """Return a number and its bits."""
    return f"{x} ({' '.join(f'{part:#0{2 + 2 * part.itemsize}x}' for part in np.ravel(bits(x)))})"


def assert_same_trees(got, want) -> None:
    """Require equal trees of arrays, bit for bit. What is wanted must have an element, or nothing is compared."""
    leaves = jax.tree.leaves(want)
    assert sum(np.size(leaf) for leaf in leaves), "nothing is compared: what is wanted has no elements"
    trees = jax.tree.structure(got), jax.tree.structure(want)
    assert trees[0] == trees[1], f"the trees differ, and a NamedTuple is no tuple: {trees[0]}, wanted {trees[1]}"
    for one, other in zip(jax.tree.leaves(got), leaves, strict=True):
        assert_same_bits(one, other)
