"""Files are data: what is broken or hostile is one error that names the place, before memory is taken."""

import os
import socket
from pathlib import Path

import jax
import ml_dtypes
import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper

import jaxdml.onnx
from jaxdml.onnx import UnsupportedModelError, _reader, nodes
from jaxdml.onnx._external import Folder
from jaxdml.onnx._tensors import array
from jaxdml.onnx.nodes._handler import Handler
from tests.onnx import mutations
from tests.quick import quick

pytestmark = quick

HEAD = '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) '


def parsed(body, head=HEAD):
    return onnx.parser.parse_model(head + body)


def refused(model, *texts):
    """Check that a model is refused in the form of every message, with these texts."""
    with pytest.raises(UnsupportedModelError) as caught:
        jaxdml.onnx.load(model)
    first, *details = str(caught.value).split("\n")
    assert first.startswith("jaxdml.onnx.load: "), first
    assert first.endswith((".", ":")), first
    assert all(line.startswith("  ") for line in details)
    for text in texts:
        assert text in str(caught.value)


def with_tensor(**fields):
    """Return x + w with what is told of w."""
    model = parsed("{ y = Add(x, w) }".replace("w", "x"))
    model.graph.node[0].input[1] = "w"
    kind = {"name": "w", "data_type": TensorProto.FLOAT, "dims": [2]}
    model.graph.initializer.append(TensorProto(**kind | fields))
    return model


W = np.float32([3, 4])


@pytest.mark.parametrize("data", [b"\x00\x01\x02", b"PK\x03\x04" + bytes(40), b"\xff" * 100])
def test_what_is_no_model(data, tmp_path):
    refused(data, "this is no ONNX model", "truncated")
    (tmp_path / "model.onnx").write_bytes(data)
    refused(tmp_path / "model.onnx", "this is no ONNX model")


def test_an_empty_or_truncated_file():
    refused(b"", "the model has no graph")
    data = with_tensor(raw_data=W.tobytes()).SerializeToString()
    refused(bytearray(data[:-3]), "truncated")
    with pytest.raises(TypeError, match=r"jaxdml\.onnx\.load: model is int\.\n  Give a path"):
        jaxdml.onnx.load(3)
    with pytest.raises(FileNotFoundError):
        jaxdml.onnx.load("no such file")


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"raw_data": b"\0" * 7}, "initializer 'w' has 7 bytes; its shape [2] and dtype float32 need 8"),
        ({"raw_data": b"\0" * 8, "dims": [2**62]}, "which no array can have"),
        ({"raw_data": b"\0" * 8, "dims": [2**31, 2**31]}, "which no array can have"),
        ({"raw_data": b"", "dims": [0, 2**62]}, "which no array can have"),
        ({"raw_data": b"\0" * 8, "dims": [2**40]}, "has 8 bytes; its shape [1099511627776]"),
        ({"raw_data": b"\0" * 8, "dims": [-2]}, "shape [-2], which no array can have"),
        ({"raw_data": b"\0" * 8, "dims": [-1, -2]}, "which no array can have"),
        ({"raw_data": b"\0" * 8, "dims": [1] * 64 + [2]}, "1, ...], which no array can have"),
        ({"float_data": [1]}, "initializer 'w' has 1 values in float_data; its shape [2] and dtype float32 need 2"),
        ({"int32_data": [1, 2]}, "has 0 values in float_data"),
        ({}, "has 0 values in float_data"),
        ({"data_type": TensorProto.INT4, "int32_data": [1, 2, 3]}, "has 3 values in int32_data"),
        ({"data_type": TensorProto.COMPLEX64, "float_data": [1, 2]}, "dtype complex64 need 4"),
        ({"data_type": 99, "raw_data": b"\0" * 8}, "has dtype number 99"),
        ({"data_type": 0, "raw_data": b"\0" * 8}, "has no dtype"),
        ({"data_type": TensorProto.STRING, "string_data": [b"a", b"b"]}, "has strings"),
        ({"segment": TensorProto.Segment(begin=0, end=1), "raw_data": b"\0" * 8}, "is a segment"),
        ({"name": "", "raw_data": b"\0" * 8}, "an initializer of a graph has no name"),
    ],
)
def test_tensors_whose_bytes_and_shapes_disagree(fields, text):
    refused(with_tensor(**fields), text)


KINDS = sorted(set(TensorProto.DataType.keys()) - {"UNDEFINED", "STRING"})


