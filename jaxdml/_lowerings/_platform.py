"""Run the form of a kernel that belongs to the platform the program is lowered for.

No other module asks for the platform, and this one asks at lowering.
"""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import mlir

Form = Callable[..., Any]
"""A function that does the work of a kernel on one platform, or on several."""


class Kernel(NamedTuple):
    """Hold one computation as a function for each platform.

    All forms take the same arguments. The forms of a kernel given to ``run`` return the same shapes and dtypes.
    """

    default: Form | None = None
    """For every platform without a form of its own; None if other platforms cannot run the kernel."""

    cpu: Form | None = None
    gpu: Form | None = None
    """For CUDA and ROCm."""

    cuda: Form | None = None
    """For CUDA, in place of ``gpu``."""

    def on(self, platform: str) -> Form | None:
        """Return the form for a field of this record; None if that platform cannot run the kernel."""
        own: Form | None = getattr(self, platform)
        return own or (self.gpu if platform == "cuda" else None) or self.default


def chain(first: Kernel, second: Kernel) -> Kernel:
    """Return the kernel that calls ``second(first(*operands), *others)``, platform by platform.

    Each platform makes both calls in one branch. So what ``first`` returns may differ between platforms.
    """

    def chained(platform: str) -> Form | None:
        before, after = first.on(platform), second.on(platform)
        return before and after and (lambda operands, *others: after(before(*operands), *others))

    return Kernel(*map(chained, Kernel._fields))


def run(kernel: Kernel, *operands: Any, refusal: str = "") -> Any:
    """Call the form of the platform that the program is lowered for.

    If that platform has no form, lowering raises ``NotImplementedError`` with the text ``refusal``.
    """
    by_name = {"cpu": kernel.cpu, "cuda": kernel.cuda or kernel.gpu, "rocm": kernel.gpu}
    forms = {platform: form for platform, form in by_name.items() if form}
    if kernel.default and not forms:
        return kernel.default(*operands)
    default = kernel.default or _refusing(refusal, next(iter(forms.values())))
    return lax.platform_dependent(*operands, default=default, **forms)


def _refusing(text: str, form: Form) -> Form:
    """Return a form with the result shapes and dtypes of ``form``, whose lowering raises ``NotImplementedError``."""

    def refuse(*operands: Any) -> Any:
        nothing = _refusal.bind(text=text)  # type: ignore[no-untyped-call]
        for operand in jax.tree.leaves(operands):
            # Inside ``jax.shard_map`` the results vary over the mesh axes that the operands vary over.
            nothing += jnp.zeros_like(operand, shape=(), dtype=nothing.dtype)
        return jax.tree.map(
            lambda result: jnp.broadcast_to(nothing.astype(result.dtype), result.shape),
            jax.eval_shape(form, *operands),
        )

    return refuse


_refusal = Primitive("jaxdml_refusal")
"""An int32 that no platform can compute: its lowering raises ``NotImplementedError``."""


@_refusal.def_abstract_eval  # type: ignore[untyped-decorator]
def _(*, text: str) -> jax.core.ShapedArray:
    del text
    return jax.core.ShapedArray((), jnp.dtype(jnp.int32))


def _refuse(*_: Any, text: str) -> NoReturn:
    raise NotImplementedError(text)


_refusal.def_impl(_refuse)  # type: ignore[no-untyped-call]
mlir.register_lowering(_refusal, _refuse)


@cache
def cpu_features() -> frozenset[str]:
    """Return the features of this CPU by the names that Linux has for them; nothing on other systems.

    XLA compiles for the CPU that it runs on, but does not tell which features that CPU has.
    """
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return frozenset()
    listed = (line.partition(":")[2].split() for line in lines if line.startswith(("flags", "Features")))
    return frozenset(next(listed, ()))
