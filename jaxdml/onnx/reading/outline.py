"""Read a model without its weights, to see whether its nodes can be run."""

from typing import Any

import numpy as np
import onnx

from jaxdml.onnx.reading.reader import Reader
from jaxdml.onnx.reading.scopes import Scope
from jaxdml.onnx.reading.tensors import dtype_of

LONG = 1024
"""Lists of more numbers or texts than this are weights."""


class Outline(Reader):
    """Reads dtypes instead of tensors, and nothing of long lists but those of ai.onnx.ml, which its operators check."""

    def _value(self, proto: onnx.AttributeProto, scope: Scope, what: str) -> Any:
        if max(len(proto.floats), len(proto.ints), len(proto.strings)) > LONG:
            return ()
        return super()._value(proto, scope, what)

    def _tensor(self, proto: onnx.TensorProto | onnx.SparseTensorProto, what: str) -> np.ndarray:
        stored = proto.values if isinstance(proto, onnx.SparseTensorProto) else proto
        return np.zeros((), dtype_of(stored.data_type, what))
