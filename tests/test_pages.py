"""What the README and the pages must not contain, and that their figures are those that were measured."""

import json
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from tests.kit import OPERATORS

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
WRITTEN = [ROOT / "docs" / "benchmarks.md", *(ROOT / "docs" / "benchmarks").iterdir()]
"""test_benchmarks.py compares them with what the reports say."""
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
WIDTH = 80


def named(page):
    return str(page.relative_to(ROOT))


def fences(text):
    """Yield the first line and the lines of every fenced block."""
    block = None
    for line in text.splitlines():
        if not line.startswith("```"):
            if block:
                block[1].append(line)
        elif block:
            yield block
            block = None
        else:
            block = line, []


def prose(text):
    """Leave out front matter, code, links' targets and comments."""
    versions = r"(?:Python|JAX|NumPy|jaxlib|libtpu) [\d.]+(?: and [\d.]+)?"
    for code in (
        r"\A---\n.*?\n---\n",
        r"^```.*?^```",
        r"`[^`]+`",
        r"\]\([^)]*\)",
        r"<!-- speed.*end of speed -->",
        versions,
    ):
        text = re.sub(code, " ", text, flags=re.DOTALL | re.MULTILINE)
    return text


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_a_power_stands_in_a_code_span(page):
    # Two of them in one paragraph are bold face and lose their stars: 2**32 and 2**31.
    assert re.findall(r"[\w)]\*\*[\w(]", prose(page.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize("page", PAGES[1:], ids=named)
def test_code_fits_its_page(page):
    blocks = fences(page.read_text(encoding="utf-8"))
    lines = [
        line
        for head, block in blocks
        if head.startswith(("```{code-cell}", "```python", "```cpp")) or head == "```"
        for line in block
    ]
    assert [line for line in lines if len(line) > WIDTH] == []


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_examples_use_public_names_only(page):
    code = "\n".join(line for _, block in fences(page.read_text(encoding="utf-8")) for line in block)
    assert re.findall(r"\bjaxdml(?:\.\w+)*\._(?!_)\w+|\bimport _(?!_)\w+", code) == []


@cache
def figures_kept():
    """Collect every number of the kept runs, and how many outputs each of them compared."""
    found = set()

    def collect(part):
        if isinstance(part, dict):
            part = list(part.values())
        if isinstance(part, list):
            for item in part:
                collect(item)
        elif isinstance(part, (int, float)):
            found.add(part)

    for file in RESULTS.glob("*.json"):
        kept = json.loads(file.read_text(encoding="utf-8"))
        collect(kept)
        if file.name.startswith("self-check"):
            found.add(sum(row["outputs"] for row in kept["rows"]))
    for file in RESULTS.glob("*.jsonl"):
        collect([json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()])
    for file in RESULTS.glob("*/report.jsonl"):
        compared = Counter()
        for line in file.read_text(encoding="utf-8").splitlines():
            if case := json.loads(line).get("case"):
                number, different, _, promises = case["contenders"]["jaxdml"]["verdict"]
                if promises == "exact":  # Of a whole model floats are compared.
                    assert different == 0, case["name"]
                    compared[case["operator"]] += number
        found |= {*compared.values(), compared.total()}
    return found


FIGURE = re.compile(
    r"(?<![\w.,-])(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+\.\d+|\d+(?:\.\d+)?(?=\s?(?:µs|%|percent)))(?![\w.]*\d)"
)
"""A number with a thousands separator or a fraction, or one before a unit: prose writes only measured ones so."""


@pytest.mark.parametrize("page", [page for page in PAGES if page not in WRITTEN], ids=named)
def test_measured_figures_are_kept(page):
    # Numbers that an argument needs, and versions, stand in code spans.
    kept = figures_kept()
    for figure in FIGURE.findall(prose(page.read_text(encoding="utf-8"))):
        digits = len(figure.partition(".")[2])
        value = float(figure.replace(",", ""))
        assert any(round(number, digits) == value for number in kept), figure


def test_the_readme_has_the_table_that_the_reports_give():
    headline = pytest.importorskip("benchmarks.reporting.headline")
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert headline.put_into(text, RESULTS) == text
    assert headline.table(RESULTS) in text


@pytest.mark.parametrize("picture", sorted(RESULTS.rglob("*.png")), ids=named)
def test_a_plot_has_no_background_of_its_own(picture):
    # A white one is glaring on a dark page. The plots' text is of a grey that shows on both.
    pixels = pytest.importorskip("matplotlib.image").imread(picture)
    assert pixels.shape[-1] == 4
    assert (pixels[[0, 0, -1, -1], [0, -1, 0, -1], 3] == 0).all()


OPERATOR_PAGES = [page for page in PAGES if page.parent.name == "operators" and "DirectML's struct" in page.read_text()]


@pytest.mark.parametrize("page", OPERATOR_PAGES, ids=named)
def test_an_operators_page_begins_with_an_example_and_ends_with_the_struct(page):
    text = page.read_text(encoding="utf-8")
    places = [text.index(part) for part in ("{code-cell}", "\n## API", "\n## What others do", "\n## DirectML's struct")]
    assert places == sorted(places)
    assert "\n## " not in text[places[-1] + 1 :]
    assert "{seealso}" in text[places[-2] : places[-1]]


def test_every_operator_has_such_a_page():
    assert {page.stem for page in OPERATOR_PAGES} == set(OPERATORS)
