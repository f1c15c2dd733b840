"""From a point z of the closed upper half plane to the parameters of a law.

For z in the upper half plane the parameters are analytic functions of z (subordination), with
no critical point on the way. So the solver starts far above the axis, where they are known to
first order, and descends by Newton's method. The result can be verified: the parameters are the
only solution for which z lies in the upper half plane at every stage.
"""

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Complexes, Floats
from attnlaw.laws._engine.expression import Addition, Expression, PointMasses
from attnlaw.laws._engine.moments import moments
from attnlaw.laws._engine.uniformisation import Array, evaluate

Flags = NDArray[np.bool_]

_ACCEPT = 0.5  # contraction of Newton's method that is trusted
_AIM = 0.2  # contraction that the next step aims for
_ON_THE_WAY, _ROUNDING = 1e-4, 1e-8  # Newton steps that end the search
_CLOSEST = 1e-6  # share of a parameter below which its distance from an atom is rounded
_STUCK = (
    "the law could not be followed from the upper half plane to z = {}: Newton's method stopped "
    "at height {:.3g}. Atoms that nearly coincide or weights of very different size may be the "
    "cause; join or drop them."
)
_TINY = 1e-30  # infinitesimal imaginary part, by which a real point is on the upper side


def follow(law: Expression, target: Complexes) -> Complexes:
    """Return the parameters (leaves × points) at the points of a flat array, Im z ≥ 0."""
    if isinstance(law.base, PointMasses) and not law.stages:
        return np.where(target.imag == 0, target + 1j * _TINY * (law.bound or 1.0), target)[None]
    scale = law.bound or 1.0
    height = 2 * (scale + np.abs(target - moments(law, 1)[1]))
    u = _start(law, target + 1j * height)
    for _ in range(6):
        u = u - newton_step(law, u, target + 1j * height)[0]
    result = np.empty_like(u)
    todo = np.arange(target.size)
    move = 0.7 * height
    floor = 1e-17 * np.where(target == 0, scale, np.abs(target))
    while todo.size:
        lower = np.where(height - move < 0.03 * height, 0.0, height - move)
        tolerance = np.where(lower == 0, _ROUNDING, _ON_THE_WAY)
        trial, contraction, landed = _descend(law, u, target[todo] + 1j * lower, tolerance)
        u = np.where(landed, trial, u)
        height = np.where(landed, lower, height)
        growth = np.clip(_AIM / np.maximum(contraction, 1e-3), 0.2, 50.0)
        move = np.minimum(move * np.where(landed, growth, np.minimum(growth, 0.5)), height)
        # At an edge itself no step to the axis is short enough: stop at rounding error.
        done = np.minimum(height, move) <= floor[todo]
        if done.any():
            stuck = done & (height > 1e-6 * scale)
            if stuck.any():
                raise ArithmeticError(_STUCK.format(target[todo[stuck]][0], height[stuck][0]))
            result[:, todo[done]] = u[:, done]
            keep = ~done
            todo, u, height, move = todo[keep], u[:, keep], height[keep], move[keep]
    return _on_the_upper_side(law, result, target)


def _descend(
    law: Expression, u: Complexes, z: Complexes, tolerance: Floats
) -> tuple[Complexes, Floats, Flags]:
    """Newton's method towards z, abandoned where its first steps do not contract.

    Returns the parameters, the contraction and whether they can be trusted.
    """
    first, _ = newton_step(law, u, z)
    second, _ = newton_step(law, u - first, z)
    u = u - first - second
    with np.errstate(all="ignore"):
        contraction = np.divide(*(relative(law, step, u) for step in (second, first)))
        exact = relative(law, first, u) <= 1e-13
    contraction = np.where(exact, 0.0, np.where(np.isfinite(contraction), contraction, np.inf))
    landed = contraction <= _ACCEPT
    more = np.flatnonzero(landed)
    if more.size:
        u[:, more], landed[more] = settle(law, u[:, more], z[more], tolerance[more])
    return u, contraction, landed


def settle(
    law: Expression, u: Complexes, z: Complexes, tolerance: Floats | float = _ROUNDING
) -> tuple[Complexes, Flags]:
    """Newton's method until a step is below tolerance; false where it fails or strays.

    Below a tolerance of 1e-8 the next step would be rounding error.
    """
    size = np.full(z.shape, np.inf)
    good = np.ones(z.shape, dtype=bool)
    for _ in range(8):
        step, physical = newton_step(law, u, z)
        u = u - step
        new = relative(law, step, u)
        close = new <= tolerance
        good &= close | (new <= _ACCEPT * size)
        if (close | ~good).all():
            break
        size = new
    good &= close
    real = good & (relative(law, u.imag, u) <= 1e-9)
    if real.any():  # moved up along the curve by next to nothing, they show their branch
        v = u[:, real]
        direction = tangent(law, v)
        with np.errstate(all="ignore"):
            v = v + 1e-9j * direction / relative(law, direction, v)
        physical[real] = newton_step(law, v, z[real])[1]
    return u, good & physical


