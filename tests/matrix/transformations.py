"""The transformations of JAX that tests/test_composition.py applies to every operator.

A function here takes an operator's name and a layout of its arguments, and returns a ``Cell``: the program, its inputs,
and what it must return according to NumPy.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import checkify
from jax.sharding import PartitionSpec as P

from tests.matrix import derivatives
from tests.matrix.compositions import COMPOSITIONS, layouts, operands, oracle
from tests.matrix.layouts import Layout


@dataclass(frozen=True)
class Cell:
    """One transformation of one operator."""

    program: Callable[..., Any]
    """Takes the operator and the inputs. It is traced as a part of a larger program."""
    inputs: tuple[Any, ...]
    specs: tuple[P, ...]
    """How the inputs are sharded on a mesh."""
    expected: Any
    layout: Layout
    """How the operator's arguments are sharded."""
    results: Any = None
    """How the program's results are sharded. None if only the compiler knows."""
    inside: tuple[str, ...] = ("axis_name",)
    """The placements with a ``shard_map`` around the program. The others have it around the operator."""
    judged: Callable[[Any], Any] = lambda result: result
    """Makes arrays of what the program returns."""


def jit(name: str, layout: Layout) -> Cell:
    arguments = operands(name)
    return Cell(lambda f, *x: f(*x), arguments, layout.specs, oracle(name, *arguments), layout, layout.results)


def jit_of(label):
    """Return the cell with another of the operator's layouts."""
    return lambda name, layout: jit(name, layouts(name)[label])


def implementations(name, layout):
    """Call the operator with each of its methods, on blocks in ``shard_map``, which checks what varies over axes."""
    methods, arguments = COMPOSITIONS[name].methods, operands(name, long=True)

    def program(f, *arguments):
        return {method: f(*arguments, implementation=method) for method in methods}

    expected = dict.fromkeys(methods, oracle(name, *arguments))
    results = dict.fromkeys(methods, layout.results)
    return Cell(program, arguments, layout.specs, expected, layout, results, inside=("shard_map",))


def while_loop(name, layout):
    """Call the operator once in each iteration, with the arguments of that iteration."""

    def program(f, *inputs):
        def body(state):
            i, so_far = state
            now = f(*(lax.dynamic_index_in_dim(x, i, keepdims=False) for x in inputs))
            return i + 1, tuple((later, one) for (_, later), one in zip(so_far, now, strict=True))

        begin = tuple((jnp.zeros_like(x), jnp.zeros_like(x)) for x in f(*(x[0] for x in inputs)))
        return tuple(map(jnp.stack, lax.while_loop(lambda state: state[0] < 2, body, (0, begin))[1]))

    return replace(scan(name, layout), program=program)


def cond(name, layout):
    """Take the branch with the operator, and then the branch without it, in the two iterations of a ``scan``."""

    def program(f, flags, *inputs):
        def chosen(flag, one):
            def zeros(*x):
                # As sharded as what f returns: jnp.zeros_like is not, in every version of JAX.
                always = jax.tree.map(lambda result: (result == result) | (result != result), f(*x))  # noqa: PLR0124
                return jax.tree.map(lambda true, x: jnp.where(true, jnp.zeros_like(x), x), always, f(*x))

            return lax.cond(flag, f, zeros, *one)

        return lax.scan(lambda carry, flag_and_one: (carry, chosen(*flag_and_one)), 0, (flags, inputs))[1]

    cell = scan(name, layout)
    return replace(
        cell,
        program=program,
        inputs=(np.array([True, False]), *cell.inputs),
        specs=(P(), *cell.specs),
        expected=tuple(np.stack([x[0], np.zeros_like(x[1])]) for x in cell.expected),
    )


# Mapping.


def _inserted(spec, axis, rank, mesh_axis=None):
    """Return how an array of this rank is sharded after it was given one more axis."""
    entries = [*spec, *[None] * (rank - len(spec))]
    entries.insert(axis, mesh_axis)
    return P(*entries)


