"""Sphinx configuration: every example runs at build, and every public name has a page."""

import html
import logging
import os
import re
import tomllib
from pathlib import Path
from urllib.parse import unquote

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.errors import ExtensionError

import jaxdml
import jaxdml.onnx
from jaxdml import directml, reference

# The examples are for any machine, and the pages that speak of other platforms lower for them by name.
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["JAX_NUM_CPU_DEVICES"] = "4"  # For the examples that shard.
os.environ["JUPYTER_PATH"] = str(Path(__file__).parent)  # Its kernel does not warn of TCP without encryption.
logging.getLogger("traitlets").setLevel(logging.WARNING)  # Of kernels that start, Sphinx says as much as it is asked.
os.environ["MATPLOTLIBRC"] = str(Path(__file__).with_name("matplotlibrc"))

WIDTH = 80
"""How many columns of code a page shows on a screen of 1280 pixels, with room to spare."""

PUBLIC = jaxdml, reference, directml, jaxdml.onnx

_pyproject = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())

project = _pyproject["project"]["name"]
release = version = _pyproject["project"]["version"]
author = "the jaxdml authors"
copyright = author

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.intersphinx",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
]
exclude_patterns = ["_build", "jupyter_execute"]

html_theme = "furo"
html_title = f"jaxdml {release}"
html_copy_source = False
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["page.css"]

# The inventories are kept here, so that a build needs no network: a line for each object that a page names.
intersphinx_mapping = {
    "jax": ("https://docs.jax.dev/en/latest/", "inventories/jax.txt"),
    "numpy": ("https://numpy.org/doc/stable/", "inventories/numpy.txt"),
}
copybutton_selector = "div:not(.output) > div.highlight > pre"  # What examples print is not copied,
copybutton_exclude = ".gp, .go"  # nor what a docstring's example prints, nor its prompts.

myst_enable_extensions = ["deflist"]
myst_heading_anchors = 4

nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_execution_timeout = 120
nb_output_stderr = "warn"  # A Python warning in an example becomes a warning of the build, which -W makes fatal.
nb_merge_streams = True
nb_render_markdown_format = "myst"  # Tables that an example makes are tables on the page.

autodoc_typehints = "signature"
autodoc_type_aliases = {  # Not the unions that they are.
    "ArrayLike": "~jax.typing.ArrayLike",
    "DTypeLike": "~jax.typing.DTypeLike",
    "jax.Array": "jax.Array",
}
maximum_signature_line_length = 80
add_module_names = False
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_custom_sections = ["Source"]


def _mend_docstring(app, what, name, obj, options, lines):
    """Link the pages that a docstring names by path, and name public types as a user imports them."""
    linked = (re.sub(r"\bdocs/([\w/-]+)\.md\b", r":doc:`/\1`", line) for line in lines)
    lines[:] = [line.replace("jax.jaxlib._jax.", "jax.") for line in linked]


def _mend_signature(app, what, name, obj, options, signature, return_annotation):
    """Name types as a user imports them, and aliases and members of enumerations by their names."""

    def mended(text):
        text = re.sub(r"TypeAliasForwardRef\('([~\w.]+)'\)|<([\w.]+): \d+>", r"\1\2", text or "")
        return re.sub(r"~?\bjaxdml\.(?:\w+\.)*([A-Z]\w*)", _public, text) or None

    return mended(signature), mended(return_annotation)


def _public(found):
    """Return the reference to a type by the first public module that has it."""
    name = found[1]
    module = next((module for module in PUBLIC if name in module.__all__), None)
    return f"~{module.__name__}.{name}" if module else name


PACKAGES = {name: name for name in ("jax", "numpy", "jaxdml")}
PACKAGES |= {"jnp": "jax.numpy", "lax": "jax.lax", "np": "numpy", "dml": "jaxdml.directml"}
"""What a page may call each package, and its name."""


def _link_what_code_names(app, doctree):
    """Make each piece of code in the text a link that is the name, or a call, of a documented object."""
    for code in list(doctree.findall(nodes.literal)):
        found = re.fullmatch(r"(\w+)((?:\.\w+)+)(?:\(.*\))?", code.astext())
        above = list(_above(code))
        if found and found[1] in PACKAGES and not any(isinstance(each, _NO_LINKS) for each in above):
            target = PACKAGES[found[1]] + found[2]
            code.replace_self(pending_xref("", code.deepcopy(), refdomain="py", reftype="obj", reftarget=target))


