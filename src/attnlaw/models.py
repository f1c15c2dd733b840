"""What is studied: frozen descriptions that validate themselves once."""

from dataclasses import dataclass, fields
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnlaw._validation import Real, choice, complain, count, frozen, real, real_array
from attnlaw.correlations import check_correlation

__all__ = ["PooledSequences", "SelfAttention", "Sizes"]

Sampling = Literal["token", "gaussian"]
Combination = Literal["concatenate", "mean"]


class Sizes(NamedTuple):
    """A finite instance of a model: how many of everything."""

    dimension: int  # d
    n_vocab: int  # V, even: half of the tokens in each class; 0 stands for infinitely many
    n_samples: int  # N


@dataclass(frozen=True, kw_only=True, eq=False)
class PooledSequences:
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
    weights : array of shape (length,)
        w, not all zero. They need not sum to one: only the SNR wᵀRw/wᵀw matters for overlaps.
    sampling : "token" or "gaussian"
        Real tokens from a fixed table (exact), or the papers' idealised population covariance
        (theory.md §2.1).
    centred : bool
        Subtract the sample mean. Without it, tokens from a table show a second outlier along
        the table's mean.

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
    correlation: NDArray[np.float64]  # R
    weights: NDArray[np.float64]  # w
    sampling: Sampling = "token"
    centred: bool = True

    def __post_init__(self) -> None:
        def set_field(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        for name in ("vocab_ratio", "sample_ratio", "signal_norm"):
            number = real(name, getattr(self, name), at_least=0)
            set_field(name, frozen(number) if isinstance(number, np.ndarray) else number)
        R = check_correlation(self.correlation)
        w = real_array("weights", self.weights, ndim=1)
        if len(w) != len(R):
            raise complain("weights", f"of length {len(R)}, like the correlation", w)
        if not w.any():
            raise complain("weights", "different from zero", w.tolist())
        set_field("correlation", frozen(R))
        set_field("weights", frozen(w))
        choice("sampling", self.sampling, ("token", "gaussian"))
        if not isinstance(self.centred, bool | np.bool_):
            raise complain("centred", "True or False", self.centred)
        try:
            _ = self.shape
        except ValueError:
            shapes = [np.shape(x) for x in (self.vocab_ratio, self.sample_ratio, self.signal_norm)]
            raise complain("the ratios and signal_norm", "broadcastable", shapes) from None

    @property
    def length(self) -> int:
        """Sequence length L."""
        return len(self.weights)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape to which the ratios and the signal norm broadcast; () for one model."""
        parts = (self.vocab_ratio, self.sample_ratio, self.signal_norm)
        return np.broadcast_shapes(*map(np.shape, parts))

    @property
    def signal_gain(self) -> float:
        """Weight α = wᵀRw of the signal in the pooled covariance."""
        return max(float(self.weights @ self.correlation @ self.weights), 0.0)

    @property
    def noise_gain(self) -> float:
        """Weight κ = wᵀw of the noise in the pooled covariance."""
        return float(self.weights @ self.weights)

    @property
    def snr(self) -> float:
        """Effective signal-to-noise ratio α/κ of the pooling."""
        return self.signal_gain / self.noise_gain

    @property
    def effective_length(self) -> float:
        """Number L_eff = κ²/Σw⁴ of positions that the weights really use."""
        return self.noise_gain**2 / float(np.sum(self.weights**4))

    def sizes(self, dimension: int) -> Sizes:
        """Whole numbers closest to the ratios at this dimension (an even vocabulary)."""
        d = count("dimension", dimension, at_least=2)
        if np.ndim(self.vocab_ratio) or np.ndim(self.sample_ratio):
            raise complain(
                "vocab_ratio and sample_ratio",
                "single numbers when sizes are asked for",
                f"shapes {np.shape(self.vocab_ratio)} and {np.shape(self.sample_ratio)}",
            )
        if self.sample_ratio == 0:
            raise complain("sample_ratio", "above 0 when sizes are asked for", 0.0)
        delta, gamma = float(self.vocab_ratio), float(self.sample_ratio)
        n_vocab = 0 if delta == 0 else 2 * max(1, round(d / delta / 2))
        return Sizes(d, n_vocab, max(2, round(d / gamma)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PooledSequences):
            return NotImplemented
        return all(
            np.array_equal(getattr(self, f.name), getattr(other, f.name)) for f in fields(self)
        )

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, kw_only=True, eq=False)
class SelfAttention:
    """Attention heads at initialisation: random queries and keys over orthonormal inputs.

    Queries Q and keys K are n × d_k standard Gaussian, and a head is A = softmax(β QKᵀ/√d_k) by
    rows. Studied are the squared singular values of √n A_⊥, A_⊥ = A − 11ᵀ/n, and of what is made
    of several heads: side by side, √(n/h) [A_⊥¹ … A_⊥ʰ], or their mean, √n (A_⊥¹ + … + A_⊥ʰ)/h.

    Parameters
    ----------
    n_tokens : int
        n ≥ 2.
    head_dimension : int
        d_k, of a single head.
    inverse_temperature : float
        β ≥ 0; 1 is the usual softmax(QKᵀ/√d_k).
    n_heads : int
        h.
    combination : "concatenate" or "mean"
        What is made of several heads.
    value_dimension : int, optional
        d_v: each head is multiplied by its values V (n × d_v standard Gaussian)/√d_v; the mean of
        heads by one set of values.
    output_dimension : int, optional
        Multiply further by an output matrix with this many columns, standard Gaussian divided by
        the square root of their number. Needs `value_dimension`.
    causal : bool
        Mask later tokens. Simulated; no law is known.
    input_spectrum : array, optional
        Eigenvalues of XXᵀ for inputs X that are not orthonormal (then Q = XW_Q and K = XW_K), in
        any number, as equally likely values; scaled to mean 1.

    Examples
    --------
    >>> import attnlaw as al
    >>> head = al.SelfAttention(n_tokens=1000, head_dimension=64, inverse_temperature=1.0)
    >>> head.token_ratio
    15.625
    """

    n_tokens: int  # n
    head_dimension: int  # d_k
    inverse_temperature: float  # β
    n_heads: int = 1  # h
    combination: Combination = "concatenate"
    value_dimension: int | None = None  # d_v
    output_dimension: int | None = None
    causal: bool = False
    input_spectrum: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        def set_field(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        set_field("n_tokens", count("n_tokens", self.n_tokens, at_least=2))
        for name in ("head_dimension", "n_heads"):
            set_field(name, count(name, getattr(self, name)))
        for name in ("value_dimension", "output_dimension"):
            if getattr(self, name) is not None:
                set_field(name, count(name, getattr(self, name)))
        if self.output_dimension is not None and self.value_dimension is None:
            raise complain("value_dimension", "given when output_dimension is", None)
        beta = real("inverse_temperature", self.inverse_temperature, at_least=0)
        if isinstance(beta, np.ndarray):
            raise complain("inverse_temperature", "a single number", beta)
        set_field("inverse_temperature", beta)
        choice("combination", self.combination, ("concatenate", "mean"))
        if not isinstance(self.causal, bool | np.bool_):
            raise complain("causal", "True or False", self.causal)
        if self.input_spectrum is not None:
            spectrum = np.sort(real_array("input_spectrum", self.input_spectrum, ndim=1))
            if not spectrum.size or spectrum[0] < 0 or spectrum[-1] == 0:
                raise complain("input_spectrum", "at least 0, and not all 0", self.input_spectrum)
            set_field("input_spectrum", frozen(spectrum / spectrum.mean()))

    @property
    def token_ratio(self) -> float:
        """Ratio φ = n/d_k."""
        return self.n_tokens / self.head_dimension

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SelfAttention):
            return NotImplemented
        return all(
            np.array_equal(getattr(self, f.name), getattr(other, f.name)) for f in fields(self)
        )

    __hash__ = None  # type: ignore[assignment]
