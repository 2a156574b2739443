"""Run the form of a kernel that belongs to the platform the program is lowered for.

No other module asks for the platform.
"""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import jax

from jaxdml._placement.when_lowered import Form, when_lowered


class Forced(NamedTuple):
    """Hold the method that a caller forces. Static."""

    method: str

    only_on: str | None = None
    """The platform that has it, if only one has."""

    refusal: str = ""
    """The text of the error if the program is lowered for another platform."""


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

    tpu: Form | None = None

    refusal: str = ""
    """The text of the error if the program is lowered for a platform without a form."""

    @classmethod
    def of(cls, form: Callable[[str], Form | None], refusal: str = "") -> "Kernel":
        """Return the kernel with the form that a function returns for each platform."""
        return cls(*[form(platform) for platform in PLATFORMS], refusal=refusal)  # type: ignore[misc, arg-type]

    def each(self, change: Callable[[Form], Form]) -> "Kernel":
        """Return the kernel whose forms are what a function makes of these."""
        return Kernel.of(lambda platform: (form := getattr(self, platform)) and change(form), self.refusal)

    def on(self, platform: str) -> Form | None:
        """Return the form for a field of this record; None if that platform cannot run the kernel."""
        own: Form | None = getattr(self, platform)
        return own or (self.gpu if platform == "cuda" else None) or self.default


def chain(first: Kernel, second: Kernel) -> Kernel:
    """Return the kernel that calls ``second(first(*operands), *others)``, platform by platform.

    Each platform makes both calls in one form. So what ``first`` returns may differ between platforms.
    """

    def chained(platform: str) -> Form | None:
        before, after = first.on(platform), second.on(platform)
        return before and after and (lambda operands, *others: after(before(*operands), *others))

    return Kernel.of(chained, first.refusal)


PLATFORMS = "default", "cpu", "gpu", "cuda", "tpu"
"""The fields of ``Kernel`` that hold forms."""

_FIELDS = {"cpu": "cpu", "cuda": "cuda", "gpu": "cuda", "rocm": "gpu", "tpu": "tpu"}
"""The field of ``Kernel`` for each platform that has one. "gpu" is most likely CUDA."""


def run(kernel: Kernel, *operands: Any) -> Any:
    """Call the form of the platform that the program is lowered for. It cannot be differentiated.

    If that platform has no form, lowering raises ``NotImplementedError`` with its ``refusal``. The forms refer to
    no traced value but the operands.
    """

    def choose(platform: str, devices: int) -> Form:
        del devices
        form = kernel.on(_FIELDS.get(platform, "default"))
        if form is None:
            raise NotImplementedError(kernel.refusal)
        return form

    forms = [form for form in map(kernel.__getattribute__, PLATFORMS) if form]
    if forms == [kernel.default]:
        return forms[0](*operands)
    here = kernel.on(_FIELDS.get(jax.default_backend(), "default"))
    return when_lowered(choose, here or forms[0], *operands)


def is_on_cpu(x: jax.Array) -> bool:
    """Tell whether an array is on CPUs; False for a traced one, which is on no device yet."""
    return not isinstance(x, jax.core.Tracer) and all(device.platform == "cpu" for device in x.devices())


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
