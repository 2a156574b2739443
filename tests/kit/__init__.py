"""What the author of a test needs: inputs that are named for their trap, grids of static arguments, laws, compiling.

Meshes are in ``tests.kit.meshes``. They ask JAX for its devices, so they are imported where they are used.
"""

from jaxdml._cases.data import FLOATS, HALVES, INDEX_DTYPES, INTEGERS, WIDE, indices_for, unsigned
from jaxdml._cases.data import TRAPS as DATA
from tests.kit.compiling import as_shipped, compiled, quick
from tests.kit.grids import THOROUGH, OneOf, grid, long
from tests.kit.laws import assert_same_bits, assert_same_trees, bits
from tests.kit.operators import OPERATORS
from tests.kit.strategies import data, is_float, kinds, seeds

__all__ = [
    "DATA",
    "FLOATS",
    "HALVES",
    "INDEX_DTYPES",
    "INTEGERS",
    "OPERATORS",
    "THOROUGH",
    "WIDE",
    "OneOf",
    "as_shipped",
    "assert_same_bits",
    "assert_same_trees",
    "bits",
    "compiled",
    "data",
    "grid",
    "indices_for",
    "is_float",
    "kinds",
    "long",
    "quick",
    "seeds",
    "unsigned",
]