def _loop(name, inputs, in_axes, out_axes, size):
    """Call the oracle in a loop, which is what mapping means."""
    calls = [
        oracle(name, *(x if axis is None else np.take(x, i, axis) for x, axis in zip(inputs, in_axes, strict=True)))
        for i in range(size)
    ]
    return tuple(np.stack(results, axis) for *results, axis in zip(*calls, out_axes, strict=True))


def _mapped(name, layout, in_axes, out_axis=lambda rank: 0, spmd_axis_name=None, size=2):
    """Map each argument along its axis; ``out_axis`` says for a result of some rank where its new axis is."""
    drawn = [operands(name, seed) for seed in range(size)]
    arguments = list(zip(*drawn, in_axes, layout.specs, strict=True))
    inputs = tuple(one if axis is None else np.stack([one, *more], axis) for one, *more, axis, _ in arguments)
    specs = (
        spec if axis is None else _inserted(spec, axis, np.ndim(one), spmd_axis_name)
        for one, *_, axis, spec in arguments
    )
    results = oracle(name, *drawn[0])
    out_axes = tuple(out_axis(x.ndim) for x in results)

    def program(f, *inputs):
        return jax.vmap(f, in_axes, out_axes, spmd_axis_name=spmd_axis_name)(*inputs)

    return Cell(
        program,
        inputs,
        tuple(specs),
        _loop(name, inputs, in_axes, out_axes, size),
        layout,
        tuple(
            _inserted(s, a, x.ndim, spmd_axis_name) for s, a, x in zip(layout.results, out_axes, results, strict=True)
        ),
    )


def vmap_of(places):
    """Map these arguments alone."""
    return lambda name, layout: _mapped(
        name, layout, tuple(0 if i in places else None for i in range(len(layout.specs)))
    )


def _ranks(name):
    return [np.ndim(x) for x in operands(name)]


def vmap_middle(name, layout):
    return _mapped(name, layout, tuple(min(1, rank) for rank in _ranks(name)), lambda rank: min(1, rank))


def vmap_several(name, layout):
    axes = tuple((rank - i) % (rank + 1) for i, rank in enumerate(_ranks(name)))
    return _mapped(name, layout, axes, lambda rank: rank)


def vmap_spmd_axis_name(name, layout):
    cell = _mapped(name, layout.without("x"), (0,) * len(layout.specs), spmd_axis_name="x")
    return replace(cell, inside=())


def vmap_nested(name, layout):
    """Map all arguments at their first axis, with a mesh axis; and once more at their last."""
    inner = _mapped(name, layout.without("x"), (0,) * len(layout.specs), spmd_axis_name="x")
    inputs = tuple(np.stack([x, x[::-1]], -1) for x in inner.inputs)
    outer = tuple(x.ndim - 1 for x in inputs)

    def program(f, *inputs):
        return jax.vmap(lambda *one: inner.program(f, *one), outer)(*inputs)

    expected = tuple(np.stack([x, x[::-1]]) for x in inner.expected)
    results = tuple(P(None, *spec) for spec in inner.results)
    return replace(inner, program=program, inputs=inputs, expected=expected, results=results, inside=())


def scan(name, layout):
    cell = _mapped(name, layout, (0,) * len(layout.specs))
    return replace(cell, program=lambda f, *inputs: lax.scan(lambda carry, one: (carry, f(*one)), 0, inputs)[1])


def lax_map(name, layout):
    cell = _mapped(name, layout, (0,) * len(layout.specs), size=4)
    return replace(cell, program=lambda f, *inputs: lax.map(lambda one: f(*one), inputs, batch_size=2))


# Derivatives.


def _in_floats(name, f, arguments):
    """Return the function of the arguments that are differentiable, and those arguments."""
    places = COMPOSITIONS[name].differentiable

    def of_floats(*floats):
        given = list(arguments)
        for place, x in zip(places, floats, strict=True):
            given[place] = x
        return f(*given)

    return of_floats, tuple(arguments[place] for place in places)


