"""The fastest way that NumPy's own functions offer."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.cases import Arguments, Case
from benchmarks.peers.contender import Absent, Contender


def _contender(run: Callable[[], Any], promises: str) -> Contender:
    return Contender(run, lambda result: result if isinstance(result, tuple) else (result,), promises)


def _top_k(case: Case, arguments: Arguments) -> Contender:
    (x,) = arguments
    k, n = case.options["k"], x.shape[1]
    if x.dtype.name == "bfloat16":
        raise Absent("no partition of bfloat16")
    if case.options["direction"] == "increasing":
        place, part, order = k - 1, slice(None, k), slice(None)
    else:
        # Sorted to the end, NaNs are the greatest already.
        place, part, order = n - k, slice(n - k, None), slice(None, None, -1)

    def run() -> tuple[Any, Any]:
        if k == n:
            places = np.argsort(x, axis=1)[:, order]
            return np.take_along_axis(x, places, axis=1), places
        chosen = np.argpartition(x, place, axis=1)[:, part]
        values = np.take_along_axis(x, chosen, axis=1)
        sort = np.argsort(values, axis=1)[:, order]
        return np.take_along_axis(values, sort, axis=1), np.take_along_axis(chosen, sort, axis=1)

    return _contender(run, "values")


def _scatter(case: Case, arguments: Arguments) -> Contender:
    x, places, updates = arguments
    target = x.copy()
    columns = np.arange(x.shape[1])[None]

    def run() -> Any:
        written = target if case.options["memory"] == "donated" else x.copy()
        if case.operator == "scatter_nd":
            written[places[:, 0]] = updates
        else:
            written[places, columns] = updates
        return written

    return _contender(run, "exact")


def _product(case: Case, arguments: Arguments) -> Contender:
    a, a_scale, a_zero, b, b_scale, b_zero, output_scale, output_zero = arguments
    bounds = np.iinfo(output_zero.dtype)
    scale = a_scale * b_scale / output_scale

    def run() -> Any:
        left = a.astype(np.float32) - np.float32(a_zero)
        right = b.astype(np.float32) - np.float32(b_zero)
        real = np.rint(np.matmul(left, right) * scale) + np.float32(output_zero)
        return np.clip(real, bounds.min, bounds.max).astype(bounds.dtype)

    return _contender(run, "within one")


NUMPY: Mapping[str, Callable[[Case, Arguments], Contender]] = {
    "top_k": _top_k,
    "scatter_nd": _scatter,
    "scatter_elements": _scatter,
    "quantized_linear_matrix_multiply": _product,
}
