"""Ask the TPU's compiler what whole models would cost: ``python -m benchmarks model-estimates``.

Networks are compiled as float32, as bfloat16 and as int8 files, for one input and for batches. That needs libtpu, and
no TPU. Nothing runs. ``results/model-estimates.jsonl`` holds::

    environment   of the host
    row           one for each compilation
      model, batch, target, kind      what is compiled, and for what; the kind is that of the file
      raises                          the error, or how the compiler ended, and then nothing else; or null
      bytes, microseconds, loops, compile_s, cpu_s    as ``python -m benchmarks estimates`` has them

A compiler may abort, or take too long. So each compilation is a process of its own, for ``--limit`` seconds at most,
and each row is written when it is there. ``--resume`` keeps those that the file has.
"""

import argparse
import itertools
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax

import jaxdml.onnx
from benchmarks.compiling import compilers, estimates
from benchmarks.models import networks
from benchmarks.reporting import display, journal
from benchmarks.reporting.model_estimates_table import FILE, KINDS, markdown

MODELS = "mobilenet_v2", "resnet_50", "bert_base"
BATCHES = 1, 32


class Compilation(NamedTuple):
    """What is asked of a compiler."""

    model: str
    batch: int
    target: str
    kind: str

    @property
    def name(self) -> str:
        """What progress shows."""
        return " ".join(map(str, self))


def cost(one: Compilation) -> dict[str, Any]:
    """Compile a model and return the compiler's account of it."""
    file = networks.made(one.model, one.kind)
    model = jaxdml.onnx.load(file)
    sizes = [[each.dim_value for each in value.type.tensor_type.shape.dim[1:]] for value in file.graph.input]
    arguments = [
        dict(model.params),
        *(
            jax.ShapeDtypeStruct((one.batch, *shape), jax.dtypes.canonicalize_dtype(value.dtype))
            for value, shape in zip(model.inputs, sizes, strict=True)
        ),
    ]
    return estimates.cost(model.apply, arguments, compilers.device_of(one.target))


def in_a_process(one: Compilation, limit: float) -> dict[str, Any]:
    """Return what ``cost`` does, or how its process ended."""
    command = [sys.executable, "-m", "benchmarks.compiling.model_estimates", "--one", *map(str, one)]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return {"raises": f"not compiled in {limit:g} s"}
    if ended.returncode:
        lines = ended.stderr.splitlines()
        fatal = [line for line in lines if "Check failed" in line] or lines[-1:]
        return {"raises": f"exit status {ended.returncode}: {''.join(fatal[:1]).partition('] ')[2][:120]}"}
    found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Compile, show and save; the exit status tells whether all compiled."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks model-estimates", description=__doc__)
    parser.add_argument("--models", nargs="+", choices=networks.NETWORKS, default=MODELS)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS, help="of the file")
    parser.add_argument("--batches", nargs="+", type=int, default=BATCHES)
    parser.add_argument("--targets", nargs="+", choices=estimates.TARGETS, default=["v5e"])
    parser.add_argument("--limit", type=float, default=1200, metavar="SECONDS")
    parser.add_argument("--resume", action="store_true", help="keep the rows that the file has")
    parser.add_argument("--out", type=Path, default=FILE, metavar="FILE")
    parser.add_argument("--one", nargs=4, metavar=("MODEL", "BATCH", "TARGET", "KIND"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.one:
        name, batch, target, kind = options.one
        print(json.dumps(cost(Compilation(name, int(batch), target, kind))))
        return 0
    wanted = itertools.starmap(
        Compilation, itertools.product(options.models, options.batches, options.targets, options.kinds)
    )
    kept = journal.earlier(options.out) if options.resume else []
    done = {tuple(row[field] for field in Compilation._fields) for row in kept}
    journal.begin(options.out, journal.head(command="model-estimates"), kept)
    for one in display.follow([one for one in wanted if one not in done]):
        journal.add(options.out, "row", one._asdict() | in_a_process(one, options.limit))
    display.console.print(markdown(options.out), markup=False)
    _, rows = journal.rows(options.out)
    return int(any(row["raises"] for row in rows))


if __name__ == "__main__":
    jax.config.update("jax_platforms", "cpu")
    sys.exit(main())
