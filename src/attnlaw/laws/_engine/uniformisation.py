"""The parametric form of a law: z, G and y = zG − 1 as functions of one parameter per leaf.

A set of point masses has z = u, G = Σ hⱼ/(u − tⱼ); each stage maps (z, G, y) to

    addition of a law with R-transform R:          z + R(G),  G,           y + G R(G)
    multiplication by a law with 1/S(y) = p(y):    z p(y),    G/p(y),      y
    A ⊞ B, where G_A = G_B:                        z_A + q,   G,           y_A + y_B
    A ⊠ B, where y_A = y_B:                        z_A q,     G_A/q,       y,     q = y_B/G_B

and the exact derivatives with respect to the parameters are carried along: docs/theory/laws.md,
"One parameter for each set of point masses".
"""

import itertools
import operator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Complexes
from attnlaw.laws._engine.expression import (
    Addition,
    Expression,
    Multiplication,
    PointMasses,
    Stage,
)

Array = NDArray[Any]  # real on a gap of the support, complex elsewhere

_CHUNK = 200_000  # atoms × points evaluated at once: what stays in cache


class Point(NamedTuple):
    """Values at the parameters, and derivatives with one leading row for each parameter."""

    z: Array
    g: Array  # G(z)
    y: Array  # zG − 1
    dz: Array
    dg: Array
    dy: Array


def cauchy_sums(
    masses: PointMasses, u: Array, offset: Array | None = None
) -> tuple[Array, Array, Array, Array]:
    """Return Σ h/(u−t), Σ h t/(u−t) and their derivatives in u, for a flat array u.

    With an offset at u + offset, which keeps all digits next to atoms if u is one of them.
    """
    t, h = masses.locations, masses.weights
    if len(t) == 1:
        inverse = 1.0 / (u - t[0] if offset is None else u - t[0] + offset)
        square = -inverse * inverse
        return inverse, t[0] * inverse, square, t[0] * square
    n_pieces = -(-len(t) * u.size // _CHUNK)
    both = np.stack([h, h * t])
    if offset is not None:
        chunks = np.array_split(np.stack([u, offset]), max(n_pieces, 1), axis=1)
        parts = [_plain_sums(both, a - t[:, None], d) for a, d in chunks]
    else:
        pieces = np.array_split(u, n_pieces) if n_pieces > 1 else [u]
        sums = _complex_sums if np.iscomplexobj(u) and len(t) > 12 else _plain_sums
        parts = [sums(both, -t[:, None], piece) for piece in pieces]
    (g, y), (dg, dy) = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)
    return g, y, dg, dy


def _plain_sums(both: Array, away: Array, u: Array) -> Array:
    inverse = 1.0 / (away + u)
    first = both @ inverse
    inverse *= inverse
    return np.stack([first, -(both @ inverse)])


def _complex_sums(both: Array, away: Array, u: Array) -> Array:
    """Sum 1/(u−t) = (a − ib) r and its square in real arithmetic: three times as fast."""
    a, b = away + u.real, u.imag
    r = 1.0 / (a * a + b * b)
    a *= r
    first = both @ a - 1j * (b * (both @ r))
    cross = 2 * b * (both @ (a * r))
    a *= a
    r *= r
    return np.stack([first, b * b * (both @ r) - both @ a + 1j * cross])


def evaluate(
    law: Expression, parameters: Array, heights: list[Array] | None = None
) -> tuple[Point, list[tuple[Array, Array]]]:
    """Return the point at `parameters` (leaves × points) and the constraints of its pairs.

    Each constraint is (value, derivatives); all of them vanish on the law's curve. A list of
    `heights` receives z at every node of the expression that must lie in the upper half plane.
    """
    return _evaluate(law, parameters, 0, heights)


def _evaluate(
    law: Expression, parameters: Array, index: int, heights: list[Array] | None
) -> tuple[Point, list[tuple[Array, Array]]]:
    constraints: list[tuple[Array, Array]] = []
    if isinstance(law.base, PointMasses):
        u = parameters[index]
        g, y, dg, dy = cauchy_sums(law.base, u)
        rows = np.zeros((3, *parameters.shape), dtype=u.dtype)
        rows[:, index] = np.stack([np.ones_like(u), dg, dy])
        point = Point(u, g, y, rows[0], rows[1], rows[2])
    else:
        left, right = law.base.left, law.base.right
        a, constraints = _evaluate(left, parameters, index, heights)
        # A signed left law takes the right one through the whole plane.
        seen = heights if law.base.kind == "additive" or left.is_positive else None
        b, others = _evaluate(right, parameters, index + left.n_leaves, seen)
        if heights is not None:
            heights += [a.z] if seen is None else [a.z, b.z]
        point, constraint = join(law.base.kind, a, b)
        constraints = [*constraints, *others, constraint]
    for stage in law.stages:
        point = apply(stage, point, heights)
    return point, constraints


def join(kind: str, a: Point, b: Point) -> tuple[Point, tuple[Array, Array]]:
    """Return the point of a free convolution of two laws, and its constraint.

    The right law enters the left one through q = z_B − 1/G_B = y_B/G_B, a number near B's mean.
    The constraints are written for 1/G and 1/y, which grow like z and suit Newton's method.
    """
    q = b.y / b.g
    dq = (b.dy - q * b.dg) / b.g
    if kind == "additive":
        constraint = 1 / a.g - 1 / b.g, b.dg / b.g**2 - a.dg / a.g**2
        return Point(a.z + q, a.g, a.y + b.y, a.dz + dq, a.dg, a.dy + b.dy), constraint
    constraint = 1 / a.y - 1 / b.y, b.dy / b.y**2 - a.dy / a.y**2
    g = a.g / q
    return Point(a.z * q, g, a.y, a.dz * q + a.z * dq, (a.dg - g * dq) / q, a.dy), constraint


