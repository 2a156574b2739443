"""The tables on the page for contributors are what the files say; kernels are entered by doors.

``python -m tests.test_structure`` writes the tables into the page.
"""

import ast
from pathlib import Path

import jaxdml
from tests.constants import expression, guarded
from tests.kit import OPERATORS
from tests.matrix.cells import STAND_FOR_KERNELS

ROOT = Path(jaxdml.__file__).parent
PAGE = ROOT.parent / "docs" / "contributing.md"


def imports(file):
    """Return what a file imports of jaxdml: modules, and names of packages."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("jaxdml."):
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def named(found, floor):
    """Return the names right below a floor among imports."""
    prefix = f"jaxdml.{floor}."
    return sorted({name.removeprefix(prefix).partition(".")[0] for name in found if name.startswith(prefix)})


KERNELS = sorted(folder.name for folder in (ROOT / "_kernels").iterdir() if (folder / "__init__.py").exists())


def methods(kernel):
    """Return the files of a kernel but its door."""
    return sorted(file.stem for file in (ROOT / "_kernels" / kernel).glob("*.py") if file.stem != "__init__")


def lives():
    """Return the rows of the first table: each operator, what checks its arguments, and its kernels."""
    checks = {file.stem for file in (ROOT / "_arguments").glob("*.py")}
    for operator in OPERATORS:
        found = imports(ROOT / "_operators" / f"{operator}.py")
        family = [name for name in named(found, "_arguments") if name in checks - {"call"}]
        for name in family:
            found |= imports(ROOT / "_arguments" / f"{name}.py")
        yield operator, family, [name for name in named(found, "_kernels") if name in KERNELS]


def table(headers, rows):
    lines = [headers, ["---"] * len(headers), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def code(names):
    return ", ".join(f"`{name}`" for name in names)


def guards():
    """Return the rows of the last table: files, constants, and the tests that guard them."""
    for file, constants, tests in guarded():
        names = dict.fromkeys(name.partition("[")[0] for name in constants)
        of_files = (f"`{of}`: {code(f'test_{name}' for name in found)}" for of, found in tests.items())
        yield [f"`{file.relative_to(ROOT)}`", code(names), "; ".join(of_files)]


def tables():
    """Return all tables."""
    operators = ([f"`{operator}`", code(family), code(kernels)] for operator, family, kernels in lives())
    kernels = ([f"`{kernel}`", code(methods(kernel))] for kernel in KERNELS)
    first = table(["operator", "checks in `_arguments/`", "kernels in `_kernels/`"], operators)
    last = table(["file in `jaxdml/`", "constants", "guarded by"], guards())
    return first, table(["kernel", "files"], kernels), last


def write():
    """Put each table in the place of the one with the same headers."""
    text = PAGE.read_text(encoding="utf-8")
    for one in tables():
        old = text[text.index(one.splitlines()[0]) :].partition("\n\n")[0]
        text = text.replace(old, one)
    PAGE.write_text(text, encoding="utf-8")


def test_the_page_has_the_tables():
    text = PAGE.read_text(encoding="utf-8")
    for one in tables():
        assert one in text, "run python -m tests.test_structure"


def test_every_guarded_constant_and_its_guards_exist():
    for file, constants, tests in guarded():
        assert all(expression(file, constant) for constant in constants)
        for of, names in tests.items():
            text = (ROOT.parent / of).read_text(encoding="utf-8")
            assert [name for name in names if f"def test_{name}(" not in text] == [], of


def test_a_kernel_is_entered_by_its_door():
    for kernel in KERNELS:
        for file in (ROOT / "_kernels" / kernel).glob("*.py"):
            for name in imports(file):
                other, _, module = name.removeprefix("jaxdml._kernels.").partition(".")
                inside = name.startswith("jaxdml._kernels.") and other in KERNELS and other != kernel
                assert not (inside and module.partition(".")[0] in methods(other)), f"{file} goes around {other}'s door"


def test_an_operator_of_every_kernel_is_tested_in_all_cells():
    stands = {kernel for operator, _, kernels in lives() if operator in STAND_FOR_KERNELS for kernel in kernels}
    of_functions = {"block_product"}  # Its transformations are in test_matrix_multiply_block_quantized.py.
    assert not set(KERNELS) - stands - of_functions, (
        "add an operator of each to STAND_FOR_KERNELS in tests/matrix/cells.py"
    )


if __name__ == "__main__":
    write()
