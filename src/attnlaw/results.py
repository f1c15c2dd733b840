"""Answers: what theory predicts and simulation observes, compared field by field, and plans."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Floats, Real, count, invalid_argument, scalar_or_array

__all__ = [
    "Accuracy",
    "Alignment",
    "AttentionSpectrum",
    "ClassAccuracy",
    "ClassSpikes",
    "Plan",
    "Spike",
    "Spikes",
    "Thresholds",
    "Validity",
    "exceeds_edge",
]

Flag = bool | NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Spike:
    """The signal's eigenvalue and how well its eigenvector points along the signal.

    A prediction has the model's broadcast shape; an observation has the trials as an extra
    leading axis. Below threshold the fields hold what the theorem gives: the edge, and 0.
    """

    top_eigenvalue: Real  # λ: of the sample covariance S, along the signal
    squared_overlap: Real  # ζ: of its eigenvector with the signal direction μ/‖μ‖
    bulk_edge: Real  # λ₊: right edge of the noise bulk of S
    population_eigenvalue: Real  # ℓ: of the population covariance C, along the signal
    population_overlap: Real  # of C's eigenvector with μ/‖μ‖
    sample_overlap: Real  # ζ_samp: of S's eigenvector with C's
    mean_eigenvalue: Real  # of S, along the table's mean; the edge when centred
    is_detectable: Flag  # λ > λ₊: the signal leaves the bulk

    def __getitem__(self, index: Any) -> "Spike":
        """Index every field, as one would an array."""
        return Spike(**{name: np.asarray(value)[index] for name, value in vars(self).items()})


@dataclass(frozen=True, kw_only=True)
class Alignment:
    """The first two fields of a `Spike`: what weights are compared by."""

    top_eigenvalue: Real  # λ: of the sample covariance S, along the signal
    squared_overlap: Real  # ζ: of its eigenvector with the signal direction μ/‖μ‖


@dataclass(frozen=True, kw_only=True)
class Spikes:
    """Several outliers and their eigenvectors; the last axis counts them, largest first.

    A prediction has the model's broadcast shape before that axis, an observation the trials.
    Below threshold the fields hold what the theorem gives: the edge, and 0.
    """

    top_eigenvalues: NDArray[np.float64]  # λ_j of the sample covariance S
    squared_overlaps: NDArray[np.float64]  # ζ_j: share of eigenvector j in the signal space
    bulk_edge: Real  # λ₊: right edge of the noise bulk of S; no axis of outliers
    population_eigenvalues: NDArray[np.float64]  # ℓ_j of the population covariance C
    population_overlaps: NDArray[np.float64]  # share of C's eigenvectors in the signal space
    sample_overlaps: NDArray[np.float64]  # squared overlap of S's eigenvector j with C's
    is_detectable: NDArray[np.bool_]  # λ_j > λ₊


@dataclass(frozen=True, kw_only=True)
class ClassSpikes(Spikes):
    """The outliers of K classes: K − 1 of them, and how much of each class mean they hold."""

    # last axis: classes. Share of ‖M_k − M̄‖² that lies in the span of the outliers' eigenvectors
    class_overlaps: NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Accuracy:
    """Test performance of ridge classification on pooled sequences."""

    accuracy: Real  # of the sign of the score on new sequences
    mean_squared_error: Real  # E (y − score)²
    signal_gain: Real  # A: the score is A (w·s) plus noise
    noise_variance: Real  # v: variance of that noise


@dataclass(frozen=True, kw_only=True)
class ClassAccuracy:
    """Test performance of a linear classifier of K classes."""

    accuracy: Real  # on new sequences, whose classes have the shares π
    class_accuracies: Floats  # last axis: classes. Accuracy on the sequences of each class


@dataclass(frozen=True, kw_only=True)
class AttentionSpectrum:
    """Singular values of attention: of A itself, and squared ones of √n A_⊥.

    For several heads A is [A¹ … Aʰ]/√h or their mean. An observation has the draws as an axis.
    """

    mean_square: Real  # m₁: mean squared singular value of √n A_⊥
    second_moment: Real  # m₂: mean fourth power
    bulk_edge: Real  # largest squared singular value of √n A_⊥
    top_singular_value: Real  # s₁(A)
    second_singular_value: Real  # s₂(A)
    squared_frobenius_norm: Real  # ‖A‖²
    stable_rank: Real  # ‖A‖²/s₁²


@dataclass(frozen=True, kw_only=True)
class Thresholds:
    """Critical signals of a model: of its signal norm, or of the scale of its class means.

    Infinite when the weights keep no signal, 0 when an outlier shows without any. Models with
    several outliers have an axis of them at the end, that of the strongest first.
    """

    population_signal: Real  # beyond it the population covariance C has the outlier
    sample_signal: Real  # beyond it the sample covariance S has it


@dataclass(frozen=True, kw_only=True)
class Validity:
    """How close the bulk of a model is to its limit law."""

    effective_length: float  # L_eff = κ²/Σw⁴: positions that the weights really use
    fourth_moment_deviation: Real  # relative excess of the bulk's fourth moment over the law's


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a wanted squared overlap takes, each need with everything else held fixed.

    A ratio of 0 (an infinite number) says that no number is large enough; `obstacles` says why.
    """

    squared_overlap: Real  # ζ that is wanted
    sample_ratio: Real  # γ = d/N, the largest that does; 0 when none does
    vocab_ratio: Real  # δ = d/V, the largest that does; 0 when none does
    signal: Real  # ‖μ‖ or signal scale, the smallest that does; infinite when none does
    ceiling: Real  # ‖μ‖²/(‖μ‖²+d/V_eff) for tokens: ζ of samples without number and noise
    sample_limit: Real  # ζ with infinitely many samples
    vocab_limit: Real  # ζ with an infinite vocabulary

    def n_samples(self, dimension: int) -> Real:
        """Smallest whole N = ⌈d/γ⌉ at a dimension; infinite where none does."""
        return _whole(dimension, self.sample_ratio, step=1)

    def n_vocab(self, dimension: int) -> Real:
        """Smallest even V ≥ d/δ at a dimension; infinite where none does."""
        return _whole(dimension, self.vocab_ratio, step=2)

    @property
    def obstacles(self) -> tuple[str, ...]:
        """Sentences that say which needs cannot be met, and why; of a plan for one model."""
        if any(np.ndim(value) for value in vars(self).values()):
            raise invalid_argument(
                "plan", "of a single model with one outlier when its obstacles are asked for", self
            )
        wanted, found = f"a squared overlap of {self.squared_overlap:.4g}", []
        if self.sample_ratio == 0 and self.sample_limit <= self.ceiling <= self.squared_overlap:
            found.append(
                f"No number of samples gives {wanted}: with tokens from this table the "
                f"ceiling is ‖μ‖²/(‖μ‖² + d/V_eff) = {self.ceiling:.4g}."
            )
        elif self.sample_ratio == 0:
            found.append(
                f"No number of samples gives {wanted}: with infinitely many it is "
                f"{self.sample_limit:.4g}."
            )
        if self.vocab_ratio == 0:
            found.append(
                f"No vocabulary gives {wanted}: with an infinite one it is {self.vocab_limit:.4g}."
            )
        if np.isinf(self.signal):
            found.append(f"No signal gives {wanted}: the weights keep none of it.")
        return tuple(found)


def _whole(dimension: int, ratio: Real, *, step: int) -> Real:
    d, c = count("dimension", dimension), np.asarray(ratio)
    # a ratio that is a whole number up to rounding does not cost one more
    n = step * np.ceil(d / np.where(c > 0, c, 1.0) / step * (1 - 1e-12))
    return scalar_or_array(np.where(c > 0, n, np.inf))


def exceeds_edge(eigenvalues: Real, edge: Real, dimension: int) -> NDArray[np.bool_]:
    """Whether drawn eigenvalues count as outliers: λ > (1 + d^(−2/3)) λ₊.

    The largest eigenvalue of noise fluctuates about the edge by a share of order d^(−2/3), and a
    spike that leaves the bulk lifts it by a share of order 1. The margin lies between.

    Examples
    --------
    >>> exceeds_edge(np.array([1.01, 1.02]), edge=1.0, dimension=512)      # 512^(−2/3) = 1/64
    array([False,  True])
    """
    return np.asarray(eigenvalues > (1 + dimension ** (-2 / 3)) * edge)
