"""Steps of Adam, against the formula in float64 and torch's optimizer."""

import numpy as np
import pytest

from tests.directml.calls import Call, check
from tests.kit import quick

pytestmark = quick

RNG = np.random.default_rng(0)


def drawn(*sizes):
    return RNG.normal(size=sizes).astype("float32")


def adam(inputs, step, rate, beta1, beta2, epsilon):
    x, m, v, gradient = (array.astype(float) for array in inputs)
    m, v = beta1 * m + (1 - beta1) * gradient, beta2 * v + (1 - beta2) * gradient**2
    x = x - rate * np.sqrt(1 - beta2**step) / (1 - beta1**step) * m / (np.sqrt(v) + epsilon)
    return [part.astype(inputs[0].dtype) for part in (x, m, v)]


def call(inputs, step, wanted, tolerance=1e-5, **fields):
    number = np.full((1,) * inputs[0].ndim, step, np.uint32)
    return Call("ADAM_OPTIMIZER", [*inputs, number], wanted, fields, tolerance)


def test_the_formula():
    calls = []
    for sizes, dtype in (((2, 3), "float32"), ((1, 1, 4, 2), "float16")):
        inputs = [drawn(*sizes).astype(dtype) for _ in range(4)]
        inputs[2] = np.abs(inputs[2])
        for step, beta1, beta2 in ((1, 0.9, 0.999), (100_000, 0.5, 0.99999), (7, 0.0, 0.25)):
            betas = float(np.float32(beta1)), float(np.float32(beta2))
            wanted = adam(inputs, step, 0.1, *betas, 0.01)
            fields = {"learning_rate": 0.1, "beta1": beta1, "beta2": beta2, "epsilon": 0.01}
            calls.append(call(inputs, step, wanted, 1e-5 if dtype == "float32" else 2e-3, **fields))
    check(calls)


def test_torch_without_an_epsilon():
    torch = pytest.importorskip("torch")
    # With one they differ: torch adds it to the corrected root.
    x, gradients = drawn(3, 4), [drawn(3, 4) for _ in range(3)]
    parameter = torch.nn.Parameter(torch.from_numpy(x.copy()))
    optimizer = torch.optim.Adam([parameter], lr=0.1, betas=(0.9, 0.99), eps=0)
    inputs, zeros = x, np.zeros_like(x)
    moments = [zeros, zeros]
    for step, gradient in enumerate(gradients, 1):
        parameter.grad = torch.from_numpy(gradient)
        optimizer.step()
        state = optimizer.state[parameter]
        wanted = [part.detach().numpy().copy() for part in (parameter, state["exp_avg"], state["exp_avg_sq"])]
        fields = {"learning_rate": 0.1, "beta1": 0.9, "beta2": 0.99, "epsilon": 0.0}
        (found,) = check([call([inputs, *moments, gradient], step, wanted, 1e-5, **fields)])
        inputs, *moments = map(np.asarray, found)


def test_a_step_of_0_divides_0_by_0():
    inputs = [drawn(2, 3), np.zeros((2, 3), np.float32), np.zeros((2, 3), np.float32), drawn(2, 3)]
    fields = {"learning_rate": 0.1, "beta1": 0.5, "beta2": 0.5, "epsilon": 0.01}
    moments = [inputs[3] / 2, inputs[3] ** 2 / 2]
    check([call(inputs, 0, [np.full((2, 3), np.nan, np.float32), *moments], **fields)])
