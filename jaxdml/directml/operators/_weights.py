"""What is known of a quantized operator when its weights are prepared."""

from collections.abc import Mapping
from typing import Any

import numpy as np


def known_parameters(desc: Any, known: Mapping[str, Any], factors: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the parameters that ``jaxdml.prepack`` takes, or None if a call will be given one, or does not round.

    Args:
      desc: the description.
      known: the arrays of the fields that are known, by name.
      factors: what jaxdml calls the input and the weights, by the names of their fields without ``_tensor``.
    """
    if not hasattr(desc, "output_scale_tensor"):
        return None
    found = {}
    for of, name in {**factors, "output": "output"}.items():
        for kind in ("scale", "zero_point"):
            field = f"{of}_{kind}_tensor"
            if getattr(desc, field) is None:
                found[f"{name}_{kind}"] = np.zeros((), getattr(desc, f"{of}_tensor").data_type.dtype)
            elif field in known:
                found[f"{name}_{kind}"] = known[field]
            else:
                return None
    if getattr(desc, "bias_tensor", None) is None:
        return found
    return found | {"bias": known["bias_tensor"]} if "bias_tensor" in known else None
