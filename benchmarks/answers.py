"""Judge an answer by the oracle, ``jaxdml.reference``, where the oracle's loops are quick enough to run."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.cases import Arguments, Array, Case
from jaxdml import reference

_ROWS, _COLUMNS = 4, 256
"""So many rows, and columns, of a product are compared."""

_LOOPS = 2**20
"""So many updates the oracle's loop writes in some seconds."""

_CHUNK = 2**10


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
    if case.operator == "scatter_nd" and arguments[1].size > _LOOPS:
        # The places are distinct, and there are too many of them for a loop.
        x, places, updates = arguments
        expected = x.copy()
        expected[places[:, 0]] = updates
        return ..., (expected,)
    oracle = getattr(reference, case.operator)
    return ..., (oracle(*arguments, **{name: v for name, v in case.options.items() if name != "memory"}),)


def _by_candidates(case: Case, arguments: Arguments) -> tuple[Any, tuple[Array, ...]]:
    """Ask the oracle about each row's elements that can be chosen at all.

    Those are the ones that beat the k-th, of which a partition tells the value, and the first k that equal it.
    """
    (x,) = arguments
    k, decreasing = case.options["k"], case.options["direction"] == "decreasing"
    values, indices = [], []
    for row in x:
        # NumPy compares neither of the 16-bit floats quickly.
        whole = row.astype(np.float32) if row.dtype.name in ("bfloat16", "float16") else row
        threshold = _threshold(whole, k, decreasing)
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


def _threshold(row: Array, k: int, decreasing: bool) -> Any:
    """Find the k-th value, or one below it. Of a long row, look only at what the k-th best chunk does not rule out."""
    chunks = row[: row.size // _CHUNK * _CHUNK].reshape(-1, _CHUNK)
    best = chunks.max(axis=1) if decreasing else chunks.min(axis=1)
    if len(best) >= k and not _nan(best).any():
        bound = _kth(best, k, decreasing)
        row = row[row >= bound] if decreasing else row[row <= bound]
    return _kth(row, k, decreasing)


def _kth(values: Array, k: int, decreasing: bool) -> Any:
    place = values.size - k if decreasing else k - 1
    return np.partition(values, place)[place]  # NumPy, too, sorts NaNs to the end.


def _some_of_the_product(case: Case, arguments: Arguments) -> tuple[Any, tuple[Array, ...]]:
    """Ask the oracle about some rows and columns, at their full depth."""
    a, a_scale, a_zero, b, b_scale, b_zero, output_scale, output_zero = arguments
    rows = np.unique(np.linspace(0, a.shape[-2] - 1, _ROWS).astype(int))
    columns = np.unique(np.linspace(0, b.shape[-1] - 1, _COLUMNS).astype(int))
    of_rows = [part if part.ndim == 0 else part[rows] for part in (a_scale, a_zero, output_scale, output_zero)]
    of_columns = [part if part.ndim == 0 else part[:, columns] for part in (b_scale, b_zero)]
    parts = a[..., rows, :], *of_rows[:2], b[..., columns], *of_columns, *of_rows[2:]
    return (..., rows[:, None], columns), (reference.quantized_linear_matrix_multiply(*parts),)


_ORACLES = {
    "top_k": _by_candidates,
    "scatter_nd": _everything,
    "scatter_elements": _everything,
    "quantized_linear_matrix_multiply": _some_of_the_product,
}