@pytest.mark.parametrize("name", KINDS)
def test_every_form_of_storage(name, tmp_path):
    kind = TensorProto.DataType.Value(name)
    values = np.array([[0, 1, 1], [1, 0, 1], [1, 1, 1]]).astype(helper.tensor_dtype_to_np_dtype(kind))
    folder = Folder(tmp_path)
    by_field = helper.make_tensor(
        "w", kind, values.shape, values.astype(complex if values.dtype.kind == "c" else float)
    )
    raw = numpy_helper.from_array(values, "w")
    assert not by_field.HasField("raw_data")
    assert raw.HasField("raw_data")
    (tmp_path / "data").write_bytes(b"***" + raw.raw_data + b"*")
    outside = external("data", 3, data_type=kind, dims=values.shape)
    for tensor in (by_field, raw, outside):
        found = array(tensor, folder, "w")
        assert found.dtype == values.dtype
        np.testing.assert_array_equal(found.astype(complex), values.astype(complex))


def test_true_is_one_byte_and_scalars_stay_arrays():
    found = array(TensorProto(data_type=TensorProto.BOOL, dims=[3], raw_data=b"\x00\x02\x01"), Folder(None), "w")
    assert found.view(np.uint8).tolist() == [0, 1, 1]
    found = array(TensorProto(data_type=TensorProto.BOOL, raw_data=b"\x01"), Folder(None), "w")
    assert isinstance(found, np.ndarray)
    assert array(
        TensorProto(data_type=TensorProto.INT4, dims=[1], raw_data=b"\x0f"), Folder(None), "w"
    ) == ml_dtypes.int4(-1)


def external(location, offset=None, length=None, **fields):
    tensor = TensorProto(**{"name": "w", "data_type": TensorProto.FLOAT, "dims": [2]} | fields)
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        if value is not None:
            tensor.external_data.add(key=key, value=str(value))
    return tensor


def saved(folder, tensor):
    """Write a model whose w is this tensor, and return its path."""
    model = with_tensor()
    model.graph.initializer[0].CopyFrom(tensor)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    return folder / "model.onnx"


@pytest.fixture
def folder(tmp_path):
    """A model's folder with data beside it, and a secret outside."""
    inside = tmp_path / "model"
    (inside / "sub").mkdir(parents=True)
    for path in (inside / "data", inside / "sub" / "data", tmp_path / "secret"):
        path.write_bytes(W.tobytes() * 2)
    (inside / "link").symlink_to("data")
    (inside / "linked").symlink_to("sub")
    (inside / "out").symlink_to(tmp_path)
    (inside / "store").symlink_to(tmp_path / "secret")
    (inside / "dangling").symlink_to("nothing")
    (inside / "one").write_bytes(W.tobytes())
    os.link(inside / "one", inside / "other")
    os.mkfifo(inside / "pipe")
    return inside


@pytest.mark.parametrize(
    ("location", "offset", "length"),
    [("data", None, None), ("data", 8, 8), ("./sub/./data", 0, None), ("sub/data", 8, 8)],
)
def test_external_data(location, offset, length, folder, monkeypatch):
    model = jaxdml.onnx.load(saved(folder, external(location, offset, length)))
    np.testing.assert_array_equal(model(np.float32([1, 1]))[0], W + 1)
    monkeypatch.chdir(folder)  # A path without a folder.
    jaxdml.onnx.load("model.onnx")
    # A model that is itself a link is read; what lies beside it is sought beside the link.
    away = folder.parent / "away"
    away.mkdir()
    (away / "model.onnx").symlink_to(folder / "model.onnx")
    refused(away / "model.onnx", "cannot be opened", str(away))


@pytest.mark.parametrize(
    ("location", "text"),
    [
        ("", "not a plain path"),
        (".", "not a plain path"),
        ("..", "not a plain path"),
        ("../secret", "not a plain path"),
        ("sub/../../secret", "not a plain path"),
        ("sub/../data", "not a plain path"),
        ("/etc/hostname", "not a plain path"),
        ("..\\secret", "not a plain path"),
        ("sub//data", "not a plain path"),
        ("data/", "not a plain path"),
        ("da\0ta", "not a plain path"),
        ("nothing", "cannot be opened: No such file"),
        ("data/data", "cannot be opened: Not a directory"),
        ("https://example.com/data", "not a plain path"),
        ("link", "'link' is a symbolic link"),
        ("linked/data", "'linked' is a symbolic link"),
        ("out/secret", "'out' is a symbolic link"),
        ("store", "Resolve the links first"),
        ("dangling", "'dangling' is a symbolic link"),
        ("one", "a hard link: the file has 2 names"),
        ("sub", "which is no plain file"),
        ("pipe", "which is no plain file"),
    ],
)
def test_locations_that_are_refused(location, text, folder):
    refused(saved(folder, external(location)), text, "initializer 'w'")


