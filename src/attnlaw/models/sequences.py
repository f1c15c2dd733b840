"""Sequences of tokens with a hidden signal, pooled: of one kind, of several, by several heads."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from attnlaw._checks import Floats, Real, frozen, invalid_argument, real_array
from attnlaw.correlations import check_correlation
from attnlaw.models.base import (
    Gains,
    NamedWeights,
    PooledModel,
    Sampling,
    check_shares,
    check_weights,
    refuse_extreme_weights,
    set_field,
)
from attnlaw.models.vocabulary import Kinds, TokenModel, Vocabulary
from attnlaw.results import Spike, Spikes
from attnlaw.weights import by_name

__all__ = ["MultiHeadPooling", "PooledSequences", "SequenceMixture"]


@dataclass(frozen=True, kw_only=True, eq=False)
class PooledSequences(Gains, TokenModel[Spike]):
    """Sequences of tokens from a table with a hidden signal, pooled by fixed weights.

    A table holds V tokens in R^d, e_v = c_v μ + z_v, with balanced signs c_v = ±1 and standard
    Gaussian z_v. Sequence i has signs s_i with E[s sᵀ] = R and, at position l, a token drawn
    from the class s_il; it is pooled to x_i = Σ_l w_l e_{token(i,l)}. Studied is the sample
    covariance S = (1/N) Σ x_i x_iᵀ, and its leading eigenvector as an estimate of μ.

    Parameters
    ----------
    vocab_ratio : float or array
        δ = d/V ≥ 0; 0 is an infinite vocabulary.
    sample_ratio : float or array
        γ = d/N ≥ 0; 0 is infinitely many samples.
    signal_norm : float or array
        ‖μ‖ ≥ 0.
    correlation : array of shape (length, length)
        R: symmetric, positive semi-definite, unit diagonal.
    weights : array of shape (length,), or a name
        w, not all zero; "mean", "causal", "last", "optimal" or "direction". They need
        not sum to one: only the SNR wᵀRw/wᵀw matters for overlaps.
    sampling : "token" or "gaussian"
        Real tokens from a fixed table (exact), or the papers' idealised population covariance
        (docs/theory/pooled-covariance.md, "Derivation").
    centred : bool
        Subtract the sample mean. Without it, tokens from a table show a second outlier along
        the table's mean.
    vocabulary : Vocabulary, optional
        How often each token occurs and how much it counts: x_i = Σ_l w_l g_v e_v. By default all
        tokens are alike. Its number of tokens V and δ = d/V fix the dimension.

    Examples
    --------
    >>> import attnlaw as al
    >>> model = al.PooledSequences(
    ...     vocab_ratio=0.5, sample_ratio=0.4, signal_norm=1.5,
    ...     correlation=al.prefix_correlation(20, prefix=5), weights=al.mean_weights(20),
    ... )
    >>> round(model.snr, 12)      # 1 + p(p−1)/L
    2.0
    """

    vocab_ratio: Real  # δ = d/V
    sample_ratio: Real  # γ = d/N
    signal_norm: Real  # ‖μ‖
    correlation: Floats  # R
    weights: NamedWeights = NamedWeights()  # w
    sampling: Sampling = "token"
    centred: bool = True
    vocabulary: Vocabulary | None = None  # p, g, c

    @property
    def kinds(self) -> Kinds:
        """Share, weights and α of the one kind of sequence there is."""
        return [(1.0, self.weights, self.signal_gain)]

    def __post_init__(self) -> None:
        self._check_pooled()
        self._check_gains()
        if not isinstance(self.centred, bool | np.bool_):
            raise invalid_argument("centred", "True or False", self.centred)
        self._check_vocabulary()


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


@dataclass(frozen=True, kw_only=True, eq=False)
class MultiHeadPooling(PooledModel[Spikes]):
    """Sequences of tokens, pooled by H sets of weights and concatenated.

    The sequences are those of `PooledSequences`; head h pools them to Σ_l w_hl e_{token(i,l)},
    and x_i ∈ R^{Hd} has all heads one after the other. Studied is its sample covariance,
    centred by the sample mean. The signal space is the H-dimensional span of the vectors that
    hold a multiple of μ in every head (docs/theory/several-heads.md, "The spectrum of the
    concatenation").

    Parameters
    ----------
    vocab_ratio, sample_ratio, signal_norm : float or array
        δ = d/V, γ = d/N with d the dimension of one head, and ‖μ‖; as in `PooledSequences`.
    correlation : array of shape (length, length)
        R.
    weights : array of shape (n_heads, length)
        w_h, a row for each head, none of them zero; or a list of rows and names.
    sampling : "token" or "gaussian"
        See `PooledSequences`.

    Examples
    --------
    >>> import attnlaw as al
    >>> R = al.prefix_correlation(20, prefix=5)
    >>> heads = al.MultiHeadPooling(
    ...     vocab_ratio=0.5, sample_ratio=0.2, signal_norm=1.5, correlation=R,
    ...     weights=["mean", "causal"],
    ... )
    >>> heads.noise_gains.round(4)
    array([[0.05  , 0.05  ],
           [0.05  , 0.1064]])
    """

    vocab_ratio: Real  # δ = d/V
    sample_ratio: Real  # γ = d/N
    signal_norm: Real  # ‖μ‖
    correlation: Floats  # R
    weights: NamedWeights = NamedWeights()  # w_h, a row for each head
    sampling: Sampling = "token"

    def __post_init__(self) -> None:
        self._check_pooled()
        R = check_correlation(self.correlation)
        set_field(self, "correlation", frozen(R))
        set_field(self, "weights", frozen(_check_heads(self.weights, R)))

    @property
    def n_heads(self) -> int:
        """Number of heads H."""
        return len(self.weights)

    @property
    def signal_gains(self) -> Floats:
        """Matrix [w_hᵀRw_h'] by which heads share the signal."""
        return np.asarray(self.weights @ self.correlation @ self.weights.T)

    @property
    def noise_gains(self) -> Floats:
        """Matrix [w_hᵀw_h'] by which heads share the noise."""
        return np.asarray(self.weights @ self.weights.T)

    @property
    def effective_length(self) -> float:
        """Positions that the weights really use, L_eff = κ²/Σw⁴, in the head that uses fewest."""
        W = self.weights
        return float(np.min(np.sum(W**2, axis=1) ** 2 / np.sum(W**4, axis=1)))


def _check_heads(weights: ArrayLike, correlation: Floats) -> Floats:
    """Return the weights of all heads, each of them given by a name or as an array."""
    L = len(correlation)
    given: Any = weights
    if isinstance(given, list | tuple):
        given = [by_name(w, L, correlation) if isinstance(w, str) else w for w in given]
    W = real_array("weights", given, ndim=2)
    if len(W) == 0 or W.shape[1] != L:
        raise invalid_argument("weights", f"of shape (n_heads, {L}), like the correlation", W)
    if not W.any(axis=1).all():
        raise invalid_argument("weights", "different from zero in every head", W.tolist())
    refuse_extreme_weights(W)
    return W
