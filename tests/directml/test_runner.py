"""The runner of DxDispatch's models: what they print and write, and what is refused before anything runs."""

import json
import runpy
import struct
import sys
import time

import numpy as np
import onnx.parser
import pytest
from PIL import Image

from jaxdml._runner import command as runner
from tests.directml import flatgraphs as flat
from tests.directml.flatgraphs import Node
from tests.kit import quick

pytestmark = quick


def values(*given, kind="FLOAT32", **more):
    return {"initialValuesDataType": kind, "initialValues": list(given), **more}


def zeros(count, kind="FLOAT32"):
    return {"initialValuesDataType": kind, "initialValues": {"valueCount": count, "value": 0}}


def sequence(count, start, step, kind="FLOAT32"):
    counted = {"valueCount": count, "valueStart": start, "valueDelta": step}
    return {"initialValuesDataType": kind, "initialValues": counted}


def tensor(*sizes, kind="FLOAT32", **more):
    return {"DataType": kind, "Sizes": list(sizes), **more}


def dispatch(**bindings):
    return {"type": "dispatch", "dispatchable": "it", "bindings": bindings}


def shown(*names, **more):
    return [{"type": "print", "resource": name, **more} for name in names]


def model(resources, dispatchable, *commands):
    return {"resources": resources, "dispatchables": {"it": dispatchable}, "commands": list(commands)}


def add(size=3, **more):
    return {
        "type": "DML_OPERATOR_ELEMENT_WISE_ADD",
        "desc": {f"{name}Tensor": tensor(size) for name in ("A", "B", "Output")},
        **more,
    }


ADDED = dispatch(ATensor="a", BTensor="b", OutputTensor="c")


