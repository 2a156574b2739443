"""IEEE's products and sums in float32, against NumPy's on a CPU, which are IEEE's."""

import jax
import numpy as np
import pytest

from jaxdml._arithmetic import ieee, in_float64
from tests.kit import assert_same_bits, grid

COUNT = 2**16
"""All pairs have this shape, so each function is compiled once."""

product, total, scaled = jax.jit(ieee.product), jax.jit(ieee.total), jax.jit(ieee.scaled)
scaled_plus = jax.jit(lambda whole, scale, term: ieee.scaled(whole, scale) + term)
product_plus = jax.jit(lambda a, b, term: ieee.product(a, b) + term)

MANTISSAS = np.uint32([0, 1, 2, 0x123456, 0x2AAAAB, 0x400000, 0x7FFFFE, 0x7FFFFF])
"""Among them are those of powers of two, of near-ties, and of the greatest numbers."""


def floats(bits):
    return np.asarray(bits, np.uint32).view(np.float32)


def draw(rng, exponents):
    """Draw numbers of any sign with these biased exponents; half of them have few bits, so that products are ties."""
    mantissas = rng.integers(0, 2**23, COUNT).astype(np.uint32)
    mantissas = np.where(rng.random(COUNT) < 0.5, mantissas & 0x7FF000, mantissas)
    mantissas = np.where(rng.random(COUNT) < 0.2, rng.choice(MANTISSAS, COUNT), mantissas)
    return floats(rng.integers(0, 2, COUNT).astype(np.uint32) << 31 | exponents.astype(np.uint32) << 23 | mantissas)


def exponents_of(x):
    return (x.view(np.uint32) >> 23 & 0xFF).astype(int)


def pairs(kind):
    rng = np.random.default_rng(0)
    if kind == "all exponents":
        exponents = np.divmod(np.arange(COUNT), 256)
        return [draw(rng, each) for each in exponents]
    if kind == "random bits":
        return [floats(rng.integers(0, 2**32, COUNT, np.uint32)) for _ in range(2)]
    first = draw(rng, rng.integers(0, 256, COUNT))
    if kind == "near exponents":
        return [first, draw(rng, np.clip(exponents_of(first) + rng.integers(-27, 28, COUNT), 0, 255))]
    if kind == "small, near exponents":
        first = draw(rng, rng.integers(0, 70, COUNT))
        return [first, draw(rng, np.clip(exponents_of(first) + rng.integers(-2, 3, COUNT), 0, 255))]
    # The product is subnormal, or nearly: 1.0 has the biased exponent 127.
    return [first, draw(rng, np.clip(127 + rng.integers(-26, 3, COUNT) - exponents_of(first), 0, 255))]


def wholes(rng):
    """Draw float32 integers of all magnitudes up to 2**31, 0 among them."""
    return (rng.integers(-(2**31), 2**31, COUNT) >> rng.integers(0, 32, COUNT)).astype(np.float32)


def assert_ieee(got, want):
    assert_same_bits(got, np.where(np.isnan(want), floats(ieee.NAN), want))


KINDS = ["all exponents", "random bits", "near exponents", "small, near exponents", "subnormal products"]


@grid(operation=[(product, np.multiply), (total, np.add)], kind=KINDS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_operations_round_as_ieee(operation, kind):
    ours, numpys = operation
    a, b = pairs(kind)
    assert_ieee(ours(a, b), numpys(a, b))


@pytest.mark.parametrize("exponents", [(0, 2), (0, 256), (90, 140)], ids=["subnormal", "any", "usual"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_integers_times_scales_round_as_ieee(exponents):
    rng = np.random.default_rng(0)
    whole, scale = wholes(rng), draw(rng, rng.integers(*exponents, COUNT))
    assert_ieee(scaled(whole, scale), whole * scale)


@pytest.mark.parametrize("one_scale", [False, True])
def test_no_product_is_contracted_with_a_later_addition(one_scale):
    # The terms nearly cancel the products, so a product that is not rounded would be seen.
    rng = np.random.default_rng(0)
    scale = draw(rng, rng.integers(110, 140, COUNT))
    scale = np.float32(0.1) if one_scale else scale
    for ours, factor in (scaled_plus, wholes(rng)), (product_plus, draw(rng, rng.integers(110, 140, COUNT))):
        term = (-factor * scale * (1 + rng.integers(-3, 4, COUNT) * np.float32(2**-23))).astype(np.float32)
        assert_same_bits(ours(factor, scale, term), factor * scale + term)


def test_signed_zeros_infinities_and_nans():
    values = np.float32([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, -np.nan, 1e-45, -1e-45, 3e38])
    values = np.concatenate([values, floats([0x7F800001, 0xFFFFFFFF])])
    a, b = (x.ravel() for x in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        assert_ieee(jax.jit(ieee.product)(a, b), a * b)
        assert_ieee(jax.jit(ieee.total)(a, b), a + b)


product_in_float64 = jax.jit(in_float64.product)


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="only CPUs multiply in float64")
@pytest.mark.parametrize("kind", [*KINDS, "zeros"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_products_in_float64_round_as_ieee(kind):
    rng = np.random.default_rng(1)
    a, b = pairs("random bits" if kind == "zeros" else kind)
    if kind == "zeros":
        a, b = (np.where(rng.random(COUNT) < 0.5, x * np.float32(0), x) for x in (a, b))
    assert_ieee(product_in_float64(a, b), a * b)
