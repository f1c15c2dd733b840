"""Sums over the tokens of a vocabulary, fast for 50,000 tokens and with a known error.

Everything that theory needs of a vocabulary is Σ_v a_v r_v/(s − δ r_v) and its derivative in s,
for a few weights a_v, with r_v = V p_v g_v² the variance that token v has in the pooled noise.
Tokens of equal r are joined. Where more than `EXACT` values are left, the `HEAVY` largest stay
one by one and the others are replaced by a few hundred nodes.

The nodes are exact up to a bound. Let R be the smallest row that is kept. Rows above R/2 are cut
by their distance from R into bins R − r in [D, 2D], those below into bins r in [D, 2D]. On each
bin 1/(s − δr) is interpolated at q Chebyshev points. Its pole s/δ, above R or below 0, is at
least 3 half widths from the bin's centre, and for such a function the relative error of
interpolation is T_q(x)/T_q(pole): at most 1/T_q(3), 1.3e-9 for q = 12. A sum of positive terms
has no larger relative error, for every s ≥ δR and every s ≤ 0.
"""

from dataclasses import dataclass

import numpy as np
from numpy.polynomial.chebyshev import chebvander

from attnlaw._checks import Floats

__all__ = ["BOUND", "TokenSums", "reduced_sums", "token_sums"]

EXACT = 600  # distinct rows up to which nothing is replaced
HEAVY = 64  # largest rows that are always kept one by one
POINTS = 12  # q: Chebyshev points of a bin

CHEBYSHEV = np.cos((np.arange(POINTS) + 0.5) * np.pi / POINTS)
TO_POINTS = chebvander(CHEBYSHEV, POINTS - 1) * np.append(1, np.full(POINTS - 1, 2)) / POINTS
"""Chebyshev moments Σ a T_k(x) to masses at the Chebyshev points."""

TINY = float(np.finfo(np.float64).tiny)

BOUND = float(1 / np.cosh(POINTS * np.arccosh(3.0)))
"""Largest relative error 1/T_q(3) of a sum of positive terms over interpolated tokens."""


@dataclass(frozen=True)
class TokenSums:
    """Rows r and their masses: what a vocabulary is to the theory of pooled sequences."""

    rows: Floats  # r, falling
    masses: Floats  # (n, 6): r times 1/V, p, pg, pg², pc, pgc
    counts: Floats  # tokens of each row that is kept; infinite for a node
    n_heavy: int  # rows at the head that stand for themselves
    mean: float  # ḡ = Σ p g
    square: float  # Σ p g²
    tilt: float  # Σ p g c: difference of the two classes' mean importance, halved

    @property
    def top(self) -> float:
        """Largest row: s must exceed δ times it to lie right of the bulk."""
        return float(self.rows[0])

    def at(self, s: Floats, delta: Floats) -> tuple[Floats, Floats]:
        """Return the six sums Σ a r/(s − δr) and their derivatives in s, along a last axis."""
        inverse = 1 / (s[..., None] - delta[..., None] * self.rows)
        return inverse @ self.masses, -(inverse**2) @ self.masses

    def y(self, s: Floats, delta: Floats) -> tuple[Floats, Floats]:
        """Return y(s) = mean of r/(s − δr) over tokens, and its derivative."""
        inverse = 1 / (s[..., None] - delta[..., None] * self.rows)
        share = self.masses[:, 0]
        return inverse @ share, -(inverse**2) @ share


def token_sums(frequencies: Floats, importance: Floats, classes: Floats) -> TokenSums:
    """Reduce a vocabulary to rows and masses.

    Parameters
    ----------
    frequencies : array of shape (V,)
        p_v, summing to one.
    importance : array of shape (V,)
        g_v ≥ 0.
    classes : array of shape (V,)
        c_v = ±1; zeros stand for classes that are balanced at every frequency.

    Examples
    --------
    Tokens that are alike are one row:

    >>> sums = token_sums(np.full(1000, 1e-3), np.ones(1000), np.zeros(1000))
    >>> sums.rows, sums.masses.round(12)
    (array([1.]), array([[1., 1., 1., 1., 0., 0.]]))
    """
    p, g, c = frequencies, importance, classes
    V = len(p)
    weights = np.stack([np.full(V, 1 / V), p, p * g, p * g**2, p * c, p * g * c], axis=1)
    mean, square, tilt = (float(a.sum()) for a in (p * g, p * g**2, p * g * c))
    return reduced_sums(V * p * g**2, weights, mean=mean, square=square, tilt=tilt)


def reduced_sums(
    all_rows: Floats, weights: Floats, *, mean: float, square: float, tilt: float = 0.0
) -> TokenSums:
    """Join equal rows and move the many small ones to nodes.

    Parameters
    ----------
    all_rows : array of shape (V,)
        r_v.
    weights : array of shape (V, 6)
        a_v of the six sums.
    mean, square, tilt : float
        As in `TokenSums`.
    """
    falling = np.argsort(-all_rows, kind="stable")
    first = np.append(True, np.diff(all_rows[falling]) != 0)
    rows = all_rows[falling][first]
    masses = np.add.reduceat(weights[falling], np.flatnonzero(first), axis=0) * rows[:, None]
    counts = np.diff(np.append(np.flatnonzero(first), len(all_rows))).astype(np.float64)
    n_heavy = len(rows)
    if len(rows) > EXACT:
        n_heavy = HEAVY
        tail, tail_masses = _interpolated(rows[HEAVY - 1], rows[HEAVY:], masses[HEAVY:])
        rows = np.concatenate([rows[:HEAVY], tail])
        masses = np.concatenate([masses[:HEAVY], tail_masses])
        counts = np.append(counts[:HEAVY], np.full(len(tail), np.inf))
    return TokenSums(rows, masses, counts, n_heavy, mean, square, tilt)


def _interpolated(top: float, rows: Floats, masses: Floats) -> tuple[Floats, Floats]:
    """Move the masses of rows below `top` to the Chebyshev points of bins."""
    nodes, moved = [], []
    near = rows > top / 2
    for part, from_top in ((near, True), (~near, False)):
        here, weights = rows[part], masses[part]
        distance = top - here if from_top else here
        bins = np.floor(np.log2(np.maximum(distance, TINY) / (top / 2))).astype(int)
        starts = np.flatnonzero(np.diff(bins, prepend=1))  # bins are at most 0
        if not starts.size:
            continue
        for start, stop in zip(starts, np.append(starts[1:], len(bins)), strict=True):
            held, old = here[start:stop], weights[start:stop]
            if stop - start > POINTS:
                low = top / 2 * 2.0 ** bins[start]  # the bin is [low, 2 low]
                x = np.clip((distance[start:stop] - 1.5 * low) / (0.5 * low), -1.0, 1.0)
                held = (1.5 + 0.5 * CHEBYSHEV) * low
                held = top - held if from_top else held
                old = TO_POINTS @ (chebvander(x, POINTS - 1).T @ old)
            nodes.append(held)
            moved.append(old)
    return np.concatenate(nodes), np.concatenate(moved)
