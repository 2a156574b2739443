"""Time products with weights that are prepared once, on an accelerator: ``python -m benchmarks weights``.

Every product has int8 weights without a zero point, one zero point and one scale for each row of ``a``, and one scale
for each column. Times are those of the device, after a flush of its cache, as in ``python -m benchmarks``.
"""

import argparse
import itertools
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import jaxdml
from benchmarks import environment
from benchmarks.reporting import journal
from benchmarks.reporting.display import console
from benchmarks.reporting.journal import default
from benchmarks.timing import by_profiler

ROWS = 1, 8, 16, 32, 128, 512, 2048, 8192
WEIGHTS = (4096, 4096), (8192, 28672), (28672, 8192), (8192, 8192)
"""K and N."""

READ, DOT, OURS, UNPACKED = "read", "dot of [N, K]", "jaxdml prepacked", "jaxdml"
TORCH, TORCH_BY_ROWS = "torch.compile of [N, K]", "torch.compile of [K, N]"
PEERS = READ, DOT, OURS, UNPACKED, TORCH, TORCH_BY_ROWS
"""``READ`` only reads the weights once, and ``DOT`` stops at the int32 sums. torch is given the sums of the columns."""

_WORDS_PER_MAXIMUM = 256

Run = Callable[[], Any]


def main(arguments: Sequence[str] | None = None) -> int:
    """Time the products that the command line asks for, and return 1 if a packed one differs from one that is not."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks weights", description=__doc__)
    parser.add_argument("--out", type=Path, metavar="FILE", default=default("weights"), help="(default: %(default)s)")
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=PEERS, help="(default: all)")
    parser.add_argument("--rows", nargs="+", type=int, default=ROWS, help="sizes of M")
    parser.add_argument("--dtypes", nargs="+", choices=("int8", "uint8"), default=("int8", "uint8"), help="of a")
    parser.add_argument("--rounds", type=int, default=7, help="samples of each product (default: 7)")
    options = parser.parse_args(arguments)
    journal.begin(options.out, journal.head(command="weights"))
    cells = list(itertools.product(WEIGHTS, options.dtypes, options.rows))
    for (k, n), dtype, m in cells:
        runs = _runs(m, k, n, dtype, options.peers)
        same = not {OURS, UNPACKED} <= runs.keys() or bool((runs[OURS]() == runs[UNPACKED]()).all())
        timings = by_profiler.interleaved(runs, rounds=options.rounds, budget_s=1.0)
        times = {peer: round(timing.median_us, 2) for peer, timing in timings.items()}
        row = {"m": m, "k": k, "n": n, "dtype": dtype, "same_bits": same, "us": times}
        journal.add(options.out, "row", row)
        console.print_json(data=row, indent=None)
    _, rows = journal.rows(options.out)
    return int(not all(row["same_bits"] for row in rows))


def _runs(m: int, k: int, n: int, dtype: str, peers: Sequence[str]) -> Mapping[str, Run]:
    rng = np.random.default_rng(m)
    bounds = np.iinfo(dtype)
    a = jnp.asarray(rng.integers(bounds.min, bounds.max + 1, (m, k)).astype(dtype))
    weights = jax.random.randint(jax.random.key(0), (n, k), -128, 128, jnp.int8)
    a_scale, b_scale = (jnp.asarray(rng.uniform(0.5, 2, size), jnp.float32) for size in (m, n))
    a_zero = jnp.asarray(rng.integers(bounds.max // 2, bounds.max // 2 + 20, m).astype(dtype))
    output_scale = jnp.asarray(rng.uniform(0.5, 2, m) * 60 * np.sqrt(k), jnp.float32)

    def product(a: Any, b: Any, a_scale: Any, b_scale: Any, a_zero: Any, output_scale: Any) -> jax.Array:
        return jaxdml.quantized_linear_matrix_multiply(
            a, a_scale, a_zero, b, b_scale, None, output_scale, output_dtype="int8"
        )

    def ready(function: Callable[..., Any], *arguments: Any) -> Run:
        compiled = jax.jit(function).lower(*arguments).compile()
        return lambda: jax.block_until_ready(compiled(*arguments))

    parameters = a_scale, b_scale, a_zero, output_scale
    makers: Mapping[str, Callable[[], Run]] = {
        READ: lambda: ready(_read, weights),
        DOT: lambda: ready(_dot, lax.bitcast_convert_type(a, jnp.int8), weights),
        OURS: lambda: ready(product, a, jaxdml.prepack(weights, transposed=True), *parameters),
        UNPACKED: lambda: ready(product, a, weights.T.copy(), *parameters),
        TORCH: lambda: _torch(a, weights, parameters, by_columns=True),
        TORCH_BY_ROWS: lambda: _torch(a, weights, parameters, by_columns=False),
    }
    return {peer: makers[peer]() for peer in peers}


def _read(weights: jax.Array) -> jax.Array:
    words = lax.bitcast_convert_type(weights.reshape(-1, _WORDS_PER_MAXIMUM, 4), jnp.int32)
    return jnp.max(words, axis=-1)


def _dot(a: jax.Array, b: jax.Array) -> jax.Array:
    return lax.dot_general(a, b, (((1,), (1,)), ((), ())), preferred_element_type=jnp.int32)


def _torch(a: jax.Array, weights: jax.Array, parameters: Sequence[jax.Array], by_columns: bool) -> Run:
    """Return the product that ``torch.compile`` makes of ``_int_mm`` and one float32 multiplication."""
    import torch

    def tensor(x: Any) -> Any:
        return torch.from_numpy(np.asarray(x).copy()).cuda()

    left, matrix = tensor(a), tensor(weights)
    a_scale, b_scale, a_zero, output_scale = map(tensor, parameters)
    shift = 128 if left.dtype == torch.uint8 else 0
    zero = (a_zero.to(torch.int32) - shift)[:, None]
    sums = matrix.sum(1, dtype=torch.int32)[None]
    right = matrix.t() if by_columns else matrix.t().contiguous()
    scale, rows = (a_scale / output_scale)[:, None], left.shape[0]

    def start(left: Any, right: Any, zero: Any, sums: Any, scale: Any, b_scale: Any) -> Any:
        signed = (left ^ 128).view(torch.int8) if shift else left
        if rows <= 16:  # _int_mm takes no fewer rows than 17.
            signed = torch.nn.functional.pad(signed, (0, 0, 0, 32 - rows))
        total = torch._int_mm(signed, right)[:rows] - zero * sums
        return torch.round(total.to(torch.float32) * scale * b_scale).clamp(-128, 127).to(torch.int8)

    torch._dynamo.reset()
    compiled = torch.compile(start, mode="max-autotune-no-cudagraphs", dynamic=False)
    run = partial(compiled, left, right, zero, sums, scale, b_scale[None])

    def synchronized() -> Any:
        result = run()
        torch.cuda.synchronize()
        return result

    synchronized()
    return synchronized


if __name__ == "__main__":
    environment.settle()
    sys.exit(main())