@pytest.fixture
def run(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def running(given, *options):
        file = tmp_path / "model.json"
        file.write_text(given if isinstance(given, str) else json.dumps(given))
        status = runner.main([str(file), *options])
        out, err = capsys.readouterr()
        return status, [line for line in out.splitlines() if not line.startswith(("Running on", "Dispatch"))], err

    return running


def test_values_sequences_and_numbers_that_repeat(run):
    resources = {"a": sequence(3, 1, 2), "b": values("NaN", -1, 2.5), "c": zeros(3)}
    assert run(model(resources, add(), ADDED, *shown("a", "b", "c"))) == (
        0,
        ["Resource 'a': 1, 3, 5", "Resource 'b': nan, -1, 2.5", "Resource 'c': nan, 2, 7.5"],
        "",
    )


def test_sequences_are_added_up_in_their_data_type(run):
    resources = {
        "a": sequence(4, 2047, 1, "FLOAT16"),
        "b": sequence(3, 254, 1, "UINT8"),
        "c": values(65, 66, kind="INT8"),
    }
    _, lines, _ = run(model(resources, add(), *shown("a", "b", "c")))
    # Beyond 2048 float16 has no odd numbers; a byte wraps, and C++ shows bytes as characters.
    assert lines == ["Resource 'a': 2047, 2048, 2048, 2048", "Resource 'b': \xfe, \xff, \x00", "Resource 'c': A, B"]


def test_verbose_lines_show_bits(run):
    _, lines, _ = run(model({"a": values(1, -2)}, add(), *shown("a", verbose=True)))
    assert lines == ["Resource 'a':", "[0] 1 (0x3F800000)", "[1] -2 (0xC0000000)"]


def test_comments_commas_and_text_after_the_end(run):
    text = json.dumps(model({"a": values(1)}, add(), *shown("a")))
    text = "/* a model */ " + text.replace("]}", "],}") + " // the end\nand more"
    assert run(text.replace('"print"', '"print" /* "not print" */'))[1] == ["Resource 'a': 1"]


def test_parts_of_a_resource_are_joined_and_split(run):
    resources = {"a": sequence(6, 1, 1), "b": values(9), "c": zeros(4), "d": zeros(4)}
    join = {
        "Type": "JOIN",
        "desc": {"Axis": 0, "InputCount": 2, "InputTensors": [tensor(1), tensor(3)], "OutputTensor": tensor(4)},
    }
    parts = dispatch(InputTensors=["b", {"name": "a", "elementCount": 3, "elementOffset": 2}], OutputTensor="c")
    assert run(model(resources, join, parts, *shown("c")))[1] == ["Resource 'c': 9, 3, 4, 5"]
    split = {
        "type": "DML_OPERATOR_SPLIT",
        "InputTensor": tensor(4),
        "OutputCount": 2,
        "OutputTensors": [tensor(1), tensor(3)],
        "Axis": 0,
    }
    halves = dispatch(InputTensor="a", OutputTensors=["b", {"name": "d", "elementOffset": 1}])
    assert run(model(resources, split, halves, *shown("b", "d")))[1] == ["Resource 'b': 1", "Resource 'd': 0, 2, 3, 4"]


def test_in_place_and_owned_and_strided(run):
    clip = {
        "type": "ELEMENT_WISE_CLIP",
        "desc": {"InputTensor": tensor(3), "OutputTensor": tensor(3), "Min": -1, "Max": 1},
    }
    in_place = dispatch(InputTensor="a", OutputTensor="a")
    assert run(model({"a": values(-2, 0.5, 2)}, clip, in_place, *shown("a")))[1] == ["Resource 'a': -1, 0.5, 1"]
    owned = add(bindings={"BTensor": "b"}, dmlCompileType="DmlCompileGraph")
    owned["desc"] |= {"BTensor": tensor(3, Flags="DML_TENSOR_FLAG_OWNED_BY_DML"), "ATensor": tensor(3, Strides=[0])}
    resources = {"a": values(5), "b": values(1, 2, 3), "c": zeros(3)}
    given = model(resources, owned, dispatch(ATensor="a", OutputTensor="c"), *shown("c"))
    assert run(given)[1] == ["Resource 'c': 6, 7, 8"]


def test_integers_of_64_bits(run):
    resources = {"a": values(2**40, kind="INT64"), "b": values(1, kind="INT64"), "c": zeros(1, "INT64")}
    wide = {
        "type": "ELEMENT_WISE_ADD",
        "desc": {f"{name}Tensor": tensor(1, kind="INT64") for name in ("A", "B", "Output")},
    }
    assert run(model(resources, wide, ADDED, *shown("c")))[1] == ["Resource 'c': 1099511627777"]


def test_files(run, tmp_path):
    np.save(tmp_path / "a.npy", np.float32([[1, 2, 3]]).astype(">f4"))
    np.save(tmp_path / "m.npy", np.array([True, False]))
    np.float32([4, 5, 6]).tofile(tmp_path / "b.dat")
    resources = {
        "a": {"initialValues": {"sourcePath": "a.npy"}},
        "b": {"initialValuesDataType": "FLOAT32", "initialValues": {"sourcePath": "b.dat"}},
        "c": {**zeros(3), "sizeInBytes": 16},
        "m": {"initialValues": {"sourcePath": "m.npy"}},
    }
    writing = [{"type": "writeFile", "resource": "c", "targetPath": name} for name in ("c.npy", "c.dat", "none/c.dat")]
    writing.append({"type": "writeFile", "resource": "c", "targetPath": "d.npy", "dimensions": [3, 1]})
    status, lines, err = run(model(resources, add(), ADDED, *writing, *shown("c")), "-i", "2", "-w", "1")
    assert (status, lines[-1]) == (0, "Resource 'c': 5, 7, 9")
    assert "Could not write 'none/c.dat'" in err
    np.testing.assert_array_equal(np.load(tmp_path / "c.npy"), np.float32([5, 7, 9, 0]))
    np.testing.assert_array_equal(np.load(tmp_path / "d.npy"), np.float32([[5], [7], [9]]))
    assert (tmp_path / "c.dat").read_bytes() == np.float32([5, 7, 9, 0]).tobytes()


def test_images(run, tmp_path):
    pixels = np.arange(24, dtype=np.uint8).reshape(2, 4, 3) * 10
    Image.fromarray(pixels).save(tmp_path / "in.png")
    image = {"initialValues": {"sourcePath": "in.png"}}
    copy = {
        "type": "ELEMENT_WISE_IDENTITY",
        "desc": {"InputTensor": tensor(1, 3, 2, 4), "OutputTensor": tensor(1, 3, 2, 4)},
    }
    target = {"type": "writeFile", "resource": "out", "targetPath": "out.png", "dimensions": [1, 3, 2, 4]}
    gray = {**target, "targetPath": "gray.png", "dimensions": [1, 1, 2, 4]}
    wrong = {**target, "targetPath": "wrong.png", "dimensions": [2, 4]}
    resources = {"in": image, "out": zeros(24), "small": {**image, "resampleSize": [1, 4, 1, 2]}}
    moved = dispatch(InputTensor="in", OutputTensor="out")
    status, lines, err = run(model(resources, copy, moved, target, gray, wrong, *shown("small")))
    assert status == 0
    with Image.open(tmp_path / "out.png") as out, Image.open(tmp_path / "gray.png") as gray_out:
        np.testing.assert_array_equal(np.asarray(out), pixels)
        assert gray_out.mode == "L"
    assert len(lines[-1].split(", ")) == 8
    assert "must have dimensions [1, C, H, W]" in err


def test_lists_of_several_types(run):
    mixed = [{"type": "FLOAT32", "value": 1.5}, {"type": "UINT32", "value": 7, "name": "count"}]
    resources = {"a": {"initialValues": mixed}, "c": zeros(2)}
    copy = {"type": "ELEMENT_WISE_IDENTITY", "desc": {"InputTensor": tensor(1), "OutputTensor": tensor(1)}}
    moved = dispatch(InputTensor={"name": "a", "elementOffset": 0}, OutputTensor={"name": "c", "elementOffset": 1})
    _, lines, _ = run(
        model(resources, copy, moved, *shown("a", "c"), {"type": "writeFile", "resource": "a", "targetPath": "a.npy"})
    )
    assert lines[:2] == ["Resource 'a': has elements of several types, or none", "Resource 'c': 0, 1.5"]


def test_onnx(run, tmp_path):
    text = "g (float[n, 2] x, float[m, 2] y) => (float[k, 2] z) { z = Concat<axis=0>(x, y) }"
    onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {text}'), tmp_path / "m.onnx")
    resources = {"a": sequence(6, 1, 1), "b": sequence(6, 7, 1), "c": zeros(8), "d": {"initialValues": "deferred"}}
    it = {"type": "onnx", "sourcePath": "m.onnx", "freeDimensionNameOverrides": {"m": 2}}
    free = dispatch(x="a", y="b", z="c")
    shaped = dispatch(x={"name": "a", "shape": [1, 2]}, y={"name": "b", "shape": [1, 2]}, z="d")
    assert run(model(resources, it, free, shaped, *shown("c", "d")))[1] == [
        "Resource 'c': 1, 2, 7, 8, 9, 10, 0, 0",
        "Resource 'd': 1, 2, 7, 8",
    ]


def test_list_and_check(run):
    given = model({"a": values(1), "b": values(2), "c": zeros(1), "d": {"initialValues": "deferred"}}, add(1), ADDED)
    assert run(given, "--list")[1] == [
        "resource a: 1 x float32, 4 bytes",
        "resource b: 1 x float32, 4 bytes",
        "resource c: 1 x float32, 4 bytes",
        "resource d: deferred",
        "dispatchable it: DML_OPERATOR_ELEMENT_WISE_ADD",
        "command 0: dispatch it",
    ]
    status, lines, _ = run(given, "--check")
    assert (status, lines[-2]) == (0, "c: the same bytes")


def test_what_differs_from_the_cpu_is_found(run, monkeypatch):
    twice = []

    def computed(*arguments, **more):
        held = original(*arguments, **more)
        held["c"].data[3] += len(twice)
        twice.append(1)
        return held

    original = runner._run
    monkeypatch.setattr(runner, "_run", computed)
    status, lines, _ = run(model({"a": values(1), "b": values(2), "c": zeros(1)}, add(1), ADDED), "--check")
    assert (status, lines[-1]) == (1, "c: other bytes than on the CPU, by at most 9")


def test_the_module_runs_it(run, tmp_path, monkeypatch, capsys):
    run(model({"a": values(1)}, add(), *shown("a")))
    monkeypatch.setattr(sys, "argv", ["jaxdml.directml", str(tmp_path / "model.json")])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("jaxdml.directml", run_name="__main__")
    assert ended.value.code == 0
    assert "Resource 'a': 1" in capsys.readouterr().out
    assert runner.main([str(tmp_path / "m.onnx")]) == 2
    assert "python -m jaxdml.onnx" in capsys.readouterr().err


def test_what_dxdispatch_ignores_is_ignored_with_a_note(run):
    it = add()
    it["desc"]["Color"] = "red"
    it["desc"]["ATensor"]["Shape"] = [3]
    _, lines, _ = run(model({"a": values(1)}, it, *shown("a")))
    assert lines == ["Ignored: dispatchables.it.Color", "Ignored: dispatchables.it.ATensor.Shape", "Resource 'a': 1"]


def changed(*path, to):
    """Return a model with one thing changed, by the keys that lead to it."""
    given = model({"a": values(1, 2, 3), "b": values(1, 2, 3), "c": zeros(3)}, add(), ADDED, *shown("c"))
    given = json.loads(json.dumps(given))
    inner = given
    for key in path[:-1]:
        inner = inner[key]
    if to is None:
        del inner[path[-1]]
    else:
        inner[path[-1]] = to
    return given


DESC = "dispatchables", "it", "desc"
FIRST = "resources", "a"
REFUSED = [
    (changed("commands", to=None), "commands is required; got nothing."),
    (changed("resources", to=[]), "resources must be an object; got []."),
    (changed("resources", "a", to=3), "resources.a must be an object; got 3."),
    (changed(*FIRST, "initialValues", to=None), "resources.a.initialValues is required; got nothing."),
    (changed(*FIRST, "initialValues", to="later"), "resources.a.initialValues must be a list, an object or"),
    (
        changed(*FIRST, "initialValues", to=[1, "x"]),
        "resources.a.initialValues[1] must be a number, or one of nan, inf, -inf",
    ),
    (changed(*FIRST, "initialValuesDataType", to="INT3"), "resources.a.initialValuesDataType must be one of FLOAT32,"),
    (
        changed(*FIRST, "initialValuesDataType", to="UNKNOWN"),
        "resources.a.initialValues[0] must be an object with type",
    ),
    (changed(*FIRST, to=values(1.0, kind="INT8")), "resources.a.initialValues[0] must be an integer from -128 to 127"),
    (changed(*FIRST, to=values(300, kind="UINT8")), "must be an integer from 0 to 255; got 300."),
    (
        changed(*FIRST, "sizeInBytes", to=8),
        "resources.a.sizeInBytes must be at least 12, the bytes of the values; got 8.",
    ),
    (changed(*FIRST, "sizeInBytes", to=2**60), "resources.a.sizeInBytes must need at most"),
    (changed(*FIRST, "initialValuesOffsetInBytes", to=16), "initialValuesOffsetInBytes must be from 0 to 12, the size"),
    (changed(*FIRST, to=zeros(2**60)), "resources.a.initialValues.valueCount must need at most"),
    (changed(*FIRST, to=zeros(-1)), "resources.a.initialValues.valueCount must not be negative; got -1."),
    (
        changed(*FIRST, to={"initialValues": {"valueCount": 1, "value": 0}}),
        "resources.a.initialValues must be a list or a file",
    ),
    (
        changed(*FIRST, to={"initialValues": [{"type": "FLOAT16", "value": 1}]}),
        "[0].type must be a data type, but for FLOAT16",
    ),
    (
        changed(*FIRST, to={"initialValues": {"sourcePath": "no.npy"}}),
        "initialValues.sourcePath must name a file; got no.npy.",
    ),
    (changed(*FIRST, to={"initialValues": {"sourcePath": "model.json"}}), "needs initialValuesDataType beside it"),
    (changed(*FIRST, to={"initialValues": {"sourcePath": "bad.npy"}}), "must be a file that NumPy wrote"),
    (changed(*FIRST, to={"initialValues": {"sourcePath": "f.npy"}}), "must be in C's order; got Fortran's order."),
    (
        changed(*FIRST, to={**zeros(1, "INT8"), "initialValues": {"sourcePath": "ok.npy"}}),
        "must hold int8, as initialValuesDataType says; got float32.",
    ),
    (changed("dispatchables", "it", to=[]), "dispatchables.it must be an object; got []."),
    (changed("dispatchables", "it", "type", to=1), "dispatchables.it.type must be a string; got 1."),
    (changed("dispatchables", "it", "type", to="hlsl"), "dispatchables.it.type must not be hlsl: write the shader"),
    (
        changed("dispatchables", "it", to={"type": "onnx", "sourcePath": "no.onnx"}),
        "it.sourcePath must name a file; got 'no.onnx'.",
    ),
    (changed(*DESC, "ATensor", "Sizes", to=[3, -1]), "dispatchables.it.ATensor.Sizes[1] must be an integer from 0 to"),
    (changed(*DESC, "ATensor", "Sizes", to=[4]), "dispatchables.it.desc.BTensor.Sizes must be [4], those of ATensor"),
    (
        changed(*DESC, "BTensor", to=tensor(3, Flags=["OWNED_BY_DML"])),
        "dispatchables.it.bindings.BTensor must be bound; got nothing.",
    ),
    (changed("commands", 0, to=3), "commands[0] must be an object; got 3."),
    (changed("commands", 0, "type", to="draw"), "commands[0].type must be dispatch, print or writeFile; got 'draw'."),
    (changed("commands", 0, "dispatchable", to="no"), "commands[0].dispatchable must be one of it; got 'no'."),
    (changed("commands", 1, "resource", to="no"), "commands[1].resource must be one of a, b, c; got 'no'."),
    (changed("commands", 1, "verbose", to=1), "commands[1].verbose must be true or false; got 1."),
    (
        changed("commands", 0, "bindings", "ATensor", to="no"),
        "commands[0].bindings.ATensor must be one of a, b, c; got 'no'.",
    ),
    (changed("commands", 0, "bindings", "ATensor", to=3), "commands[0].bindings.ATensor must be a string or an object"),
    (
        changed("commands", 0, "bindings", "ATensor", to=None),
        "commands[0].bindings.ATensor must be bound; got nothing.",
    ),
    (
        changed("commands", 0, "bindings", "ATensor", to={"name": "a", "elementOffset": 1}),
        "ATensor must have 12 bytes; got 8.",
    ),
    (
        changed("commands", 0, "bindings", "ATensor", to={"name": "a", "elementOffset": -1}),
        "must have an offset that is not negative",
    ),
    (
        changed("commands", 0, "bindings", "ATensor", to={"name": "a", "shape": ["n"]}),
        "ATensor.shape must be a list of sizes",
    ),
    (
        changed(*FIRST, to={"initialValues": [{"type": "INT8", "value": []}]}),
        "[0].value must be an integer or a number",
    ),
    ("[", "must be JSON"),
    ("[1]", "model must be an object; got [1]."),
]


def test_commands_are_checked_before_they_are_listed(run):
    status, lines, err = run(changed("commands", 0, to=None) | {"commands": [None]}, "--list")
    assert (status, lines) == (2, [])
    assert "commands[0] must be an object; got None." in err


@pytest.mark.parametrize(("given", "said"), REFUSED, ids=range(len(REFUSED)))
def test_what_is_wrong_is_refused_by_its_path(run, tmp_path, given, said):
    (tmp_path / "bad.npy").write_bytes(b"no array")
    np.save(tmp_path / "f.npy", np.asfortranarray(np.ones((2, 3), np.float32)))
    np.save(tmp_path / "ok.npy", np.ones(3, np.float32))
    status, lines, err = run(given)
    assert (status, said in err) == (2, True), err
    assert not [line for line in lines if "Resource" in line]


def test_levels_files_and_deferred_resources_are_refused(run, tmp_path, monkeypatch):
    given = changed(*FIRST, to={"initialValues": "deferred"})
    assert "must name a resource that has been made; got a deferred one." in run(given)[2]
    assert "--dml_feature_level must be one of DirectML's levels" in run(given, "--dml_feature_level", "9.9")[2]
    written = changed("commands", 1, to={"type": "writeFile", "resource": "d", "targetPath": "d.npy"})
    written["resources"]["d"] = {"initialValues": "deferred"}
    assert "must have been made; got a deferred resource." in run(written)[2]
    assert runner.main([str(tmp_path / "none.json")]) == 2
    monkeypatch.setattr(runner.text, "LARGEST_FILE", 10)
    assert "must have at most 10 bytes" in run(given)[2]


def test_extras_that_are_not_installed_are_named(run, tmp_path, monkeypatch):
    (tmp_path / "a.png").write_bytes(b"")
    (tmp_path / "g.bin").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "PIL", None)
    assert "needs Pillow" in run(changed(*FIRST, to={"initialValues": {"sourcePath": "a.png"}}))[2]
    monkeypatch.delitem(sys.modules, "jaxdml._runner.serialized", raising=False)
    monkeypatch.setitem(sys.modules, "flatbuffers", None)
    graph = {"type": "dmlSerializedGraph", "sourcePath": "g.bin"}
    assert "needs the library flatbuffers" in run(changed("dispatchables", "it", to=graph))[2]


