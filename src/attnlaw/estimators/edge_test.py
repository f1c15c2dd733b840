r"""Tests of the largest eigenvalue against noise of a known law, and of any law.

**A known law** (`EdgeTest`), which is a population law ⊠ MP_γ (`Null`). The statistic is
x = (λ/κ̂ − λ₊)/s, with the noise level κ̂ taken from the trace of the bulk and s the unit of the
edge's fluctuations. At finite size two things matter, both treated below: the location of the
edge, and how much the division by κ̂ narrows the fluctuations.

**Any law** (`spacing_p_value`). Where the density of a bulk ends like a square root, its largest
eigenvalues are λ₊ + s A_k with the same random A₁ > A₂ > … (Airy points, β = 1) for every law;
only λ₊ and s differ. A statistic that is invariant under shift and scale therefore has the same
distribution for every law (Onatski 2009). Here

    T = (x₁ − Σ_k c_k x_{k+1}) / Σ_k e_k x_{k+1} ,   k = 1 … 12,

with fixed c and e: the first sum is the best linear prediction of A₁ that is right for every
shift, scale and quadratic bend, the second the best estimate of s. For x one may take any smooth
function of λ; x = −λ^{−1/2} bends least in bulks with a regular edge. In x = −λ^{−1} eigenvalues
like 1/k are evenly spaced: it costs some power, and long tails without a sharp edge, such as those
of tokens with Zipf's frequencies, are not mistaken for outliers.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from attnlaw._checks import Floats
from attnlaw.laws.finite_spectra import TRACY_WIDOM_MEAN, tracy_widom_survival
from attnlaw.laws.outliers import Poles

__all__ = [
    "SPACINGS",
    "EdgeTest",
    "Null",
    "Outlier",
    "Sizes",
    "spacing_edge",
    "spacing_p_value",
    "tail_gap",
    "tokens_in",
    "winsorised",
]

NARROWING = 3.5
"""Spread of the statistic is exp(−3.5 s/λ₊) of the Tracy–Widom law's.

