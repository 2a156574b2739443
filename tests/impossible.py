"""The cells of tests/test_composition.py that cannot be: why, and a proof, which fails once JAX can do it."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import checkify
from jax.sharding import PartitionSpec as P

import jaxdml
from tests.placements import layouts_of, mesh_of, put


def _lacks_axis_name(name):
    """Prove that the operator has no such parameter."""
    assert "axis_name" not in inspect.signature(getattr(jaxdml, name)).parameters


def _stock_indexing_fails_under_checkify(name):
    """Prove that ``x[indices]`` fails too, where checkify is applied to ``shard_map``."""
    del name
    stock = jax.shard_map(
        lambda x, i: x[i], mesh=mesh_of("shard_map"), in_specs=(P(None, "y"), P()), out_specs=P(None, "y")
    )
    x, i = put("shard_map", (np.ones((4, 8), np.float32), np.ones(2, np.int32)), (P(None, "y"), P()))
    with pytest.raises(ValueError, match=r"foreach\(\) argument"):
        jax.eval_shape(checkify.checkify(stock, errors=checkify.index_checks), x, i)


def _stock_loops_fail_under_checkify(name):
    """Prove that a loop in ``shard_map`` fails too, where checkify is applied to it."""
    del name

    def loop(x):
        return jax.lax.scan(lambda carry, row: (carry, jnp.sin(row)), 0, x)[1]

    stock = jax.shard_map(loop, mesh=mesh_of("shard_map"), in_specs=P(None, "y"), out_specs=P(None, "y"))
    (x,) = put("shard_map", (np.ones((4, 8), np.float32),), (P(None, "y"),))
    with pytest.raises(ValueError, match="mismatched varying manual axes"):
        jax.eval_shape(checkify.checkify(stock, errors=checkify.float_checks), x)


def _no_result_lies_where_the_argument_lies(name):
    """Prove that the blocks of the argument and of the results differ in shape."""
    (layout,) = layouts_of(name, "axis_name").values()
    assert layout.specs[0] not in layout.results


def impossible(name, column, placement):
    """Return why a cell is impossible, and its proof; None if it is not."""
    if placement == "axis_name" and not layouts_of(name, placement):
        return "the operator has no axis_name", _lacks_axis_name
    if placement == "axis_name" and column == "donation" and name != "scatter_nd":
        return "no result has blocks of the shape of the argument's", _no_result_lies_where_the_argument_lies
    return None
