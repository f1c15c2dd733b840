"""Poolings that were judged, and the advice that follows."""

from dataclasses import dataclass

import numpy as np

from attnlaw._checks import Floats

__all__ = ["MULTIPLES", "PoolingAdvice", "PoolingCandidate"]

Interval = tuple[float, float]

MULTIPLES = (1.0, 2.0, 4.0, np.inf)
"""Numbers of sequences for which predictions are made, in units of the present one."""


@dataclass(frozen=True, kw_only=True)
class PoolingCandidate:
    """A way of pooling: what it keeps, what is predicted for it, what it attains.

    Intervals are at 95 %; those of gains over the mean hold for all poolings together.
    """

    name: str
    weights: Floats  # w (L,), of a sequence without missing tokens
    effective_length: float  # κ²/Σw⁴: positions really used
    snr: float  # α/κ along the direction in which positions move together
    snr_interval: Interval
    snr_gain_interval: Interval
    overlaps: tuple[float, ...]  # squared, with that direction; predicted at N, 2N, 4N, ∞
    accuracy: float | None = None  # on folds held out, if there are labels
    accuracy_interval: Interval | None = None
    accuracy_gain_interval: Interval | None = None
    predicted_accuracies: tuple[float, ...] | None = None  # at N, 2N, 4N, ∞; two classes only
    independent_accuracy: float | None = None  # predicted at N, as if tokens were independent
    n_outliers: int  # leading eigenvalues that independent tokens do not explain, at level .01
    eigenvalues: Floats  # of the covariance of the pooled sequences, largest first
    noise_spectrum: Floats  # of its population, as if tokens were independent, largest first


@dataclass(frozen=True, kw_only=True)
class PoolingAdvice:
    """Poolings in order of merit, and what to make of them."""

    n_samples: int  # N
    length: int  # L
    dimension: int  # d
    classes: tuple[str, ...]  # names of the labels; empty without
    ranked_by: str  # "accuracy", or "snr" without labels
    candidates: tuple[PoolingCandidate, ...]  # best first
    best: str  # pooling to use: the mean, unless another is significantly better
    direction: Floats  # u (d,): along which positions move together most
    signal_power: float  # variance of a token's signal along u
    correlation: Floats  # (L, L): between positions along u, in units of that power, hollow
    notes: tuple[str, ...]
    verdict: str

    def __getitem__(self, name: str) -> PoolingCandidate:
        """Return the candidate of that name."""
        return next(candidate for candidate in self.candidates if candidate.name == name)
