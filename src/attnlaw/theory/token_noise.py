"""The noise of a vocabulary: how much each token contributes, and how much each sequence has.

**Tokens.** Everything that theory needs of a vocabulary is Σ_v a_v r_v/(s − δ r_v) and its
derivative in s, for a few weights a_v, with r_v = V p_v g_v² the variance that token v contributes
to the pooled noise (`TokenSums`). Tokens of equal r are joined. Where more than `EXACT` values are
left, the `HEAVY` largest stay one by one and the others are replaced by a few hundred nodes.

The nodes are exact up to a bound. Let R be the smallest row that is kept. Rows above R/2 are cut
by their distance from R into bins R − r in [D, 2D], those below into bins r in [D, 2D]. On each
bin 1/(s − δr) is interpolated at q Chebyshev points. Its pole s/δ, above R or below 0, is at
least 3 half widths from the bin's centre, and for such a function the relative error of
interpolation is T_q(x)/T_q(pole): at most 1/T_q(3), 1.3e-9 for q = 12. A sum of positive terms
has no larger relative error, for every s ≥ δR and every s ≤ 0.

**Sequences.** Given its tokens, the pooled noise of sequence i has the variance ξ_i κ Σpg² in
every direction, with ξ_i = Σ_l w_l² g_v²/(κ Σpg²) of mean one (`NoiseScales`). It varies from
sequence to sequence however large the matrices are, as in a mixture of sequences
(docs/theory/mixtures.md, "Derivation"), and the sample's factor 1 + γy becomes φ(y) ≥ 1 + γy:

    E ξ/(σ − γξ) = y ,   φ = σ y .        (docs/theory/vocabulary.md, "Unequal noise")

The law of ξ is given by its cumulants, κ_n(ξ) = κ_n(g²) Σ_l w_l^{2n}/(κ Σpg²)^n, and is replaced
by the Gauss quadrature of its first moments.
"""

import itertools
from dataclasses import dataclass
from math import comb

import numpy as np
from numpy.polynomial.chebyshev import chebvander

from attnlaw._checks import Floats
from attnlaw.laws.outliers import TINY
from attnlaw.models.vocabulary import Kinds

__all__ = [
    "BOUND",
    "NoiseScales",
    "TokenSums",
    "mixed_scales",
    "noise_scales",
    "reduced_sums",
    "token_sums",
]

INSIDE = 1e30  # derivative of φ where φ does not exist
MOST_NODES = 6  # atoms by which the law of ξ is replaced

LEAST_ROW = 1e-14  # of the largest: eigenvalues below are rounding errors of any sample
EXACT = 600  # distinct rows up to which nothing is replaced
HEAVY = 64  # largest rows that are always kept one by one
POINTS = 12  # q: Chebyshev points of a bin

CHEBYSHEV = np.cos((np.arange(POINTS) + 0.5) * np.pi / POINTS)
TO_POINTS = chebvander(CHEBYSHEV, POINTS - 1) * np.append(1, np.full(POINTS - 1, 2)) / POINTS
"""Chebyshev moments Σ a T_k(x) to masses at the Chebyshev points."""

BOUND = float(1 / np.cosh(POINTS * np.arccosh(3.0)))
"""Largest relative error 1/T_q(3) of a sum of positive terms over interpolated tokens."""


@dataclass(frozen=True)
class TokenSums:
    """Rows r and their masses: all that the theory of pooled sequences needs of a vocabulary."""

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
    all_rows = np.where(all_rows > LEAST_ROW * all_rows.max(), all_rows, 0.0)
    falling = np.argsort(-all_rows, kind="stable")
    sorted_rows = all_rows[falling]
    first = np.append(True, -np.diff(sorted_rows) > 1e-14 * sorted_rows[:-1])  # up to rounding
    rows = all_rows[falling][first]
    masses = weights[falling]
    if not first.all():
        masses = np.add.reduceat(masses, np.flatnonzero(first), axis=0)
    masses = masses * rows[:, None]
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


