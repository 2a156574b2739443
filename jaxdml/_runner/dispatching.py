"""Operators, graphs and ONNX models of a DxDispatch model, and what they compute of bound resources."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

import jaxdml.onnx
from jaxdml import directml as dml
from jaxdml._runner.resources import Resource
from jaxdml._runner.text import member, refuse, within
from jaxdml.directml._c import c_field
from jaxdml.directml._graph import slots
from jaxdml.directml._reading import desc_from_json, ignoring_unknown_keys

Resources = Mapping[str, Resource]


class Binding(NamedTuple):
    """A part of a resource.

    Attributes:
      path: where the model names it.
      resource: the resource.
      begin: the first byte.
      shape: that of an array of an ONNX model, if it is given.
    """

    path: str
    resource: Resource
    begin: int = 0
    shape: tuple[int, ...] | None = None

    def bytes(self, size: int) -> np.ndarray:
        """Return so many bytes."""
        data = self.resource.data
        if data is None:
            refuse(self.path, "must name a resource that has been made", "a deferred one")
        if len(data) - self.begin < size:
            refuse(self.path, f"must have {size} bytes", max(len(data) - self.begin, 0))
        return data[self.begin : self.begin + size]

    def read(self, dtype: Any, sizes: Sequence[int]) -> np.ndarray:
        """Return the elements of a packed tensor."""
        return self.bytes(math.prod(sizes) * np.dtype(dtype).itemsize).view(dtype).reshape(sizes)

    def tensor(self, desc: dml.BufferTensorDesc) -> np.ndarray:
        """Return a described tensor: its elements, or with strides its buffer."""
        dtype = np.dtype(desc.data_type.dtype)
        if desc.strides is None:
            return self.read(dtype, desc.sizes)
        return self.bytes(desc.size_in_bytes // dtype.itemsize * dtype.itemsize).view(dtype)

    def write(self, values: Any) -> None:
        """Write the elements of an output; a deferred resource is made of them."""
        array = np.ascontiguousarray(values)
        if self.resource.data is None:
            self.resource.data = np.zeros(-(-array.nbytes // 4) * 4, np.uint8)
            self.resource.dtype, self.resource.count = array.dtype, array.size
        self.bytes(array.nbytes)[:] = array.reshape(-1).view(np.uint8)


Bindings = Mapping[str, list[Binding]]


class Setting(NamedTuple):
    """What a run has beside the model: the folder of its files, and the feature level."""

    folder: Path
    level: dml.FeatureLevel
    ignored: list[str]
    """Paths to keys that DxDispatch ignores."""


class Point(NamedTuple):
    """A bind point, or an element of one that has several."""

    name: str
    place: int


@dataclass(frozen=True)
class Computation:
    """A graph with the names of its inputs and outputs.

    Attributes:
      compiled: the graph.
      inputs: the bind point of each input.
      outputs: the bind point of each output.
      run: the function of the inputs that are not owned.
    """

    compiled: dml.CompiledGraph
    inputs: tuple[Point, ...]
    outputs: tuple[Point, ...]
    run: Callable[..., tuple[Any, ...]]

    def __call__(self, path: str, bindings: Bindings) -> Callable[[], None]:
        """Compute from what is bound, and return what writes the outputs."""
        wide = any(desc and desc.data_type.bits > 32 for desc in (*self.compiled.inputs, *self.compiled.outputs))
        pairs = zip(self.inputs, self.compiled.inputs, strict=True)
        given = [
            None if desc is None else _bound_to(path, point, bindings).tensor(desc)
            for point, desc in pairs
            if desc is None or not desc.flags & dml.TensorFlags.OWNED_BY_DML
        ]
        targets = [_bound_to(path, point, bindings) for point in self.outputs]
        with jax.enable_x64(wide or jax.config.jax_enable_x64):  # type: ignore[attr-defined]
            results = [np.asarray(one) for one in self.run(*given)]

        def write() -> None:
            for target, result in zip(targets, results, strict=True):
                target.write(result)

        return write


Dispatchable = Callable[[str, Bindings], Callable[[], None]]
"""Takes the path of a command's bindings and these; computes, and returns what writes the outputs."""


def _bound_to(path: str, point: Point, bindings: Bindings) -> Binding:
    found = bindings.get(point.name, [])
    if point.place >= len(found):
        missing = f"[{point.place}]" if found else ""
        refuse(f"{path}.{point.name}{missing}", "must be bound", "nothing")
    return found[point.place]


def bindings_of(path: str, given: Mapping[str, Any], resources: Resources) -> Bindings:
    """Return the bindings of an object, by bind points."""
    found = {}
    for point, value in given.items():
        label, several = f"{path}.{point}", isinstance(value, list)
        each = value if isinstance(value, list) else [value]
        found[point] = [
            _binding(f"{label}[{place}]" if several else label, one, resources) for place, one in enumerate(each)
        ]
    return found


