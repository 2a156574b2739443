"""Select the first ``k`` elements along the last axis, in the order of their keys."""
