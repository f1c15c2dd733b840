r"""Spike, outlier and overlap right of any bulk, as functions of one real parameter.

To the right of a bulk H ⊠ MP_{c₁} ⊠ MP_{c₂} ⊠ … the eigenvalue is a function of a parameter u,

    λ(u) = u Π_i (1 + c_i y(u)) ,      y = z G_H(z) − 1 at z = u ,

because free multiplicative convolution keeps y and multiplies z by 1/S(y), which is 1 + cy for
MP_c (docs/theory/laws.md, "Silverstein's law and its outliers"). λ falls, has one minimum, the
right edge of the bulk, and rises; u is the population eigenvalue behind an outlier at λ.

    edge             (log λ)' = 0
    outlier          a spike at u is seen at λ(u) if u lies right of the edge's parameter
    overlap          d log λ / d log ℓ     of the eigenvectors at λ and at ℓ = u Π (1 + c_i y) over
                                           fewer factors; with ℓ = u, of sample and population
    fluctuations     d^{−2/3} (λ''(y*) λ²/2)^{1/3} times a Tracy–Widom variable, at the edge

A free additive spike, C = A + ρ a aᵀ, has u = ρ in the same formulas when A is a compound free
Poisson law (`Poles.compound_poisson`): then ℓ(u) = u (1 + y) inverts G_A(ℓ) = 1/ρ and the overlap
with a is ℓ'(u).

`OutlierCurve` answers these questions for any y; `Poles` is the rational y of finitely many atoms
and `SeparableCurve` the case of rows that differ in scale; `SpikedCovariance` is one spike in a
covariance given by its eigenvalues; the functions `white_…` are the closed
forms of white noise, y = 1/t with t = u − 1. Everything is elementwise and a function of the
offset of u from the last pole, which keeps its digits at the edge.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from attnlaw._checks import Floats

__all__ = [
    "TINY",
    "OutlierCurve",
    "Poles",
    "SeparableCurve",
    "SpikedCovariance",
    "falling_root",
    "white_edge_parameter",
    "white_eigenvalue",
    "white_overlap",
    "white_population_overlap",
]

TINY = float(np.finfo(np.float64).tiny)
"""Stands in for 0 as a divisor, where the limit is the wanted value."""

HALVINGS = 64
"""Steps of a bisection between logarithms of offsets, some 70 apart: down to rounding."""


class OutlierCurve(ABC):
    """The real axis right of a bulk: λ = u Π (1 + c_i y), over the offset of u from its pole.

    A subclass defines u, y and dy/du at an offset > 0; the ratios c_i of the Marchenko–Pastur
    factors are arguments of every method, because population and sample differ in them.
    """

    @abstractmethod
    def u(self, offset: Floats) -> Floats:
        """Return the parameter u at this offset."""

    @abstractmethod
    def y(self, offset: Floats) -> Floats:
        """Return y(u) > 0, which falls to 0."""

    @abstractmethod
    def y_slope(self, offset: Floats) -> Floats:
        """Return y'(u)."""

    def eigenvalue(self, offset: Floats, *ratios: ArrayLike) -> Floats:
        """Return u Π (1 + c_i y): ℓ with the factors of the population, λ with all of them."""
        y = self.y(offset)
        return np.asarray(np.prod([self.u(offset), *(1 + np.asarray(c) * y for c in ratios)], 0))

    def log_slope(self, offset: Floats, *ratios: ArrayLike) -> Floats:
        """Return the derivative in u of the logarithm of `eigenvalue`; 0 at the edge."""
        y, slope = self.y(offset), self.y_slope(offset)
        parts = (np.asarray(c) * slope / (1 + np.asarray(c) * y) for c in ratios)
        return np.asarray(sum(parts, 1 / self.u(offset)))

    def edge_between(self, low: Floats, high: Floats, *ratios: ArrayLike) -> Floats:
        """Return the offset at the right edge, where `eigenvalue` is least."""
        return falling_root(lambda offset: -self.log_slope(offset, *ratios), low, high)


