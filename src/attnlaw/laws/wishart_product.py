"""The free product of two Marchenko–Pastur laws, in a closed form without cancellation."""

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnlaw.laws.expression import Multiplication
from attnlaw.laws.free import FreeLaw
from attnlaw.laws.uniformisation import bent_argument

__all__ = ["WishartProduct", "critical_points"]

Floats = NDArray[np.float64]


class Cubic(NamedTuple):
    """Constants of (t+1)(t+δ)(t+γ) = x t², for x in units of the scale."""

    scale: float  # κ
    delta: float  # the larger ratio
    gamma: float
    sum: float  # δ + γ
    product: float  # δγ
    linear: float  # B = δ + γ + δγ
    lower: float  # λ₃ ≤ 0, the root of the discriminant that is no edge
    left: float  # λ₋
    right: float  # λ₊


def critical_points(delta: float, gamma: float) -> Floats:
    """Roots of t³ − (δ+γ+δγ) t − 2δγ, where z(t) = (t+1)(t+δ)(t+γ)/t² is stationary.

    The first is the positive root t* of theory.md §2.2, from which the right edge follows.

    Examples
    --------
    >>> critical_points(0.5, 0.4)[0].round(12)
    np.float64(1.197508593129)
    """
    b, c = delta + gamma + delta * gamma, delta * gamma
    angle = np.arccos(min(c * (3 / b) ** 1.5, 1.0)) / 3
    t = 2 * (b / 3) ** 0.5 * np.cos(angle - 2 * np.pi / 3 * np.arange(3))
    for _ in range(2):  # relative precision also for the root near zero
        slope = 3 * t * t - b
        step = (t * (t * t - b) - 2 * c) / np.where(slope == 0, np.inf, slope)
        t = t - np.where(np.abs(step) < 0.1 * np.abs(t), step, 0.0)
    return np.asarray(t)


class WishartProduct(FreeLaw):
    """κ (MP_δ ⊠ MP_γ): the noise bulk of pooled sequences (theory.md §2.2).

    On the bulk the cubic (t+1)(t+δ)(t+γ) = x t², x = z/κ, has one real root t = −s, with s
    between 0 and min(1, δ, γ). With a = 1−s, b = δ−s, c = γ−s and D = ab + bc + ca + 2xs, a sum
    of positive terms, the conjugate pair has |t|² = δγ/s and Im t = w/D, where −4w² is the
    discriminant, w² = δγ (x−λ₃)(x−λ₋)(λ₊−x). So

        density(z) = s w / (π δγ z D)

    and every step of it keeps its relative precision: s is Cardano's root made exact by Newton
    steps on abc − x s², the edges are values at critical points.
    """

    @cached_property
    def _cubic(self) -> Cubic:
        scale = self._expression.point
        (stage,) = self._expression.stages
        assert scale is not None
        assert isinstance(stage, Multiplication)
        delta, gamma = stage.ratios
        t = critical_points(delta, gamma)
        x = np.sort((t + 1) * (t + delta) * (t + gamma) / t**2)
        if delta == gamma or 1.0 in (delta, gamma):
            x[np.argmin(np.abs(x))] = 0.0  # a hard edge, or λ₃
        product = delta * gamma
        linear = delta + gamma + product
        lower, left, right = min(x[0], 0.0), max(x[1], 0.0), x[2]
        return Cubic(scale, delta, gamma, delta + gamma, product, linear, lower, left, right)

    def _intervals(self) -> Floats:
        cubic = self._cubic
        return np.sort([cubic.scale * cubic.left, cubic.scale * cubic.right])[None]

    def _roots(self, x: Floats) -> tuple[Floats, Floats, Floats]:
        """Return s, w and D at x in units of the scale."""
        _, delta, gamma, total, p, linear, lower, left, right = self._cubic
        w = np.sqrt(p * (x - lower) * ((x - left) * (right - x)))
        third = ((1 - x) + total) / 3
        q = third * (linear - 2 * third * third) - p
        cube = np.cbrt(0.5 * np.abs(q) + w * 27**-0.5)
        s = third - np.copysign(cube - (linear / 3 - third * third) / cube, q)
        s = np.minimum(np.maximum(s, 1e-3 * p / (linear + x)), min(1.0, gamma))
        for _ in range(3):
            a, b, c = 1 - s, delta - s, gamma - s
            ab, twice = a * b, x * s
            d = ab + c * (a + b) + 2 * twice
            s = s + (ab * c - twice * s) / d
        return s, w, d

    def _density_inside(self, x: Floats) -> Floats:
        cubic = self._cubic
        x = x / cubic.scale
        s, w, d = self._roots(x)
        return s * w / (d * x) * (1 / (np.pi * cubic.product * abs(cubic.scale)))

    def _cdf_inside(self, x: Floats) -> Floats:
        scale, delta, gamma, total, p, *_ = self._cubic
        x = x / scale
        s, w, d = self._roots(x)
        t = 0.5 * (s - (1 - x) - total) + 1j * (w / d)
        y = t.conj() * (s / p)
        phase = np.arctan2(t.imag, t.real)
        for c in (delta, gamma):  # log t + Σ log(1+cy) + (cy − log(1+cy))/c
            phase += np.arctan2(c * y.imag, 1 + c * y.real) + bent_argument(c * y) / c
        above: Floats = phase / np.pi
        return np.clip(1 - above if scale > 0 else above, 0.0, 1.0)

    def _inside(self, x: Floats) -> tuple[Floats, Floats]:
        return self._density_inside(x), self._cdf_inside(x)