def _without_float0(tree):
    return jax.tree.map(lambda x: None if x.dtype == jax.dtypes.float0 else x, tree)


def _is_float(x):
    return x.dtype.kind == "f"


def _with_tangents(name, layout, transformed):
    """Give ``transformed`` the function, the floats and their tangents; it returns values and their tangents."""
    arguments, places = operands(name, tame=True), COMPOSITIONS[name].differentiable
    tangents = tuple(derivatives.numbers(arguments[place].shape, place) for place in places)

    def program(f, *inputs):
        of_floats, floats = _in_floats(name, f, inputs[: len(arguments)])
        return _without_float0(transformed(of_floats, floats, inputs[len(arguments) :]))

    values = oracle(name, *arguments)
    others = tuple(np.zeros_like(x) if _is_float(x) else None for x in values[1:])
    specs = (*layout.specs, *(layout.specs[place] for place in places))
    tangent = derivatives.tangent(name, arguments, tangents)
    expected = (tangent, *others)
    results = tuple(None if x is None else spec for x, spec in zip(expected, layout.results, strict=True))
    return Cell(program, (*arguments, *tangents), specs, (values, expected), layout, (layout.results, results))


def jvp(name, layout):
    return _with_tangents(name, layout, jax.jvp)


def linearize(name, layout):
    def transformed(function, floats, tangents):
        values, linear = jax.linearize(function, *floats)
        return values, linear(*tangents)

    return _with_tangents(name, layout, transformed)


def _with_cotangent(name, layout, prepared):
    arguments, places = operands(name, tame=True), COMPOSITIONS[name].differentiable
    values = oracle(name, *arguments)
    cotangent = derivatives.numbers(values[0].shape, 5)

    def program(f, cotangent, *arguments):
        of_floats, floats = _in_floats(name, f, arguments)
        results, back = jax.vjp(prepared(of_floats), *floats)
        zeros = [jnp.zeros_like(x) if _is_float(x) else np.zeros(x.shape, jax.dtypes.float0) for x in results]
        return results, back((cotangent if _is_float(results[0]) else zeros[0], *zeros[1:]))

    gradients = derivatives.pulled_back(name, arguments, cotangent)
    specs = (layout.results[0], *layout.specs)
    results = (layout.results, tuple(layout.specs[place] for place in places))
    return Cell(program, (cotangent, *arguments), specs, (values, gradients), layout, results)


def vjp(name, layout):
    return _with_cotangent(name, layout, lambda function: function)


def checkpoint(name, layout):
    return _with_cotangent(name, layout, jax.checkpoint)


def _of_first(name, layout, transformed, expected):
    """Give ``transformed`` the first result as a function of the floats."""
    arguments = operands(name, tame=True)

    def program(f, *arguments):
        of_floats, floats = _in_floats(name, f, arguments)
        every = tuple(range(len(floats)))
        return transformed(lambda *floats: of_floats(*floats)[0].astype(jnp.float32), every)(*floats)

    return Cell(program, arguments, layout.specs, expected(name, arguments), layout, inside=())


def jacfwd(name, layout):
    return _of_first(name, layout, jax.jacfwd, derivatives.jacobian)


def _with_any_zeros(cell):
    """Compare zeros without their signs: no one says which zero a sum of zeros is."""
    positive = partial(jax.tree.map, lambda x: np.asarray(x) + 0)
    return replace(cell, expected=positive(cell.expected), judged=positive)


def jacrev(name, layout):
    return _with_any_zeros(_of_first(name, layout, jax.jacrev, derivatives.jacobian))


def hessian(name, layout):
    def of_cubes(function, every):
        return jax.hessian(lambda *floats: (function(*floats) ** 3).sum(), every)

    return _with_any_zeros(_of_first(name, layout, of_cubes, derivatives.hessian_of_cubes))


