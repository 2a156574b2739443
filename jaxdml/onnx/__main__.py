"""Answer ``python -m jaxdml.onnx MODEL``: what becomes of its nodes, and does every device compute the same bits?"""

import argparse
import hashlib
import statistics
import sys
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jaxdml._base import errors
from jaxdml._base.display import Display, Side, display
from jaxdml.onnx import Model, load
from jaxdml.onnx._graph import TensorType
from jaxdml.onnx.running.ahead import Artifact, opened, write
from jaxdml.onnx.running.inputs import checked, in_order
from jaxdml.onnx.running.program import NUMERICS
from jaxdml.onnx.running.report import fitted

FAILED = 2
"""The exit status where a model or its inputs cannot be run; argparse has the same for wrong arguments."""

SECONDS, FEWEST, MOST = 2.0, 3, 50
"""How long and how often everything is timed."""

_DEVICES: Mapping[str, Side] = {
    "device": "left",
    "digest of the outputs": "left",
    "same bits": "left",
    "first call (s)": "right",
    "median (ms)": "right",
}

_OUTPUTS: Mapping[str, Side] = {
    "output": "left",
    "dtype": "left",
    "shape": "left",
    "elements": "right",
    "that differ": "right",
    "by at most": "right",
}

Arrays = Sequence[np.ndarray]


