"""Sequences of tokens with a hidden signal, pooled by fixed weights."""

from dataclasses import dataclass

import numpy as np

from attnlaw._checks import Floats, Real, invalid_argument
from attnlaw.models.base import Gains, NamedWeights, Sampling
from attnlaw.models.vocabulary import Kinds, TokenModel, Vocabulary
from attnlaw.results import Spike

__all__ = ["PooledSequences"]


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
