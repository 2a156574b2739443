"""The public names, their signatures, and that each says what it owes."""

import importlib
import inspect
import re
from importlib import metadata
from pkgutil import iter_modules

import pytest

import jaxdml
from jaxdml import _functions, reference
from jaxdml._base import version
from tests.kit import OPERATORS


def results_of(operator):
    """Return the public classes of an operator's file: what it returns several arrays in."""
    file = importlib.import_module(f"jaxdml._operators.{operator}")
    classes = (one for one in vars(file).values() if inspect.isclass(one) and one.__module__ == file.__name__)
    return [one.__name__ for one in classes if not one.__name__.startswith("_")]


def test_nothing_more_and_nothing_less_is_public():
    results = [name for operator in OPERATORS for name in results_of(operator)]
    assert "TopK" in results
    functions = [file.name for file in iter_modules(_functions.__path__)]
    more = ["AxisDirection", "Known", "PackedBlocks", "PackedFilters", "PackedMatrix", "directml", "reference"]
    assert sorted(jaxdml.__all__) == sorted([*OPERATORS, *results, *functions, *more])
    assert sorted(reference.__all__) == OPERATORS


def test_directions_have_directml_values():
    assert (jaxdml.AxisDirection.INCREASING, jaxdml.AxisDirection.DECREASING) == (0, 1)


def test_the_version_is_that_of_the_installed_package(monkeypatch):
    usual = version.__version__
    assert jaxdml.__version__ == usual

    def missing(name):
        raise metadata.PackageNotFoundError(name)

    try:
        for installed, expected in ((lambda name: f"7.8.9 of {name}", "7.8.9 of jaxdml"), (missing, "0+source")):
            monkeypatch.setattr(metadata, "version", installed)
            assert importlib.reload(version).__version__ == expected
    finally:
        monkeypatch.undo()
        assert importlib.reload(version).__version__ == usual


@pytest.mark.parametrize("name", OPERATORS)
def test_the_oracle_has_the_same_signature_less_the_implementation(name):
    public = inspect.signature(getattr(jaxdml, name)).parameters
    oracle = inspect.signature(getattr(reference, name)).parameters
    assert [p for p in public if p not in ("implementation", "axis_name")] == list(oracle)
    kinds = {p: parameter.kind for p, parameter in public.items()}
    assert all(kinds[p] == parameter.kind for p, parameter in oracle.items())


@pytest.mark.parametrize("name", [name for name in jaxdml.__all__ if inspect.isfunction(getattr(jaxdml, name))])
def test_parameters_have_types_that_say_something(name):
    signature = inspect.signature(getattr(jaxdml, name))
    types = {parameter.name: parameter.annotation for parameter in signature.parameters.values()}
    types["return"] = signature.return_annotation
    # As they are written: what they are once evaluated takes lines.
    assert all(isinstance(given, str) and given and "Any" not in given for given in types.values()), types


@pytest.mark.parametrize("name", OPERATORS)
def test_options_are_keyword_only(name):
    parameters = inspect.signature(getattr(jaxdml, name)).parameters.values()
    assert parameters
    for parameter in parameters:
        if parameter.name in (
            "axis",
            "mode",
            "duplicates",
            "direction",
            "index_dtype",
            "output_dtype",
            "implementation",
        ):
            assert parameter.kind is inspect.Parameter.KEYWORD_ONLY


@pytest.mark.parametrize("name", OPERATORS)
def test_docstrings_have_every_section_in_order(name):
    text = inspect.getdoc(getattr(jaxdml, name))
    sections = re.findall(r"^(Args|Returns|Raises|Source|Example):$", text, re.MULTILINE)
    assert sections == ["Args", "Returns", "Raises", "Source", "Example"]
    for parameter in inspect.signature(getattr(jaxdml, name)).parameters:
        assert re.search(rf"^  {parameter}: ", text, re.MULTILINE), parameter