FLOATS = "DML_TENSOR_DATA_TYPE_FLOAT32"
RELU = ("ACTIVATION_LINEAR", [("Alpha", flat.FLOAT, 2.0), ("Beta", flat.FLOAT, 0.5)])


def graph():
    """Return a graph that has attributes of most kinds: y = clip(2 (x W + b) + 0.5, ...) joined with a part of it."""
    row, matrix = (FLOATS, [1, 1, 1, 2], 8), (FLOATS, [1, 1, 2, 2], 16)
    return flat.written(
        [
            Node("", outputs=["w"], data="the/weights"),
            Node("", outputs=["b"], data=np.float32([1, 2]).tobytes()),
            Node(
                "GEMM",
                ["x", "w", "b"],
                ["g"],
                ([row, matrix, row], [row]),
                [
                    ("TransA", flat.UINT, 0),
                    ("TransB", flat.UINT, 1),
                    ("Alpha", flat.FLOAT, 1.0),
                    ("Beta", flat.FLOAT, 1.0),
                    ("FusedActivation", flat.ACTIVATION, RELU),
                ],
            ),
            Node(
                "ELEMENT_WISE_CLIP1",
                ["g"],
                ["c"],
                ([row], [row]),
                [
                    ("ScaleBias", flat.SCALE_BIAS, (1.0, -1.0)),
                    ("MinMaxDataType", flat.UINT, 1),
                    ("Min", flat.UNION, np.float32(3).tobytes() + bytes(4)),
                    ("Max", flat.UNION, np.float32(9).tobytes() + bytes(4)),
                ],
            ),
            Node(
                "SLICE1",
                ["c"],
                ["s"],
                ([row], [(FLOATS, [1, 1, 1, 1], 4)]),
                [
                    ("DimensionCount", flat.UINT, 4),
                    ("InputWindowOffsets", flat.UINTS, [0, 0, 0, 1]),
                    ("InputWindowSizes", flat.UINTS, [1, 1, 1, 1]),
                    ("InputWindowStrides", flat.INTS, [1, 1, 1, -1]),
                ],
            ),
            Node(
                "CONVOLUTION",
                ["s", "k", ""],
                ["v"],
                ([(FLOATS, [1, 1, 1, 1], 4)] * 2, [(FLOATS, [1, 1, 1, 1], 4)]),
                [
                    ("Mode", flat.UINT, 1),
                    ("Direction", flat.UINT, 0),
                    ("DimensionCount", flat.UINT, 2),
                    *((name, flat.UINTS, [1, 1]) for name in ("Strides", "Dilations")),
                    *((name, flat.UINTS, [0, 0]) for name in ("StartPadding", "EndPadding", "OutputPadding")),
                    ("GroupCount", flat.UINT, 1),
                    ("FusedActivation", flat.ACTIVATION, None),
                ],
            ),
            Node("", outputs=["unused"], data="unused"),
            Node(
                "AVERAGE_POOLING",
                ["v"],
                ["p"],
                ([(FLOATS, [1, 1, 1, 1], 4)], [(FLOATS, [1, 1, 1, 1], 4)]),
                [
                    ("DimensionCount", flat.UINT, 2),
                    *((name, flat.UINTS, [1, 1]) for name in ("Strides", "WindowSize")),
                    *((name, flat.UINTS, [0, 0]) for name in ("StartPadding", "EndPadding")),
                    ("IncludePadding", flat.UINT, 1),
                ],
            ),
            Node(
                "JOIN",
                ["c", "p", "x"],
                ["y"],
                ([row, (FLOATS, [1, 1, 1, 1], 4), row], [(FLOATS, [1, 1, 1, 5], 20)]),
                [("InputCount", flat.UINT, 3), ("Axis", flat.UINT, 3)],
            ),
        ],
        ["x", "k"],
        ["y"],
    )


