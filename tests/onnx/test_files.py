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
from jaxdml.onnx import UnsupportedModelError
from jaxdml.onnx.reading.external import Folder
from jaxdml.onnx.reading.tensors import array
from tests.kit import quick
from tests.onnx.broken import HEAD, W, parsed, refused, with_tensor

pytestmark = quick


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


@pytest.fixture
def hub(tmp_path):
    """A model in a hub's cache, its files as links, and a secret outside."""
    model = tmp_path / "models--a--b"
    (model / "blobs").mkdir(parents=True)
    (model / "snapshots" / "1f" / "onnx").mkdir(parents=True)
    (model / "blobs" / "0a").write_bytes(W.tobytes())
    (model / "blobs" / "secret").symlink_to("../../secret")
    (model / "blobs" / "sub").mkdir()
    (tmp_path / "secret").write_bytes(W.tobytes())
    (tmp_path / "blobs").mkdir()
    (tmp_path / "blobs" / "0a").write_bytes(W.tobytes())
    return model


@pytest.mark.parametrize("inner", ["", "onnx"])
def test_links_of_a_hub(inner, hub):
    folder = hub / "snapshots" / "1f" / inner
    up = "../../.." if inner else "../.."
    (folder / "data").symlink_to(f"{up}/blobs/0a")
    path = saved(folder, external("data"))
    path.rename(hub / "blobs" / "1b")
    path.symlink_to(f"{up}/blobs/1b")
    np.testing.assert_array_equal(jaxdml.onnx.load(path)(np.float32([1, 1]))[0], W + 1)
    # By way of a link to the cache, and from the folder above.
    (hub.parent / "cache").symlink_to(hub)
    jaxdml.onnx.load(hub.parent / "cache" / "snapshots" / "1f" / inner / "model.onnx")
    jaxdml.onnx.load(saved(hub / "snapshots" / "1f", external(f"./{inner}/data" if inner else "data")))


@pytest.mark.parametrize(
    ("link", "text"),
    [
        ("../../../secret", "symbolic link"),
        ("../../../blobs/0a", "symbolic link"),
        ("../blobs/0a", "symbolic link"),
        ("../../blobs/../../secret", "symbolic link"),
        ("../../blobs/..", "symbolic link"),
        ("../../blobs/sub/0a", "symbolic link"),
        ("../.././blobs/0a", "symbolic link"),
        ("../../../models--a--b/blobs/0a", "symbolic link"),
        ("../../blobs/0a\n", "symbolic link"),
        ("../" * 1000 + "blobs/0a", "symbolic link"),
        ("../../blobs/secret", "'secret' is a symbolic link"),
        ("../../blobs/sub", "no plain file"),
        ("../../blobs/none", "cannot be opened: No such file"),
    ],
)
def test_other_links_of_a_hub_are_refused(link, text, hub):
    folder = hub / "snapshots" / "1f"
    (folder / "data").symlink_to(link)
    refused(saved(folder, external("data")), text, "initializer 'w'")


def test_links_are_followed_from_snapshots_to_blobs_only(hub):
    folder = hub / "snapshots" / "1f"
    (folder / "data").symlink_to("../../blobs/0a")
    (folder / "absolute").symlink_to(hub / "blobs" / "0a")
    refused(saved(folder, external("absolute")), "'absolute' is a symbolic link")
    path = saved(folder, external("data"))
    jaxdml.onnx.load(path)
    # Beside snapshots, but not within it.
    (hub / "snapshots").rename(hub / "others")
    refused(hub / "others" / "1f" / "model.onnx", "symbolic link")
    (hub / "snapshots").mkdir()
    refused(hub / "others" / "1f" / "model.onnx", "symbolic link")
    (hub / "snapshots").rmdir()
    (hub / "snapshots").symlink_to("others")
    refused(path, "symbolic link")
    (hub / "snapshots").unlink()
    (hub / "others").rename(hub / "snapshots")
    # Blobs that are a link themselves.
    (hub / "blobs").rename(hub / "moved")
    refused(path, "symbolic link")
    (hub / "blobs").symlink_to("moved")
    refused(path, "symbolic link")
    (hub / "blobs").unlink()
    (hub / "blobs").write_bytes(W.tobytes())
    refused(path, "symbolic link")
    (hub / "blobs").unlink()
    (hub / "moved").rename(hub / "blobs")
    os.link(hub / "blobs" / "0a", hub / "again")
    refused(path, "a hard link: the file has 2 names")


def test_no_descriptor_stays_open(hub):
    folder = hub / "snapshots" / "1f"
    (folder / "data").symlink_to("../../blobs/0a")
    (folder / "other").symlink_to("../../../blobs/0a")
    before = os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else None
    jaxdml.onnx.load(saved(folder, external("data")))
    for location in ("other", "none"):
        refused(saved(folder, external(location)), "initializer 'w'")
    assert before is None or len(os.listdir("/proc/self/fd")) == len(before)


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
        ("0x1", None, "It must be an integer"),
        ("", None, "offset ''"),
        ("٣", None, "It must be an integer"),
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


def test_external_data_is_held_twice_at_most(tmp_path):
    # The arrays are views of what was read, and each goes to the device by itself.
    (tmp_path / "data").write_bytes(W.tobytes())
    graph = jaxdml.onnx.reading.files.graph_of(
        onnx.load(saved(tmp_path, external("data")), load_external_data=False), tmp_path
    )
    assert graph.constants["w"].base is not None
    loaded = jaxdml.onnx.load(tmp_path / "model.onnx")
    assert "w" not in loaded.graph.constants
    assert isinstance(loaded.params["w"], jax.Array)
