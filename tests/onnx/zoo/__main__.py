"""Make files with today's exporters, quantizers and builders, and compare each with onnxruntime.

``python -m tests.onnx.zoo OUT`` writes ``OUT/files/`` and one line for each file to ``OUT/zoo.jsonl``. The same
command goes on where it was stopped. It needs torch, torchvision, transformers, onnxscript, onnxruntime,
onnxconverter-common and onnxruntime-genai; what needs one that is absent is named and skipped. Nothing is downloaded:
networks are made from configurations, with random weights.
"""

import argparse
import fnmatch
import importlib.util
import json
import multiprocessing
import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.reporting import journal, tables
from tests.onnx.zoo import work
from tests.onnx.zoo.work import GENAI

NEEDED = {
    "torch": "torch",
    "torchvision": "torchvision",
    "transformers": "transformers",
    "onnxscript": "onnxscript",
    "onnxruntime": "onnxruntime",
    "onnxconverter-common": "onnxconverter_common",
    "onnxruntime-genai": "onnxruntime_genai",
}
"""Packages by their names, and the module of each."""

_QUICK = (
    "--xla_backend_optimization_level=0",
    "--xla_cpu_parallel_codegen_split_count=1",
    "--xla_cpu_use_fusion_emitters=false",
)

_SECONDS = 600
"""For one file at most."""


def main(arguments: list[str]) -> int:
    """Make, judge, and print the table; return 1 if any file is wrong or raises."""
    parser = argparse.ArgumentParser(prog="python -m tests.onnx.zoo", description=__doc__)
    parser.add_argument("out", type=Path, help="the folder for files and results")
    parser.add_argument("--only", default="*", help="a pattern of names, such as 'bert.*'")
    parser.add_argument("--again", action="store_true", help="judge what is not 'agrees' or 'steps' once more")
    parser.add_argument("--table", action="store_true", help="print the table of what is there, and stop")
    parser.add_argument("--no-making", action="store_true", help="judge the files that are there")
    parser.add_argument("--summary", type=Path, help="write versions, counts and what does not agree to this file")
    parser.add_argument("--quick", action="store_true", help="compile without LLVM's optimizations, in less time")
    options = parser.parse_args(arguments)
    if options.quick:
        os.environ["XLA_FLAGS"] = " ".join((os.environ.get("XLA_FLAGS", ""), *_QUICK))  # For the processes.
    results = options.out / "zoo.jsonl"
    if not options.table:
        (options.out / "files").mkdir(parents=True, exist_ok=True)
        if not results.exists():
            journal.begin(results, journal.head(command="zoo"))
        if not options.no_making:
            for package in missing():
                print(f"{package} is not installed: what needs it is skipped.")
            _each_in_a_process(work.make, _to_make(options.out, options.only), results)
        _each_in_a_process(work.judge, _to_judge(options.out, options.only, options.again), results)
    rows = latest(results)
    print(table(rows))
    if options.summary:
        options.summary.write_text(json.dumps(summary(rows), indent=1) + "\n", encoding="utf-8")
    return int(any(row["verdict"] in ("wrong", "raises") for row in rows.values()))


def missing() -> list[str]:
    """Return the names of the packages that are not installed."""
    return [package for package, module in NEEDED.items() if importlib.util.find_spec(module) is None]


def _to_make(out: Path, only: str) -> Iterator[tuple[str, Path]]:
    absent = set(missing())
    if not absent & {"torch", "torchvision", "transformers", "onnxruntime"}:
        from tests.onnx.zoo import architectures, forms

        for name, architecture in architectures.ARCHITECTURES.items():
            for form in (*forms.EXPORTS, *forms.forms(architecture)):
                if fnmatch.fnmatch(f"{name}.{form}", only):
                    yield f"{name}.{form}", out
    if not absent & {"torch", "transformers", "onnxruntime-genai"}:
        from tests.onnx.zoo import builder

        for target in builder.TARGETS:
            for name in builder.FAMILIES:
                if fnmatch.fnmatch(f"{GENAI}.{name}.{target}", only):
                    yield f"{GENAI}.{name}.{target}", out


def _to_judge(out: Path, only: str, again: bool) -> Iterator[tuple[str, Path]]:
    rows = latest(out / "zoo.jsonl")
    for path in sorted((out / "files").glob("*.onnx"), key=lambda path: path.stat().st_size):
        known = rows.get(path.stem, {}).get("verdict")
        wanted = known in (None, "not made") or (again and known not in ("agrees", "steps"))
        if wanted and fnmatch.fnmatch(path.stem, only):
            yield path.stem, out


def _each_in_a_process(function: Callable[..., Any], names: Iterator[tuple[str, Path]], results: Path) -> None:
    """Call a function in another process, which is started anew where one breaks; append what it returns."""
    pool = None
    for name, out in list(names):
        pool = pool or ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))
        begun = time.perf_counter()
        try:
            row = pool.submit(function, name, out).result(_SECONDS)
        except (BrokenExecutor, TimeoutError) as error:
            row = {"verdict": "raises", "why": f"the process: {type(error).__name__}"}
            for process in list(pool._processes.values()):
                process.kill()
            pool.shutdown(wait=False, cancel_futures=True)
            pool = None
        if row is None:
            continue
        row = {
            "name": name,
            **row,
            "quick": _QUICK[0] in os.environ.get("XLA_FLAGS", ""),
            "seconds": round(time.perf_counter() - begun, 1),
        }
        journal.add(results, "row", row)
        print(f"{name}: {row['verdict']} {row['why'][:200]}", flush=True)
    if pool:
        pool.shutdown()


def latest(results: Path) -> dict[str, dict[str, Any]]:
    """Return the newest row of each file."""
    return {row["name"]: row for row in journal.rows(results)[1]} if results.exists() else {}


def form_of(name: str) -> str:
    """Return the form of a file by its name: what follows the architecture."""
    first, rest = name.split(".", 1)
    return f"{first}.{rest.split('.', 1)[1]}" if first == GENAI else rest


def counts(rows: dict[str, dict[str, Any]]) -> dict[str, Counter[str]]:
    """Count verdicts by form."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for name, row in rows.items():
        found[form_of(name)][row["verdict"]] += 1
    return dict(found)


def summary(rows: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the versions of the packages, how many verdicts each form has, and why the others are none that agree."""
    absent = missing()
    judged = {name: row for name, row in rows.items() if row["verdict"] != "not made"}
    kinds = [name.split(".")[:2] for name in judged]
    return {
        "versions": {package: metadata.version(package) for package in (*NEEDED, "jax") if package not in absent},
        "architectures": len({first for first, _ in kinds if first != GENAI}),
        "families": len({second for first, second in kinds if first == GENAI}),
        "counts": {form: dict(found) for form, found in sorted(counts(judged).items())},
        "others": {name: row["why"][:300] for name, row in sorted(judged.items()) if row["verdict"] != "agrees"},
    }


def table(rows: dict[str, dict[str, Any]]) -> str:
    """Return the counts of verdicts by form."""
    by_form = counts(rows)
    columns = sorted({verdict for found in by_form.values() for verdict in found})
    told = [*sorted(by_form.items()), ("all", sum(by_form.values(), Counter()))]
    lines = [
        (form, str(found.total() - found["not made"]), *(str(found[verdict] or "-") for verdict in columns))
        for form, found in told
    ]
    return tables.markdown(("form", "files", *columns), lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
