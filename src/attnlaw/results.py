"""What theory predicts and simulation observes: one type for both, compared field by field."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Floats, Real

__all__ = [
    "Accuracy",
    "Alignment",
    "AttentionSpectrum",
    "ClassAccuracy",
    "ClassSpikes",
    "Spike",
    "Spikes",
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
