"""Time the tokens of a language model with random weights: ``python -m benchmarks models``.

Single tokens are decoded by jaxdml, by onnxruntime, and by torch with the same network in bfloat16.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from benchmarks.models.language_model import MODELS, Sizes, language_model
from benchmarks.peers._torch_networks import step
from benchmarks.reporting import journal
from benchmarks.reporting.journal import default


def _ours(proto: onnx.ModelProto, batch: int, prompt: int, tokens: int) -> dict[str, Any]:
    """Decode greedily, all tokens in one program, and return seconds a token and what was compiled."""
    import jax
    import jax.numpy as jnp

    import jaxdml
    from jaxdml import onnx as door
    from jaxdml.onnx.running.program import jit_for

    model = door.load(proto)
    decoder = door.decoder(model, length=prompt + tokens)

    def decode(params: Any, state: Any, token: Any) -> Any:
        def step(carry: Any, _: None) -> Any:
            state, token = carry
            scores, state = decoder.apply(params, state, token)
            best = jaxdml.top_k(scores, 1, index_dtype="int32").indices
            return (state, best), best[:, 0]

        return jax.lax.scan(step, (state, token), None, length=tokens)[1]

    state = decoder.start(batch)
    begun = time.perf_counter()
    scores, state = decoder(state, np.ones((batch, prompt), np.int32))
    token = jaxdml.top_k(scores, 1, index_dtype="int32").indices
    run = jit_for(model.params)(decode).lower(dict(model.params), state, token).compile()
    compiled = time.perf_counter() - begun
    seconds = _median(lambda: jax.block_until_ready(run(dict(model.params), state, token)))
    single = jit_for(model.params)(decoder.apply)
    step = _median(lambda: jax.block_until_ready(single(dict(model.params), state, jnp.asarray(token))))
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(dict(model.params)))
    return {"s_per_token": seconds / tokens, "s_per_call": step, "compile_s": compiled, "bytes_of_weights": size}


def _onnxruntime(proto: onnx.ModelProto, batch: int, prompt: int, tokens: int) -> dict[str, Any]:
    """Decode with onnxruntime on CPUs, whose caches grow."""
    import onnxruntime

    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_outputs()]
    past = {
        value.name: np.zeros((batch, value.shape[1], 0, _head_size(proto)), np.float32)
        for value in session.get_inputs()[2:]
    }
    ids = np.ones((batch, prompt), np.int64)

    def step(ids: np.ndarray, past: dict[str, np.ndarray], length: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        outputs = session.run(None, {"input_ids": ids, "attention_mask": np.ones((batch, length), np.int64), **past})
        kept = dict(zip((n.replace("present", "past_key_values") for n in names[1:]), outputs[1:], strict=True))
        return outputs[0][:, -1:].argmax(-1), kept

    token, past = step(ids, past, prompt)
    begun = time.perf_counter()
    for count in range(tokens):
        token, past = step(token, past, prompt + count + 1)
    return {"s_per_token": (time.perf_counter() - begun) / tokens}


def _head_size(proto: onnx.ModelProto) -> int:
    """Return the size of a head: twice the width of the table of cosines."""
    table = next(tensor for tensor in proto.graph.initializer if tensor.name == "cos")
    return 2 * int(table.dims[1])


def _torch(sizes: Sizes, batch: int, prompt: int, tokens: int) -> dict[str, Any]:
    """Decode with the same network in bfloat16, compiled by torch, whose caches have a fixed length."""
    import torch

    device, kind = "cuda" if torch.cuda.is_available() else "cpu", torch.bfloat16
    of_layer = {
        "qkv": (sizes.hidden + 2 * sizes.groups * sizes.head, sizes.hidden),
        "output": (sizes.hidden, sizes.hidden),
        "gate": (sizes.intermediate, sizes.hidden),
        "up": (sizes.intermediate, sizes.hidden),
        "down": (sizes.hidden, sizes.intermediate),
        "norm": (sizes.hidden,),
        "second_norm": (sizes.hidden,),
    }
    shapes = {f"{name}_{layer}": shape for layer in range(sizes.layers) for name, shape in of_layer.items()}
    shapes |= {"tokens": (sizes.vocabulary, sizes.hidden), "last_norm": (sizes.hidden,)}
    weights = {
        name: torch.randn(*shape, device=device, dtype=kind) * shape[-1] ** -0.5
        if len(shape) > 1
        else torch.ones(shape, device=device, dtype=kind)
        for name, shape in shapes.items()
    }
    run = step(weights, sizes.heads, sizes.groups, batch, prompt + tokens)
    compiled = torch.compile(lambda token, at: run(token, at).argmax(-1))
    token, at = torch.ones(batch, 1, dtype=torch.int64, device=device), torch.full((1,), prompt, device=device)

    def advance() -> None:
        token.copy_(compiled(token, at))
        at.add_(1)

    def replay() -> Callable[[], None]:
        """Record a token's GPU kernels, so that their dispatch costs nothing."""
        if device == "cpu":
            return advance
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            advance()
        return graph.replay

    def decode() -> None:
        at.fill_(prompt)
        for _ in range(tokens):
            once()
        token.cpu()

    with torch.no_grad():
        for _ in range(3):
            advance()
        once = replay()
        return {"s_per_token": _median(decode, 5) / tokens}


def _median(run: Callable[[], Any], times: int = 5) -> float:
    """Return the median of the seconds that calls take, after one that is not counted."""
    run()
    samples = []
    for _ in range(times):
        begun = time.perf_counter()
        run()
        samples.append(time.perf_counter() - begun)
    return statistics.median(samples)


def main() -> None:
    """Time one library in this process, and add a line to the report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks models", description=__doc__)
    parser.add_argument("library", choices=["jaxdml", "onnxruntime", "torch"], help="onnxruntime runs on CPUs")
    parser.add_argument("--model", choices=list(MODELS), default="350M")
    parser.add_argument("--bits", type=int, choices=[4, 8, 16], default=4, help="of jaxdml's and onnxruntime's weights")
    parser.add_argument("--dtype", choices=["float32", "float16"], default="float32", help="of their activations")
    parser.add_argument("--level", type=int, choices=[1, 4], default=1, help="4 lets onnxruntime round activations")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--prompt", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--out", type=Path, metavar="FILE", default=default("models"), help="(default: %(default)s)")
    options = parser.parse_args()
    sizes = MODELS[options.model]
    work = options.batch, options.prompt, options.tokens
    if options.library == "torch":
        result = _torch(sizes, *work)
    else:
        proto = language_model(sizes, dtype=options.dtype, bits=options.bits, level=options.level)
        result = {"jaxdml": _ours, "onnxruntime": _onnxruntime}[options.library](proto, *work)
    out = vars(options).pop("out")
    row = vars(options) | result
    journal.begin(out, journal.head(command="models"), journal.earlier(out))
    journal.add(out, "row", row)
    print(json.dumps(row))


if __name__ == "__main__":
    main()
