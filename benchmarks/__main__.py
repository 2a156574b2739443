"""``python -m benchmarks``: measure jaxdml, compare reports, and look into what decides."""

import runpy
import sys
from collections.abc import Mapping
from typing import NamedTuple


class Command(NamedTuple):
    """What a word after ``python -m benchmarks`` runs, and what for."""

    module: str
    purpose: str


COMMANDS: Mapping[str, Command] = {
    "measure": Command(
        "measuring.run",
        "operators and whole models against their peers, on one device or several (also without a word)",
    ),
    "compare": Command("reporting.compare", "two reports: then and now, or two devices"),
    "page": Command("reporting.document", "write the pages of docs/ and the README's table from benchmarks/results/"),
    "models": Command("measuring.decoding", "tokens of large language models, in a loop inside of one program"),
    "traffic": Command("compiling.traffic", "what sharded calls send between devices"),
    "estimates": Command("compiling.estimates", "what the compilers of accelerators that are not here say"),
    "model-estimates": Command("compiling.model_estimates", "what the TPU's compiler says of whole models"),
    "programs": Command("compiling.programs", "the programs of two versions of jaxdml"),
    "constants": Command(
        "measuring.constants", "a constant of a lowering at several values, or the methods that it decides between"
    ),
    "weights": Command("measuring.weights", "products with weights that are prepared once"),
}


def main(arguments: list[str]) -> None:
    """Run a command; each says its options with ``--help``."""
    if arguments[:1] in (["-h"], ["--help"]):
        lines = [f"  {name:<16}{command.purpose}" for name, command in COMMANDS.items()]
        print("usage: python -m benchmarks [command] [options]\n\ncommands:", *lines, sep="\n")
        print(
            "\n'python -m benchmarks measure --help' says its options, and so for the others. What a command finds out"
        )
        print("is kept as JSON lines, of which the first says the device, the versions and the commit.")
        return
    name = arguments[0] if arguments and arguments[0] in COMMANDS else "measure"
    rest = arguments[1:] if arguments[:1] == [name] else arguments
    sys.argv = [f"python -m benchmarks {name}", *rest]
    runpy.run_module(f"benchmarks.{COMMANDS[name].module}", run_name="__main__", alter_sys=False)


if __name__ == "__main__":
    main(sys.argv[1:])
