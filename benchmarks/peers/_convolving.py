"""What the peers of both convolutions share."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.cases import Array, Case

_FILTERS = 4
"""Results of so many filters on one image are compared."""


def of_onnx(case: Case) -> Mapping[str, Any]:
    """Return the options as ONNX writes them."""
    options = case.keywords
    stride, start, end = (options[name] for name in ("strides", "start_padding", "end_padding"))
    return {"strides": [stride] * 2, "pads": [start] * 2 + [end] * 2, "group": options["group_count"]}


def of_torch(case: Case) -> Mapping[str, Any]:
    """Return the options as PyTorch writes them; every case pads both sides alike."""
    options = case.keywords
    return {"stride": options["strides"], "padding": options["start_padding"], "groups": options["group_count"]}


def torch_sums(case: Case, x: Any, x_zero: Any, w: Any, w_zero: Any) -> Any:
    """Convolve the differences in float32."""
    import torch

    torch.backends.cudnn.allow_tf32 = False  # That would keep ten bits.
    return torch.nn.functional.conv2d(x.float() - x_zero, w.float() - w_zero, **of_torch(case))


def part(case: Case, x: Array, w: Array) -> tuple[Array, Array, Array, dict[str, Any]]:
    """Choose some filters and the last image.

    Returns:
      The numbers of the filters; x, w and the options of a call that has their results alone.
    """
    options, filters = dict(case.keywords), len(w)
    chosen = np.unique(np.linspace(0, filters - 1, _FILTERS).astype(int))
    groups = options["group_count"]
    if groups == 1:
        return chosen, x[-1:], w[chosen], options
    # Each of them becomes a group of its own.
    depth = w.shape[1]
    read = (chosen // (filters // groups))[:, None] * depth + np.arange(depth)
    return chosen, x[-1:, read.ravel()], w[chosen], options | {"group_count": len(chosen)}
