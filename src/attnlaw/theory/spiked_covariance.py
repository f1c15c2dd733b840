"""One spike added to noise of any covariance: how well a sample shows it."""

from dataclasses import dataclass

import numpy as np

from attnlaw._checks import Floats
from attnlaw.laws.outliers import Poles

__all__ = ["SpikedCovariance"]


@dataclass(frozen=True, kw_only=True)
class SpikedCovariance:
    """A covariance Σ with more signal in it, C = Σ + s u uᵀ, ready for any strength s and N."""

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
