"""The cells of tests/test_composition.py that cannot be: why, and a proof, which fails once JAX can do it."""

import inspect

import jax
import numpy as np
import pytest
from jax.experimental import checkify
from jax.sharding import PartitionSpec as P

import jaxdml
from tests.compositions import operands, oracle
from tests.placements import layouts_of, mesh_of, put


def _lacks_axis_name(name):
    """Prove that the operator has no such parameter."""
    assert "axis_name" not in inspect.signature(getattr(jaxdml, name)).parameters


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


def _no_result_lies_where_the_argument_lies(name):
    """Prove that the blocks of the argument and of the results differ in shape."""
    (layout,) = layouts_of(name, "axis_name").values()
    assert layout.specs[0] not in layout.results


def _results_are_wider_than_arguments(name):
    """Prove that no argument's memory is large enough for a result of the same number of elements."""
    arguments = operands(name)
    assert max(x.itemsize for x in arguments) < min(x.itemsize for x in oracle(name, *arguments))


def _results_are_smaller_than_arguments(name):
    """Prove that every argument takes more memory than any result."""
    arguments = operands(name)
    assert min(x.nbytes for x in arguments) > max(x.nbytes for x in oracle(name, *arguments))


def impossible(name, column, placement):
    """Return why a cell is impossible, and its proof; None if it is not."""
    if placement == "axis_name" and not layouts_of(name, placement):
        return "the operator has no axis_name", _lacks_axis_name
    if placement == "axis_name" and column == "donation" and name != "scatter_nd":
        return "no result has blocks of the shape of the argument's", _no_result_lies_where_the_argument_lies
    if column == "donation" and name == "convolution_integer":
        return "a result is wider than the arguments", _results_are_wider_than_arguments
    if column == "donation" and name == "matrix_multiply_integer":
        return "a result is wider than the arguments", _results_are_wider_than_arguments
    if column == "donation" and name in ("argmax", "argmin"):
        return "a result is smaller than the argument", _results_are_smaller_than_arguments
    if column != "checkify_index" or name == "quantized_linear_matrix_multiply":
        return None
    if placement == "explicit":
        return "JAX cannot check indices in a shard_map from outside", _stock_indexing_fails_outside
    if name == "scatter_nd" and placement == "shard_map":
        return "JAX cannot check indices in one of two branches in a shard_map", _stock_branches_fail_in_blocks
    return None
