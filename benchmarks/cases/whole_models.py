"""The cases of whole models: a call of a network, or a token of a language model, at three batches."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jaxdml._cases.records import NamedCall

GROUP = "whole models"
BATCHES = 1, 8, 32
PROMPT, LONGEST = 64, 128
"""A language model has read so many tokens, and its caches hold so many."""


class Network(NamedTuple):
    """What is known of a network without making it."""

    origin: str
    shape: tuple[int, ...]
    """Of what it takes for each of a batch."""
    words: int
    """Inputs are integers below this; 0 for images."""
    results: int
    """How many float32 it gives for each of a batch."""
    weights: int
    multiplications: int
    """For each of a batch."""
    cache: int = 0
    """The bytes of keys and values that a token reads."""


_ENCODER = 12 * (4 * 768**2 + 2 * 768 * 3072)
_DECODER = 30 * 576 * (2 * 576 + 2 * 3 * 64 + 3 * 1536) + 49152 * 576

_WITH_RANDOM_WEIGHTS = {
    "mobilenet_v2": Network("MobileNetV2, 224 x 224", (3, 224, 224), 0, 1000, 3_487_886, 300_774_272),
    "resnet_50": Network("ResNet-50, 224 x 224", (3, 224, 224), 0, 1000, 25_530_472, 4_089_184_256),
    "bert_base": Network(
        *("BERT-base, 128 tokens", (128,), 30522, 128 * 768, _ENCODER, 128 * (_ENCODER + 12 * 2 * 128 * 768))
    ),
}

NETWORKS = {
    **_WITH_RANDOM_WEIGHTS,
    **{
        f"{name}_trained": network._replace(origin=f"{network.origin}; channels that differ as trained ones do")
        for name, network in _WITH_RANDOM_WEIGHTS.items()
    },
    "language_model": Network(
        *(f"SmolLM2-135M, one token after {PROMPT}", (PROMPT + 1,), 49152, 49152, _DECODER, _DECODER),
        30 * 2 * 3 * 64 * PROMPT * 4,
    ),
}


def call(name: str, batch: int, network: Network) -> NamedCall:
    """Return a case. ``dtype`` is that of the weights; what peers compute with is in their names."""
    return NamedCall(
        operator=name,
        group=GROUP,
        size=f"batch {batch}",
        dtype="int8",
        data="random",
        origin=f"{network.origin}; random weights",
        draw=_drawn(batch, network),
        bytes=network.weights + batch * (4 * (math.prod(network.shape) + network.results) + network.cache),
        operations=2 * batch * network.multiplications,
    )


def _drawn(batch: int, network: Network) -> Callable[[np.random.Generator], tuple[np.ndarray[Any, Any], ...]]:
    def draw(random: np.random.Generator) -> tuple[np.ndarray[Any, Any], ...]:
        shape = (batch, *network.shape)
        if network.words:
            return (random.integers(0, network.words, shape),)
        return (random.standard_normal(shape, np.float32),)

    return draw


CASES = tuple(call(name, batch, network) for name, network in NETWORKS.items() for batch in BATCHES)
