"""The cells of tests/test_composition.py that cannot be: why, and a proof, which fails once JAX can do it."""

import jax
import numpy as np
import pytest
from jax.experimental import checkify
from jax.sharding import PartitionSpec as P

from tests.matrix.placements import mesh_of, put


def _stock_indexing_fails_outside(name):
    """Prove that checkify fails on ``x[indices]`` in ``shard_map``, too, where it is applied to ``shard_map``."""
    del name
    stock = jax.shard_map(
        lambda x, i: x[i], mesh=mesh_of("shard_map"), in_specs=(P(None, "y"), P()), out_specs=P(None, "y")
    )
    x, i = put("shard_map", (np.ones((4, 8), np.float32), np.ones(2, np.int32)), (P(None, "y"), P()))
    with pytest.raises(ValueError, match=r"foreach\(\) argument"):
        jax.eval_shape(checkify.checkify(stock, errors=checkify.index_checks), x, i)


def _stock_branches_fail_in_blocks(name):
    """Prove that checkify fails on one of two branches in ``shard_map``, too, where it is applied to a block."""
    del name

    def block(x, i):
        def either(x, i):
            return jax.lax.cond(i[0] > 0, lambda: x[i], lambda: x)

        return checkify.checkify(either, errors=checkify.index_checks)(x, i)[1]

    stock = jax.shard_map(block, mesh=mesh_of("shard_map"), in_specs=(P(None, "y"), P()), out_specs=P(None, "y"))
    x, i = put("shard_map", (np.ones((2, 8), np.float32), np.ones(2, np.int32)), (P(None, "y"), P()))
    with pytest.raises(Exception, match="mismatched varying manual axes"):
        jax.eval_shape(stock, x, i)


def impossible(name, column, placement):
    """Return why a cell is impossible, and its proof; None if it is not."""
    if column == "checkify_index" and placement == "explicit":
        return "JAX cannot check indices in a shard_map from outside", _stock_indexing_fails_outside
    if column == "checkify_index" and (name, placement) == ("scatter_nd", "shard_map"):
        return "JAX cannot check indices in one of two branches in a shard_map", _stock_branches_fail_in_blocks
    return None
