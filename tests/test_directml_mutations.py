"""Descriptions and graphs that are changed at random are refused by typed errors, or still work."""

import copy
import dataclasses
import json
import random

import numpy as np
import pytest

from jaxdml import directml as dml
from jaxdml.directml._c import c_field
from jaxdml.directml._fields import counts_of
from jaxdml.directml._reading import desc_from_json, ignoring_unknown_keys
from tests.directml.calls import Call
from tests.directml.test_transformed import CALLS
from tests.directml_descs import FLOAT32, CopyOperatorDesc, tensor
from tests.structs import VALID

DESCS = {call.name: call.desc for call in CALLS} | VALID

TIMES = 20
"""How often each description is changed."""

JUNK = (
    None, True, -1, 0, 1, 2, 7, 2**31, 2**32, 2**64, 10**400, 0.5, -0.0, 1e39, float("nan"), "", "nan", "FLOAT32",
    "UINT4", "UNKNOWN", "OWNED_BY_DML", [], [0], [1] * 9, [2**32 - 1] * 3, [[]], {}, {"Type": "COPY"}, {"Float32": 1},
)  # fmt: skip


def places(value, path=()):
    """Yield the path to every part of a value of JSON."""
    yield path
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield from places(part, (*path, key))


def mutated(value, rng):
    """Return a value of JSON with one to three parts replaced, left out, or added."""
    value = copy.deepcopy(value)
    for _ in range(rng.randint(1, 3)):
        *path, last = rng.choice([place for place in places(value) if place] or [("Type",)])
        inside = value
        for key in path:
            inside = inside[key]
        junk = copy.deepcopy(rng.choice(JUNK))
        match rng.randrange(6):
            case 0 if last in inside or isinstance(inside, list):
                del inside[last]
            case 1 if isinstance(inside, list):
                inside.insert(last, junk)
            case 1:
                inside[rng.choice(("Strides", "Flags", "Axis", "Extra", "Desc"))] = junk
            case _:
                inside[last] = junk
    return value


def refusal(call):
    """Return the error by which a call refuses what it is given; None if it takes it."""
    try:
        call()
    except dml.InvalidDescError as error:
        return error
    return None


IMAGE, PLANE = np.zeros((1, 1, 4, 4), np.float32), np.zeros((2, 2), np.float32)
WINDOW = {"strides": (2, 2), "window_size": (2, 2), "start_padding": (0, 0), "end_padding": (0, 0)}
ALONG_DIMENSIONS = [
    Call("CONVOLUTION", [IMAGE, IMAGE[..., :2, :2], None], [IMAGE[..., :2, :2]], {
        **{name: WINDOW[name] for name in ("strides", "start_padding", "end_padding")},
        **{"mode": 1, "direction": 0, "dilations": (1, 1), "output_padding": (0, 0), "group_count": 1},
    }),
    Call("AVERAGE_POOLING", [IMAGE], [IMAGE[..., :2, :2]], WINDOW | {"include_padding": False}),
    Call("MAX_POOLING2", [IMAGE], [IMAGE[..., :2, :2], None], WINDOW | {"dilations": (1, 1)}),
    Call("RESAMPLE1", [PLANE], [PLANE], {
        **{"interpolation_mode": 0, "scales": (1, 1), "input_pixel_offsets": (0, 0), "output_pixel_offsets": (0, 0)},
    }),
]  # fmt: skip
DESCS_WITH_ARRAYS = DESCS | {call.name: call.desc for call in ALONG_DIMENSIONS}
ARRAYS = [
    (name, array, longer)
    for name, desc in DESCS_WITH_ARRAYS.items()
    for _, counts in counts_of(desc)
    for array in counts.others
    for longer in (False, True)
]


@pytest.mark.parametrize(("name", "array", "longer"), ARRAYS)
def test_arrays_of_other_lengths_end_in_typed_errors(name, array, longer):
    valid = DESCS_WITH_ARRAYS[name]
    dml.compile_operator(valid)
    numbers = getattr(valid, array)
    desc = dataclasses.replace(valid, **{array: (*numbers, 1) if longer else numbers[:-1]})
    with pytest.raises(dml.InvalidDescError, match=f"{c_field(array)} must have as many entries as "):
        dml.compile_operator(desc)


@pytest.mark.parametrize("name", DESCS)
def test_changed_descriptions_end_in_typed_errors(name):
    rng, written = random.Random(name), dml.to_json(DESCS[name])

    def read():
        desc = dml.from_json(mutated(written, rng))
        dml.compile_operator(desc, rng.choice(list(dml.FeatureLevel)))
        again = dml.to_json(desc)
        assert dml.to_json(dml.from_json(json.loads(json.dumps(again)))) == again

    refusals = [error for _ in range(TIMES) if (error := refusal(read))]
    assert len(refusals) > TIMES // 3
    assert all(error.violations and len(str(error)) < 20_000 for error in refusals)