def _binding(path: str, value: Any, resources: Resources) -> Binding:
    given = {"name": value} if isinstance(value, str) else value
    if not isinstance(given, Mapping):
        refuse(path, "must be a string or an object", repr(value)[:80])
    name = member(path, given, "name", str)
    if name not in resources:
        refuse(path, f"must be one of {', '.join(resources) or 'no resources'}", repr(name))
    resource, offset = resources[name], member(path, given, "elementOffset", int, 0)
    size = member(path, given, "elementSizeInBytes", int, resource.dtype.itemsize if resource.dtype else 1)
    if offset < 0 or size <= 0:
        refuse(path, "must have an offset that is not negative, and elements of at least a byte", [offset, size])
    shape = member(path, given, "shape", list, None)
    if shape is not None and not all(isinstance(n, int) and n >= 0 for n in shape):
        refuse(f"{path}.shape", "must be a list of sizes", shape)
    return Binding(path, resource, offset * size, None if shape is None else tuple(shape))


def made(path: str, given: Any, resources: Resources, setting: Setting) -> Dispatchable:
    """Return the dispatchable that an object describes; its files are read, and its description is checked."""
    if not isinstance(given, Mapping):
        refuse(path, "must be an object", repr(given)[:80])
    kind = given.get("type", given.get("Type"))
    if not isinstance(kind, str):
        refuse(f"{path}.type", "must be a string", repr(kind))
    match kind.lower():
        case "hlsl":
            advice = "must not be hlsl: write the shader as a function of JAX, and give it the arrays"
            refuse(f"{path}.type", advice, repr(kind))
        case "onnx":
            return _of_onnx(path, given, setting)
        case "dmlserializedgraph":
            return _of_serialized(path, given, setting)
    return _of_operator(path, given, resources, setting)


def _of_operator(path: str, given: Mapping[str, Any], resources: Resources, setting: Setting) -> Computation:
    with ignoring_unknown_keys() as ignored:
        desc = desc_from_json(path, given)
    setting.ignored.extend(ignored)
    inputs, outputs = (slots(desc, output=output) for output in (False, True))
    places = [place for place, slot in enumerate(inputs) if slot.tensor is not None]
    results = [place for place, slot in enumerate(outputs) if slot.tensor is not None]
    graph = dml.Graph(
        input_count=len(places),
        output_count=len(results),
        nodes=(dml.OperatorNode(desc),),
        input_edges=tuple(dml.InputEdge(index, 0, place) for index, place in enumerate(places)),
        output_edges=tuple(dml.OutputEdge(0, place, index) for index, place in enumerate(results)),
    )
    try:
        compiled = dml.compile_graph(graph, setting.level)
    except dml.InvalidDescError as error:
        plain = [one._replace(field=one.field.removeprefix("Nodes[0].")) for one in error.violations]
        raise within(f"{path}.desc", dml.InvalidDescError("", plain)) from None
    points = [_points(inputs), _points(outputs)]
    named = tuple(points[0][place] for place in places), tuple(points[1][place] for place in results)
    weights = bindings_of(f"{path}.bindings", member(path, given, "bindings", dict, {}), resources)
    owned = {
        index: _bound_to(f"{path}.bindings", named[0][index], weights).tensor(slot.tensor)
        for index, slot in enumerate(inputs[place] for place in places)
        if slot.tensor.flags & dml.TensorFlags.OWNED_BY_DML
    }
    return Computation(compiled, *named, compiled.initialize(owned) if owned else compiled)


def _points(fields: Sequence[Any]) -> list[Point]:
    """Return the bind point of each slot: the field's name in C, and its place in an array of tensors."""
    counts: dict[str, int] = {}
    found = []
    for slot in fields:
        found.append(Point(c_field(slot.field), counts.get(slot.field, 0)))
        counts[slot.field] = counts.get(slot.field, 0) + 1
    return found


def _file(path: str, given: Mapping[str, Any], setting: Setting) -> Path:
    name = member(path, given, "sourcePath", str)
    if not (setting.folder / name).is_file():
        refuse(f"{path}.sourcePath", "must name a file", repr(name))
    return setting.folder / name


def _of_serialized(path: str, given: Mapping[str, Any], setting: Setting) -> Computation:
    file = _file(path, given, setting)
    try:
        from jaxdml._runner import serialized
    except ImportError:
        refuse(f"{path}.type", "needs the library flatbuffers (pip install jaxdml[directml])", repr(given["type"]))
    try:
        found = serialized.read(file)
        compiled = dml.compile_graph(found.graph, setting.level)
        run: Any = compiled.initialize(found.owned(compiled.inputs)) if found.weights else compiled
    except dml.InvalidDescError as error:
        raise within(f"{path}.sourcePath", error) from None
    inputs, outputs = (tuple(Point(name, 0) for name in names) for names in (found.inputs, found.outputs))
    return Computation(compiled, inputs, outputs, run)


def _of_onnx(path: str, given: Mapping[str, Any], setting: Setting) -> Dispatchable:
    model = jaxdml.onnx.load(_file(path, given, setting))
    free = member(path, given, "freeDimensionNameOverrides", dict, {})

    def run(label: str, bindings: Bindings) -> Callable[[], None]:
        arrays = []
        for value in model.inputs:
            point = _bound_to(label, Point(value.name, 0), bindings)
            declared = tuple(n if isinstance(n, int) else free.get(n, 1) for n in value.shape or ())
            arrays.append(point.read(value.dtype, declared if point.shape is None else point.shape))
        results = [np.asarray(one) for one in model(*arrays)]

        def write() -> None:
            for value, result in zip(model.outputs, results, strict=True):
                for target in bindings.get(value.name, [])[:1]:
                    target.write(result)

        return write

    return run