@dataclass(frozen=True, eq=False)
class Poles(OutlierCurve):
    """The curve with y(u) = Σ_j r_j/(u − p_j), right of its last pole.

    Examples
    --------
    The right edge of MP_{1/4}, and where a spike of variance 2 is seen:

    >>> noise = Poles.of_spectrum([1.0])
    >>> edge = noise.edge_offset(0.25)
    >>> noise.eigenvalue(edge, 0.25).round(12), noise.eigenvalue(np.array(1.0), 0.25)
    (np.float64(2.25), array(2.5))
    """

    poles: Floats  # p, with the poles along the last axis; other axes broadcast with offsets
    residues: Floats  # r ≥ 0, one for each pole

    @classmethod
    def of_spectrum(cls, eigenvalues: ArrayLike, weights: ArrayLike | None = None) -> "Poles":
        """Return the curve of a population spectrum H: y = Σ h t/(u − t)."""
        t = np.asarray(eigenvalues, dtype=np.float64)
        h = np.full(t.size, 1 / t.size) if weights is None else np.asarray(weights)
        atoms, where = np.unique(t, return_inverse=True)
        return cls(atoms, np.bincount(where, h) * atoms)

    @classmethod
    def compound_poisson(cls, scales: Floats, shares: Floats, ratio: ArrayLike) -> "Poles":
        """Return the curve of ⊞_k q_k s_k MP_{c/q_k}: y = Σ q s/(u − c s).

        λ = u (1 + y) is the point right of this law's bulk, so the first ratio is always 1; its
        Cauchy transform there is 1/u. The ratio c may be an array.
        """
        c = np.asarray(ratio, dtype=np.float64)[..., None]
        return cls(np.asarray(c * scales), np.asarray(shares * scales))

    @property
    def top(self) -> Floats:
        """Largest pole."""
        return np.asarray(self.poles.max(axis=-1))

    def inverse(self, offset: Floats) -> Floats:
        """Return 1/(u − p), with the poles as last axis."""
        return np.asarray(1 / (offset[..., None] + (self.top[..., None] - self.poles)))

    def sum(self, offset: Floats, residues: Floats, power: int = 1) -> Floats:
        """Return Σ_j a_j/(u − p_j)^power for other residues a."""
        inverse = self.inverse(offset)
        return np.asarray((inverse if power == 1 else inverse**power) @ residues)

    def u(self, offset: Floats) -> Floats:
        """Return the parameter u at this offset."""
        return np.asarray(offset + self.top)

    def y(self, offset: Floats) -> Floats:
        """Return y(u)."""
        return self.sum(offset, self.residues)

    def y_slope(self, offset: Floats) -> Floats:
        """Return y'(u)."""
        return -self.sum(offset, self.residues, power=2)

    def offset_of_y(self, y: Floats) -> Floats:
        """Return the offset where y(u) has a positive value.

        1/y is a concave, increasing function of the offset, so Newton's method climbs to it from
        r/y, r the residue of the last pole, and never passes it.
        """
        last = float(self.residues[np.argmax(self.poles, axis=-1)])
        offset = np.asarray(last / y)
        for _ in range(100):
            here = self.y(offset)
            following = offset + np.maximum(here / y - 1, 0.0) * here / -self.y_slope(offset)
            if np.all(following <= offset * (1 + 1e-15)):
                break
            offset = following
        return offset

    def edge_offset(self, *ratios: ArrayLike) -> Floats:
        """Return the offset at the right edge.

        There Σ_i c_i (−y')/(1 + c_i y) = 1/u. Since −y' ≤ (Σ r)/g² at the offset g, it is at most
        a + √(a max p) with a = Σ c_i Σ r_j. One pole and at most two ratios are white noise.
        """
        top, total = self.top, float(np.sum(self.residues))
        least = 1e-30 * (top + total)  # stands for 0
        if self.poles.shape[-1] == 1 and len(ratios) <= 2 and (top > 0).all():
            delta, gamma = (np.asarray(c) * (total / top) for c in (*ratios, 0.0, 0.0)[:2])
            return np.maximum(top * white_edge_parameter(delta, gamma), least)
        a = total * np.asarray(sum(np.asarray(c) for c in ratios), dtype=np.float64)
        high = np.maximum(a + np.sqrt(a * top), 2 * least)
        return self.edge_between(np.zeros_like(high) + least, high, *ratios)

    def edge_scale(self, edge: Floats, *ratios: ArrayLike) -> Floats:
        """Return (λ''(y*) λ²/2)^{1/3}: times d^{−2/3}, the unit of the edge's fluctuations.

        At the edge λ''(y) = λ''(u)/y'(u)² and λ''(u) = λ (log λ)''(u).
        """
        y, y1 = self.y(edge), self.y_slope(edge)
        y2 = 2 * self.sum(edge, self.residues, power=3)
        bend = -1 / self.u(edge) ** 2
        for c in map(np.asarray, ratios):
            bend = bend + c * y2 / (1 + c * y) - (c * y1 / (1 + c * y)) ** 2
        return np.asarray(self.eigenvalue(edge, *ratios) * np.cbrt(bend / (2 * y1**2)))


