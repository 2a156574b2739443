"""Train a small language model on Python's own manual in JAX, through its ONNX graph, and keep it in weights of 8 bits.

``python docs/models/make_letters.py`` writes letters.onnx beside it, which docs/gallery/letters.md reads. The text is
``pydoc_data.topics``, which every Python has. A token is a letter: its code, less 31, and 0 for all that is not ASCII.
"""

import sys
from functools import partial
from pathlib import Path
from pydoc_data.topics import topics

import jax
import jax.numpy as jnp
import numpy as np
import onnx
from jax import lax
from onnx import numpy_helper

import jaxdml.onnx

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))
from benchmarks.models.language_model import Sizes, language_model  # noqa: E402

SIZES = Sizes(layers=2, hidden=96, intermediate=256, heads=6, groups=3, vocabulary=96, longest=256)
LENGTH, BATCH, STEPS, RATE = 96, 16, 4000, 3e-3


def letters():
    text = "\n".join(topics[name] for name in sorted(topics))
    codes = np.array([ord(letter) - 31 for letter in text.replace("\n\n", "\n").replace("\n", "\x7f")])
    return np.where(codes > 95, np.where(codes == 96, 95, 0), codes)


def scores(model, params, tokens):
    """Return the scores of the letter that follows each, with caches that have just begun."""
    batch, length = tokens.shape
    # One table of letters, as the model in 8 bits has.
    params = dict(model.params) | params | {"scores_weight": params["tokens"].T}
    cache = jnp.zeros((batch, SIZES.groups, length, SIZES.head))
    mask = jnp.ones((batch, length), jnp.int32)
    return model.apply(params, tokens, mask, *[cache] * (2 * SIZES.layers))[0]


def loss(params, model, tokens):
    of_letters = jax.nn.log_softmax(scores(model, params, tokens[:, :-1]))
    return -jnp.take_along_axis(of_letters, tokens[:, 1:, None], -1).mean()


@partial(jax.jit, static_argnums=0)
def trained(model, carry, begin, tokens):
    def step(carry, of_step):
        params, mean, square = carry
        number, batch = of_step
        value, slopes = jax.value_and_grad(loss)(params, model, batch)
        mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, slopes)
        square = jax.tree.map(lambda s, g: 0.99 * s + 0.01 * g * g, square, slopes)
        rate = RATE * jnp.minimum(1, number / 100) * jnp.maximum(0.02, 1 - number / STEPS)

        def moved(p, m, s):
            return p - rate * m / (1 - 0.9**number) / (jnp.sqrt(s / (1 - 0.99**number)) + 1e-8)

        return (jax.tree.map(moved, params, mean, square), mean, square), value

    return lax.scan(step, carry, (begin + 1 + jnp.arange(len(tokens)), tokens))


def in_8_bits(params):
    """Return the model with matrices of 8 bits, of which each 32 elements of a column have a scale."""
    proto = language_model(SIZES, dtype=np.float32, bits=8)
    weights = {weight.name: weight for weight in proto.graph.initializer}
    for name, array in params.items():
        if f"{name}_scales" in weights:
            columns = array if name == "tokens" else array.T
            blocks = columns.reshape(len(columns), -1, 32)
            scales = np.abs(blocks).max(-1) / np.float32(127)
            stored = (np.rint(blocks / scales[..., None]) + 128).astype(np.uint8)
            weights[f"{name}_scales"].CopyFrom(numpy_helper.from_array(scales, f"{name}_scales"))
            weights[name].CopyFrom(numpy_helper.from_array(stored, name))
        elif name in weights:
            weights[name].CopyFrom(numpy_helper.from_array(array, name))
    return proto


def main():
    text, rng = letters(), np.random.default_rng(0)
    proto = language_model(SIZES, dtype=np.float32, bits=16)
    model = jaxdml.onnx.load(proto)
    params = {name: jnp.asarray(array) for name, array in model.params.items() if name not in ("cos", "sin")}
    params["tokens"] *= 0.1
    carry = params, *[jax.tree.map(jnp.zeros_like, params)] * 2
    for begin in range(0, STEPS, 100):
        starts = rng.integers(0, len(text) - LENGTH - 1, (100, BATCH, 1))
        carry, losses = trained(model, carry, begin, text[starts + np.arange(LENGTH + 1)])
        print(begin, float(losses.mean()), flush=True)
    onnx.save(in_8_bits({name: np.asarray(array) for name, array in carry[0].items()}), HERE / "letters.onnx")


if __name__ == "__main__":
    main()
