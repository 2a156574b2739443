"""The version of the package."""

from importlib import metadata

try:
    __version__ = metadata.version("jaxdml")
except metadata.PackageNotFoundError:
    __version__ = "0+source"  # A source tree that was never installed; PEP 440 lets no release be called so.
