"""The peers that most operators have."""

from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.peers import with_jax, with_torch
from benchmarks.peers.contender import Peers, Prepare, each


def usual(lax: Any, onnxruntime: Any, torch: Any, numpy: Any = None, *, prepacks: bool = False, **others: Any) -> Peers:
    """Return how each peer prepares a case.

    Args:
      lax: the program of stock JAX that a case has.
      onnxruntime: of one draw, with ``prepacked`` if ``prepacks``.
      torch: of one draw; it is compiled, too.
      numpy: of one draw, if it has a way.
      prepacks: whether onnxruntime may have constants beforehand, which it then has as one more peer.
      others: of one draw, by name with ``_`` for spaces.
    """
    ways: dict[str, Callable[..., Any]] = {"onnxruntime": onnxruntime}
    if prepacks:
        ways = {
            name: partial(onnxruntime, prepacked=name != "onnxruntime")
            for name in ("onnxruntime", "onnxruntime prepacked")
        }
    ways |= {"torch": torch, "torch.compile": with_torch.compiled(torch)} | ({"numpy": numpy} if numpy else {})
    ways |= {name.replace("_", " "): way for name, way in others.items()}
    found: dict[str, Prepare] = {name: each(way) for name, way in ways.items()}
    return {"lax": with_jax.ready(lax)} | found