def test_devices_and_sockets_are_refused(tmp_path):
    for path in ("null", "zero"):
        with pytest.raises(UnsupportedModelError, match="no plain file"):
            Folder(Path("/dev")).read(external(path), "w", 8)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(tmp_path / "s"))
        refused(saved(tmp_path, external("s")), "no plain file")


@pytest.mark.parametrize(
    ("offset", "length", "text"),
    [
        (9, None, "8 bytes from 9 on in 'data', which has 16 bytes"),
        (2**62, None, "offset '4611686018427387904'"),
        (-1, None, "offset '-1'"),
        ("0x1", None, "It must be a whole number"),
        ("", None, "offset ''"),
        ("٣", None, "It must be a whole number"),
        (0, 16, "has 16 bytes in 'data', and its dtype and shape need 8"),
        (0, 7, "has 7 bytes"),
        (0, -8, "length '-8'"),
        (10**17, 8, "which has 16 bytes"),
    ],
)
def test_offsets_and_lengths_out_of_the_file(offset, length, text, folder):
    refused(saved(folder, external("data", offset, length)), text)


def test_what_else_describes_external_data(folder):
    tensor = external("data")
    tensor.external_data.add(key="checksum", value="0")
    jaxdml.onnx.load(saved(folder, tensor))
    tensor.external_data.add(key="script", value="x")
    refused(saved(folder, tensor), "holds 'location', 'checksum', 'script'")
    tensor.external_data[-1].key = "location"
    refused(saved(folder, tensor), "at most once")
    del tensor.external_data[:]
    refused(saved(folder, tensor), "holds nothing")


def test_a_large_shape_of_a_small_external_file(folder):
    refused(saved(folder, external("data", dims=[2**40])), "which has 16 bytes")


def test_only_a_path_gives_a_folder(folder, monkeypatch):
    monkeypatch.chdir(folder)
    path = saved(folder, external("data"))
    refused(path.read_bytes(), "Give the path of the model's file")
    refused(onnx.load(path, load_external_data=False), "Give the path of the model's file")


def test_external_tensors_in_attributes_bodies_and_functions(folder):
    plain = "{ k = Constant<value = float[2] {1, 2}>() y = Add(x, k) }"
    function = '{ y = f.c(x) } <domain: "f", opset_import: ["": 17]> c (x) => (y) ' + plain
    for body, head in ((plain, HEAD), (function, HEAD.replace('"": 17', '"": 17, "f": 1'))):
        for location, text in (("../secret", "not a plain path"), ("link", "symbolic link"), ("data", None)):
            model = parsed(body, head)
            node = (model.functions or [model.graph])[0].node[0]
            node.attribute[0].t.CopyFrom(external(location))
            path = folder / "model.onnx"
            path.write_bytes(model.SerializeToString())
            if text:
                refused(path, text, "attribute 'value' of node Constant")
            else:
                np.testing.assert_array_equal(jaxdml.onnx.load(path)(np.float32([1, 1]))[0], W + 1)


def test_a_file_that_changes_while_it_is_read(folder, monkeypatch):
    real = os.fstat
    monkeypatch.setattr(os, "fstat", lambda fd: os.stat_result([*real(fd)[:6], 999, *real(fd)[7:10]]))
    refused(saved(folder, external("data", 16)), "became shorter")
    other = os.stat(folder / "one")
    monkeypatch.setattr(os, "fstat", lambda fd: other)
    refused(saved(folder, external("data")), "hard link")


def test_a_system_that_cannot_open_safely(folder, monkeypatch):
    monkeypatch.setattr(os, "supports_dir_fd", set())
    refused(saved(folder, external("data")), "cannot open safely")


def test_a_small_file_cannot_become_a_lot_of_memory(tmp_path):
    folder = Folder(tmp_path)
    (tmp_path / "data").write_bytes(bytes(2**20))
    tensor = external("data", dims=[2**18])
    for _ in range(65):
        folder.read(tensor, "w", 2**20)
    with pytest.raises(UnsupportedModelError, match="At most 64 times its size"):
        folder.read(tensor, "w", 2**20)


