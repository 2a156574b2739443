"""Every operator has the files that docs/contributing.md lists under "Adding an operator"."""

import re
from pathlib import Path

import pytest

from jaxdml._cases import OPERATORS as CASES
from tests.kit import OPERATORS

ROOT = Path(__file__).parents[1]

OWN = (
    "jaxdml/reference/_OP.py",
    "jaxdml/_cases/OP.py",
    "jaxdml/_operators/OP.py",
    "tests/test_OP.py",
    "tests/structs/OP.py",
    "benchmarks/peers/OP.py",
    "docs/operators/OP.md",
)
"""Files of one operator. OP is its name."""

SHARED = (
    "jaxdml/__init__.py",
    "jaxdml/reference/__init__.py",
    "docs/changelog.md",
)
"""Files of all operators, in which a line names each one."""

EXPORTED = {
    "jaxdml/reference/_OP.py": "jaxdml/reference/__init__.py",
    "jaxdml/_operators/OP.py": "jaxdml/__init__.py",
}
"""What each door exports. Written later, the package could not be imported on the way."""


@pytest.mark.parametrize("pattern", OWN)
@pytest.mark.parametrize("operator", OPERATORS)
def test_an_operator_has_its_file(operator, pattern):
    file = pattern.replace("OP", operator)
    assert (ROOT / file).is_file(), f"{operator} has no {file}"
    assert operator in (ROOT / file).read_text(encoding="utf-8"), f"{file} does not name {operator}"


@pytest.mark.parametrize("file", SHARED)
@pytest.mark.parametrize("operator", OPERATORS)
def test_a_shared_file_names_the_operator(operator, file):
    assert re.search(rf"\b{operator}\b", (ROOT / file).read_text(encoding="utf-8")), f"{file} lacks {operator}"


def test_every_file_of_cases_has_its_operator():
    assert [case.name for case in CASES] == OPERATORS


def test_the_recipe_lists_these_files_and_each_door_after_what_it_exports():
    page = (ROOT / "docs" / "contributing.md").read_text(encoding="utf-8")
    recipe = page.split("## Adding an operator")[1].split("\n## ")[0]
    listed = re.findall(r"^\| `([^`]+)` \|", recipe, re.MULTILINE)
    assert sorted(listed) == sorted([*OWN, *SHARED])
    assert len(OWN) <= 8
    assert len(listed) - len(OWN) + 1 <= 7, "with the tables on this page"
    for own, shared in EXPORTED.items():
        assert listed.index(shared) == listed.index(own) + 1
