"""Edges of Marchenko–Pastur laws and their products, to twice the working precision.

Near an edge e the density is like √|x − e|, so the rounding error of e itself would cost it
digits. But e is a stationary value of z(t): a t that is right to ε gives e to ε², once z(t) is
evaluated exactly, in rational numbers.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from attnlaw._checks import Floats


class Edge(NamedTuple):
    """An edge as an unevaluated sum of two floats."""

    head: float
    tail: float

    def distance(self, x: Floats) -> Floats:
        """Return x − edge, with a relative error of rounding size."""
        return (x - self.head) - self.tail


def stationary_value(t: float, ratios: Sequence[float], scale: float) -> Edge:
    """Return scale (t+1) Π (t+cᵢ)/tⁿ at a critical point t, for n ratios cᵢ."""
    s = Fraction(t)
    value = Fraction(scale) * (s + 1)
    for c in ratios:
        value *= (s + Fraction(c)) / s
    head = float(value)
    return Edge(head, float(value - Fraction(head)))


def critical_points(delta: float, gamma: float) -> Floats:
    """Roots of t³ − (δ+γ+δγ) t − 2δγ, where z(t) = (t+1)(t+δ)(t+γ)/t² is stationary.

    The first is the positive root t*, which gives the right edge: docs/theory/bulk.md, "Edges".

    Examples
    --------
    >>> critical_points(0.5, 0.4)[0].round(12)
    np.float64(1.197508593129)
    """
    b, c = delta + gamma + delta * gamma, delta * gamma
    angle = np.arccos(min(c * (3 / b) ** 1.5, 1.0)) / 3
    t = 2 * (b / 3) ** 0.5 * np.cos(angle - 2 * np.pi / 3 * np.arange(3))
    for _ in range(3):  # relative precision also for the root near zero
        slope = 3 * t * t - b
        step = (t * (t * t - b) - 2 * c) / np.where(slope == 0, np.inf, slope)
        t = t - np.where(np.abs(step) < 0.1 * np.abs(t), step, 0.0)
    return np.asarray(t)