Measured at 21 combinations of δ from 0 to 2, γ from 0.1 to 3 and d from 30 to 150, with 1,200 to
6,000 draws each: within 3 % at all but two of them (benchmarks/edge_constants.py).
"""
GAUSSIAN_KURTOSIS, MOST_SPREAD = 3.0, 3.0
TRACY_WIDOM_95 = 0.98  # quantile


@dataclass(frozen=True)
class Sizes:
    """Degrees of freedom behind a sample spectrum, after centring."""

    dimension: int  # d
    n_samples: int  # N
    n_tokens: float = np.inf  # V; infinite for independent rows


class Outlier(NamedTuple):
    """The population spike behind an eigenvalue beyond the edge, in units of the noise."""

    population_eigenvalue: float  # ℓ
    shrunken_eigenvalue: float  # λ/(1+γy)²
    squared_overlap: float  # of the sample eigenvector with the direction of the spike
    strength: float  # trace that the spike adds to the noise: ρ for tokens
    slope: float  # d strength/dλ


@dataclass(frozen=True, eq=False)
class Null:
    """Sample spectrum of pure noise of unit mean: a population law ⊠ MP_γ.

    Of independent rows the population is a spectrum, ℓ = u, and a spike takes the place of one of
    its eigenvalues. Of tokens it is the compound free Poisson law of Zᵀ diag(f) Z/V, ℓ = u (1+y),
    and u = ρ is an additive spike (docs/theory/signal-components.md, "One variable").
    """

    curve: Poles
    of_population: tuple[float, ...]  # ratios of the factors in ℓ
    sample_ratio: float  # γ = d/N

    @classmethod
    def of_spectrum(cls, sample_ratio: float, eigenvalues: ArrayLike = (1.0,)) -> "Null":
        """Return the null of independent rows of a covariance; one eigenvalue: white noise."""
        return cls(Poles.of_spectrum(_of_unit_mean(eigenvalues)), (), sample_ratio)

    @classmethod
    def of_tokens(
        cls, vocab_ratio: float, sample_ratio: float, frequencies: ArrayLike = (1.0,)
    ) -> "Null":
        """Return the null of tokens with these frequencies, in any units."""
        f, counts = np.unique(_of_unit_mean(frequencies), return_counts=True)
        return cls(
            Poles.compound_poisson(f, counts / counts.sum(), vocab_ratio), (1.0,), sample_ratio
        )

    @property
    def _ratios(self) -> tuple[float, ...]:
        return (*self.of_population, self.sample_ratio)

    @cached_property
    def _edge_offset(self) -> Floats:
        return self.curve.edge_offset(*self._ratios)

    @cached_property
    def edge(self) -> float:
        """Right edge λ₊ of the bulk."""
        return float(self.curve.eigenvalue(self._edge_offset, *self._ratios))

    @cached_property
    def edge_scale(self) -> float:
        """Unit of the edge's fluctuations, times d^{2/3}."""
        return float(self.curve.edge_scale(self._edge_offset, *self._ratios))

    @cached_property
    def _grid(self) -> tuple[Floats, Floats]:
        """Table of λ, rising, and of the offset of u."""
        near, far = 1 - np.geomspace(1e-8, 0.5, 300), np.geomspace(0.499, 1e-12, 1500)
        shares = np.concatenate([[1.0], near, far])  # u*/u
        offset = self._edge_offset + self.curve.u(self._edge_offset) * (1 - shares) / shares
        return self.curve.eigenvalue(offset, *self._ratios), offset

    def _strength(self, u: Floats) -> Floats:
        """Return ρ = u for tokens; ℓ − 1 for a spike that replaces an eigenvalue of the noise."""
        return u if self.of_population else u - 1

    def strength(self, eigenvalues: Floats) -> Floats:
        """Return the trace that spikes with these outliers add to the noise; from a table."""
        lam, offset = self._grid
        return self._strength(1 / np.interp(eigenvalues, lam, 1 / self.curve.u(offset)))

    def outlier(self, eigenvalue: float) -> Outlier:
        """Return the spike behind an eigenvalue beyond the edge; at the edge, the limit there."""
        curve, ratios, population = self.curve, self._ratios, self.of_population
        at = self._offset_of(eigenvalue)
        lam, ell, u = curve.eigenvalue(at, *ratios), curve.eigenvalue(at, *population), curve.u(at)
        log_slope, ell_slope = curve.log_slope(at, *ratios), curve.log_slope(at, *population)
        with_spike = np.clip(ell * ell_slope, 0, 1) if population else 1.0  # dℓ/dρ
        return Outlier(
            population_eigenvalue=float(ell),
            shrunken_eigenvalue=float(lam / (1 + self.sample_ratio * curve.y(at)) ** 2),
            squared_overlap=float(np.clip(log_slope / ell_slope, 0, 1) * with_spike),
            strength=float(self._strength(u)),
            slope=float(1 / (lam * log_slope)) if log_slope > 0 else float("inf"),
        )

    def _offset_of(self, eigenvalue: float) -> Floats:
        from scipy.optimize import brentq

        lam, grid = self._grid
        place = int(np.searchsorted(lam, eigenvalue))
        if place == 0:
            return self._edge_offset
        if place == len(lam):
            return np.asarray(eigenvalue - self.curve.top)

        def excess(offset: float) -> float:
            return float(self.curve.eigenvalue(np.asarray(offset), *self._ratios)) - eigenvalue

        low, high = grid[place - 1 : place + 1]
        return np.asarray(brentq(excess, low, high, xtol=1e-14 * low, rtol=1e-14))


def _of_unit_mean(values: ArrayLike) -> Floats:
    x = np.asarray(values, dtype=np.float64)
    return np.asarray(x / x.mean())


