"""Fourier transforms of signals that are longer than what counts."""

import numpy as np
import pytest

from tests.kit import quick
from tests.onnx.padded import check, parsed, together

pytestmark = quick

CONSTANTS = {
    "step": np.array(3),
    "eight": np.array(8),
    "window": np.hanning(8).astype(np.float32),
    "n1": np.array(1),
    "i2": np.array([2]),
}
BODIES = {
    "frames": "y = STFT(x, step, window) z = STFT<onesided=0>(x, step, , eight)",
    "another dimension": "a = Unsqueeze(x, i2) b = Concat<axis=2>(a, a, a) c = Unsqueeze(b, i3) i3 = Add(i2, i1)"
    " i1 = Unsqueeze(n1, i0) i0 = Sub(i2, i2) y = DFT<axis=2>(c) z = DFT<axis=2, onesided=1>(c, eight)",
}
REFUSED = {
    "STFT 'y_0' needs to know a frame": "y = STFT(x, step)",
    "DFT 'y_0' needs to know the result": "a = Unsqueeze(x, i2) y = DFT<axis=1>(a)",
}


def check_of(bodies, **expected):
    body, outputs = together(bodies)
    proto = parsed(f"g (float[B, L] x) => ({outputs}) {{ {body} }}", CONSTANTS, opset=17)
    sizes = [(2, 9), (3, 20), (2, 31)]
    calls = [{"x": np.random.default_rng(n).normal(size=(b, n)).astype(np.float32)} for b, n in sizes]
    check(proto, calls, {"B": 3, "L": 32}, **expected)


def test_frames_of_what_counts_are_transformed():
    check_of(BODIES.values(), atol=1e-4)


@pytest.mark.parametrize("reason", REFUSED)
def test_a_transform_of_a_length_is_refused(reason):
    check_of([REFUSED[reason]], atol=1e-4, refuses=reason)
