"""Run programs that some released XLA computes wrong, before any operator is judged on top of it.

On a CPU they run in a process of their own, because some of them crash it or write outside their arrays.
"""

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

SETTING = "--xla_cpu_experimental_ynn_fusion_type=-LIBRARY_FUSION_TYPE_REDUCE"
"""An XLA flag: on CPUs no reduction and no window joins a YNNPACK routine; no version is wrong in these programs."""

_LIMIT_S = 60
"""How long one process may take: a hang is a crash."""


@dataclass(frozen=True)
class Probe:
    """A program that some released XLA computes wrong.

    Attributes:
      computes: what it computes, in words.
      thread: where it was reported, if it was.
      ours: what that means for jaxdml.
      program: the program.
      arguments: return its arguments.
      expected: return its result, by NumPy. Everything is exact in float32, in whatever order sums are taken.
    """

    computes: str
    thread: str
    ours: str
    program: Callable[..., jax.Array]
    arguments: Callable[[], tuple[np.ndarray, ...]]
    expected: Callable[..., Any]


def _integers(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    """Return small integers without a pattern."""
    return (np.arange(np.prod(shape)) * 7 % 11 - 5).reshape(shape).astype(dtype)


def _pooled(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    y = np.maximum(x @ w, 0)[:, :-1, :-1]
    return y.reshape(y.shape[0], y.shape[1] // 2, 2, y.shape[2] // 2, 2, -1).max((2, 4))


def _spread(x: np.ndarray) -> np.ndarray:
    result = np.full((x.shape[0] // 2, 2 * x.shape[1] - 1), -np.inf, np.float32)
    result[:, ::2] = x.reshape(-1, 2, x.shape[1]).max(1)
    return result


_INTEGERS = "no operator is wrong, since their products are of integers, or feed no reduction"

PROBES: Mapping[str, Probe] = {
    "equal_weights": Probe(
        "a product by a matrix of equal numbers, then a sum",
        "",
        f"{_INTEGERS}; jaxdml.onnx keeps such weights as arrays, which mends all but JAX 0.10.2 and 0.11.0",
        lambda x: (x @ jnp.ones((256, 32))).sum(1),
        lambda: (_integers(8, 16, 256),),
        lambda x: np.broadcast_to(x.sum((1, 2))[:, None], (8, 32)),
    ),
    "many_rows": Probe(
        "the squares of many small products, then a sum",
        "jax-ml/jax#39103",
        _INTEGERS,
        jax.vmap(lambda row: jnp.sum((jnp.eye(3, dtype=jnp.float32) @ row) ** 2)),
        lambda: (_integers(40001, 3),),
        lambda x: (x**2).sum(1),
    ),
    "spread_windows": Probe(
        "the maxima of windows, along a dimension that is spread",
        "openxla/xla#48714",
        "no operator is wrong, since none spreads what it reduces",
        lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (2, 1), (2, 1), ((0, 0), (0, 0)), base_dilation=(1, 2)),
        lambda: (_integers(64, 128),),
        _spread,
    ),
    "small_int8": Probe(
        "a small product of int8 matrices",
        "",
        "no operator is wrong, since on GPUs they multiply small integers as floats, which hold them",
        lambda a, b: lax.dot_general(a, b, (((1,), (0,)), ((), ())), preferred_element_type=jnp.int32),
        lambda: (_integers(2, 2, dtype=np.int8), _integers(2, 2, dtype=np.int8)),
        lambda a, b: a.astype(np.int32) @ b.astype(np.int32),
    ),
    "seven_dimensions": Probe(
        "a product of elements in seven dimensions, then a sum",
        "jax-ml/jax#40412",
        _INTEGERS,
        lambda a, b: (a * b).sum(3),
        lambda: (_integers(3, 1, 2, 2, 8, 8, 8), _integers(3, 1, 2, 2, 8, 8, 8)),
        lambda a, b: (a * b).sum(3),
    ),
    "eight_dimensions": Probe(
        "a product of elements in eight dimensions, then a sum",
        "jax-ml/jax#39257",
        _INTEGERS,
        lambda a, b: jnp.maximum((a[..., None, None, None, None, None] * b).sum(2), 1),
        lambda: (_integers(4, 4, 2), _integers(4, 4, 2, 8, 8, 8, 8, 8)),
        lambda a, b: np.maximum(np.einsum("abc,abc...->ab...", a, b), 1),
    ),
    # Last, because it writes outside its arrays, and the process may crash some time later.
    "product_and_windows": Probe(
        "2x2 max-pooling of y = x @ w in steps of 2, where y is 31x31 and so its last row and column are left out",
        "",
        "all operators are right. Your own max_pool or lax.reduce_window may be wrong if it leaves out elements of "
        "x @ w, of x.reshape(...) or of what top_k returned. Cut them off before: y[:, :30, :30]. jaxdml.onnx does so",
        lambda x, w: lax.reduce_window(jnp.maximum(x @ w, 0), -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"),
        lambda: (_integers(2, 31, 31, 8), _integers(8, 32)),
        _pooled,
    ),
}


def wrong(probe: Probe, **options: Any) -> int:
    """Return how many outputs of a probe differ, run in this process; options are those of ``jax.jit``."""
    arguments = probe.arguments()
    with jax.default_matmul_precision("highest"):
        got = jax.jit(probe.program, **options)(*arguments)
    return int(np.sum(np.asarray(got) != probe.expected(*arguments)))


def _in_a_process(setting: str = "") -> dict[str, int | None]:
    """Return how many outputs of each probe differ on the CPU, run in a process; None where that crashes."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} {setting}".strip()
    surroundings = os.environ | {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags}
    found: dict[str, int | None] = {}
    while left := [name for name in PROBES if name not in found]:
        command = [sys.executable, "-P", __file__, *left]  # With -m it would import the whole of jaxdml.
        try:
            output = subprocess.run(
                command,
                env=surroundings,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=_LIMIT_S,
                check=False,
            ).stdout
        except subprocess.TimeoutExpired as late:
            output = late.stdout or b""
        found.update(json.loads(line) for line in output.splitlines())
        crashed = [name for name in left if name not in found][:1]
        found.update(dict.fromkeys(crashed))
    return found


def look(platform: str) -> list[dict[str, Any]]:
    """Run all probes and return one record for each that is computed wrong.

    Args:
      platform: of the default device, as JAX names it.

    Returns:
      Records of ``computes``, ``thread`` and ``ours``; ``wrong``, how many outputs differ, None for a crash; and
      ``mended``, whether ``SETTING`` mends it, None where it does not apply.
    """
    mended: dict[str, bool] = {}
    if platform == "cpu":
        with ThreadPoolExecutor(2) as pool:
            plain, with_setting = pool.map(_in_a_process, ("", SETTING))
        mended = {name: count == 0 for name, count in with_setting.items()}
    else:
        plain = {name: wrong(probe) for name, probe in PROBES.items()}
    return [
        {
            "computes": PROBES[name].computes,
            "thread": PROBES[name].thread,
            "ours": PROBES[name].ours,
            "wrong": count,
            "mended": mended.get(name),
        }
        for name, count in plain.items()
        if count != 0
    ]


def described(findings: Iterable[Mapping[str, Any]], ours_is_right: bool) -> list[str]:
    """Return lines that say what was found, for people, and whether jaxdml's own checks passed on top of it."""
    findings = list(findings)
    if not findings:
        return [f"XLA: right in the {len(PROBES)} programs that some of its versions compute wrong."]
    lines = [
        "XLA: jaxdml is right here; stock JAX is not, in:" if ours_is_right else "XLA: stock JAX is wrong here, in:"
    ]
    for found in findings:
        how = "it crashes" if found["wrong"] is None else f"{found['wrong']} outputs differ"
        what = f"{found['computes']}: {how}. {found['thread'] or 'No report of it was found'}."
        lines += textwrap.wrap(what, 80, initial_indent="  ", subsequent_indent="  ")
        ours = f"In jaxdml {found['ours']}."
        lines += textwrap.wrap(ours, 80, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False)
    mended = sum(found["mended"] is True for found in findings)
    if mended:
        which = "all of them" if mended == len(findings) else f"{mended} of {len(findings)}"
        lines += [f"  To mend {which}, set this before Python starts:", f"  XLA_FLAGS={SETTING}"]
    return lines


def main(names: Sequence[str]) -> None:
    """Run probes, by default all, and print the name of each and how many outputs differ, as JSON."""
    for name in names or PROBES:
        print(json.dumps((name, wrong(PROBES[name]))), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