@dataclass(frozen=True)
class EdgeTest:
    """Test of the largest eigenvalue against the edge of a null law of unit noise."""

    sizes: Sizes
    frequencies: tuple[float, ...] = (1.0,)  # of tokens, up to a factor
    spectrum: tuple[float, ...] = (1.0,)  # of the noise covariance, up to a factor

    @cached_property
    def null(self) -> Null:
        """The null law, with half a degree of freedom taken from every size.

        That moves the edge by O(1/d) to where the mean of the largest eigenvalue is right to
        the next order: Ma's (2012) correction for one Wishart matrix, which holds as well for
        a product of two (measured: mean −1.13 … −1.24 where the law has −1.21).
        """
        d, N, V = self.sizes.dimension, self.sizes.n_samples, self.sizes.n_tokens
        gamma = (d - 0.5) / (N - 0.5)
        if np.isfinite(V):
            return Null.of_tokens((d - 0.5) / (V - 0.5), gamma, self.frequencies)
        return Null.of_spectrum(gamma, self.spectrum)

    @cached_property
    def _factor(self) -> float:
        N, V = self.sizes.n_samples, self.sizes.n_tokens
        return (1 - 0.5 / N) * (1 - 0.5 / V)

    @cached_property
    def edge(self) -> float:
        """Right edge of the bulk for unit noise, at this size."""
        return self._factor * self.null.edge

    @cached_property
    def unit(self) -> float:
        """Unit s of the edge's fluctuations, for unit noise."""
        d = self.sizes.dimension
        return self._factor * self.null.edge_scale * float((d - 0.5) ** (-2 / 3))

    def statistic(self, eigenvalue: float) -> float:
        """Return x, which has the Tracy–Widom law under noise of unit level."""
        spread = np.exp(-NARROWING * self.unit / self.edge)
        x = (eigenvalue - self.edge) / self.unit
        return float(TRACY_WIDOM_MEAN + (x - TRACY_WIDOM_MEAN) / spread)

    def p_value(
        self, eigenvalue: float, *, widened: float = 0.0, kurtosis: float = GAUSSIAN_KURTOSIS
    ) -> float:
        """Return the probability that noise of unit level has a larger eigenvalue.

        The edge may be moved outwards by some units; and with scores of kurtosis k > 3 the
        fluctuations are taken to be (k−1)/2 times as wide, at most three times.
        """
        spread = np.clip((kurtosis - 1) / (GAUSSIAN_KURTOSIS - 1), 1, MOST_SPREAD)
        x = self.statistic(eigenvalue) - widened
        return float(tracy_widom_survival(TRACY_WIDOM_MEAN + (x - TRACY_WIDOM_MEAN) / spread))

    def outlier(self, eigenvalue: float) -> Outlier:
        """Return the population spike behind an eigenvalue that is not noise."""
        return self.null.outlier(eigenvalue / self._factor)

    def noise_level(self, eigenvalues: Floats, n_outliers: int) -> float:
        """Return κ from the trace of the bulk, for eigenvalues in falling order.

        An outlier takes λ out of the trace but adds only its strength to that of the noise, so
        that the bulk is left with κ (d − Σ (λ_j/κ − strength_j)).
        """
        d = len(eigenvalues)
        bulk = float(eigenvalues[n_outliers:].sum())
        level = bulk / (d - n_outliers)
        if n_outliers == 0 or level <= 0:
            return level
        for _ in range(20):
            ratios = eigenvalues[:n_outliers] / level
            strengths = self._factor * self.null.strength(ratios / self._factor)
            lost = float(np.sum(ratios - strengths))
            before, level = level, bulk / max(d - lost, 1.0)
            if abs(level - before) < 1e-9 * level:
                break
        return level


def tokens_in(bulk: Floats, n_samples: int) -> float:
    """Return V from m₂/m₁² = 1 + (d+1)/N + (d+1)/V, exact in the mean for Gaussian noise.

    V tokens span no more than V dimensions: V is larger than the number of eigenvalues above 0.
    """
    d, rank = len(bulk), int(np.sum(bulk > 1e-9 * bulk[0]))
    excess = float(np.mean(bulk**2) / np.mean(bulk) ** 2 - 1 - (d + 1) / n_samples)
    return max((d + 1) / max(excess, 1e-3 * (d + 1) / n_samples), rank + 1.0)


