"""Thresholds: the weakest signal that shows, in the population and in a sample."""

from dataclasses import dataclass

import numpy as np

from attnlaw._checks import Floats, Real, scalar_or_array
from attnlaw.laws.outliers import white_edge_parameter
from attnlaw.models import PooledSequences
from attnlaw.theory.vocabulary import vocabulary_thresholds

__all__ = ["Thresholds", "thresholds"]


@dataclass(frozen=True, kw_only=True)
class Thresholds:
    """Critical signal norms ‖μ‖ of a model; infinite when the weights keep no signal."""

    population_signal_norm: Real  # beyond it the population covariance C has an outlier
    sample_signal_norm: Real  # beyond it the sample covariance S has one


def thresholds(model: PooledSequences) -> Thresholds:
    """Return the signal norms beyond which an eigenvalue leaves the bulk.

    Parameters
    ----------
    model : PooledSequences
        Its ratios may be arrays; its signal norm plays no part.

    Returns
    -------
    Thresholds
        Of the shape to which the two ratios broadcast.

    Notes
    -----
    Derived in docs/theory/thresholds.md, "Statement".

    ‖μ‖² is (κ/α)(δ + √δ) in the population and (κ/α)(δ + t*) in the sample. With tokens the
    sampling noise of the class means adds ‖m‖² → δ to the signal, which is subtracted, and the
    norm is clipped at 0: a threshold of 0 says that an outlier shows even without any signal.

    Examples
    --------
    Infinite vocabulary and no correlation: the BBP threshold γ^{1/4}.

    >>> import attnlaw as al
    >>> model = al.PooledSequences(
    ...     vocab_ratio=0.0, sample_ratio=0.0625, signal_norm=1.0,
    ...     correlation=np.eye(4), weights=al.mean_weights(4),
    ... )
    >>> thresholds(model)
    Thresholds(population_signal_norm=0.0, sample_signal_norm=0.5)
    """
    delta, gamma = np.broadcast_arrays(model.vocab_ratio, model.sample_ratio)

    if model.tokens_differ:
        population, sample = map(scalar_or_array, vocabulary_thresholds(model))
        return Thresholds(population_signal_norm=population, sample_signal_norm=sample)
    snr = model.snr
    mean_noise = delta if model.sampling == "token" else np.zeros_like(delta)

    def critical_norm(t: Floats) -> Real:
        if snr == 0:
            return scalar_or_array(np.full(t.shape, np.inf))
        return scalar_or_array(np.sqrt(np.maximum((t + delta) / snr - mean_noise, 0.0)))

    return Thresholds(
        population_signal_norm=critical_norm(np.sqrt(delta)),
        sample_signal_norm=critical_norm(white_edge_parameter(delta, gamma)),
    )