@dataclass(frozen=True, eq=False)
class SeparableCurve(OutlierCurve):
    """The curve right of H ⊠ (⊞_k q_k r_k MP_{c/q_k}) ⊠ MP …: columns of spectrum H, rows r.

    The second factor has 1/S(y) = c y s with Σ_k q_k r_k/(s − r_k) = c y and s > max r; with one
    row scale that is r (1 + cy).
    """

    columns: Poles  # of the spectrum H
    rows: Poles  # of the spectrum (r, q)
    ratio: float  # c

    def u(self, offset: Floats) -> Floats:
        """Return the parameter u at this offset from the largest column variance."""
        return self.columns.u(offset)

    def y(self, offset: Floats) -> Floats:
        """Return y(u) = Σ h t/(u − t)."""
        return self.columns.y(offset)

    def y_slope(self, offset: Floats) -> Floats:
        """Return y'(u)."""
        return self.columns.y_slope(offset)

    def eigenvalue(self, offset: Floats, *ratios: ArrayLike) -> Floats:
        """Return u c y s Π (1 + c_i y)."""
        cy = self.ratio * self.y(offset)
        s = self.rows.u(self.rows.offset_of_y(cy))
        return np.asarray(super().eigenvalue(offset, *ratios) * cy * s)

    def log_slope(self, offset: Floats, *ratios: ArrayLike) -> Floats:
        """Return the derivative in u of the logarithm of `eigenvalue`; 0 at the edge."""
        y, slope = self.y(offset), self.y_slope(offset)
        at = self.rows.offset_of_y(self.ratio * y)
        rows = self.ratio / (self.rows.y_slope(at) * self.rows.u(at))  # d log s/dy
        return np.asarray(super().log_slope(offset, *ratios) + slope * (1 / y + rows))

    def edge_offset(self, *ratios: ArrayLike) -> Floats:
        """Return the offset at the right edge, searched for up to where the rows look alike."""
        top, mean = float(self.rows.top), float(self.rows.residues.sum())
        reach = 1e3 * (1 + self.ratio * (top / mean) ** 2 + sum(np.asarray(c) for c in ratios))
        high = np.asarray(reach * self.columns.top)
        return self.edge_between(np.asarray(1e-14 * self.columns.top), high, *ratios)


@dataclass(frozen=True, kw_only=True)
class SpikedCovariance:
    """A covariance with an added spike, C = Σ + s u uᵀ, for any strength s and any N."""

    variances: Floats  # t_j: eigenvalues of Σ, increasing
    shares: Floats  # c_j: squared components of u along its eigenvectors

    def squared_overlap(self, strength: float, n_samples: float) -> float:
        """Squared overlap of the leading sample eigenvector with u; 0 below threshold.

        Notes
        -----
        The leading population eigenvalue ℓ solves 1 = s Σ c/(ℓ−t): above all t for s > 0, between
        the two largest for s < 0. With D_k = Σ c/(ℓ−t)^k the population overlap is D₁²/D₂. The
        sample eigenvalue is ψ(ℓ) = ℓ (1 + (1/N) Σ t/(ℓ−t)) over all t but the largest, which has
        become ℓ, if ψ'(ℓ) > 0; the sample overlap is ℓψ'/ψ (Bai and Yao 2012;
        docs/theory/laws.md, "Silverstein's law and its outliers").

        Examples
        --------
        White noise, infinitely many samples: the signal itself.

        >>> spiked = SpikedCovariance(variances=np.ones(50), shares=np.full(50, 0.02))
        >>> round(spiked.squared_overlap(1.0, np.inf), 12)
        1.0
        """
        from scipy.optimize import brentq

        t, c = self.variances, self.shares
        top, second = float(t[-1]), float(t[-2])
        if strength == 0 or c[-1] > 1 - 1e-12:
            ell, population = top + strength, float(c[-1])
        else:

            def excess(ell: float) -> float:
                return float(strength * np.sum(c / (ell - t)) - 1)

            tiny = 1e-10 * (top + abs(strength))
            above, below = (top, top + strength + 2 * tiny) if strength > 0 else (second, top)
            low, high = above + tiny, below - tiny
            if low >= high or excess(low) * excess(high) > 0:
                return 0.0  # the signal does not reach past the noise
            ell = float(brentq(excess, low, high))
            population = float(np.sum(c / (ell - t)) ** 2 / np.sum(c / (ell - t) ** 2))
        if ell <= second:
            return 0.0
        others = Poles(t[:-1], t[:-1] / n_samples)
        sample = ell * float(others.log_slope(np.asarray(ell - second), 1.0))
        return population * max(0.0, sample)