@dataclass(frozen=True)
class NoiseScales:
    """Atoms ξ of the noise scale of sequences, of mean one, and their masses."""

    atoms: Floats
    masses: Floats
    signals: Floats | None = None  # α of their sequences over its mean; 1 by default

    @property
    def is_single(self) -> bool:
        """Whether all sequences carry the same noise."""
        return len(self.atoms) == 1

    @property
    def variance(self) -> float:
        """Variance of ξ."""
        return float(self.masses @ (self.atoms - 1) ** 2)

    def seen_in(self, n_samples: int) -> "NoiseScales":
        """Return the scales; one that fewer than one sequence has is merged with the next.

        An atom of mass below 1/N does not appear in a sample, but would give the bulk an edge.
        """
        order = np.argsort(self.atoms)
        atoms, masses = self.atoms[order], self.masses[order]
        rarer = np.cumsum(masses[::-1])[::-1]  # mass from each atom up
        last = max(int(np.flatnonzero(n_samples * rarer >= 1).max(initial=0)), 0)
        joined = float(rarer[last])
        top = float(masses[last:] @ atoms[last:]) / joined
        return NoiseScales(np.append(atoms[:last], top), np.append(masses[:last], joined))

    def factor(self, y: Floats, gamma: Floats) -> tuple[Floats, Floats]:
        """Return φ(y) and its derivative in y.

        1/E[ξ/(σ − γξ)] is increasing and concave in σ, so Newton's method climbs to 1/y from any
        point left of the root: γ + 1/y and γξ + qξ/y of the largest atom are two. In gaps of the
        bulk y may be negative, and σ = −ω of `opposite`; where there is none the derivative is
        huge, which says that the point lies inside the bulk.
        """
        y, gamma = np.broadcast_arrays(y, gamma)
        if self.is_single:
            return np.asarray(1 + gamma * y), np.array(gamma)
        right = np.where(y > 0, y, 1.0)
        top = int(np.argmax(self.atoms))
        own = self.atoms[top] * (gamma + self.masses[top] / right)
        sigma = np.maximum(gamma + 1 / right, own * (1 + 1e-14))
        for _ in range(100):
            inverse = 1 / (sigma[..., None] - gamma[..., None] * self.atoms)
            h = inverse @ (self.masses * self.atoms)
            slope = -(inverse**2) @ (self.masses * self.atoms)
            step = (h - right) * h / (-slope * right)
            sigma = sigma + np.maximum(step, 0.0)
            if np.all(step <= 4e-16 * sigma):
                break
        phi, phi_slope = sigma * y, sigma + y / slope
        left = y < 0
        if left.any():
            omega = self.opposite(-y[left], gamma[left])
            exists = omega > 0
            omega = np.where(exists, omega, 1.0)
            inverse = 1 / (omega[..., None] + gamma[left][..., None] * self.atoms)
            slope = -(inverse**2) @ (self.masses * self.atoms)
            phi[left] = np.where(exists, -omega * y[left], 1.0)
            phi_slope[left] = np.where(exists, -omega + y[left] / slope, INSIDE)
        return np.asarray(phi), np.asarray(phi_slope)

    def seen_signal(self, y: Floats, gamma: Floats) -> tuple[Floats, Floats]:
        """Return E[a/(1 − γξ/σ)]/φ, a the signals, and its derivative in y; (1+γy)/φ if a = 1.

        The share of the signal that the sample shows: noisy sequences count for less.
        """
        phi, phi_slope = self.factor(y, gamma)
        if self.signals is None:
            ratio = (1 + gamma * y) / phi
            return np.asarray(ratio), np.asarray((gamma - ratio * phi_slope) / phi)
        sigma = phi / y
        weights = self.masses * self.signals
        inverse = 1 / (sigma[..., None] - gamma[..., None] * self.atoms)
        total = sigma * (inverse @ weights)
        slope = -gamma * ((inverse**2) @ (weights * self.atoms)) * (phi_slope - sigma) / y
        return np.asarray(total / phi), np.asarray((slope - total * phi_slope / phi) / phi)

    def opposite(self, minus_y: Floats, gamma: Floats) -> Floats:
        """Return ω > 0 with E ξ/(ω + γξ) = −y, left of the bulk; 0 where there is none.

        1/E[ξ/(ω + γξ)] is increasing and concave in ω, and at least ω + γ: Newton's method from
        the upper bound goes left of the root at once, and climbs from there.
        """
        target, gamma = np.broadcast_arrays(minus_y, gamma)
        omega = np.maximum(1 / target - gamma, 0.0)
        if self.is_single:
            return omega
        used = self.atoms > 0
        atoms, masses = self.atoms[used], self.masses[used]
        for _ in range(100):
            inverse = 1 / (omega[..., None] / atoms + gamma[..., None] + TINY)
            h = inverse @ masses
            slope = (inverse**2) @ (masses / atoms)
            step = (h - target) * h / (slope * target)
            following = np.maximum(omega + step, 0.0)
            if np.all(np.abs(following - omega) <= 4e-16 * omega):
                break
            omega = following
        return np.asarray(np.where(gamma * target < masses.sum(), omega, 0.0))


