"""Answer ``python -m jaxdml.directml MODEL.json``: run a model of DxDispatch on the device that JAX finds."""

import argparse
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jaxdml import directml as dml
from jaxdml._runner import dispatching, resources, text
from jaxdml._runner.dispatching import Dispatchable, Setting
from jaxdml._runner.resources import Resource
from jaxdml._runner.text import member, refuse

FAILED = 2
"""The exit status of a model that cannot be run; argparse has the same for wrong arguments."""

DIFFERENT = 1
"""The exit status where ``--check`` finds different bytes."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a model, and return the exit status."""
    options = _options(arguments)
    if options.model.suffix == ".onnx":
        print(f"Run it with: python -m jaxdml.onnx {options.model}", file=sys.stderr)
        return FAILED
    try:
        device = jax.devices()[0]
        run = _run(options, device, quiet=False)
        if not options.check:
            return 0
        return _checked(options, run, device)
    except (dml.InvalidDescError, OSError, ValueError, NotImplementedError) as error:
        print(error, file=sys.stderr)
        return FAILED


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m jaxdml.directml", description=__doc__)
    parser.add_argument("model", type=Path, help="a JSON file as DxDispatch reads it")
    parser.add_argument("--list", action="store_true", help="show what the file holds, and run nothing")
    parser.add_argument("--check", action="store_true", help="run on the CPU, too, and compare all resources")
    parser.add_argument("--input_path", type=Path, help="where files are read (default: beside the model)")
    parser.add_argument("--output_path", type=Path, default=Path(), help="where files are written (default: here)")
    parser.add_argument("--dml_feature_level", default="6.4", metavar="6.4", help="what descriptions are checked for")
    parser.add_argument("-i", "--dispatch_iterations", type=int, default=1, help="how often each dispatch is repeated")
    parser.add_argument("-w", "--warmup_iterations", type=int, default=0, help="dispatches that are not timed")
    return parser.parse_args(arguments)


def _run(options: argparse.Namespace, device: Any, *, quiet: bool) -> Mapping[str, Resource]:
    """Run all commands on a device, and return the resources after them."""
    level = f"LEVEL_{options.dml_feature_level.replace('.', '_')}"
    if level not in dml.FeatureLevel.__members__:
        refuse("--dml_feature_level", "must be one of DirectML's levels, such as 6.4", options.dml_feature_level)
    model = text.read(options.model)
    setting = Setting(options.input_path or options.model.parent, dml.FeatureLevel[level], [])
    held = {
        name: resources.made(f"resources.{name}", _object(f"resources.{name}", given), setting.folder)
        for name, given in model["resources"].items()
    }
    with jax.default_device(device):
        found = {
            name: dispatching.made(f"dispatchables.{name}", given, held, setting)
            for name, given in model["dispatchables"].items()
        }
        commands = [
            _command(f"commands[{place}]", each, held, found, options, quiet)
            for place, each in enumerate(model["commands"])
        ]
        if options.list:
            _list(model, held)
            return held
        if not quiet:
            for path in setting.ignored:
                print(f"Ignored: {path}")
            print(f"Running on '{device.device_kind}'")
        for command in commands:
            command()
    return held


def _object(path: str, given: Any) -> Mapping[str, Any]:
    if not isinstance(given, dict):
        refuse(path, "must be an object", repr(given)[:80])
    return given


def _list(model: Mapping[str, Any], held: Mapping[str, Resource]) -> None:
    for name, resource in held.items():
        size = (
            "deferred" if resource.data is None else f"{resource.count} x {resource.dtype}, {len(resource.data)} bytes"
        )
        print(f"resource {name}: {size}")
    for name, given in model["dispatchables"].items():
        print(f"dispatchable {name}: {given.get('type', given.get('Type'))}")
    for place, given in enumerate(model["commands"]):
        target = given.get("dispatchable", given.get("resource"))
        print(f"command {place}: {given.get('type')} {target}")


def _command(
    path: str,
    given: Any,
    held: Mapping[str, Resource],
    found: Mapping[str, Dispatchable],
    options: argparse.Namespace,
    quiet: bool,
) -> Any:
    """Check a command, and return what runs it."""
    kind = member(path, _object(path, given), "type", str)
    if kind.lower() == "dispatch":
        name = _named(path, given, "dispatchable", found)
        bindings = dispatching.bindings_of(f"{path}.bindings", member(path, given, "bindings", dict), held)
        return lambda: _dispatch(name, f"{path}.bindings", found[name], bindings, options, quiet)
    if kind.lower() not in ("print", "writefile"):
        refuse(f"{path}.type", "must be dispatch, print or writeFile", repr(kind))
    name = _named(path, given, "resource", held)
    if kind.lower() == "print":
        verbose = member(path, given, "verbose", bool, False)
        return lambda: None if quiet else print(resources.printed(name, held[name], verbose))
    file = options.output_path / member(path, given, "targetPath", str)
    dimensions = member(path, given, "dimensions", list, None)
    return lambda: None if quiet else _write(path, held[name], file, dimensions)


def _named(path: str, given: Mapping[str, Any], name: str, among: Mapping[str, Any]) -> str:
    found: str = member(path, given, name, str)
    if found not in among:
        refuse(f"{path}.{name}", f"must be one of {', '.join(among) or 'none'}", repr(found))
    return found


def _dispatch(name: str, path: str, one: Dispatchable, bindings: Any, options: argparse.Namespace, quiet: bool) -> None:
    for _ in range(options.warmup_iterations):
        one(path, bindings)
    taken = []
    for _ in range(max(1, options.dispatch_iterations)):
        begin = time.perf_counter()
        write = one(path, bindings)
        taken.append(time.perf_counter() - begin)
        write()
    if not quiet:
        median = statistics.median(taken) * 1e3
        print(f"Dispatch '{name}': {len(taken)} iterations, {median:.4f} ms median (CPU)")


def _write(path: str, resource: Resource, file: Path, dimensions: list[int] | None) -> None:
    """Write a file; as in DxDispatch the run goes on where that fails."""
    try:
        resources.written(path, resource, file, dimensions)
        print(f"Resource written to '{file}'")
    except (dml.InvalidDescError, OSError, ValueError) as error:
        print(f"Could not write '{file}': {error}", file=sys.stderr)


def _checked(options: argparse.Namespace, run: Mapping[str, Resource], device: Any) -> int:
    """Compare the resources after a run with those after one on the CPU."""
    other = _run(options, jax.devices("cpu")[0], quiet=True)
    print(f"Compared: {device.platform} and cpu")
    different = [name for name, one in run.items() if _bytes(one) != _bytes(other[name])]
    for name, one in run.items():
        what = "other bytes than on the CPU" if name in different else "the same bytes"
        print(f"{name}: {what}{_by(one, other[name])}")
    return DIFFERENT if different else 0


def _bytes(one: Resource) -> bytes | None:
    return None if one.data is None else one.data.tobytes()


def _by(one: Resource, other: Resource) -> str:
    """Say by how much floats differ."""
    with suppress(AssertionError):
        if one.dtype is not None and one.dtype.kind == "f" and one.count:
            most = np.max(np.abs(one.elements.astype(float) - other.elements.astype(float)))
            return f", by at most {most:.3g}" if most else ""
    return ""
