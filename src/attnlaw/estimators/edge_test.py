r"""The largest eigenvalue against noise of a known law: Tracy–Widom at finite size.

The test statistic is x = (λ/κ̂ − λ₊)/s, with the noise level κ̂ taken from the trace of the bulk
and s the unit of the edge's fluctuations. At finite size two things matter, both below:
where the edge is, and how much the division by κ̂ narrows the fluctuations.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attnlaw._checks import Floats
from attnlaw.estimators.nulls import Null, Outlier, SpectrumPopulation, TokenPopulation
from attnlaw.laws.tracy_widom import TRACY_WIDOM_MEAN, tracy_widom_survival

__all__ = ["EdgeTest", "Sizes"]

NARROWING = 3.5
"""Spread of the statistic is exp(−3.5 s/λ₊) of the Tracy–Widom law's.

Measured at 21 combinations of δ from 0 to 2, γ from 0.1 to 3 and d from 30 to 150, with 1,200 to
6,000 draws each: within 3 % at all but two of them (benchmarks/edge_calibration.py).
"""


@dataclass(frozen=True)
class Sizes:
    """Degrees of freedom behind a sample spectrum, after centring."""

    dimension: int  # d
    n_samples: int  # N
    n_tokens: float = np.inf  # V; infinite for independent rows


@dataclass(frozen=True)
class EdgeTest:
    """Largest eigenvalue against the edge of a null law of unit noise."""

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
            return Null(TokenPopulation((d - 0.5) / (V - 0.5), self.frequencies), gamma)
        return Null(SpectrumPopulation(self.spectrum), gamma)

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
        """Return x, of the Tracy–Widom law if there is nothing but noise of unit level."""
        spread = np.exp(-NARROWING * self.unit / self.edge)
        x = (eigenvalue - self.edge) / self.unit
        return float(TRACY_WIDOM_MEAN + (x - TRACY_WIDOM_MEAN) / spread)

    def p_value(self, eigenvalue: float) -> float:
        """Return the probability that noise of unit level has a larger eigenvalue."""
        return float(tracy_widom_survival(self.statistic(eigenvalue)))

    def outlier(self, eigenvalue: float) -> Outlier:
        """Return what an eigenvalue says of the population if it is not noise."""
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
            lost = float(np.sum(ratios - self.null.strength(ratios / self._factor)))
            before, level = level, bulk / max(d - lost, 1.0)
            if abs(level - before) < 1e-9 * level:
                break
        return level
