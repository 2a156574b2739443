"""Judge an answer by the oracle, ``jaxdml.reference``, where the oracle's loops are quick enough to run."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.cases import Arguments, Array, Case
from jaxdml import reference

_ROWS, _COLUMNS = 4, 256
"""So many rows, and columns, of a product are compared."""


@dataclass(frozen=True)
class Verdict:
    """How an answer compares with the oracle's.

    Attributes:
      compared: how many elements were.
      different: how many of them differ.
      accepted: whether that is within what the peer promises.
      promises: what it promises, see ``Contender``.
    """

    compared: int
    different: int
    accepted: bool
    promises: str


class Judge:
    """Knows the oracle's answer to one case, and asks for it once."""

    def __init__(self, case: Case, arguments: Arguments) -> None:
        self._case = case
        self._arguments = arguments
        self._cut, self._expected = _ORACLES[case.operator](case, arguments)

    def judge(self, answers: tuple[Array, ...], promises: str) -> Verdict:
        """Compare what a peer gave with what the oracle says."""
        repeated = 0
        if promises == "values":
            # Ties, and with them the indices, are free: what counts is that distinct ones lead to the values.
            values, indices = answers[0], answers[1].astype(np.int64)
            (x,) = self._arguments
            led = np.take_along_axis(x, np.clip(indices, 0, x.shape[1] - 1), axis=1)
            pairs = [(values, self._expected[0]), (led, self._expected[0])]
            repeated = indices.size - sum(len(np.unique(row)) for row in indices)
        else:
            pairs = list(zip((answer[self._cut] for answer in answers), self._expected, strict=True))
        different = repeated + sum(int(np.count_nonzero(~_same(given, expected))) for given, expected in pairs)
        compared = sum(expected.size for _, expected in pairs)
        near = promises == "within one" and all(
            np.max(np.abs(given.astype(np.int64) - expected), initial=0) <= 1 for given, expected in pairs
        )
        return Verdict(compared, different, different == 0 or near, promises)


def _same(given: Array, expected: Array) -> Array:
    if given.shape != expected.shape:
        return np.zeros(expected.shape, bool)
    return (given == expected) | (_nan(given) & _nan(expected))


def _nan(x: Array) -> Array:
    return np.isnan(x) if x.dtype.kind in "fV" else np.zeros(x.shape, bool)


def _everything(case: Case, arguments: Arguments) -> tuple[Any, tuple[Array, ...]]:
    oracle = getattr(reference, case.operator)
    return ..., (oracle(*arguments, **{name: v for name, v in case.options.items() if name != "memory"}),)


def _by_candidates(case: Case, arguments: Arguments) -> tuple[Any, tuple[Array, ...]]:
    """Ask the oracle about each row's elements that can be chosen at all.

    Those are the ones that beat the k-th, of which a partition tells the value, and the first k that equal it.
    """
    (x,) = arguments
    k, decreasing = case.options["k"], case.options["direction"] == "decreasing"
    n = x.shape[1]
    values, indices = [], []
    place = n - k if decreasing else k - 1
    for row in x:
        whole = row.astype(np.float32) if row.dtype.name == "bfloat16" else row
        threshold = np.partition(whole, place)[place]  # NumPy, too, sorts NaNs to the end.
        nan = _nan(whole)
        if threshold.dtype.kind == "f" and np.isnan(threshold):
            ties, beyond = nan, ~nan & (not decreasing)
        else:
            ties = whole == threshold
            beyond = (whole > threshold) | nan if decreasing else whole < threshold
        chosen = np.sort(np.concatenate([np.flatnonzero(beyond), np.flatnonzero(ties)[:k]]))
        found, places = reference.top_k(row[chosen], k, direction=case.options["direction"])
        values.append(found)
        indices.append(chosen[places])
    return ..., (np.stack(values), np.stack(indices))


def _some_of_the_product(case: Case, arguments: Arguments) -> tuple[Any, tuple[Array, ...]]:
    """Ask the oracle about some rows and columns, at their full depth."""
    a, a_scale, a_zero, b, b_scale, b_zero, output_scale, output_zero = arguments
    rows = np.unique(np.linspace(0, a.shape[-2] - 1, _ROWS).astype(int))
    columns = np.unique(np.linspace(0, b.shape[-1] - 1, _COLUMNS).astype(int))
    parts = a[..., rows, :], a_scale, a_zero, b[..., columns], b_scale, b_zero, output_scale, output_zero
    return (..., rows[:, None], columns), (reference.quantized_linear_matrix_multiply(*parts),)


_ORACLES = {
    "top_k": _by_candidates,
    "scatter_nd": _everything,
    "scatter_elements": _everything,
    "quantized_linear_matrix_multiply": _some_of_the_product,
}