# Names, nodes and graphs.


@pytest.mark.parametrize(
    ("body", "texts"),
    [
        ("{ y = Add(x, w) }", ["node Add 'y' reads 'w', which nothing makes", "missing"]),
        ("{ y = Add(x, z) z = Add(x, x) }", ["node Add 'y' reads 'z', which only a later node makes", "not in order"]),
        ("{ y = Add(x, z) z = Add(y, x) }", ["form a cycle"]),
        ("{ y = Add(x, y) }", ["form a cycle"]),
        ("{ z = Add(x, x) z = Add(z, x) y = Add(z, x) }", ["'z', which exists already"]),
        ("{ x = Add(x, x) y = Add(x, x) }", ["'x', which exists already"]),
        ("{ z = Add(x, x) }", ["output 'y' of a graph is made by no node"]),
        ("{ y = Nope(x) }", ["Nope 'y', domain 'ai.onnx', opset 17: there is no such operator"]),
        ("{ y = other.Nope(x) }", ["domain 'other', of which no version is imported", "'ai.onnx'"]),
        ("{ y = Add(x) }", ["it has 1 inputs; 2 to 2 are expected"]),
        ("{ y, z = Add(x, x) }", ["it has 2 outputs; 1 to 1 are expected"]),
        ("{ y = Concat<axis = 1.5>(x, x) }", ["'axis' is FLOAT instead of INT"]),
        ("{ y = Concat(x, x) }", ["attribute 'axis' is missing"]),
        ('{ y = Concat<axis = "a">(x, x) }', ["'axis' is STRING instead of INT"]),
        (
            "{ y = Constant<value_ints: ints = @axis>() }",
            ["refers to attribute 'axis' of a function, and stands in none"],
        ),
        ('{ y = Constant<value_string = "a">() }', ["node Constant 'y' holds value_string"]),
        ("{ y = Constant() }", ["node Constant 'y' holds nothing"]),
        ("{ y = Constant<value_int = 1, value_float = 1.0>() }", ["holds value_int, value_float"]),
    ],
)
def test_names_and_nodes(body, texts):
    refused(parsed(body), *texts)


def test_every_form_of_a_constant():
    for text, expected in (
        ("value = float[1] {2}", [2.0]),
        ("value_int = 2", 2),
        ("value_ints = [2, 3]", [2, 3]),
        ("value_float = 2.0", 2.0),
        ("value_floats = [2.0, 3.0]", [2.0, 3.0]),
    ):
        model = jaxdml.onnx.load(parsed(f"{{ z = Constant<{text}>() y = Add(x, x) }}"))
        np.testing.assert_array_equal({**model.graph.constants, **model.params}["z"], expected)
    sparse = onnx.SparseTensorProto(values=numpy_helper.from_array(W, "v"), dims=[4])
    sparse.indices.CopyFrom(numpy_helper.from_array(np.int64([0, 1])))
    model = parsed("{ z = Constant<value_int = 1>() y = Add(x, x) }")
    model.graph.node[0].attribute[0].CopyFrom(helper.make_attribute("sparse_value", sparse))
    refused(model, "attribute 'sparse_value' of node Constant 'z' has type SPARSE_TENSOR")
    model = parsed("{ y = Add(x, x) }")
    model.graph.sparse_initializer.append(sparse)
    refused(model, "sparse initializers are not supported")