def test_changed_graphs_end_in_typed_errors():
    rng = random.Random(4)
    sizes = tensor(FLOAT32, 4), tensor(FLOAT32, 2, 2)
    kinds = [CopyOperatorDesc(input_tensor=one, output_tensor=one) for one in sizes]

    def run():
        nodes = [dml.OperatorNode(rng.choice(kinds)) for _ in range(rng.randint(0, 4))] + [dml.ConstantNode(bytes(16))]

        def some(edge, count):
            return [edge(*(rng.choice((0, 0, 0, 1, 2)) for _ in range(count))) for _ in nodes[1:]]

        graph = dml.Graph(
            input_count=rng.randint(0, 2), output_count=rng.randint(0, 2), nodes=nodes,
            input_edges=some(dml.InputEdge, 3), output_edges=some(dml.OutputEdge, 3),
            intermediate_edges=some(dml.IntermediateEdge, 4)[: rng.randint(0, 3)],
        )  # fmt: skip
        compiled = dml.compile_graph(graph)
        compiled(*(one and np.zeros(one.sizes, np.float32) for one in compiled.inputs))

    refusals = [error for _ in range(30 * TIMES) if (error := refusal(run))]
    assert 0 < len(refusals) < 30 * TIMES
    fields = "Nodes", "InputEdges", "OutputEdges", "IntermediateEdges", "Outputs"
    assert all(one.field.startswith(fields) for error in refusals for one in error.violations)


def test_a_valid_description_survives():
    # Else the tests above could pass without reading anything.
    for desc in DESCS.values():
        assert dml.from_json(json.loads(json.dumps(dml.to_json(desc)))) == desc
        assert dataclasses.replace(desc) == desc


def test_what_is_long_is_cut_in_errors():
    written = dml.to_json(DESCS["TOP_K"])
    for wrong in ({"K": 10**5000}, {"Kind": [0] * 10**6}, {"InputTensor": ["x" * 10**6]}):
        with pytest.raises(dml.InvalidDescError) as caught:
            dml.from_json(written | {"Desc": written["Desc"] | wrong})
        assert len(str(caught.value)) < 1000
    with pytest.raises(dml.InvalidDescError, match="got a number of more digits than Python writes"):
        dataclasses.replace(DESCS["TOP_K"], k=10**5000)


def test_unknown_keys_are_ignored_where_that_is_asked_for():
    written = dml.to_json(DESCS["ACTIVATION_SHRINK"])
    written["Desc"]["InputTensor"]["Size"] = [1]
    written |= {"Comment": "shrinks", "Desc": written["Desc"] | {"Steepness": 1}}
    with ignoring_unknown_keys() as ignored:
        assert desc_from_json("dispatchables.one", written) == DESCS["ACTIVATION_SHRINK"]
    places = "Comment", "Desc.Steepness", "Desc.InputTensor.Size"
    assert ignored == [f"dispatchables.one.{place.removeprefix('Desc.')}" for place in places]
    with pytest.raises(dml.InvalidDescError, match=r"dispatchables.one.Comment must not stand beside Desc"):
        desc_from_json("dispatchables.one", written)


def test_a_fused_activation_is_read_in_every_spelling():
    one = {"DataType": "FLOAT32", "Sizes": [1, 1, 2, 2]}
    fields = {"ATensor": one, "BTensor": one, "OutputTensor": one}
    shrink = dml.ActivationShrinkOperatorDesc(bias=0.5, threshold=0.1)
    for activation in (
        {"Type": "ACTIVATION_SHRINK", "Bias": 0.5, "Threshold": 0.1},
        {"Type": "DML_OPERATOR_ACTIVATION_SHRINK", "Desc": {"Bias": 0.5, "Threshold": 0.1}},
        dml.to_json(shrink),
    ):
        desc = dml.from_json({"Type": "ELEMENT_WISE_ADD1", **fields, "FusedActivation": activation})
        assert desc.fused_activation == shrink
        assert dml.from_json(dml.to_json(desc)) == desc
    x = np.float32([[[[0.05, -1], [2, 0]]]])
    found = np.asarray(dml.compile_operator(desc)(x, np.zeros_like(x)))
    np.testing.assert_allclose(found, [[[[0, -0.5], [1.5, 0]]]])
    nested = {"Type": "GEMM"}
    for _ in range(500):
        nested = {"Type": "GEMM", "FusedActivation": nested}
    with pytest.raises(dml.InvalidDescError, match=r"FusedActivation.Type must be an activation that can be fused"):
        dml.from_json({"Type": "ELEMENT_WISE_ADD1", **fields, "FusedActivation": nested})
    wrong = {"Type": "ACTIVATION_SHRINK", "Bias": "high", "Steepness": 1}
    with pytest.raises(dml.InvalidDescError) as caught:
        dml.from_json({"Type": "ELEMENT_WISE_ADD1", **fields, "FusedActivation": wrong})
    assert [(one.field, one.got) for one in caught.value.violations] == [
        ("FusedActivation.Steepness", "1"),
        ("FusedActivation.Bias", "'high'"),
        ("FusedActivation.Threshold", "nothing"),
    ]
