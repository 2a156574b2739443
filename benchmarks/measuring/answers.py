"""Compare the answers of peers with those of the oracle, ``jaxdml.reference``."""

import hashlib

import numpy as np

from benchmarks.cases import Arguments, Array, Case
from benchmarks.peers import EXPECTED
from benchmarks.peers.contender import Verdict

_CLOSE = 2.0**-22
"""How far a float32 that was rounded once less may be from the oracle's, relative to the greatest of them."""


_NEAR = {"float32": 1e-4, "bfloat16": 2.0**-4, "int8": 2.0**-3}
"""How far answers of a whole model may be from those in float32, as a fraction of these, by what it computes with."""


class Judge:
    """Holds the oracle's answer to one case, and compares others with it."""

    def __init__(self, case: Case, arguments: Arguments) -> None:
        self._case = case
        self._arguments = arguments
        self._cut, self._expected = EXPECTED[case.operator](case, arguments)

    def judge(self, answers: tuple[Array, ...], promises: str) -> Verdict:
        """Compare what a peer gave with what the oracle says."""
        if promises in _NEAR:
            return self._near(answers[0], promises)
        repeated = 0
        if promises == "values":
            # Ties may come in any order, so any distinct indices will do that lead to the right values.
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
        near |= promises == "close" and all(
            np.max(np.abs(given - expected)) <= _CLOSE * np.max(np.abs(expected)) for given, expected in pairs
        )
        return Verdict(compared, different, different == 0 or near, promises)

    def _near(self, given: Array, promises: str) -> Verdict:
        """Compare floats as a whole: those that are further away than is allowed of all are different."""
        expected = self._expected[0]
        if given.shape != expected.shape:
            return Verdict(expected.size, expected.size, False, promises)
        away = given.astype(np.float64) - expected
        most = _NEAR[promises] * np.sqrt(np.mean(np.square(expected, dtype=np.float64)))
        different = int(np.count_nonzero(~(np.abs(away) <= most)))
        return Verdict(expected.size, different, bool(np.sqrt(np.mean(away**2)) <= most), promises)


def digest(answers: tuple[Array, ...]) -> str:
    """Return a digest of the bits of answers; all NaNs are one."""
    found = hashlib.sha256()
    for answer in answers:
        bits = np.where(_nan(answer), np.asarray(np.nan, answer.dtype), answer) if _nan(answer).any() else answer
        found.update(f"{answer.dtype.name}{list(answer.shape)}".encode())
        found.update(np.ascontiguousarray(bits).tobytes())
    return found.hexdigest()[:16]


def _same(given: Array, expected: Array) -> Array:
    if given.shape != expected.shape:
        return np.zeros(expected.shape, bool)
    return (given == expected) | (_nan(given) & _nan(expected))


def _nan(x: Array) -> Array:
    return np.isnan(x) if x.dtype.kind in "fV" else np.zeros(x.shape, bool)
