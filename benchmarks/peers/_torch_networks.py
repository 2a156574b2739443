"""Whole networks in PyTorch: an ONNX model of floats node by node, and the step of a language model."""

from collections.abc import Callable, Mapping
from typing import Any


def tensors(model: Any, kind: str) -> dict[str, Any]:
    """Return the weights by name, floats as the kind says, on the device."""
    import torch
    from onnx import numpy_helper

    where = "cuda" if torch.cuda.is_available() else "cpu"
    found = {each.name: torch.from_numpy(numpy_helper.to_array(each).copy()) for each in model.graph.initializer}
    return {name: (x.to(getattr(torch, kind)) if x.is_floating_point() else x).to(where) for name, x in found.items()}


def network(model: Any, kind: str) -> Callable[[Any], Any]:
    """Return a function of the model's input."""
    import torch
    from onnx import helper, numpy_helper

    # In convolutions PyTorch takes float32 for less than that by default.
    torch.backends.cudnn.allow_tf32 = False
    torch.set_float32_matmul_precision("highest")
    weights = tensors(model, kind)
    # Shapes and limits are known when the program is made.
    known = {
        each.name: numpy_helper.to_array(each).tolist()
        for each in model.graph.initializer
        if each.data_type == each.INT64 or not each.dims
    }
    nodes = [
        (
            node.op_type,
            node.input,
            node.output[0],
            {each.name: helper.get_attribute_value(each) for each in node.attribute},
        )
        for node in model.graph.node
    ]
    table, taken, given_back = _operators(), model.graph.input[0].name, model.graph.output[0].name

    def run(x: Any) -> Any:
        values = {taken: x}
        for op_type, names, result, options in nodes:
            given = [values[name] if name in values else known.get(name, weights.get(name)) for name in names]
            values[result] = table[op_type](*given, **options)
        return values[given_back].float()

    return torch.fx.symbolic_trace(run)


def _operators() -> Mapping[str, Callable[..., Any]]:
    import torch
    from torch.nn import functional as f

    def convolve(x: Any, w: Any, b: Any, *, pads: Any, kernel_shape: Any, strides: Any = (1, 1), group: int = 1) -> Any:
        return f.conv2d(x, w, b, tuple(strides), tuple(pads[:2]), groups=group)

    def reshaped(x: Any, shape: Any) -> Any:
        return x.reshape([x.shape[place] if size == 0 else size for place, size in enumerate(shape)])

    return {
        "Add": torch.add,
        "Clip": torch.clamp,
        "Conv": convolve,
        "Flatten": lambda x: x.flatten(1),
        "Gather": lambda table, ids: table[ids],
        "Gelu": f.gelu,
        "Gemm": lambda x, w, b, transB: f.linear(x, w, b),  # noqa: N803
        "GlobalAveragePool": lambda x: x.mean((2, 3), keepdim=True),
        "Identity": lambda x: x,
        "LayerNormalization": lambda x, w, b, axis, epsilon: f.layer_norm(x, w.shape, w, b, epsilon),
        "MatMul": torch.matmul,
        "MaxPool": lambda x, kernel_shape, strides, pads: f.max_pool2d(x, kernel_shape, strides, pads[:2]),
        "Mul": torch.mul,
        "Relu": torch.relu,
        "Reshape": reshaped,
        "Softmax": lambda x, axis: x.softmax(axis),
        "Transpose": lambda x, perm: x.permute(perm),
    }


Step = Callable[[Any, Any], Any]


def step(weights: Mapping[str, Any], heads: int, groups: int, batch: int, length: int) -> Step:
    """Return what reads a token ``[batch, 1]`` at a place ``[1]``, writes its keys and values, and gives scores.

    Args:
      weights: by their names in ``benchmarks/models/language_model.py``, matrices ``[outputs, inputs]``.
      heads: of the queries.
      groups: heads of keys and values.
      batch: how many sequences.
      length: of the caches.
    """
    import torch
    from torch.nn import functional as f

    table, first = weights["tokens"], weights["qkv_0"]
    head, kind, device = first.shape[1] // heads, table.dtype, table.device
    layers = sum(name.startswith("qkv_") for name in weights)
    caches = [
        [torch.zeros(batch, groups, length, head, device=device, dtype=kind) for _ in range(2)] for _ in range(layers)
    ]
    angles = torch.arange(length, device=device)[:, None] / 10000 ** (torch.arange(0, head, 2, device=device) / head)
    cos, sin = angles.cos().to(kind), angles.sin().to(kind)
    places = torch.arange(length, device=device)

    def turned(x: Any, at: Any) -> Any:
        low, high = x.chunk(2, -1)
        return torch.cat((low * cos[at] - high * sin[at], high * cos[at] + low * sin[at]), -1)

    def norm(x: Any, name: str) -> Any:
        return f.rms_norm(x, x.shape[-1:], weights[name], 1e-5)

    def run(token: Any, at: Any) -> Any:
        x = table[token]
        seen = (places <= at)[None, None, None]
        for layer, (keys, values) in enumerate(caches):
            qkv = (norm(x, f"norm_{layer}") @ weights[f"qkv_{layer}"].T).view(batch, 1, -1, head).transpose(1, 2)
            q, k, v = qkv.split((heads, groups, groups), 1)
            keys.index_copy_(2, at, turned(k, at))
            values.index_copy_(2, at, v)
            y = f.scaled_dot_product_attention(turned(q, at), keys, values, attn_mask=seen, enable_gqa=True)
            x = x + y.transpose(1, 2).reshape(batch, 1, -1) @ weights[f"output_{layer}"].T
            normal = norm(x, f"second_norm_{layer}")
            gated = f.silu(normal @ weights[f"gate_{layer}"].T) * (normal @ weights[f"up_{layer}"].T)
            x = x + gated @ weights[f"down_{layer}"].T
        return norm(x, "last_norm") @ table.T

    return run


def decoder(model: Any, kind: str, prompt: Any, length: int) -> Callable[[Any], Any]:
    """Return a function that reads one token behind a prompt, again and again at the same place."""
    import torch
    from onnx import helper

    attention = next(node for node in model.graph.node if node.op_type == "GroupQueryAttention")
    sizes = {each.name: helper.get_attribute_value(each) for each in attention.attribute}
    weights = {name.removesuffix("_floats"): x for name, x in tensors(model, kind).items()}
    batch, read = prompt.shape
    run = step(weights, sizes["num_heads"], sizes["kv_num_heads"], batch, length)
    with torch.no_grad():
        for place in range(read):
            run(prompt[:, place : place + 1], torch.full((1,), place, device=prompt.device))
    at = torch.full((1,), read, device=prompt.device)
    return torch.no_grad()(lambda token: run(token, at)[:, 0].float())