def relative(law: Expression, step: Array, u: Array) -> Floats:
    """Size of a step relative to the parameters, the largest over the leaves.

    In a pair the parameter of one law stays next to an atom of it if the other law is small. Then
    its distance from that atom counts, down to what rounding leaves of it.
    """
    size = np.abs(u)
    if law.n_leaves > 1:
        for leaf, t in zip(range(len(u)), _locations(law), strict=True):
            right = np.searchsorted(t, u[leaf].real).clip(1, max(len(t) - 1, 1))
            beside = [np.abs(u[leaf] - t[k.clip(0, len(t) - 1)]) for k in (right - 1, right)]
            size[leaf] = np.clip(np.minimum(*beside), _CLOSEST * size[leaf], size[leaf])
    with np.errstate(all="ignore"):
        return np.asarray(np.abs(step / size).max(axis=0))


def _locations(law: Expression) -> list[Floats]:
    """Return the atoms of each leaf."""
    if isinstance(law.base, PointMasses):
        return [law.base.locations]
    return _locations(law.base.left) + _locations(law.base.right)


def newton_step(law: Expression, u: Array, z: Array) -> tuple[Array, Flags]:
    """Return Newton's step for z(u) = z and all constraints = 0, and whether u is physical.

    It is when z lies in the upper half plane at every stage. By the uniqueness of
    subordination functions this tells the law's own branch from all other solutions.
    """
    heights: list[Array] = []
    with np.errstate(all="ignore"):
        point, constraints = evaluate(law, u, heights)
        physical: Flags = point.g.imag < 0
        for height in heights:
            physical &= height.imag > 0
        if not constraints:
            return (point.z - z) / point.dz, physical
        values = np.stack([point.z - z, *(c[0] for c in constraints)])
        slopes = np.stack([point.dz, *(c[1] for c in constraints)])
        return _solve(slopes, values), physical


def tangent(law: Expression, u: Array) -> Array:
    """Return du/dz along the law's curve (leaves × points)."""
    with np.errstate(all="ignore"):
        point, constraints = evaluate(law, u)
        slopes = np.stack([point.dz, *(c[1] for c in constraints)])
        values = np.zeros_like(u)
        values[0] = 1.0
        return _solve(slopes, values) if constraints else 1 / point.dz


def _solve(slopes: Array, values: Array) -> Array:
    """Solve slopes · step = values for every point (equations × leaves × points)."""
    if len(values) == 2:
        (a, b), (c, d) = slopes
        p, q = values
        return np.asarray(np.stack([d * p - b * q, a * q - c * p]) / (a * d - b * c))
    matrix = np.moveaxis(slopes, -1, 0).copy()
    bad = ~np.isfinite(matrix).all(axis=(1, 2))
    matrix[bad] = np.eye(len(values))
    step: Array = np.linalg.solve(matrix, values.T[..., None])[..., 0].T
    step[:, bad] = np.nan
    return step


def _on_the_upper_side(law: Expression, u: Complexes, target: Complexes) -> Complexes:
    """Give parameters of real points outside the support an infinitesimal imaginary part."""
    real = (target.imag == 0) & (relative(law, u.imag, u) <= 1e-9)
    if real.any():
        v: Array = u[:, real].real
        for _ in range(2):
            step, _ = newton_step(law, v, target.real[real])
            v = v - np.where(np.abs(step) < 1e-6 * np.abs(v), step, 0)
        u[:, real] = v + 1j * _TINY * tangent(law, v)
    return u


def _start(law: Expression, z: Complexes) -> Complexes:
    """Parameters for large z, to first order."""
    for k in range(len(law.stages), 0, -1):
        stage, before = law.stages[k - 1], Expression(law.base, law.stages[: k - 1])
        if isinstance(stage, Addition):
            z = z - stage.shift - sum(s for s, _ in stage.parts)
        else:
            z = z - sum(stage.ratios) * moments(before, 1)[1]
    if isinstance(law.base, PointMasses):
        return z[None]
    left, right = law.base.left, law.base.right
    m, n = moments(left, 2), moments(right, 2)
    if law.base.kind == "additive":
        return np.concatenate([_start(left, z - n[1]), _start(right, z - m[1])])
    a = z / n[1]
    y = m[1] / a + m[2] / a**2
    return np.concatenate([_start(left, a), _start(right, n[1] / y)])