@pytest.fixture
def stored(tmp_path):
    (tmp_path / "g.bin").write_bytes(graph())
    np.float32([[1, 2], [3, 4]]).tofile(tmp_path / "the_weights.bin")
    resources = {"x": values(1, 1), "k": values(10), "y": zeros(5)}
    return model(
        resources, {"type": "dmlSerializedGraph", "sourcePath": "g.bin"}, dispatch(x="x", k="k", y="y"), *shown("y")
    )


def test_serialized_graphs(run, stored):
    # x W^T + b = [4, 9]; linear: [8.5, 18.5]; minus 1 and clipped to 3 .. 9: [7.5, 9].
    assert run(stored)[1] == ["Resource 'y': 7.5, 9, 90, 1, 1"]


def test_serialized_graphs_that_are_wrong_are_refused(run, stored, tmp_path, monkeypatch):
    (tmp_path / "the_weights.bin").write_bytes(bytes(8))
    assert "the/weights must have 16 bytes in the_weights.bin; got 8." in run(stored)[2]
    (tmp_path / "the_weights.bin").unlink()
    assert "the/weights must have its bytes in a file; got 'the_weights.bin'." in run(stored)[2]
    wrong = {
        "an input as output": flat.written([], ["x"], ["x"]),
        "no kind": graph().replace(b"DML_OPERATOR_GEMM", b"DML_OPERATOR_GEMN"),
        "a strange node": flat.written([Node("GEMM")], ["x"], ["y"]),
        "nothing": b"",
        "neither": flat.written([Node("GEMM", union=3)], ["x"], ["y"]),
        "no description": flat.written([Node("GEMM", union=0)], ["x"], ["y"]),
        "too few bytes": graph().replace(struct.pack("<Iff", 8, 1, 2), struct.pack("<Iff", 2**28, 1, 2)),
        "another type": graph().replace(b"TYPE_FLOAT32", b"TYPE_FLOAT31"),
    }
    for name, data in wrong.items():
        (tmp_path / "g.bin").write_bytes(data)
        status, _, err = run(stored)
        assert (status, "dispatchables.it.sourcePath.file must be a serialized graph" in err) == (2, True), (name, err)
    row = [FLOATS, [1, 1, 1, 1], 4]
    numbers = [("TransB", flat.UINT, 0), ("Alpha", flat.FLOAT, 1.0), ("Beta", flat.FLOAT, 1.0)]
    turned = Node("GEMM", ["x", "x", ""], ["y"], ([row, row], [row]), [("TransA", flat.UINT, 7), *numbers])
    (tmp_path / "g.bin").write_bytes(flat.written([turned], ["x"], ["y"]))
    assert "TransA" in run(stored)[2]
    (tmp_path / "g.bin").write_bytes(graph())
    monkeypatch.setattr("jaxdml._runner.serialized.MOST_ELEMENTS", 8)
    assert "a list of 9 elements; at most 8 are read" in run(stored)[2]
    monkeypatch.setattr("jaxdml._runner.serialized.LARGEST_FILE", 10)
    assert "must have at most 10 bytes" in run(stored)[2]


def test_changed_models_and_graphs_end_in_typed_errors(run, stored, tmp_path):
    rng, good = np.random.default_rng(0), np.frombuffer(graph(), np.uint8)
    np.float32([[1, 2], [3, 4]]).tofile(tmp_path / "the_weights.bin")
    text = np.frombuffer(json.dumps(changed(*FIRST, to=values(1, 2, 3))).encode(), np.uint8)
    listed = ["--list"]
    for turn in range(80):
        data = (good, text)[turn % 2].copy()
        places = rng.integers(0, len(data), rng.integers(1, 4))
        data[places] = rng.integers(32 * (turn % 2), 127 if turn % 2 else 256, len(places))
        begin = time.perf_counter()
        if turn % 2:
            status, *_ = run(bytes(data).decode("latin-1"), *listed)
        else:
            (tmp_path / "g.bin").write_bytes(bytes(data)[: rng.integers(len(data) // 2, len(data) + 1)])
            status, *_ = run(stored, *listed)
        assert status in (0, 2)
        assert time.perf_counter() - begin < 20