def falling_root(function: Callable[[Floats], Floats], low: Floats, high: Floats) -> Floats:
    """Return where a function that falls from low > 0 to high changes sign, elementwise.

    Bisection between logarithms; the end that is nearer when there is no change of sign.
    """
    low, high = np.log(low), np.log(high)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        positive = function(np.exp(middle)) > 0
        low, high = np.where(positive, middle, low), np.where(positive, high, middle)
    return np.asarray(np.exp((low + high) / 2))


# White noise, H = 1: u = 1 + t and y = 1/t, with one or two ratios. In closed form, since heat
# maps take millions of them.


def white_edge_parameter(delta: Floats, gamma: Floats) -> Floats:
    """Return t* at the right edge of MP_δ ⊠ MP_γ: the positive root of t³ − (δ+γ+δγ)t − 2δγ.

    With s = (δ+γ+δγ)/3 the inequality of means gives s³ ≥ δ²γ², so all three roots are real, with
    the positive one t* = 2√s cos(arccos(δγ/s^{3/2})/3). This cosine lies between √3/2 and 1, so
    nothing cancels. One Newton step then removes the rounding of the arccosine. Derived in
    docs/theory/bulk.md, "Edges".
    """
    s = np.maximum((delta + gamma + delta * gamma) / 3, TINY)
    cosine = np.minimum((delta / s) * (gamma / s) * np.sqrt(s), 1.0)  # δγ/s^{3/2}
    t = 2 * np.sqrt(s) * np.cos(np.arccos(cosine) / 3)
    slope = 3 * s / t / t  # (δ+γ+δγ)/t², between 3/4 and 1
    t -= t * (1 - slope - 2 * (delta / t) * (gamma / t) / t) / (3 - slope)
    return np.where(delta + gamma > 0, t, 0.0)


def white_eigenvalue(t: Floats, *ratios: ArrayLike) -> Floats:
    """Return (t+1) Π (1 + c_i/t), the eigenvalue at parameter t ≥ 0."""
    t = np.maximum(t, TINY)
    value = t + 1
    for c in ratios:
        value = value * (1 + np.asarray(c) / t)
    return np.asarray(value)


def white_population_overlap(t: Floats, delta: Floats) -> Floats:
    """Return ζ_pop = 1 − δ/t² where t > √δ, else 0: of C's outlier with the spike."""
    root = np.maximum(np.sqrt(delta), TINY)
    x = root / np.maximum(t, root)
    return np.asarray((1 - x) * (1 + x))


def white_overlap(t: Floats, t_star: Floats, delta: Floats, gamma: Floats) -> Floats:
    """Return ζ(t) = (t³ − (δ+γ+δγ)t − 2δγ)/(t²(t+γ)) where t > t*, else 0.

    The numerator has t* as a root; dividing it out gives, with x = t*/t and k = 2δγ/t*³, the form
    that is coded: ζ = (1−x)(1+x+kx²)/(1+γx/t*). It keeps its relative accuracy down to the
    threshold. A fresh array, in few passes: heat maps are large.
    """
    t_star = np.maximum(t_star, TINY)
    k = 2 * (delta / t_star) * (gamma / t_star) / t_star
    x = np.asarray(t_star / np.maximum(t, t_star))  # 1 at and below threshold
    zeta = np.asarray(k * x)
    zeta += 1
    zeta *= x
    zeta += 1
    zeta *= 1 - x
    x = x * (gamma / t_star)
    x += 1
    zeta /= x
    return zeta
