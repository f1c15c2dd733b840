"""What an estimated covariance predicts: the overlap of a spike, the accuracy of two classes.

Populations are Gaussian with any covariance, given by its eigenvalues and the squared components
of one direction along its eigenvectors.
"""

from dataclasses import dataclass

import numpy as np

from attnlaw._checks import Floats
from attnlaw.laws.outliers import Poles

__all__ = ["SpikedCovariance", "gaussian_accuracy"]


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


def gaussian_accuracy(
    variances: Floats, mean_products: Floats, n_samples: float, balance: float, ridge: float
) -> float:
    """Return the accuracy of ridge classification of two classes, from covariance, means and N.

    Parameters
    ----------
    variances : array of shape (d,)
        Eigenvalues t of the covariance within a class.
    mean_products : array of shape (d,)
        Squared components m_j² of half the difference of the class means along its eigenvectors;
        estimates without bias may be negative here and there.
    n_samples : float
        N of the training, or infinity.
    balance : float
        ȳ, the mean of labels ±1.
    ridge : float
        λ.

    Notes
    -----
    Derived in docs/theory/classification.md, "Any noise, classes of any size".

    With σ² = 1 − ȳ² the variance of the label, ν solves λ = ν (1 − (1/N) Σ t/(t+ν)) and

        ω = Σ m²/(t+ν),  ω_Σ = Σ m²t/(t+ν)²,  Γ = (1/N) Σ t²/(t+ν)²,  A = σ²ω/(1+σ²ω),
        v = [Γσ²(1−A)² + σ⁴ω_Σ/(1+σ²ω)²]/(1−Γ) :

    the score of a sample of class y is ȳ + A(y−ȳ) plus noise of variance v, and its sign is the
    answer. With unequal m² and K classes: `PooledClasses` with one token a sequence.

    Examples
    --------
    Infinitely many samples, white noise: Φ(‖m‖).

    >>> round(gaussian_accuracy(np.ones(4), np.full(4, 0.25), np.inf, 0.0, 1e-9), 6)
    0.841345
    """
    from scipy.optimize import brentq
    from scipy.special import ndtr

    t, variance = variances, 1 - balance**2

    def excess(log_nu: float) -> float:
        nu = np.exp(log_nu)
        return float(nu * (1 - np.sum(t / (t + nu)) / n_samples) - ridge)

    high = np.log(ridge + t.max() + t.sum() / min(n_samples, 1e300)) + 1
    nu = float(np.exp(brentq(excess, np.log(ridge) - 1e-12, high)))
    omega = max(float(np.sum(mean_products / (t + nu))), 0.0)
    omega_noise = max(float(np.sum(mean_products * t / (t + nu) ** 2)), 0.0)
    leverage = float(np.sum((t / (t + nu)) ** 2)) / n_samples
    A = variance * omega / (1 + variance * omega)
    noise = leverage * variance * (1 - A) ** 2
    noise += variance**2 * omega_noise / (1 + variance * omega) ** 2
    root = np.sqrt(max(noise / (1 - leverage), 1e-300))
    share = (1 + balance) / 2
    right = share * ndtr((balance + A * (1 - balance)) / root)
    return float(right + (1 - share) * ndtr((A * (1 + balance) - balance) / root))
