"""List the dtypes that each operator takes, by name."""

UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
SIGNED = ("int8", "int16", "int32", "int64")
FLOATS = ("float16", "bfloat16", "float32", "float64")

SELECTABLE = FLOATS + SIGNED + UNSIGNED
"""The dtypes whose elements have an order: real numbers."""

INDICES = SIGNED + UNSIGNED
"""The dtypes of indices."""

QUANTIZED = ("int8", "uint8")
"""The dtypes of quantized arrays: what products, convolutions, sums and poolings take and return."""

WIDE_QUANTIZED = (*QUANTIZED, "int16", "uint16")
"""The dtypes that floats are quantized to."""

SCALES = ("float32", "float16", "bfloat16")
"""The dtypes of scales, and of floats that are quantized or that result."""