# Checks.

NOTHING = "nothing is reported"


def _checked(cell, errors, report, function=lambda f: f, where=all):
    """Expect the result, and on all devices, or any, this report alone; of several reports the first is seen."""

    def program(f, *inputs):
        error, results = checkify.checkify(function(f), errors=errors)(*inputs)
        return jax.tree.map(lambda x: x[None], error), results

    def judged(result):
        errors, results = jax.tree.map(np.asarray, result)
        devices = {len(leaf) for leaf in jax.tree.leaves(errors)} or {1}  # No leaf, if nothing was to be checked.
        each = (jax.tree.map(lambda x, device=device: x[device], errors) for device in range(*devices))
        reports = [error.get() or NOTHING for error in each]
        assert where(report in one for one in reports)
        assert all(report in one or one == NOTHING for one in reports)
        return results

    results = (P(("x", "y")), cell.results)
    return replace(cell, program=program, judged=judged, results=results, inside=("axis_name", "shard_map"))


def _user_check(name, layout, errors):
    def function(f):
        def checking(flag, *arguments):
            results = f(*arguments)
            checkify.check(flag, "the flag is down")
            return results

        return checking

    cell = _tame(name, layout)
    cell = replace(cell, inputs=(np.False_, *cell.inputs), specs=(P(), *cell.specs))
    return _checked(cell, errors, "the flag is down", function)


def _tame(name, layout):
    arguments = operands(name, tame=True)
    return replace(jit(name, layout), inputs=arguments, expected=oracle(name, *arguments))


def checkify_user(name, layout):
    return _user_check(name, layout, checkify.user_checks)


def checkify_all(name, layout):
    """Report what the caller checks after the operator, so nothing of the operator."""
    return _user_check(name, layout, checkify.all_checks)


def checkify_index(name, layout):
    """Report an index that is out of range, and nothing of an operator without indices."""
    report = "out-of-bounds indexing" if COMPOSITIONS[name].has_indices else NOTHING
    # Where indices are sharded, a device may have none that is out of range.
    return _checked(jit(name, layout), checkify.index_checks, report, where=any)


def checkify_float(name, layout):
    return _checked(_tame(name, layout), checkify.float_checks, NOTHING)


DERIVATIVES = (jvp, linearize, vjp, checkpoint, jacfwd, jacrev, hessian)


def transformations_of(name: str, placement: str, labels: Iterable[str]) -> dict[str, Callable[[str, Layout], Cell]]:
    """Return, by name, what is compiled as one program; ``labels`` name the operator's layouts, the main one first.

    What would repeat another cell is left out, and what would compare nothing: derivatives by no argument, and methods
    of an operator that has none to choose from.
    """
    on_mesh, composition = placement != "one", COMPOSITIONS[name]
    every = [jit, while_loop, cond, lax_map, vmap_nested, checkpoint, jacfwd, jacrev, hessian]
    if on_mesh and not composition.has_derivative:
        # vmap_nested has a mesh axis, and other axes; checkpoint has a vjp. Without a derivative, jvp does no more.
        # JAX cannot read a report for each device and one for all of them together.
        every += [checkify_user, checkify_float] if placement == "explicit" else [checkify_all]
    else:
        every += [vmap_spmd_axis_name, vmap_middle, vmap_several, jvp, linearize, vjp]
        every += [checkify_user, checkify_index, checkify_float]
    every += [] if on_mesh else [scan]  # On meshes, cond scans.
    every += [implementations] if placement == "shard_map" and composition.methods else []
    if not composition.differentiable:
        every = [function for function in every if function not in DERIVATIVES]
    mapped = {f"vmap_{group}": vmap_of(places) for group, places in composition.mapped(on_mesh).items()}
    other_layouts = {f"jit_{label}": jit_of(label) for label in list(labels)[1:]}
    return {**{function.__name__: function for function in every}, **mapped, **other_layouts}