def test_fields_that_are_broken():
    model = parsed("{ y = Add(x, x) }")
    model.graph.node[0].attribute.add(name="a")
    refused(model, "attribute 'a' of node Add 'y' has type UNDEFINED")
    model.graph.node[0].attribute.add(name="a")
    model.graph.node[0].attribute[0].CopyFrom(helper.make_attribute("a", 1))
    model.graph.node[0].attribute[1].CopyFrom(helper.make_attribute("a", 1))
    refused(model, "has attribute 'a' twice")
    model.graph.node[0].attribute[0].type = onnx.AttributeProto.TENSOR
    refused(model, "has type TENSOR, which is not supported, or no value of it")
    data = parsed("{ y = Add(x, q) }".replace("q", "x")).SerializeToString()
    refused(data.replace(b"Add", b"A\xffd"), "a name in the model is not UTF-8: b'A\\xffd'")
    model = parsed("{ y = Add(x, x) }")
    model.graph.input.add(name="x")
    refused(model, "an input makes 'x', which exists already")
    model = with_tensor(raw_data=W.tobytes())
    model.graph.initializer.append(model.graph.initializer[0])
    refused(model, "an initializer makes 'w', which exists already")


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (helper.make_sequence_type_proto(helper.make_tensor_type_proto(1, [2])), "is a sequence"),
        (helper.make_tensor_type_proto(TensorProto.STRING, [2]), "has strings"),
        (helper.make_tensor_type_proto(77, [2]), "dtype number 77"),
        (helper.make_tensor_type_proto(1, [2**62]), "larger than any array"),
        (helper.make_tensor_type_proto(1, [2**31, 2**31]), "larger than any array"),
        (helper.make_tensor_type_proto(1, [1] * 65), "larger than any array"),
    ],
)
def test_inputs_that_no_array_can_be(kind, text):
    model = parsed("{ y = Add(x, x) }")
    model.graph.input[0].type.CopyFrom(kind)
    refused(model, text, "'x'")


def test_inputs_that_declare_little():
    model = parsed("{ y = Add(x, x) }")
    model.graph.input[0].type.CopyFrom(helper.make_tensor_type_proto(1, [-1]))
    model.graph.output[0].type.Clear()
    loaded = jaxdml.onnx.load(model)
    assert loaded.inputs[0].shape == (None,)
    assert str(loaded.outputs[0]) == "y: any"
    model.graph.input[0].type.CopyFrom(helper.make_tensor_type_proto(0, None))
    assert str(jaxdml.onnx.load(model).inputs[0]) == "x: any"


def test_versions():
    for opset, text in ((6, "opset is 6; 7 to"), (onnx.defs.onnx_opset_version() + 1, "Install a newer onnx")):
        refused(parsed("{ y = Add(x, x) }", HEAD.replace("17", str(opset))), text, "node Add 'y' is the first")
    model = parsed("{ y = Add(x, x) }")
    model.opset_import[0].version = 2**40
    refused(model, "in version 1099511627776")
    model.opset_import[0].version = 17
    model.opset_import.add(domain="ai.onnx", version=17)
    model.opset_import.add(domain="org.pytorch.aten", version=1)  # No node is of it.
    jaxdml.onnx.load(model)
    model.opset_import[1].version = 16
    refused(model, "imports domain 'ai.onnx' in versions 17 and 16")
    model = parsed("{ y = Add(x, x) }")
    model.ir_version = onnx.IR_VERSION + 1
    refused(model, "Install a newer onnx")


def test_initializers_that_are_listed_as_inputs():
    model = with_tensor(raw_data=W.tobytes())
    model.graph.input.append(helper.make_tensor_value_info("w", 1, [2]))
    x = np.float32([1, 1])
    overridable = jaxdml.onnx.load(model)
    assert [value.name for value in overridable.inputs] == ["x"]
    assert [value.name for value in overridable.optional_inputs] == ["w"]
    np.testing.assert_array_equal(overridable(x)[0], W + 1)
    np.testing.assert_array_equal(overridable(x, w=x)[0], x + 1)
    with pytest.raises(ValueError, match="w: float32"):
        overridable(x, w=np.float32([1]))
    with pytest.raises(TypeError, match="2 inputs are given; the model takes 1"):
        overridable(x, x)
    model.ir_version = 3
    model.graph.node[0].ClearField("overload")
    constant = jaxdml.onnx.load(model)
    assert constant.optional_inputs == ()
    np.testing.assert_array_equal(constant(x)[0], W + 1)
    with pytest.raises(TypeError, match="'w' is unknown"):
        constant(x, w=x)


# Graphs within graphs, and functions.


def nested(depth):
    model = parsed("{ y = Add(x, x) }")
    graph = onnx.GraphProto(name="inner")
    graph.node.append(helper.make_node("Add", ["x", "x"], ["z"]))
    graph.output.add(name="z")
    for _ in range(depth):
        outer = onnx.GraphProto(name="outer")
        outer.node.append(helper.make_node("If", ["c"], ["z"], then_branch=graph, else_branch=graph))
        outer.output.add(name="z")
        graph = outer
    del model.graph.node[:]
    model.graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
    model.graph.node.append(helper.make_node("Identity", ["x"], ["y"]))
    model.graph.node.extend(graph.node)
    return model


