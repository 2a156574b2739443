"""Sphinx configuration: every example runs at build, and every public name has a page."""

import os
import re
import tomllib
from pathlib import Path

from sphinx.errors import ExtensionError

import jaxdml
from jaxdml import directml, reference

# The examples are for any machine, and the pages that speak of other platforms lower for them by name.
os.environ["JAX_PLATFORMS"] = "cpu"

_pyproject = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())

project = _pyproject["project"]["name"]
release = version = _pyproject["project"]["version"]
author = "the jaxdml authors"
copyright = author

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build", "jupyter_execute"]

html_theme = "furo"
html_title = f"jaxdml {release}"
html_copy_source = False
html_show_sourcelink = False

myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3

nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_execution_timeout = 120
nb_output_stderr = "warn"  # A Python warning in an example becomes a warning of the build, which -W makes fatal.
nb_merge_streams = True
nb_render_markdown_format = "myst"  # Tables that an example makes are tables on the page.

autodoc_typehints = "none"  # The docstrings say more than the hints can: shapes, units, dtypes.
maximum_signature_line_length = 80
add_module_names = False
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_custom_sections = ["Source"]


def _link_pages(app, what, name, obj, options, lines):
    """Turn the path of a page, as docstrings write it, into a link."""
    lines[:] = [re.sub(r"\bdocs/([\w/-]+)\.md\b", r":doc:`/\1`", line) for line in lines]


def _require_every_public_name(app, env):
    """Fail where a public name has no autodoc entry on any page."""
    documented = env.get_domain("py").objects
    public = {f"{module.__name__}.{name}" for module in (jaxdml, reference, directml) for name in module.__all__}
    missing = sorted(public - set(documented) - {"jaxdml.reference", "jaxdml.directml"})
    if missing:
        raise ExtensionError(f"public names without a page: {', '.join(missing)}")


def setup(app):
    app.connect("autodoc-process-docstring", _link_pages)
    app.connect("env-updated", _require_every_public_name)