def apply(stage: Stage, point: Point, heights: list[Array] | None = None) -> Point:
    """Return the point after one stage."""
    z, g, y, dz, dg, dy = point
    if heights is not None:
        heights.append(z)
    if isinstance(stage, Multiplication):
        if heights is not None:
            steps = itertools.accumulate((1 + c * y for c in stage.ratios[:-1]), operator.mul)
            heights += [z * p for p in steps]
        p, slope = multiplier(stage, y)
        dp = slope * dy
        return Point(z * p, g / p, y, dz * p + z * dp, (dg - g / p * dp) / p, dy)
    r, slope = r_transform(stage, g)
    return Point(z + r, g, y + r * g, dz + slope * dg, dg, dy + (r + slope * g) * dg)


def r_transform(stage: Addition, g: Array) -> tuple[Array, Array]:
    """Return R(g) = shift + variance g + Σ s/(1 − c s g), and R'(g)."""
    r = stage.shift + stage.variance * g
    slope = np.full_like(g, stage.variance)
    for s, c in stage.parts:
        term = s / (1 - c * s * g)
        r = r + term
        slope = slope + c * term**2
    return r, slope


def multiplier(stage: Multiplication, y: Array) -> tuple[Array, Array]:
    """Return p(y) = Π (1 + c y), and p'(y)."""
    p, slope = np.ones_like(y), np.zeros_like(y)
    for c in stage.ratios:
        slope = slope * (1 + c * y) + c * p
        p = p * (1 + c * y)
    return p, slope


def mass_above(law: Expression, parameters: Complexes) -> NDArray[np.float64]:
    """Return ν((x, ∞)) on the curve, Im Φ/π with Φ = ∫ G dz = ∫ log(z − x) ν(dx).

    The stages add ∫ G R'(G) dG and ∫ (1+y) p'/p dy, A ⊞ B adds log G, A ⊠ B log y:
    only arguments of complex numbers are needed, each in its principal range.
    """
    with np.errstate(all="ignore"):
        return _phase(law, parameters)[1] / np.pi


def _phase(law: Expression, parameters: Complexes) -> tuple[Point, NDArray[np.float64]]:
    if isinstance(law.base, PointMasses):
        u = parameters[0]
        g, y, dg, dy = cauchy_sums(law.base, u)
        point = Point(u, g, y, np.ones_like(parameters), dg[None], dy[None])
        phase = _leaf_phase(law.base, u)
    else:
        n = law.base.left.n_leaves
        a, phase_a = _phase(law.base.left, parameters[:n])
        b_parameters = parameters[n:]
        b, phase_b = _phase(law.base.right, b_parameters)
        zero = np.zeros_like(parameters)
        a, b = (Point(p.z, p.g, p.y, zero, zero, zero) for p in (a, b))
        point, _ = join(law.base.kind, a, b)
        if law.base.kind == "additive":
            phase = phase_a + phase_b + _argument(a.g)
        else:
            # A signed left law takes the right one's argument below the axis, where
            # Im Φ is 2π minus its conjugate's and y has crossed the negative axis.
            below = b.z.imag < 0
            if below.any():
                _, mirrored = _phase(law.base.right, np.conj(b_parameters))
                phase_b = np.where(below, -mirrored, phase_b)
            phase = phase_a + phase_b + np.where(below, np.angle(a.y), _argument(a.y))
    for stage in law.stages:
        phase = phase + _stage_phase(stage, point)
        point = apply(stage, point)
    return point, phase


def _argument(value: Array) -> NDArray[np.float64]:
    """Argument of a number of the closed lower half plane, in [−π, 0]."""
    on_the_cut = (value.imag >= 0) & (value.real < 0)
    argument = np.arctan2(np.minimum(value.imag, 0.0), value.real)
    return np.where(on_the_cut, -np.pi, argument)


def _leaf_phase(masses: PointMasses, u: Complexes) -> NDArray[np.float64]:
    t, h = masses.locations, masses.weights
    if len(t) * u.size > _CHUNK and u.size > 1:
        pieces = np.array_split(u, -(-len(t) * u.size // _CHUNK))
        return np.concatenate([_leaf_phase(masses, piece) for piece in pieces])
    phase: NDArray[np.float64] = h @ np.arctan2(np.abs(u.imag), u.real - t[:, None])
    return phase


def _stage_phase(stage: Stage, point: Point) -> NDArray[np.float64]:
    if isinstance(stage, Multiplication):
        phase = np.zeros(point.y.shape)
        for c in stage.ratios:  # ∫ c(1+y)/(1+cy) dy = log(1+w) + (w − log(1+w))/c, w = cy
            w = c * point.y
            phase += np.arctan2(w.imag, 1 + w.real) + bent_argument(w) / c
        return phase
    phase = np.asarray(0.5 * stage.variance * (point.g**2).imag)
    for s, c in stage.parts:  # ∫ c s² g/(1−csg)² dg = (w²/(1−w) + w + log(1−w))/c, w = csg
        w = c * s * point.g
        phase = phase + ((w * w / (1 - w)).imag - bent_argument(-w)) / c
    return phase


def bent_argument(w: Array) -> NDArray[np.float64]:
    """Return Im(w − log(1+w)), by its series where w is small: it vanishes like w²."""
    bent = np.asarray(w.imag - np.arctan2(w.imag, 1 + w.real))
    small = np.abs(w) < 0.02
    if small.any():
        v = w[small]
        series = np.zeros_like(v)
        for k in range(9, 1, -1):  # w²/2 − w³/3 + …
            series = v * series + (-1) ** k / k
        bent[small] = (v * v * series).imag
    return bent
