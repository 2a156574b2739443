"""Every example in the README and in the docstrings runs and prints what it says."""

import doctest
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser

import jaxdml
from jaxdml import directml, reference
from tests.kit import quick

ROOT = Path(__file__).parents[1]
MODULES = [
    (module, name)
    for module in (jaxdml, reference, directml)
    for name in module.__all__
    if name not in ("directml", "reference", "SUPPORT")
]


@quick
@pytest.mark.parametrize(("module", "name"), MODULES, ids=lambda part: getattr(part, "__name__", part))
def test_docstring_examples(module, name):
    names = {"jaxdml": jaxdml, "reference": reference, "dml": directml, "jax": jax, "jnp": jnp, "np": np}
    public = getattr(module, name)
    (found,) = doctest.DocTestFinder(recurse=False).find(public, name, globs=names)
    assert found.examples or isinstance(public, type)
    output = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    runner.run(found, out=output.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(output)


def test_readme_examples():
    document = Sybil(parsers=[PythonCodeBlockParser(doctest_optionflags=doctest.NORMALIZE_WHITESPACE)]).parse(
        ROOT / "README.md"
    )
    examples = list(document.examples())
    assert examples
    for example in examples:
        example.evaluate()


def test_the_readme_begins_with_its_two_commands():
    blocks = [block.split("```")[0].strip() for block in (ROOT / "README.md").read_text().split("```sh\n")[1:]]
    assert len(blocks) >= 2
    for block, job in zip(blocks[:2], ("-m jaxdml", "-m pytest"), strict=True):
        assert "\n" not in block
        assert "-m venv" in block
        assert block.endswith(job)


def test_the_oracle_and_the_ground_floor_import_no_jax():
    # A fresh interpreter, with the package's own __init__ kept out of the way.
    program = (
        "import sys, types; package = types.ModuleType('jaxdml'); package.__path__ = [sys.argv[1]];"
        "sys.modules['jaxdml'] = package; import jaxdml.reference, jaxdml._base.errors, jaxdml._base.shapes;"
        "raise SystemExit('jax' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program, str(ROOT / "jaxdml")], check=False).returncode == 0