def winsorised(bulk: Floats, n_samples: int) -> tuple[EdgeTest, Floats]:
    """Return the test with V from the bulk, its leading eigenvalues cut at their expectation.

    A spike of any strength then moves V̂ by no more than an eigenvalue at the edge does. The
    search starts with the upper quarter cut off: including all of a component that dominates the
    variance, one or two tokens would explain it.
    """
    rank = min(len(bulk), n_samples)
    least = bulk[min(max(rank // 4, 1), rank - 1)]
    cut = np.minimum(bulk, least)
    for _ in range(100):
        test = EdgeTest(Sizes(len(bulk), n_samples, tokens_in(cut, n_samples)))
        cap = float(cut.mean()) * (test.edge + TRACY_WIDOM_95 * test.unit)
        before, cut = cut, np.minimum(bulk, max(cap, least))
        if abs(before[0] - cut[0]) <= 1e-4 * cut[0]:
            break
    return test, cut


def tail_gap(bulk: Floats, sizes: Sizes) -> float:
    r"""Return how much shorter the upper tail of a bulk is than that of equally frequent tokens.

    Of all laws with the first two moments of the bulk, those with a longer upper tail have less
    mass near zero. The statistic R = d [∫ dF(λ)/(λ+.3) − G(−.3)] compares the bulk, of unit mean,
    with MP_δ ⊠ MP_γ. In samples of tokens, without their largest eigenvalue, it has about

        mean q min(1, 10 δ/γ) ,   standard deviation q^{3/2}/(1 + .1 q^{3/2}) ,   q = δ + γ ,

    with γ replaced by 1/γ, and the factors .7 and .65, if γ > 1 (benchmarks/edge_constants.py).
    The distance from that mean in standard deviations is returned, negative for longer tails.
    """
    from scipy.optimize import brentq

    d, z = len(bulk), 0.3
    delta, gamma = d / sizes.n_tokens, d / sizes.n_samples

    def transform(nu: float) -> float:
        """ν ∫ MP_δ(dx)/(x+ν)."""
        a = nu + 1 - delta
        return float(-a + np.sqrt(a * a + 4 * delta * nu)) / (2 * delta)

    # MP_δ ⊠ MP_γ at −z is MP_δ at −ν:  z = ν (1 − γ (1 − νg(ν)))
    nu = brentq(lambda q: q * (1 - gamma * (1 - transform(q))) - z, z, z + 3 * gamma + 1)
    gap = d * (np.mean(1 / (bulk / bulk.mean() + z)) - transform(nu) / z)
    ratio = min(gamma, 1 / gamma)
    q = delta + ratio
    mean, spread = q * min(1.0, 10 * delta / ratio), q**1.5 / (1 + 0.1 * q**1.5)
    if gamma > 1:
        mean, spread = 0.7 * mean, 0.65 * spread
    return float((gap - mean) / spread)


SPACINGS = 12
"""Eigenvalues below the one in question that are used."""

# From 20,000 draws of the tridiagonal GOE (n = 3000), of which the 13 largest eigenvalues are
# Airy points: their means and covariance give c (exact for 1, a, a²) and e (exact for 1, a).
# fmt: off
PREDICTION = np.array([  # c: Σc = 1
    1.2865, 0.2860, 0.0834, -0.0631, -0.1003, -0.2289,
    -0.1856, -0.2465, -0.2211, -0.1818, -0.0340, 0.6054,
])
UNIT = np.array([  # e: Σe = 0
    0.03727, 0.02049, 0.01969, 0.01191, 0.01221, 0.00386,
    0.00751, 0.00068, -0.00371, -0.01024, -0.02298, -0.07669,
])
MEAN_OF_LARGEST = -1.2065  # E A₁
TAIL_PROBABILITIES = np.array(
    [1.0, 0.99, 0.9, 0.75, 0.5, 0.25, 0.1, 0.05, 0.025, 0.01, 0.005, 0.0025, 0.001, 0.0005]
)
TAIL_QUANTILES = np.array([
    -6.0, -2.542, -1.607, -0.966, -0.125, 0.87, 1.887,
    2.544, 3.133, 3.95, 4.488, 4.89, 5.695, 6.252,
])
# fmt: on
TAIL_RATE = 1.23  # of −log P(T > t) beyond the last quantile, where it grows faster still


def spacing_p_value(eigenvalues: Floats, exponent: float = 0.5) -> float:
    """Return the p-value of the first of thirteen positive eigenvalues in decreasing order.

    Examples
    --------
    >>> even = np.linspace(2.0, 1.0, 13)
    >>> spacing_p_value(even) > 0.05, spacing_p_value(np.append(4.0, even[1:])) < 1e-4
    (True, True)
    """
    T = _excess(-(eigenvalues**-exponent))
    beyond = max(T - TAIL_QUANTILES[-1], 0.0)
    within = float(np.interp(T, TAIL_QUANTILES, np.log(TAIL_PROBABILITIES)))
    return float(np.exp(within - TAIL_RATE * beyond))


def spacing_edge(eigenvalues: Floats, exponent: float = 0.5) -> float:
    """Return the edge λ₊ of the bulk with these thirteen largest eigenvalues, in falling order."""
    x = -(eigenvalues**-exponent)
    edge = PREDICTION @ x[1:] - MEAN_OF_LARGEST * max(float(UNIT @ x[1:]), 0.0)
    return float((-edge) ** (-1 / exponent)) if edge < 0 else float("inf")


def _excess(x: Floats) -> float:
    """Return T, +∞ when the eigenvalues below are all alike."""
    above, unit = float(x[0] - PREDICTION @ x[1:]), float(UNIT @ x[1:])
    if unit <= 0:
        return float("inf") if above > 0 else 0.0
    return above / unit
