"""Sequences pooled by several heads at once, side by side."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from attnlaw._checks import Floats, Real, frozen, invalid_argument, real_array
from attnlaw.correlations import check_correlation
from attnlaw.models.base import NamedWeights, PooledModel, Sampling, set_field
from attnlaw.results import Spikes
from attnlaw.weights import by_name

__all__ = ["MultiHeadPooling"]


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
    return W
