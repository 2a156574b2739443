"""Choose between forms of a computation when the program is lowered.

Only then are the platform and the number of devices known. One form is traced at once: it tells the types of the
results. Another is traced when a program is lowered that needs it, so nobody waits for those that no program needs.
"""

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import jax
from jax import lax
from jax.extend.core import ClosedJaxpr, Primitive, jaxpr_as_fun
from jax.interpreters import batching, mlir

Form = Callable[..., Any]
"""A function that does one computation in one of several ways."""

Choice = Callable[[str, int], Form]
"""Returns the form for a platform, and for so many devices that XLA partitions over.

A platform has the name that JAX lowers for, or "gpu", which JAX says of the devices it has."""


def when_lowered(choose: Choice, first: Form, *operands: Any) -> Any:
    """Call what ``choose`` returns where the program is lowered. It cannot be differentiated.

    Args:
      choose: returns the form. Forms return the same shapes and dtypes, and refer to no traced value but the operands.
      first: the form that is most likely chosen.
      operands: what the forms take.
    """
    leaves, tree = jax.tree.flatten(operands)
    traced, shapes = jax.make_jaxpr(first, return_shape=True)(*operands)

    @cache
    def flat(form: Form) -> Form:
        return lambda *leaves: jax.tree.leaves(form(*jax.tree.unflatten(tree, leaves)))

    results = _bind(lambda *where: flat(choose(*where)), flat(first), traced, leaves)
    return jax.tree.unflatten(jax.tree.structure(shapes), results)


def _bind(choose: Choice, first: Form, traced: ClosedJaxpr, leaves: Sequence[Any]) -> list[Any]:
    """Choose between forms from leaves to leaves; ``traced`` is what became of ``first``."""
    known = jaxpr_as_fun(traced)

    def chosen(platform: str, devices: int) -> Form:
        form = choose(platform, devices)
        return known if form is first else form

    results: list[Any] = _when_lowered.bind(*leaves, choose=chosen, first=known, traced=traced)  # type: ignore[no-untyped-call]
    return results


_when_lowered = Primitive("jaxdml_when_lowered")
_when_lowered.multiple_results = True


@_when_lowered.def_impl  # type: ignore[untyped-decorator]
def _(*operands: Any, choose: Choice, first: Form, traced: ClosedJaxpr) -> Any:
    """Evaluate a form where JAX runs operation by operation, because ``jax.jit`` is disabled."""
    del first, traced
    return choose(jax.default_backend(), 1)(*operands)


@_when_lowered.def_abstract_eval  # type: ignore[untyped-decorator]
def _(*operands: Any, choose: Choice, first: Form, traced: ClosedJaxpr) -> Any:
    del operands, choose, first
    return traced.out_avals


def _lower(context: mlir.LoweringRuleContext, *operands: Any, choose: Choice, first: Form, traced: ClosedJaxpr) -> Any:
    del first, traced
    devices = _partitioned_devices(context.module_context.axis_context)
    platforms = context.platforms or context.module_context.platforms
    forms = {platform: choose(platform, devices) for platform in platforms}
    form, *others = dict.fromkeys(forms.values())
    if others:  # An exported program may be for several platforms.
        return mlir.lower_fun(lambda *leaves: lax.platform_dependent(*leaves, **forms))(context, *operands)
    return mlir.lower_fun(form)(context, *operands)


mlir.register_lowering(_when_lowered, _lower)


def _partitioned_devices(axes: Any) -> int:
    """Return over how many devices XLA partitions what is lowered in this context."""
    mesh = getattr(axes, "mesh", None)
    if mesh is None:
        return getattr(axes, "num_devices", 1)
    return math.prod(size for name, size in mesh.shape.items() if name not in axes.manual_axes)


def _batch(operands: Any, axes: Any, *, choose: Choice, first: Form, traced: ClosedJaxpr) -> Any:
    del traced

    @cache
    def mapped(form: Form) -> Form:
        return jax.vmap(form, axes)

    traced_again = jax.make_jaxpr(mapped(first))(*operands)
    results = _bind(lambda *where: mapped(choose(*where)), mapped(first), traced_again, operands)
    return results, [0] * len(results)


batching.primitive_batchers[_when_lowered] = _batch