@dataclass(frozen=True)
class Runner:
    """One way to compute a model's outputs.

    Attributes:
      name: of the device, or of another library.
      run: computes them, and waits.
      outputs: of the first call.
      first: seconds of the first call, which compiles.
    """

    name: str
    run: Callable[[], Arrays]
    outputs: Arrays
    first: float

    @property
    def digest(self) -> str:
        """The same for the same dtypes, shapes and bits."""
        digest = hashlib.sha256()
        for array in self.outputs:
            digest.update(f"{array.dtype}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()[:16]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a model and return the exit status: 1 if two devices disagree."""
    parser = argparse.ArgumentParser(
        prog="python -m jaxdml.onnx",
        description="Say what becomes of a model's nodes, run it on every device that JAX sees, compare their bits, "
        "and compare outputs and speed with onnxruntime where that is installed.",
    )
    parser.add_argument("model", type=Path, metavar="MODEL", help="an ONNX file")
    parser.add_argument(
        "--numerics", choices=NUMERICS, default="exact", help="as for jaxdml.onnx.load (default: exact)"
    )
    parser.add_argument(
        "--inputs", type=Path, metavar="FILE", help="an .npz file with an array for each input, by name"
    )
    parser.add_argument(
        "--batch",
        type=int,
        default=1,
        metavar="N",
        help="first dimensions that the model leaves open; it is tried what others may be",
    )
    parser.add_argument("--seed", type=int, default=0, help="draw the inputs from this seed (default: 0)")
    ahead = parser.add_argument_group("programs ahead")
    ahead.add_argument(
        "--compile",
        nargs="*",
        metavar="NAME=LENGTHS",
        help="export programs for lengths of each dimension that the model leaves open, such as width=160,320,640",
    )
    ahead.add_argument("--out", type=Path, metavar="FILE", help="write them to FILE, which jaxdml.onnx.load reads")
    ahead.add_argument("--platforms", metavar="NAMES", help="for these, such as cpu,cuda,tpu (default: the one here)")
    options = parser.parse_args(arguments)
    if (options.compile is None) != (options.out is None):
        parser.error("--compile and --out belong together")
    try:
        model = load(options.model, numerics=options.numerics)
        if options.compile is not None:
            return _written(model, _lengths(options.compile), options.out, options.platforms, display())
        if isinstance(model, Artifact):
            display().line(model.report())
            return 0
        _must_be_tensors(model)
        by_name = _read(options.inputs) if options.inputs else drawn(model, options.batch, options.seed)
        return _compare(options.model, model, by_name, display())
    except (OSError, TypeError, ValueError, NotImplementedError, OverflowError) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return FAILED


def _lengths(texts: Sequence[str]) -> dict[str, list[int]]:
    """Return lengths by name of a dimension."""
    pairs = (text.rpartition("=") for text in texts)
    try:
        return {name: [int(number) for number in numbers.split(",")] for name, _, numbers in pairs}
    except ValueError:
        raise ValueError(f"--compile takes NAME=LENGTHS, such as width=160,320, not {' '.join(texts)}") from None


def _written(model: Model, lengths: Mapping[str, list[int]], path: Path, platforms: str | None, show: Display) -> int:
    start = time.perf_counter()
    size = write(model, lengths, path, platforms.split(",") if platforms else None)
    seconds = time.perf_counter() - start
    show.line(opened(path, model.numerics, "exact").report())
    show.line(f"{path}: {size:,} bytes, exported in {seconds:.1f} s.")
    return 0


def _must_be_tensors(model: Model) -> None:
    if any(value.within for value in (*model.inputs, *model.outputs)):
        raise NotImplementedError("the model takes or returns sequences or optionals; call it from Python instead.")


def _read(path: Path) -> dict[str, np.ndarray]:
    try:
        with path.open("rb") as opened, np.load(opened) as file:
            return dict(file)
    except (ValueError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} is no .npz file of plain arrays: {error}") from None


def drawn(model: Model, batch: int, seed: int) -> dict[str, np.ndarray]:
    """Return inputs for a model: floats around 0, numbers of 32 and 64 bits 0 or 1, others of their whole range.

    Args:
      model: declares them.
      batch: the first dimension where it is open; for other open dimensions what the model takes.
      seed: the same gives the same.
    """
    generator = np.random.default_rng(seed)
    pairs = zip(model.inputs, fitted(model, batch).inputs, strict=True)
    return {value.name: _drawn(value, given.shape, generator) for value, given in pairs}


def _drawn(value: TensorType, shape: tuple[int, ...], generator: np.random.Generator) -> np.ndarray:
    dtype = np.dtype(value.dtype or np.float32)
    if dtype.kind in "iu" and dtype.itemsize < 4:
        limits = np.iinfo(dtype)
        return generator.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    if dtype.kind in "iub":
        # Token ids, masks and positions are small; those that a table lacks would be read beside it.
        return np.asarray(generator.integers(0, 2, shape)).astype(dtype)
    return np.asarray(generator.standard_normal(shape)).astype(dtype)


def _devices() -> list[jax.Device]:
    """Return every device of this process, the CPU's also where JAX prefers others."""
    found = list(jax.local_devices())
    with suppress(RuntimeError):
        found += [device for device in jax.local_devices(backend="cpu") if device not in found]
    return found


def _compare(path: Path, model: Model, by_name: Mapping[str, np.ndarray], show: Display) -> int:
    every = (*model.inputs, *(value for value in model.optional_inputs if value.name in by_name))
    inputs = checked(every, in_order(model.inputs, every, (), by_name))
    show.line(model.report(*inputs[: len(model.inputs)]))
    given = (f"{value.name} {errors.describe(x)}" for value, x in zip(every, inputs, strict=True))
    show.line(f"Inputs: {', '.join(given) or 'none'}.")
    with_onnxruntime = _onnxruntime(path, model, by_name, show)
    runners = [_started(str(device), _on(device, model, by_name)) for device in _devices()]
    rivals = [_started("onnxruntime, cpu", with_onnxruntime)] if with_onnxruntime else []
    rows = []
    first, *_ = runners
    for runner, median in zip([*runners, *rivals], _medians([*runners, *rivals]), strict=True):
        same = "yes" if runner.digest == first.digest else "NO" if runner in runners else "no"
        rows.append((runner.name, runner.digest, same, f"{runner.first:.2f}", f"{1000 * median:.3f}"))
    show.table(_DEVICES, rows)
    for rival in rivals:
        show.line(f"The outputs of {first.name} beside those of {rival.name}:")
        show.table(
            _OUTPUTS, [_difference(*both) for both in zip(model.outputs, first.outputs, rival.outputs, strict=True)]
        )
    agree = all(runner.digest == first.digest for runner in runners)
    count = f"{len(runners)} devices" if len(runners) > 1 else "One device"
    show.line(f"{count}: {'the same bits.' if agree else 'NOT the same bits.'}")
    return 0 if agree else 1


def _on(device: jax.Device, model: Model, by_name: Mapping[str, np.ndarray]) -> Callable[[], Arrays]:
    there = replace(model, params=jax.device_put(dict(model.params), device))

    def run() -> Arrays:
        with jax.default_device(device):
            given: dict[str, Any] = {"key": jax.random.key(0), **by_name}  # An input may have this name.
            return [np.asarray(output) for output in there(**given)]

    return run


def _onnxruntime(
    path: Path, model: Model, by_name: Mapping[str, np.ndarray], show: Display
) -> Callable[[], Arrays] | None:
    """Return what runs the model in onnxruntime, if that is installed and can."""
    try:
        import onnxruntime
    except ImportError:
        show.line("onnxruntime is not installed: nothing to compare with.")
        return None

    def run() -> Arrays:
        # As JAX has them, with 32 bits unless 64 are enabled.
        return [
            each.astype(jax.dtypes.canonicalize_dtype(each.dtype), copy=False) for each in session.run(names, given)
        ]

    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 4
    names, given = [value.name for value in model.outputs], dict(by_name)
    try:
        session = onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
        run()
    except Exception as error:  # onnxruntime has a class for each status
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        show.line(f"onnxruntime {metadata.version('onnxruntime')} cannot run it: {reason}")
        return None
    return run


def _started(name: str, run: Callable[[], Arrays]) -> Runner:
    start = time.perf_counter()
    outputs = run()
    return Runner(name, run, outputs, time.perf_counter() - start)


def _medians(runners: Sequence[Runner]) -> list[float]:
    """Return the median seconds of each, timed in turn so that whatever slows the machine slows all."""
    times: list[list[float]] = [[] for _ in runners]
    end = time.perf_counter() + SECONDS
    while len(times[0]) < FEWEST or (time.perf_counter() < end and len(times[0]) < MOST):
        for runner, spent in zip(runners, times, strict=True):
            start = time.perf_counter()
            runner.run()
            spent.append(time.perf_counter() - start)
    return [statistics.median(spent) for spent in times]


def _difference(value: TensorType, ours: np.ndarray, theirs: np.ndarray) -> tuple[str, ...]:
    described = value.name, str(ours.dtype), "x".join(map(str, ours.shape)) or "()", str(ours.size)
    if ours.shape != theirs.shape:
        return *described, "all", f"shape {list(theirs.shape)}"
    if not ours.size:
        return *described, "0", "0"
    a, b = ours.astype(np.complex128), theirs.astype(np.complex128)
    with np.errstate(invalid="ignore"):
        gaps = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0, np.abs(a - b))
    return *described, str(np.count_nonzero(gaps)), f"{gaps.max():.3g}"


if __name__ == "__main__":
    sys.exit(main())