def noise_scales(weights: Floats, frequencies: Floats, importance: Floats) -> NoiseScales:
    """Return the noise scales of sequences pooled by weights w, tokens by p and g.

    Examples
    --------
    Two positions, tokens of importance 1 and 0 equally frequent: ξ is 0, 1 or 2.

    >>> scales = noise_scales(np.ones(2), np.full(2, 0.5), np.array([1.0, 0.0]))
    >>> scales.atoms.round(9), scales.masses.round(9)
    (array([0., 1., 2.]), array([0.25, 0.5 , 0.25]))
    """
    squares = importance**2 / float(frequencies @ importance**2)
    shares = weights**2 / float(weights @ weights)
    if np.ptp(squares) <= 1e-12:
        return NoiseScales(np.ones(1), np.ones(1))
    spread = np.sqrt(float(frequencies @ (squares - 1) ** 2) * float(shares @ shares))
    order = np.arange(2 * MOST_NODES + 1)
    powers = itertools.accumulate([(squares - 1) / spread] * (len(order) - 1), np.multiply)
    token = [1.0, *(float(frequencies @ power) for power in powers)]
    cumulants = _cumulants(token) * np.array([float(np.sum(shares**n)) for n in order])
    moments = _moments(cumulants)
    for n in range(MOST_NODES, 0, -1):
        nodes = _gauss(moments[: 2 * n + 1], n)
        if nodes is not None and (1 + spread * nodes[0]).min() > -1e-9:
            atoms, masses = np.maximum(1 + spread * nodes[0], 0.0), nodes[1]
            return NoiseScales(atoms / float(masses @ atoms), masses)
    return NoiseScales(np.ones(1), np.ones(1))


def mixed_scales(kinds: Kinds, frequencies: Floats, importance: Floats) -> NoiseScales:
    """Return the noise scales of sequences of several kinds: ξ κ_g/κ̄ with the signals α_g/ᾱ."""
    if len(kinds) == 1:
        return noise_scales(kinds[0][1], frequencies, importance)
    shares, gains = (np.array([k[i] for k in kinds]) for i in (0, 2))
    noise = np.array([float(w @ w) for _, w, _ in kinds])
    parts = [noise_scales(w, frequencies, importance) for _, w, _ in kinds]
    repeats = [len(part.atoms) for part in parts]
    signals = np.repeat(gains / max(float(shares @ gains), TINY), repeats)
    relative = np.repeat(noise / float(shares @ noise), repeats)
    masses = np.repeat(shares, repeats) * np.concatenate([part.masses for part in parts])
    return NoiseScales(relative * np.concatenate([p.atoms for p in parts]), masses, signals)


def _cumulants(moments: list[float]) -> Floats:
    """Return cumulants from moments; the zeroth is kept as 0."""
    k = np.zeros(len(moments))
    for n in range(1, len(moments)):
        k[n] = moments[n] - sum(comb(n - 1, j - 1) * k[j] * moments[n - j] for j in range(1, n))
    return k


def _moments(cumulants: Floats) -> Floats:
    """Return moments from cumulants."""
    m = np.ones(len(cumulants))
    for n in range(1, len(m)):
        m[n] = sum(comb(n - 1, j - 1) * cumulants[j] * m[n - j] for j in range(1, n + 1))
    return m


def _gauss(moments: Floats, n: int) -> tuple[Floats, Floats] | None:
    """Return n nodes and masses with these moments, None where the moments have fewer."""
    hankel = moments[np.add.outer(np.arange(n + 1), np.arange(n + 1))[:n, :n]]
    scale = 1 / np.sqrt(np.diagonal(hankel))
    if np.linalg.eigvalsh(scale[:, None] * hankel * scale)[0] < 1e-10:
        return None
    full = moments[np.add.outer(np.arange(n), np.arange(n + 1))]
    upper = np.linalg.cholesky(hankel).T
    ratio = np.linalg.solve(upper.T, full)  # rows of the Cholesky factor, one column further
    diagonal = [ratio[k, k + 1] / ratio[k, k] for k in range(n)]
    alpha = np.diff(np.array(diagonal), prepend=0.0)
    beta = np.array([upper[k + 1, k + 1] / upper[k, k] for k in range(n - 1)])
    jacobi = np.diag(alpha) + np.diag(beta, 1) + np.diag(beta, -1)
    nodes, vectors = np.linalg.eigh(jacobi)
    return nodes, vectors[0] ** 2
