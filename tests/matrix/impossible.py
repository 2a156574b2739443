"""The cells of tests/test_composition.py that cannot be: why, and a proof, which fails once JAX can do it."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import checkify
from jax.sharding import PartitionSpec as P

from tests.kit import assert_same_trees, compiled
from tests.matrix.compositions import operands, operator, oracle
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


def _stock_division_of_int64_fails(name):
    """Prove that checkify checks a division within ``jax.enable_x64`` as if it were one of int32."""
    del name

    def stock(x):
        with jax.enable_x64(True):
            wide = x.astype(jnp.int64)
            return jax.lax.div(wide, wide).astype(jnp.int32)

    with pytest.raises(UserWarning, match="will be truncated to dtype int32"):
        jax.eval_shape(checkify.checkify(stock, errors=checkify.float_checks), np.int32(1))


def _reports_a_nan_that_no_result_has(name):
    """Prove that checkify reports a NaN that the operator computes and does not choose."""
    checked = compiled(checkify.checkify(partial(operator, name), errors=checkify.float_checks))
    arguments = operands(name, tame=True)
    error, results = checked(*arguments)
    assert "nan generated" in error.get()
    assert_same_trees(results, oracle(name, *arguments))
    assert not any(np.isnan(x).any() for x in results)


def impossible(name, column, placement):
    """Return why a cell is impossible, and its proof; None if it is not."""
    if column == "checkify_index" and placement == "explicit":
        return "JAX cannot check indices in a shard_map from outside", _stock_indexing_fails_outside
    if column == "checkify_index" and (name, placement) == ("scatter_nd", "shard_map"):
        return "JAX cannot check indices in one of two branches in a shard_map", _stock_branches_fail_in_blocks
    if name == "quantized_linear_add" and column in ("checkify_float", "checkify_all"):
        return "JAX checks a division of int64 as one of int32", _stock_division_of_int64_fails
    if name == "quantize_linear" and column in ("checkify_float", "checkify_all"):
        return "the operator computes a NaN that it does not choose", _reports_a_nan_that_no_result_has
    return None
