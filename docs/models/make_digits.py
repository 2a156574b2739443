"""Train a small network on scikit-learn's digits in JAX, and save it with PyTorch's exporter.

``python docs/models/make_digits.py`` writes digits.onnx and digits.npz beside it, which docs/onnx.md reads. It needs
scikit-learn and torch, which jaxdml does not.
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax import lax
from sklearn.datasets import load_digits
from torch import nn

HERE = Path(__file__).parent
TESTED = 360
STEPS, BATCH, RATE = 2000, 64, 0.05


def convolved(x, layer):
    y = lax.conv_general_dilated(x, layer["weight"], (1, 1), "SAME")
    return y + layer["bias"][:, None, None]


def logits(params, x):
    x = jax.nn.relu(convolved(x, params["0"]))
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
    x = jax.nn.relu(x + convolved(jax.nn.relu(convolved(x, params["3.first"])), params["3.second"]))
    return x.mean((2, 3)) @ params["6"]["weight"].T + params["6"]["bias"]


class Block(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x):
        return torch.relu(x + self.second(torch.relu(self.first(x))))


def network():
    torch.manual_seed(0)
    before = nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)
    return nn.Sequential(*before, Block(16), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))


def trained(params, x, y):
    def loss(params, x, y):
        return -jnp.take_along_axis(jax.nn.log_softmax(logits(params, x)), y[:, None], 1).mean()

    @jax.jit
    def step(carry, key):
        params, speed = carry
        chosen = jax.random.randint(key, (BATCH,), 0, len(x))
        gradient = jax.grad(loss)(params, x[chosen], y[chosen])
        speed = jax.tree.map(lambda v, g: 0.9 * v + g, speed, gradient)
        return (jax.tree.map(lambda p, v: p - RATE * v, params, speed), speed), None

    start = params, jax.tree.map(jnp.zeros_like, params)
    (params, _), _ = lax.scan(step, start, jax.random.split(jax.random.key(0), STEPS))
    return params


def main():
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.images))
    images = (digits.images[order, None] / 16).astype(np.float32)
    labels = digits.target[order]
    net = network()
    layers = {name: {} for name in ("0", "3.first", "3.second", "6")}
    for name, value in net.state_dict().items():
        layer, _, kind = name.rpartition(".")
        layers[layer][kind] = jnp.asarray(value.numpy())
    params = trained(layers, jnp.asarray(images[TESTED:]), jnp.asarray(labels[TESTED:]))
    state = {f"{layer}.{kind}": torch.tensor(np.asarray(v)) for layer, p in params.items() for kind, v in p.items()}
    net.load_state_dict(state)
    torch.onnx.export(
        net.eval(),
        (torch.zeros(1, 1, 8, 8),),
        HERE / "digits.onnx",
        dynamo=False,
        opset_version=17,
        input_names=["image"],
        output_names=["logits"],
        dynamic_axes={"image": {0: "batch"}, "logits": {0: "batch"}},
    )
    counts = (16 * images).astype(np.uint8)
    np.savez_compressed(HERE / "digits.npz", images=counts[: 2 * TESTED], labels=labels[: 2 * TESTED].astype(np.uint8))


if __name__ == "__main__":
    main()
