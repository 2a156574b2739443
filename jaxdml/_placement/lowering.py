"""Choose the form of a computation when the program is lowered.

Only then are the platform and the number of devices known, and no other module asks for them. One form is traced at
once: it tells the types of the results. Another is traced when a program is lowered that needs it, so nobody waits for
those that no program needs.

A program for one device, and the block of one device in ``jax.shard_map``, may merge dimensions, pad them and branch on
data. If XLA partitions the program, each of these can make it move whole arrays between devices.
"""

import itertools
import math
from collections.abc import Callable, Hashable, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import jax
from jax import lax
from jax.extend.core import ClosedJaxpr, Primitive, jaxpr_as_fun
from jax.interpreters import batching, mlir

from jaxdml._base.shapes import is_static
from jaxdml._placement.jax_versions import FUSES_BITS_WITH_PRODUCTS
from jaxdml._placement.options import BLOCKS, INTEGERS, given

Form = Callable[..., Any]
"""A function that does one computation in one of several ways."""


class Target(NamedTuple):
    """Say what a program is lowered for. Static."""

    platform: str
    """``"cpu"``, ``"cuda"``, ``"rocm"``, ``"tpu"``, or what else JAX lowers for."""

    devices: int = 1
    """Over how many XLA partitions the program; 1 if a size is symbolic."""

    static: bool = True
    """Whether all sizes are known."""

    options: str = ""
    """The kind of the options that it is compiled with for CUDA, one of ``jaxdml._placement.options``; else empty."""

    @property
    def alone(self) -> bool:
        """Whether a form may merge dimensions, pad them and branch on data: no other device has a part of them."""
        return self.devices == 1 and self.static

    @property
    def tiled(self) -> bool:
        """Whether XLA for CUDA multiplies int8 rightly for every K."""
        return self.options == INTEGERS

    @property
    def adds(self) -> bool:
        """Whether XLA for CUDA rounds by an addition in the kernel of a product."""
        return self.tiled and FUSES_BITS_WITH_PRODUCTS

    @property
    def unpacks(self) -> bool:
        """Whether XLA for CUDA makes floats of a few bits in the kernel of a product."""
        return self.options == BLOCKS

    @property
    def is_gpu(self) -> bool:
        """Whether it is CUDA or ROCm."""
        return self.platform in ("cuda", "rocm")


class Forced(NamedTuple):
    """Hold the method that a caller forces. Static."""

    method: str

    only_on: str | None = None
    """The platform that has it, if only one has."""

    refusal: str = ""
    """The text of the error if the program is lowered for another platform."""

    def require(self, target: Target) -> None:
        """Raise ``NotImplementedError`` if only another platform has the method."""
        if self.only_on not in (None, target.platform):
            raise NotImplementedError(self.refusal)


Choice = Callable[[Target], Form]
"""Returns the form for a target: a function of a module, or ``functools.partial`` of one with hashable arguments."""


def at_lowering(choose: Choice, *operands: Any, **static: Any) -> Any:
    """Call ``choose(target)(*operands, **static)`` where the program is lowered. It cannot be differentiated.

    Forms return the same shapes and dtypes, and refer to no traced value but the operands, which are pytrees.
    """
    leaves, tree = jax.tree.flatten(operands)
    sizes_known = is_static(*itertools.chain(*(leaf.shape for leaf in leaves)))
    first, likely = _most_likely(choose, sizes_known)
    traced, shapes = jax.make_jaxpr(partial(first, **static), return_shape=True)(*operands)
    known = jaxpr_as_fun(traced)
    # One function for one form, so that JAX sees where platforms have the same.
    of_leaves: dict[Hashable, Form] = {_identity(first): known}

    def chosen(platform: str, devices: int, options: str) -> Form:
        target = Target(platform, devices if sizes_known else 1, sizes_known, options)
        if target == likely:
            return known
        form = choose(target)
        return of_leaves.setdefault(
            _identity(form),
            lambda *leaves: jax.tree.leaves(form(*jax.tree.unflatten(tree, leaves), **static)),
        )

    results = _bind(chosen, known, traced, leaves)
    return jax.tree.unflatten(jax.tree.structure(shapes), results)