def test_graphs_within_graphs_without_end(monkeypatch):
    monkeypatch.setattr(_reader, "MAX_DEPTH", 4)
    refused(nested(6), "graphs stand within graphs more than 4 deep")


def functions(*definitions, body="{ y = own.a(x) }"):
    head = '<ir_version: 10, opset_import: ["": 17, "own": 1]> g (float[2] x) => (float[2] y) '
    text = "".join(f' <domain: "own", opset_import: ["": 17, "own": 1]> {text}' for text in definitions)
    return onnx.parser.parse_model(head + body + text)


def test_functions():
    model = functions(
        "a <times> (p, q) => (r) { k = Constant<value_float: float = @times>() l = Add(p, k) r = own.b(l, q) }",
        "b (p, q) => (r) { k = Add(p, q) r = Sub(k, p) }",
        body="{ k = Add(x, x) l = own.a<times = 3.0>(x, k) m = own.a<times = 4.0>(l, x) y = Add(m, l) }",
    )
    loaded = jaxdml.onnx.load(model)
    x = np.float32([1, 2])
    np.testing.assert_allclose(loaded(x)[0], x + 2 * x, rtol=1e-6)
    names = [node.name for node in loaded.graph.walk()]
    assert len(set(names)) == len(names)
    assert names[1:4] == ["l/l", "l/r/k", "l/r/r"]


def test_a_function_takes_the_versions_that_it_imports():
    model = functions("a (p) => (r) { r = Add(p, p) }")
    model.functions[0].opset_import[0].version = 13
    assert jaxdml.onnx.load(model).graph.nodes[0].opset == 13
    del model.functions[0].opset_import[:]
    assert jaxdml.onnx.load(model).graph.nodes[0].opset == 17


def test_inputs_and_attributes_of_functions_may_be_left_out():
    model = functions(
        "a <axis> (p, q, u) => (r, s) { r = Add(p, u) s = Concat<axis: int = @axis>(p, p) }",
        body='{ y = own.a<axis = 0>(x, "", x) }',
    )
    node = jaxdml.onnx.load(model).graph.nodes[0]
    assert (node.inputs, node.outputs) == (("x", "x"), ("y",))
    model.graph.node[0].ClearField("attribute")
    refused(model, "attribute 'axis' is missing")
    model.functions[0].attribute_proto.append(helper.make_attribute("axis", 0))
    del model.functions[0].attribute[:]
    assert jaxdml.onnx.load(model).graph.nodes[1].attributes == {"axis": 0}
    model.functions[0].attribute_proto[0].CopyFrom(helper.make_attribute("axis", [0]))
    refused(model, "attribute 'axis' refers to 'axis', which has another type")


def test_a_function_may_return_its_input():
    model = functions("a (p) => (p) { }")
    assert [str(node) for node in jaxdml.onnx.load(model).graph.nodes] == ["Identity 'y/p'"]


def test_names_of_functions_and_bodies_hide_nothing():
    branches = "t () => (float[2] k) { k = Identity(x) }", "e () => (float[2] k) { y = Add(x, x) k = Add(y, y) }"
    body = "{{ y = own.a(x) z = If(c) <then_branch = {}, else_branch = {}> }}".format(*branches)
    model = functions("a (p) => (r) { k = Add(p, p) r = Add(k, p) }", body=body)
    model.graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
    nodes = jaxdml.onnx.load(model).graph.nodes
    inner = nodes[2].attributes["else_branch"].nodes
    assert [node.outputs for node in inner] == [(inner[0].outputs[0],), ("k",)]
    assert inner[0].outputs[0].startswith("y #")
    assert inner[1].inputs == inner[0].outputs * 2


@pytest.mark.parametrize(
    ("definitions", "text"),
    [
        (["a (p) => (r) { r = own.a(p) }"], "the model's function 'a' of domain 'own' calls itself"),
        (["a (p) => (r) { r = own.b(p) }", "b (p) => (r) { r = own.a(p) }"], "calls itself"),
        (["a (p) => (r) { s = Add(p, p) }"], "output 'r' of a graph is made by no node"),
        (["a () => (r) { r = Constant<value_floats = [1.0, 2.0]>() }"], "with 1 inputs and 1 outputs; it has 0 and 1"),
        (["a (p, p) => (r) { r = Add(p, p) }"], "two of one name"),
        (["a (p) => (r) { r = Add(p, p) }"] * 2, "is there twice"),
        (["a (p) => (r) { r = Add(p, x) }"], "reads 'x'"),
        (["a (p) => (r) { p = Add(p, p) r = Add(p, p) }"], "'p', which exists already"),
    ],
)
def test_functions_that_are_broken(definitions, text):
    refused(functions(*definitions), text)


