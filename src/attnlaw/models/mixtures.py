"""Sequences that differ: in length, in weights, in how their positions move together."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from attnlaw._checks import Floats, Real, frozen, invalid_argument
from attnlaw.correlations import check_correlation
from attnlaw.models.base import (
    Sampling,
    check_shares,
    check_weights,
    set_field,
)
from attnlaw.models.vocabulary import Kinds, TokenModel, Vocabulary
from attnlaw.results import Spike

__all__ = ["SequenceMixture"]


@dataclass(frozen=True, kw_only=True, eq=False)
class SequenceMixture(TokenModel[Spike]):
    """Pooled sequences of several kinds, each with its own correlation and weights.

    As `PooledSequences`, but a sequence is of kind g with probability q_g and then has the
    correlation R_g of its signs and the weights w_g, of its own length. All kinds share one
    table, so that batches of sequences of unequal length are described as well as sequences
    whose correlation varies. Studied is the sample covariance, centred by the sample mean
    (docs/theory/mixtures.md, "The model").

    Parameters
    ----------
    vocab_ratio, sample_ratio, signal_norm : float or array
        δ = d/V, γ = d/N (of all sequences) and ‖μ‖, as in `PooledSequences`.
    correlations : sequence of arrays
        R_g, square matrices that may differ in size.
    weights : sequence of arrays or names, or one of them
        w_g of the same lengths and all of the same sum; a single one stands for all kinds. Names
        are those of `PooledSequences`.
    shares : array, optional
        q_g, above 0 and scaled to sum to one; equal by default.
    sampling : "token" or "gaussian"
        See `PooledSequences`.
    vocabulary : Vocabulary, optional
        How often each token occurs and how much it counts, as in `PooledSequences`.

    Examples
    --------
    Half of the sequences have 5 tokens, half 20, and each is averaged:

    >>> import attnlaw as al
    >>> mixture = al.SequenceMixture(
    ...     vocab_ratio=0.5, sample_ratio=0.4, signal_norm=1.5,
    ...     correlations=[al.prefix_correlation(n, prefix=5) for n in (5, 20)],
    ...     weights="mean",
    ... )
    >>> mixture.noise_gains.round(12), mixture.signal_gains.round(12)
    (array([0.2 , 0.05]), array([1. , 0.1]))
    """

    vocab_ratio: Real  # δ = d/V
    sample_ratio: Real  # γ = d/N
    signal_norm: Real  # ‖μ‖
    correlations: Sequence[Floats]  # R_g
    weights: Sequence[Floats]  # w_g
    shares: Floats | None = None  # q
    sampling: Sampling = "token"
    vocabulary: Vocabulary | None = None  # p, g, c

    centred: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self._check_pooled()
        self._check_vocabulary()
        kinds = tuple(frozen(check_correlation(R)) for R in self.correlations)
        if not kinds:
            raise invalid_argument("correlations", "at least one matrix", self.correlations)
        given: Any = self.weights
        if isinstance(given, str) or not any(isinstance(w, str) or np.ndim(w) for w in given):
            given = [given] * len(kinds)  # one for all
        if len(given) != len(kinds):
            raise invalid_argument(
                "weights", f"{len(kinds)} arrays, one for each correlation", len(given)
            )
        weights = tuple(frozen(check_weights(w, R)) for w, R in zip(given, kinds, strict=True))
        sums = np.array([w.sum() for w in weights])
        if np.ptp(sums) > 1e-9 * np.abs(sums).max():
            raise invalid_argument("weights", "of the same sum for every kind", sums.tolist())
        set_field(self, "correlations", kinds)
        set_field(self, "weights", weights)
        set_field(self, "shares", check_shares("shares", self.shares, len(kinds), "correlation"))

    @property
    def kind_shares(self) -> Floats:
        """Shares q of the kinds."""
        assert self.shares is not None  # equal ones were filled in
        return self.shares

    @property
    def kinds(self) -> Kinds:
        """Share, weights and α of each kind of sequence."""
        return list(
            zip(self.kind_shares.tolist(), self.weights, self.signal_gains.tolist(), strict=True)
        )

    @property
    def signal_gains(self) -> Floats:
        """Weights α_g = w_gᵀR_g w_g of the signal, of each kind."""
        pairs = zip(self.weights, self.correlations, strict=True)
        return np.array([max(float(w @ R @ w), 0.0) for w, R in pairs])

    @property
    def noise_gains(self) -> Floats:
        """Weights κ_g = w_gᵀw_g of the noise, of each kind."""
        return np.array([float(w @ w) for w in self.weights])

    @property
    def signal_gain(self) -> float:
        """Weight ᾱ = Σ q_g α_g of the signal in the pooled covariance."""
        return float(self.kind_shares @ self.signal_gains)

    @property
    def noise_gain(self) -> float:
        """Weight κ̄ = Σ q_g κ_g of the noise in the pooled covariance."""
        return float(self.kind_shares @ self.noise_gains)

    @property
    def snr(self) -> float:
        """Signal-to-noise ratio ᾱ/κ̄ of the population."""
        return self.signal_gain / self.noise_gain

    @property
    def effective_length(self) -> float:
        """Number L_eff = κ̄²/Σ q_g Σw_g⁴ of positions that the weights really use."""
        fourth = np.array([float(np.sum(w**4)) for w in self.weights])
        return self.noise_gain**2 / float(self.kind_shares @ fourth)
