"""List the dtypes that each operator takes, by name."""

UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
SIGNED = ("int8", "int16", "int32", "int64")
FLOATS = ("float16", "bfloat16", "float32", "float64")

SELECTABLE = FLOATS + SIGNED + UNSIGNED
"""The dtypes that ``top_k`` can order."""

INDICES = SIGNED + UNSIGNED
"""The dtypes that the scatters take as indices."""

QUANTIZED = ("int8", "uint8")
"""The dtypes of the matrices that the quantized matrix multiply takes and returns."""

SCALES = ("float32", "float16", "bfloat16")
"""The dtypes of scales, and of the floats, that ``quantize_linear`` and ``dequantize_linear`` take."""
