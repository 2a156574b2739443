"""Layers of other domains than ai.onnx that compute each row, or each element, for itself."""

from jaxdml.onnx.nodes.bounded._task import Rules, Task
from jaxdml.onnx.nodes.bounded.elementwise import each_of_batch, like_first
from jaxdml.onnx.values.kinds import Value
from jaxdml.onnx.values.lengths import LengthError


def each_sample(task: Task, x: Value, *others: Value) -> tuple[Value, ...]:
    """Compute each row of features for itself; what has one dimension is one row."""
    if x.ndim != 2:
        raise LengthError(f"the result for an operand of {x.ndim} dimensions")
    return each_of_batch(task, x, *others)


_OF_SAMPLES = """
    Binarizer Imputer LabelEncoder LinearClassifier LinearRegressor Normalizer OneHotEncoder Scaler TreeEnsemble
    TreeEnsembleClassifier TreeEnsembleRegressor ZipMap
"""

CLASSICAL: Rules = dict.fromkeys(_OF_SAMPLES.split(), each_sample)
"""Of the domain ai.onnx.ml."""

MICROSOFT: Rules = dict.fromkeys(("DequantizeLinear", "QuantizeLinear"), like_first)
"""Of the domain com.microsoft."""