def _most_likely(choose: Choice, sizes_known: bool) -> tuple[Form, Target]:
    """Return the form for the most likely target, which is one device of the platform that JAX uses here."""
    target = Target(_here(), 1, sizes_known)
    try:
        return choose(target), target
    except NotImplementedError:  # A method is forced that only CPUs have.
        target = Target("cpu", 1, sizes_known)
        return choose(target), target


def _here() -> str:
    backend = jax.default_backend()
    return "cuda" if backend == "gpu" else backend


def _identity(form: Form) -> Hashable:
    """Return what is equal for equal forms: partial functions are not equal by themselves."""
    if isinstance(form, partial):
        named = tuple((name, _identity(value)) for name, value in sorted(form.keywords.items()))
        return _identity(form.func), tuple(map(_identity, form.args)), named
    return form


Chosen = Callable[[str, int, str], Form]
"""Returns the form from leaves to leaves for a platform, a number of devices, and the kind of a program's options."""


def _bind(choose: Chosen, first: Form, traced: ClosedJaxpr, leaves: Sequence[Any]) -> list[Any]:
    """Choose between forms from leaves to leaves; ``traced`` is what became of ``first``."""
    results: list[Any] = _lowered.bind(*leaves, choose=choose, first=first, traced=traced)  # type: ignore[no-untyped-call]
    return results


_lowered = Primitive("jaxdml_at_lowering")
_lowered.multiple_results = True


@_lowered.def_impl  # type: ignore[untyped-decorator]
def _(*operands: Any, choose: Chosen, first: Form, traced: ClosedJaxpr) -> Any:
    """Evaluate a form where JAX runs operation by operation, because ``jax.jit`` is disabled."""
    del first, traced
    return choose(_here(), 1, "")(*operands)


@_lowered.def_abstract_eval  # type: ignore[untyped-decorator]
def _(*operands: Any, choose: Chosen, first: Form, traced: ClosedJaxpr) -> Any:
    del operands, choose, first
    return traced.out_avals


def _lower(
    context: mlir.LoweringRuleContext,
    *operands: Any,
    choose: Chosen,
    first: Form,
    traced: ClosedJaxpr,
) -> Any:
    del first, traced
    devices = _partitioned_devices(context.module_context.axis_context)
    platforms = context.platforms or context.module_context.platforms
    options = given(context)
    forms = {platform: choose(platform, devices, options if platform == "cuda" else "") for platform in platforms}
    form, *others = dict.fromkeys(forms.values())
    if others:  # An exported program may be for several platforms.
        return mlir.lower_fun(lambda *leaves: lax.platform_dependent(*leaves, **forms))(context, *operands)
    return mlir.lower_fun(form)(context, *operands)


mlir.register_lowering(_lowered, _lower)


def _partitioned_devices(axes: Any) -> int:
    """Return over how many devices XLA partitions what is lowered in this context."""
    mesh = getattr(axes, "mesh", None)
    if mesh is None:
        return getattr(axes, "num_devices", 1)
    return math.prod(size for name, size in mesh.shape.items() if name not in axes.manual_axes)


def _batch(
    operands: Any, axes: Any, *, choose: Chosen, first: Form, traced: ClosedJaxpr
) -> tuple[list[Any], list[int]]:
    del traced

    @cache
    def mapped(form: Form) -> Form:
        return jax.vmap(form, axes)

    traced_again = jax.make_jaxpr(mapped(first))(*operands)
    known = jaxpr_as_fun(traced_again)

    def chosen(platform: str, devices: int, options: str) -> Form:
        form = choose(platform, devices, options)
        return known if form is first else mapped(form)

    results = _bind(chosen, known, traced_again, operands)
    return results, [0] * len(results)


batching.primitive_batchers[_lowered] = _batch