def test_functions_cannot_become_a_lot_of_nodes():
    # 2**30 nodes in a small file.
    doubling = [f"f{i} (p) => (r) {{ k = own.f{i + 1}(p) r = own.f{i + 1}(k) }}" for i in range(30)]
    model = functions(*doubling, "f30 (p) => (r) { r = Add(p, p) }", body="{ y = own.f0(x) }")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_reader, "MAX_NODES", 2**10)
        refused(model, "more than 1024 nodes")
    chain = [f"f{i} (p) => (r) {{ r = own.f{i + 1}(p) }}" for i in range(40)]
    refused(functions(*chain, "f40 (p) => (r) { r = Add(p, p) }", body="{ y = own.f0(x) }"), "more than 32 deep")


def test_functions_cannot_become_a_lot_of_memory():
    model = functions(
        "a (p) => (r) { k = Constant<value = float[2] {1, 2}>() r = Add(p, k) }", body="{ y = Add(x, x) }"
    )
    values = numpy_helper.from_array(np.zeros(2**15, np.float32))
    model.functions[0].node[0].attribute[0].t.CopyFrom(values)
    model.graph.node.extend(helper.make_node("a", ["x"], [f"o{i}"], domain="own") for i in range(100))
    refused(model, "the model's own file", "At most 64 times")


def test_operators_are_expanded_where_onnx_defines_them_by_others(monkeypatch):
    kind = ("", "MeanVarianceNormalization")
    model = parsed("{ y = MeanVarianceNormalization<axes = [0]>(x) }")
    monkeypatch.setattr(nodes, "OPERATORS", {key: found for key, found in nodes.OPERATORS.items() if key != kind})
    loaded = jaxdml.onnx.load(model)
    assert len(loaded.graph.nodes) > 1
    np.testing.assert_allclose(loaded(np.float32([1, 3]))[0], [-1, 1], rtol=1e-5)

    def fail(*_):
        raise RuntimeError("the nodes are odd")

    monkeypatch.setattr(onnx.inliner, "inline_selected_functions", fail)
    refused(model, "onnx cannot expand MeanVarianceNormalization: the nodes are odd.")


def test_operators_that_onnx_no_longer_has():
    refused(parsed("{ y = Scatter(x) }"), "Scatter 'y'")


def test_what_handlers_raise_of_malformed_nodes(monkeypatch):
    def odd(call, x):
        raise KeyError("lost")

    known = {("com.microsoft", "Odd"): (Handler(1, odd),), ("com.microsoft", "One"): (Handler(1, lambda call, x: x),)}
    monkeypatch.setattr(nodes, "OPERATORS", {**nodes.OPERATORS, **known})
    head = HEAD.replace('"": 17', '"": 17, "com.microsoft": 1')
    x = np.float32([1, 2])
    with pytest.raises(ValueError, match=r"com\.microsoft\.Odd 'y' cannot be computed: KeyError: 'lost'"):
        jaxdml.onnx.load(parsed("{ y = com.microsoft.Odd(x) }", head))(x)
    with pytest.raises(ValueError, match="One 'z' makes 1 outputs; the model wants 2"):
        jaxdml.onnx.load(parsed("{ z, y = com.microsoft.One(x) }", head))(x)


def test_numerics_that_do_not_exist():
    with pytest.raises(ValueError, match="numerics is 'fast', and must be one of 'exact', 'literal'"):
        jaxdml.onnx.load(b"", numerics="fast")


def test_broken_models_are_refused_or_run():
    originals = mutations.models()
    for number in range(200):
        name = list(originals)[number % len(originals)]
        mutations.outcome(mutations.mutated(originals[name], number))


def test_external_data_is_held_twice_at_most(tmp_path):
    # The arrays are views of what was read, and each goes to the device by itself.
    (tmp_path / "data").write_bytes(W.tobytes())
    graph = jaxdml.onnx._files.graph_of(
        onnx.load(saved(tmp_path, external("data")), load_external_data=False), tmp_path
    )
    assert graph.constants["w"].base is not None
    loaded = jaxdml.onnx.load(tmp_path / "model.onnx")
    assert "w" not in loaded.graph.constants
    assert isinstance(loaded.params["w"], jax.Array)
