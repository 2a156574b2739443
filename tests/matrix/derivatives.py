"""Derivatives of the first result of a call, in NumPy: what an operator does to numbers, it does to their tangents."""

import numpy as np

from tests.matrix.compositions import COMPOSITIONS, oracle


def numbers(shape, seed):
    """Return tangents or cotangents that are small and not 0, so that float32 adds them up exactly."""
    return np.random.default_rng(seed).integers(1, 9, shape).astype(np.float32)


def tangent(name, at, tangents):
    """Return the tangent of the first result, or None if that holds integers."""
    composition = COMPOSITIONS[name]
    if not composition.has_derivative:
        return None
    placed = list(at)
    for place, one in zip(composition.differentiable, tangents, strict=True):
        placed[place] = one
    return composition.derivative(placed, at) if composition.derivative else oracle(name, *placed)[0]


def jacobian(name, at):
    """Return the derivative by each float argument: axes of the result, then axes of the argument."""
    places = COMPOSITIONS[name].differentiable
    shape = oracle(name, *at)[0].shape
    zeros = [np.zeros(at[place].shape, np.float32) for place in places]
    jacobians = []
    for i, zero in enumerate(zeros):
        columns = np.zeros((zero.size, *shape), np.float32)
        if COMPOSITIONS[name].has_derivative:
            for column, one in zip(columns, np.eye(zero.size, dtype=np.float32), strict=True):
                column[...] = tangent(name, at, [*zeros[:i], one.reshape(zero.shape), *zeros[i + 1 :]])
        jacobians.append(np.moveaxis(columns, 0, -1).reshape(*shape, *zero.shape))
    return tuple(jacobians)


def pulled_back(name, at, cotangent):
    """Return the cotangent of each float argument."""
    return tuple(np.tensordot(cotangent, part, cotangent.ndim) for part in jacobian(name, at))


def hessian_of_cubes(name, at):
    """Return the second derivatives of the sum of the cubes of the first result by each two of the float arguments."""
    value, parts = oracle(name, *at)[0].astype(np.float32), jacobian(name, at)
    weighted = [6 * value.reshape(value.shape + (1,) * (part.ndim - value.ndim)) * part for part in parts]
    every = list(range(value.ndim))
    hessian = tuple(tuple(np.tensordot(one, other, (every, every)) for other in parts) for one in weighted)
    if COMPOSITIONS[name].bilinear:
        for (i, j), change in _changes(name, at, 3 * value**2):
            hessian[i][j][...] += change
    return hessian


def _changes(name, at, cotangent):
    """Yield, by two float arguments, how the cotangent of one changes if an element of the other becomes 1 more."""
    before = pulled_back(name, at, cotangent)
    for j, place in enumerate(COMPOSITIONS[name].differentiable):
        changed = [[] for _ in before]
        for index in np.ndindex(at[place].shape):
            more = [x.copy() for x in at]
            more[place][index] += 1
            for changes, new, old in zip(changed, pulled_back(name, more, cotangent), before, strict=True):
                changes.append(new - old)
        for i, changes in enumerate(changed):
            yield (i, j), np.stack(changes, -1).reshape(*changes[0].shape, *at[place].shape)
