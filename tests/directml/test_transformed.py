"""Every operator of the tables with strides, mapped, differentiated, exported and sharded."""

import dataclasses
import math

import jax
import numpy as np
from jax import export
from jax.sharding import NamedSharding, PartitionSpec

from jaxdml import directml as dml
from tests.directml import test_elementwise, test_moving
from tests.directml.calls import Call, compare
from tests.kit import meshes, quick

pytestmark = quick


def one_of_each():
    """Return a call of every operator, of floats where the tables have one."""
    kinds = [np.dtype(dtype) for dtype in ("float32", "uint8", "int32")]
    rows = test_elementwise.ROWS.items()
    calls = [test_elementwise.call(name, row, kind) for kind in kinds for name, row in rows]
    calls += test_elementwise.softmaxes("float32") + test_elementwise.PUBLISHED + test_elementwise.DECIDED
    calls += test_moving.moved("float32") + test_moving.filled("float32")
    calls += [call for family in test_moving.FAMILIES.values() for call in family()]
    return list({call.name: call for call in reversed(calls) if call}.values())


CALLS = one_of_each()
ONE_OUTPUT = [call for call in CALLS if len(call.wanted) == 1 and call.name not in ("SPLIT", "JOIN")]


def results(operators, inputs):
    return [operator(*given) for operator, given in zip(operators, inputs, strict=True)]


def strides_of(sizes, reverse):
    """Return strides three times as long as they need to be; if ``reverse``, the first dimension varies fastest."""
    lengths = sizes[::-1] if reverse else sizes
    strides = tuple(3 * math.prod(lengths[place + 1 :]) for place in range(len(lengths)))
    return strides[::-1] if reverse else strides


def laid_out(array, strides):
    """Return the buffer of an array."""
    kind = dml.TensorDataType[array.dtype.name.upper()]
    buffer = np.zeros(8 * dml.BufferTensorDesc(kind, array.shape, strides).size_in_bytes // kind.bits, array.dtype)
    places = [stride * array.itemsize for stride in strides]
    np.lib.stride_tricks.as_strided(buffer, array.shape, places)[...] = array
    return buffer


def with_strides(call):
    """Return the call's description with strides in all tensors."""
    desc = call.desc
    described = {
        name: dataclasses.replace(tensor, strides=strides_of(tensor.sizes, reverse=not desc.roles()[name].output))
        for name, tensor in desc.tensors.items()
    }
    return dataclasses.replace(desc, **described)


def test_buffers_with_strides_hold_the_same_numbers():
    descs = [with_strides(call) for call in ONE_OUTPUT]
    inputs = [
        [None if x is None else laid_out(x, strides_of(x.shape, reverse=True)) for x in call.inputs]
        for call in ONE_OUTPUT
    ]
    assert len(descs) > 110
    found = jax.jit(lambda inputs: results([dml.compile_operator(desc) for desc in descs], inputs))(inputs)
    for call, got in zip(ONE_OUTPUT, found, strict=True):
        wanted = call.wanted[0]
        compare(got, laid_out(wanted, strides_of(wanted.shape, reverse=False)), call.tolerance)


def test_operators_are_mapped_and_exported_for_every_platform():
    calls = [call for call in CALLS if jax.tree.leaves(call.inputs)]
    operators = [call.operator for call in calls]
    inputs = [list(call.inputs) for call in calls]
    mapped = jax.jit(jax.vmap(lambda inputs: results(operators, inputs)))
    twice = jax.tree.map(lambda x: np.stack([np.flip(x), x]), inputs)
    program = export.export(mapped, platforms=("cpu", "cuda", "tpu"))(twice)
    found = export.deserialize(program.serialize()).call(twice)
    for call, got in zip(calls, found, strict=True):
        compare(jax.tree.map(lambda x: x[1], got), tuple(call.wanted), call.tolerance)


def derivative(numpy, given, place):
    """Return NumPy's derivative of a function of float64 in one of its arguments."""
    step = 1e-5
    ends = [[x + sign * step * (other == place) for other, x in enumerate(given)] for sign in (1, -1)]
    return (numpy(*ends[0]) - numpy(*ends[1])) / (2 * step)


def test_gradients_are_the_derivatives():
    one = np.float32([-2.3, -0.61, 0.37, 0.83, 1.7, 3.31, 5.63])  # No operator has a kink or a jump there.
    calls, wanted = [], []
    for name, row in test_elementwise.ROWS.items():
        made = test_elementwise.call(name, row, np.dtype(np.float32))
        if made is None or made.wanted[0].dtype != np.float32 or row.as_is:
            continue
        given = [one] if len(made.inputs) == 1 else [np.repeat(one, 7), np.tile(one, 7)]
        if len(given) == 2:
            given = [x[given[0] != given[1]] for x in given]
        calls.append(Call(name, given, [given[0]], made.fields))
        with np.errstate(all="ignore"):
            wide = [x.astype(np.float64) for x in given]
            wanted.append([derivative(row.numpy, wide, place) for place in range(len(wide))])
    operators = [call.operator for call in calls]

    def gradients(inputs):
        each = zip(operators, inputs, strict=True)
        return [jax.grad(lambda given, of=of: of(*given).sum())(given) for of, given in each]

    found = jax.jit(gradients)([list(call.inputs) for call in calls])
    assert len(calls) > 50
    for call, got, want in zip(calls, found, wanted, strict=True):
        for one, other in zip(got, want, strict=True):
            defined = np.where(np.isnan(other), np.nan, one)  # A derivative may go on where its function ends.
            np.testing.assert_allclose(defined, other, 1e-3, 1e-4, err_msg=call.name)


def test_elements_may_be_sharded():
    mesh = jax.make_mesh((meshes.COUNT,), ("i",))
    calls = [call for call in ONE_OUTPUT if call.name in test_elementwise.ROWS]
    calls = [
        call._replace(inputs=[np.resize(x, (8, 30)) for x in call.inputs], wanted=[np.resize(call.wanted[0], (8, 30))])
        for call in calls
    ]
    sharding = NamedSharding(mesh, PartitionSpec("i"))
    inputs = jax.device_put([list(call.inputs) for call in calls], sharding)
    found = jax.jit(lambda inputs: results([call.operator for call in calls], inputs))(inputs)
    for call, got in zip(calls, found, strict=True):
        assert got.sharding.is_equivalent_to(sharding, 2)
        compare(got, call.wanted[0], call.tolerance)
