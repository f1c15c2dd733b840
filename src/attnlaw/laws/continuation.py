"""From a point z of the closed upper half plane to the parameters of a law.

For z in the upper half plane the parameters are analytic functions of z (subordination), with
no critical point on the way. So start far above the axis, where they are known to first order,
and come down by Newton's method, with steps short enough for it to contract quadratically.
"""

import numpy as np
from numpy.typing import NDArray

from attnlaw.laws.expression import Addition, Expression, PointMasses
from attnlaw.laws.moments import moments
from attnlaw.laws.uniformisation import Array, Complexes, evaluate

_ACCEPT = 0.25  # contraction of a Newton step that is accepted
_AIM = 0.12  # contraction that the next step aims for
_TINY = 1e-30  # infinitesimal imaginary part that tells a real point which side it is on


def parameters(law: Expression, z: Complexes) -> Complexes:
    """Return the parameters (leaves × points) at the points z, Im z ≥ 0, of a flat array."""
    if not isinstance(law.base, PointMasses) or law.stages:
        return _follow(law, z)
    return np.where(z.imag == 0, z + 1j * _TINY * max(law.bound, _TINY), z)[None]


def _follow(law: Expression, target: Complexes) -> Complexes:
    scale = max(law.bound, 1e-300)
    height = 2 * (scale + np.abs(target - moments(law, 1)[1]))
    u = _start(law, target + 1j * height)
    for _ in range(8):
        step, _ = _newton(law, u, target + 1j * height)
        u = u - step
    result = np.empty_like(u)
    todo = np.arange(target.size)
    move = 0.6 * height
    floor = 1e-17 * (scale + np.abs(target))
    while todo.size:
        lower = height - move
        lower = np.where(lower < 0.02 * move, 0.0, lower)
        point = target[todo] + 1j * lower
        trial, contraction, landed = _correct(law, u, point)
        accepted = landed & (contraction <= _ACCEPT)
        u = np.where(accepted, trial, u)
        height = np.where(accepted, lower, height)
        growth = np.clip(_AIM / np.maximum(contraction, 1e-3), 0.2, 50.0)
        move = np.minimum(move * np.where(accepted, growth, np.minimum(growth, 0.5)), height)
        # At an edge itself no step to the axis is short enough: stop at rounding error.
        done = (height == 0) | (np.minimum(height, move) <= floor[todo])
        if done.any():
            result[:, todo[done]] = u[:, done]
            keep = ~done
            todo, u, height, move = todo[keep], u[:, keep], height[keep], move[keep]
    return _on_the_upper_side(law, result, target)


def _correct(
    law: Expression, u: Complexes, z: Complexes
) -> tuple[Complexes, NDArray[np.float64], NDArray[np.bool_]]:
    """Newton's method towards z; returns also its worst contraction and whether it converged.

    A step that converges to the complex conjugate of the law's branch (Im G > 0) has not landed.
    """
    step, _ = _newton(law, u, z)
    u = u - step
    size = np.abs(step).max(axis=0)
    worst = np.zeros(size.shape)
    for _ in range(7):
        step, g = _newton(law, u, z)
        u = u - step
        new = np.abs(step).max(axis=0)
        settled = (np.abs(step) <= 1e-11 * np.abs(u)).all(axis=0)
        ratio = np.where(settled, 0.0, new / np.maximum(size, 1e-300))
        worst = np.maximum(worst, np.where(np.isfinite(ratio), ratio, np.inf))
        size = new
        if (settled | (worst > _ACCEPT)).all():
            break
    settled &= g.imag <= 1e-9 * np.abs(g)
    return u, worst, settled


def _newton(law: Expression, u: Array, z: Complexes) -> tuple[Complexes, Complexes]:
    """Return Newton's step for z(u) = z and all constraints = 0, and G at u."""
    with np.errstate(all="ignore"):
        point, constraints = evaluate(law, u)
        if not constraints:
            return (point.z - z) / point.dz, point.g
        values = np.stack([point.z - z, *(c[0] for c in constraints)])
        slopes = np.stack([point.dz, *(c[1] for c in constraints)])
        return solve(slopes, values), point.g


def solve(slopes: Array, values: Array) -> Array:
    """Solve slopes · step = values for every point (equations × leaves × points)."""
    if len(values) == 2:
        (a, b), (c, d) = slopes
        p, q = values
        return np.asarray(np.stack([d * p - b * q, a * q - c * p]) / (a * d - b * c))
    matrix = np.moveaxis(slopes, -1, 0)
    bad = ~np.isfinite(matrix).all(axis=(1, 2))
    matrix[bad] = np.eye(len(values))
    step: Array = np.linalg.solve(matrix, values.T[..., None])[..., 0].T
    step[:, bad] = np.nan
    return step


def _on_the_upper_side(law: Expression, u: Complexes, target: Complexes) -> Complexes:
    """Give parameters of real points outside the support an infinitesimal imaginary part."""
    real = (target.imag == 0) & (np.abs(u.imag) <= 1e-9 * np.abs(u)).all(axis=0)
    if not real.any():
        return u
    point = target[real]
    v: Array = u[:, real].real + 0j
    for _ in range(2):
        step, _ = _newton(law, v, point)
        v = v - np.where(np.abs(step) < 1e-6 * np.abs(v), step, 0).real
    direction, _ = _newton(law, v, point + 1j * _TINY)
    base, _ = _newton(law, v, point)
    u[:, real] = v + 1j * (base - direction).imag
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
    if law.base.kind == "sum":
        return np.concatenate([_start(left, z - n[1]), _start(right, z - m[1])])
    a = z / n[1]
    y = m[1] / a + m[2] / a**2
    return np.concatenate([_start(left, a), _start(right, n[1] / y)])
