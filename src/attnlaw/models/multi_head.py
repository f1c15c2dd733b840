"""Sequences pooled by several heads at once, side by side."""

from dataclasses import dataclass

import numpy as np

from attnlaw._checks import Floats, Real, choice, frozen, invalid_argument, real_array
from attnlaw.correlations import check_correlation
from attnlaw.models.base import Sizes, check_numbers, same_fields, set_field, whole_sizes
from attnlaw.models.sequences import Sampling

__all__ = ["MultiHeadPooling"]


@dataclass(frozen=True, kw_only=True, eq=False)
class MultiHeadPooling:
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
        w_h, a row for each head, none of them zero.
    sampling : "token" or "gaussian"
        See `PooledSequences`.

    Examples
    --------
    >>> import attnlaw as al
    >>> R = al.prefix_correlation(20, prefix=5)
    >>> heads = al.MultiHeadPooling(
    ...     vocab_ratio=0.5, sample_ratio=0.2, signal_norm=1.5, correlation=R,
    ...     weights=[al.mean_weights(20), al.causal_weights(20)],
    ... )
    >>> heads.noise_gains.round(4)
    array([[0.05  , 0.05  ],
           [0.05  , 0.1064]])
    """

    vocab_ratio: Real  # δ = d/V
    sample_ratio: Real  # γ = d/N
    signal_norm: Real  # ‖μ‖
    correlation: Floats  # R
    weights: Floats  # w_h, a row for each head
    sampling: Sampling = "token"

    def __post_init__(self) -> None:
        numbers = ("vocab_ratio", "sample_ratio", "signal_norm")
        check_numbers(self, numbers, "the ratios and signal_norm")
        R = check_correlation(self.correlation)
        W = real_array("weights", self.weights, ndim=2)
        if len(W) == 0 or W.shape[1] != len(R):
            raise invalid_argument(
                "weights", f"of shape (n_heads, {len(R)}), like the correlation", W
            )
        if not W.any(axis=1).all():
            raise invalid_argument("weights", "different from zero in every head", W.tolist())
        set_field(self, "correlation", frozen(R))
        set_field(self, "weights", frozen(W))
        choice("sampling", self.sampling, ("token", "gaussian"))

    @property
    def n_heads(self) -> int:
        """Number of heads H."""
        return len(self.weights)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape to which the ratios and the signal norm broadcast; () for one model."""
        parts = (self.vocab_ratio, self.sample_ratio, self.signal_norm)
        return np.broadcast_shapes(*map(np.shape, parts))

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

    def sizes(self, dimension: int) -> Sizes:
        """Whole numbers closest to the ratios at this dimension of a head (even vocabulary)."""
        return whole_sizes(self, dimension, multiple=2)

    def __eq__(self, other: object) -> bool:
        return same_fields(self, other) if isinstance(other, MultiHeadPooling) else NotImplemented

    __hash__ = None  # type: ignore[assignment]
