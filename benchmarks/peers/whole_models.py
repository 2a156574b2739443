"""How the peers run whole models: as int8, float32 and bfloat16; and jaxdml int8 as QDQ, too."""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from benchmarks.cases import Arguments, Case
from benchmarks.cases.whole_models import LONGEST, NETWORKS, PROMPT
from benchmarks.peers import with_jax, with_onnxruntime
from benchmarks.peers.contender import Contender, Peers, Prepare


def _jaxdml(kind: str, case: Case, draws: Sequence[Arguments]) -> Contender:
    """Run a network through the door."""
    from benchmarks.models import networks
    from jaxdml import onnx as door
    from jaxdml.onnx.running.program import jit_for

    model = door.load(networks.made(case.operator, kind))
    jit = jit_for(model.params)
    # As a call of the model, whose program may have small arrays as constants. What is compiled does not matter here.
    leaves = model.passed_to(jit(model.apply))
    narrow: Any = [(_of_kind(x, kind), leaves) for (x,) in draws]
    promises = kind.partition(" ")[0]
    program = with_jax.Program(lambda x, leaves: model.apply(model.params_from(leaves), x), promises, jit)
    return with_jax.prepare(program, case, narrow)


def _of_kind(x: Any, kind: str) -> Any:
    import ml_dtypes

    return x.astype(ml_dtypes.bfloat16) if kind == "bfloat16" and x.dtype == np.float32 else x


def _jaxdml_decoder(kind: str, case: Case, arguments: Arguments) -> Contender:
    """Read the last token again and again, each time at the same place of the caches."""
    import jax

    from benchmarks.models import networks
    from jaxdml import onnx as door
    from jaxdml.onnx.running.program import jit_for

    (tokens,) = arguments
    model = door.load(networks.made(case.operator, kind))
    decoder = door.decoder(model, length=LONGEST)
    _, state = decoder(decoder.start(len(tokens)), tokens[:, :PROMPT])
    params, token = jax.device_put((dict(model.params), tokens[:, PROMPT:].astype(np.int32)))
    kept = [state._replace(lengths=jax.device_put(np.full(len(tokens), PROMPT, np.int32)))]
    begin = time.perf_counter()
    step = jit_for(model.params)(decoder.apply, donate_argnums=1).lower(params, kept[0], token).compile()
    compile_s = time.perf_counter() - begin

    def start() -> Any:
        scores, after = step(params, kept[0], token)
        kept[0] = after._replace(lengths=after.lengths - 1)
        return scores

    run, many = with_jax.waiting(start)
    return Contender(run, lambda scores: (np.asarray(scores),), kind, compile_s, many=many)


def _onnxruntime(kind: str, case: Case, arguments: Arguments) -> Contender:
    from benchmarks.models import networks

    (x,) = arguments
    model = networks.made(case.operator, kind)
    return with_onnxruntime.bound(model, {model.graph.input[0].name: x}, kind)


def _onnxruntime_decoder(kind: str, case: Case, arguments: Arguments) -> Contender:
    from benchmarks.models import networks

    (tokens,) = arguments
    model = networks.made(case.operator, kind)
    shapes = {value.name: value.type.tensor_type.shape.dim for value in model.graph.input[2:]}
    size = 2 * next(each.dims[1] for each in model.graph.initializer if each.name == "cos")
    nothing = {name: np.zeros((len(tokens), dims[1].dim_value, 0, size), np.float32) for name, dims in shapes.items()}
    mask = np.ones(tokens.shape, np.int64)
    first = with_onnxruntime.bound(
        model, {"input_ids": tokens[:, :PROMPT], "attention_mask": mask[:, :PROMPT], **nothing}, kind
    )
    _, *past = first.answers(first.run())
    given = {"input_ids": tokens[:, PROMPT:], "attention_mask": mask, **dict(zip(shapes, past, strict=True))}
    ready = with_onnxruntime.bound(model, given, kind)
    # Only the scores are compared.
    return Contender(ready.run, lambda bound: (ready.answers(bound)[0][:, -1],), kind, ready.compile_s)


def _torch(kind: str, case: Case, arguments: Arguments) -> Contender:
    """Compile the float network, node by node, with PyTorch."""
    from benchmarks.models import networks
    from benchmarks.peers import _torch_networks, with_torch

    run = _torch_networks.network(networks.made(case.operator, "float32"), kind)
    (x,) = with_torch.tensors(tuple(map(partial(_of_kind, kind=kind), arguments)))
    return with_torch.contender(lambda: run(x), kind, compiled=True, mode="default")


def _torch_decoder(kind: str, case: Case, arguments: Arguments) -> Contender:
    from benchmarks.models import networks
    from benchmarks.peers import _torch_networks, with_torch

    (tokens,) = with_torch.tensors(arguments)
    step = _torch_networks.decoder(networks.made(case.operator, "float32"), kind, tokens[:, :PROMPT], LONGEST)
    last = tokens[:, PROMPT:]
    return with_torch.contender(lambda: step(last), kind, compiled=True, mode="default")


def _all(network: Any, decoder: Any, kind: str) -> Mapping[str, Prepare]:
    """Return how each network is prepared by one function, and the language model by another."""
    found = dict.fromkeys(NETWORKS, partial(network, kind))
    return found | {"language_model": partial(decoder, kind)}


def _alone(prepare: Callable[..., Contender]) -> Callable[..., Contender]:
    """A model has one draw of its data: its time does not depend on it."""
    return lambda kind, case, draws: prepare(kind, case, draws[0])


_HOW: Mapping[str, Mapping[str, Prepare]] = {
    # Tools quantize language models in other ways.
    "jaxdml QDQ": {name: partial(_jaxdml, "int8 QDQ") for name in NETWORKS if name != "language_model"},
    **{
        f"jaxdml{kind}": _all(_jaxdml, _alone(_jaxdml_decoder), kind.strip() or "int8")
        for kind in ("", " float32", " bfloat16")
    },
    **{
        f"onnxruntime{kind}": _all(_alone(_onnxruntime), _alone(_onnxruntime_decoder), kind.strip() or "int8")
        for kind in ("", " float32")
    },
    **{
        f"torch.compile{kind}": _all(_alone(_torch), _alone(_torch_decoder), kind.strip() or "float32")
        for kind in ("", " bfloat16")
    },
}

PEERS: Mapping[str, Peers] = {
    name: {peer: ways[name] for peer, ways in _HOW.items() if name in ways} for name in NETWORKS
}
"""For each model, how a peer runs it."""


def expected(case: Case, arguments: Arguments) -> tuple[Any, Arguments]:
    """Ask onnxruntime for the floats: a peer has to be as near to them as its numbers allow."""
    contender = _HOW["onnxruntime float32"][case.operator](case, [arguments])
    return ..., contender.answers(contender.run())