_NO_LINKS = nodes.title, nodes.reference, pending_xref


def _above(node):
    while node := node.parent:
        yield node


def _require_every_public_name(app, env):
    """Fail where a public name has no autodoc entry on any page."""
    documented = env.get_domain("py").objects
    public = {f"{module.__name__}.{name}" for module in PUBLIC for name in module.__all__}
    missing = sorted(public - set(documented) - {"jaxdml.reference", "jaxdml.directml"})
    if missing:
        raise ExtensionError(f"public names without a page: {', '.join(missing)}")


def _reject_faults_of_rendered_pages(app, exception):
    """Fail where a page shows the private name of a type, bold digits, a dead link, or lines wider than a page."""
    if exception is not None or app.builder.format != "html":
        return
    faults = [
        f"{page.relative_to(app.outdir)}: {fault}"
        for page in sorted(Path(app.outdir).rglob("*.html"))
        for fault in _faults(page.read_text(encoding="utf-8"))
    ]
    faults += _broken_links(Path(app.outdir).resolve())
    if faults:
        raise ExtensionError("\n".join(faults))


def _broken_links(folder):
    """Yield the links between pages, and to files and places in them, that lead nowhere."""
    pages = {page: page.read_text(encoding="utf-8") for page in sorted(folder.rglob("*.html"))}
    places = {page: set(re.findall(r"\b(?:id|name)=\"([^\"]+)\"", text)) for page, text in pages.items()}
    for page, text in pages.items():
        for link in sorted(set(re.findall(r"\b(?:href|src)=\"([^\"]+)\"", text))):
            path, _, place = unquote(html.unescape(link)).partition("#")
            target = (page.parent / path.partition("?")[0]).resolve() if path else page
            if re.match(r"\w+:", path) or (target in pages and (not place or place in places[target])):
                continue
            if place or not target.is_file():
                yield f"{page.relative_to(folder)}: {link} leads nowhere"


def _faults(page):
    """Yield what is wrong with the text of a rendered page."""
    yield from (f"private type {name}" for name in re.findall(r"\bjax\.jaxlib\.[\w.]+|TypeAliasForwardRef", page))
    # Markdown takes the two stars of 2**31 for bold face if another power follows.
    yield from (f"bold between digits: {found}" for found in re.findall(r"\d<strong>[^<]*</strong>", page))
    yield from (f"no text for {image}" for image in re.findall(r"<img(?![^>]*alt=\"[^\"]+\")[^>]*>", page))
    if "_static/page.css" not in page:
        yield "what examples print is cut, and does not scroll"
    for block in re.findall(r"highlight-(?:ipython3|python|cpp) notranslate.*?<pre>(.*?)</pre>", page, re.DOTALL):
        lines = html.unescape(re.sub(r"<[^>]+>", "", block)).splitlines()
        yield from (f"{len(line)} columns: {line}" for line in lines if len(line) > WIDTH)


def _list_structs(app, docname, source):
    """Put the structs and the enumerations that no other page has where the page of structs asks for them."""
    if docname == "structs":
        pages = "".join(page.read_text(encoding="utf-8") for page in Path(app.srcdir).rglob("*.md"))
        classes = {name: getattr(directml, name) for name in directml.__all__}
        lacking = [
            (name, "" if issubclass(one, directml.OperatorDesc) else "\n   :members:\n   :undoc-members:")
            for name, one in classes.items()
            if isinstance(one, type) and not re.search(rf"class:: jaxdml\.directml\.{name}\b", pages)
        ]
        entries = "\n\n".join(f".. autoclass:: jaxdml.directml.{name}{members}" for name, members in sorted(lacking))
        source[0] = source[0].replace("<!-- structs -->", f"```{{eval-rst}}\n{entries}\n```")


def setup(app):
    app.connect("source-read", _list_structs)
    app.connect("autodoc-process-docstring", _mend_docstring)
    app.connect("autodoc-process-signature", _mend_signature)
    app.connect("doctree-read", _link_what_code_names)
    app.connect("env-updated", _require_every_public_name)
    app.connect("build-finished", _reject_faults_of_rendered_pages, priority=900)  # After the theme has written all.
