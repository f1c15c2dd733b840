"""The free product of two Marchenko–Pastur laws, in a closed form without cancellation."""

from functools import cached_property
from typing import NamedTuple

import numpy as np

from attnlaw._checks import Floats
from attnlaw.laws._engine.expression import Multiplication
from attnlaw.laws._engine.free import ClosedFormLaw
from attnlaw.laws._engine.stationary import Edge, critical_points, stationary_value
from attnlaw.laws._engine.uniformisation import bent_argument

__all__ = ["WishartProduct"]


class Cubic(NamedTuple):
    """Constants of (t+1)(t+δ)(t+γ) = (z/κ) t²."""

    sign: float  # of the scale
    scale: float  # κ > 0
    delta: float  # the larger ratio
    gamma: float
    product: float  # δγ
    linear: float  # B = δ + γ + δγ
    lower: float  # κλ₃ ≤ 0, the root of the discriminant that is no edge
    left: Edge  # κλ₋
    right: Edge  # κλ₊


class WishartProduct(ClosedFormLaw):
    """κ (MP_δ ⊠ MP_γ): the noise bulk of pooled sequences.

    Derived in docs/theory/bulk.md, "Derivation", and docs/theory/laws.md, "Two Marchenko–Pastur
    factors in closed form".
    On the bulk the cubic (t+1)(t+δ)(t+γ) = x t², x = z/κ, has one real root t = −s, with s
    between 0 and min(1, δ, γ). With a = 1−s, b = δ−s, c = γ−s and D = ab + bc + ca + 2xs, a sum
    of positive terms, the conjugate pair has |t|² = δγ/s and Im t = w/D, where −4w² is the
    discriminant, w² = δγ (x−λ₃)(x−λ₋)(λ₊−x). So

        density(z) = s w / (π δγ z D)

    and every step of it keeps its relative precision: s is Cardano's root made exact by Newton
    steps on abc − x s², and the edges are known to twice the working precision.
    """

    @cached_property
    def _cubic(self) -> Cubic:
        point = self._expression.point
        (stage,) = self._expression.stages
        assert point is not None
        assert isinstance(stage, Multiplication)
        sign, scale = float(np.sign(point)), abs(point)
        delta, gamma = stage.ratios
        values = [stationary_value(t, stage.ratios, scale) for t in critical_points(delta, gamma)]
        if delta == gamma or 1.0 in (delta, gamma):  # one of them is 0: a hard edge, or λ₃
            values[int(np.argmin(np.abs([v.head for v in values])))] = Edge(0.0, 0.0)
        lower, left, right = sorted(values)
        p = delta * gamma
        b = delta + gamma + p
        return Cubic(sign, scale, delta, gamma, p, b, min(lower.head, 0.0), left, right)

    def _intervals(self) -> Floats:
        cubic = self._cubic
        return np.sort([cubic.sign * cubic.left.head, cubic.sign * cubic.right.head])[None]

    def _roots(self, z: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Return x = z/κ, s, w and D at points z > 0 of the bulk."""
        _, scale, delta, gamma, p, linear, lower, left, right = self._cubic
        x = z / scale
        w = np.sqrt((z - lower) * (left.distance(z) * -right.distance(z)))
        w *= p**0.5 * scale**-1.5
        third = ((1 - x) + (delta + gamma)) / 3
        square = third * third
        q = third * (linear - 2 * square) - p
        cube = np.cbrt(0.5 * np.abs(q) + w * 27**-0.5)
        s = third - np.copysign(cube - (linear / 3 - square) / cube, q)
        s = np.clip(s, 1e-3 * p / (linear + x), min(1.0, gamma))
        for _ in range(2):
            b, c = delta - s, gamma - s
            bc, xs = b * c, x * s
            d = bc + (1 - s) * (b + c) + 2 * xs
            s = s + ((1 - s) * bc - xs * s) / d
        if left.head == 0 and (near := x < 1e-6).any():
            s[near], d[near] = self._near_hard_edge(x[near])
        return x, s, w, d

    def _near_hard_edge(self, x: Floats) -> tuple[Floats, Floats]:
        """Return s and D where s is so close to m = min(1, δ, γ) that only r = m − s is precise.

        r (r+e) (r+f) = x (m−r)², where e = 0 or both are, is solved by Newton from above.
        """
        m, e, f = np.sort([1.0, self._cubic.delta, self._cubic.gamma])
        e, f = e - m, f - m
        r = np.cbrt(x * m * m)
        if f > 0:
            r = np.minimum(r, m * np.sqrt(x / f))
        for _ in range(6):
            s = m - r
            d = r * (r + e) + (r + f) * (2 * r + e) + 2 * x * s
            r = r - (r * (r + e) * (r + f) - x * s * s) / d
        return m - r, r * (r + e) + (r + f) * (2 * r + e) + 2 * x * (m - r)

    def _density_inside(self, x: Floats) -> Floats:
        cubic = self._cubic
        x, s, w, d = self._roots(cubic.sign * x)
        return s * w / (d * x) * (1 / (np.pi * cubic.product * cubic.scale))

    def _cdf_inside(self, x: Floats) -> Floats:
        sign, _, delta, gamma, p, *_ = self._cubic
        x, s, w, d = self._roots(sign * x)
        t = 0.5 * (s - (1 - x) - (delta + gamma)) + 1j * (w / d)
        y = t.conj() * (s / p)
        phase = np.arctan2(t.imag, t.real)
        for c in (delta, gamma):  # log t + Σ log(1+cy) + (cy − log(1+cy))/c
            phase += np.arctan2(c * y.imag, 1 + c * y.real) + bent_argument(c * y) / c
        above: Floats = phase / np.pi
        return np.clip(1 - above if sign > 0 else above, 0.0, 1.0)
