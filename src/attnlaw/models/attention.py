"""Attention: heads that have learned nothing yet, and pooling by attention to a query."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnlaw._checks import (
    LARGEST,
    Floats,
    choice,
    count,
    frozen,
    invalid_argument,
    real_array,
    scalar,
)
from attnlaw.models.base import Model, Sizes, set_field
from attnlaw.results import Alignment, AttentionSpectrum

__all__ = ["QueryAttention", "Scoring", "SelfAttention"]

Combination = Literal["concatenate", "mean"]
Scoring = Literal["exponential", "softmax", "sigmoid"]

LEAST_SHARE = 1e-30
"""Least share of informative text: its powers, over tables of any size, are numbers."""

LARGEST_EXPONENT = 150.0
"""Largest β(n + 10), so that squares of e^{βh} are numbers; other scores are within ±10."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SelfAttention(Model[AttentionSpectrum]):
    """Attention heads at initialisation: random queries and keys over orthonormal inputs.

    Queries Q and keys K are n × d_k standard Gaussian, and a head is A = softmax(β QKᵀ/√d_k) by
    rows. Studied are the squared singular values of A less what it is at β = 0, with rows scaled
    to one size:

    - without a mask, √n A_⊥ with A_⊥ = A − 11ᵀ/n;
    - causal, √i (A_ij − 1/i) for j ≤ i: centred is causal uniform attention;
    - with ALiBi or a window, √ℓ_i (A_ij − π_ij), π the mean pattern (`mean_pattern`) and ℓ_i =
      1/Σ_j π_ij² the number of tokens that row i sees, in effect;
    - with a sink, √ℓ_i (A_ij − (1 − A_i1) π_ij) for j > 1, π the mean pattern of the others: the
      sink's own column is left out, with all that it takes.

    And of what is made of several heads: side by side, √(n/h) [A_⊥¹ … A_⊥ʰ], or their mean,
    √n (A_⊥¹ + … + A_⊥ʰ)/h. Why these: docs/theory/attention.md, "Gaussian equivalence", and
    docs/theory/causal-heads.md, "The closed form" and "Mean patterns".

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
        Mask later tokens: row i is a softmax over the first i.
    alibi_slope : float
        m ≥ 0: a causal head's logits less m (i − j), a linear bias against distant tokens (ALiBi).
    window : int, optional
        A causal head sees the last `window` tokens, itself among them (sliding window).
    sink : float
        Share in [0, 1) that a causal head's first token takes of every later row at β = 0; all
        other tokens share the rest (attention sink). It is seen whatever the window.
    qk_norm : bool
        Scale queries and keys to the norm √d_k (QK-norm).
    n_key_heads : int, optional
        Number of different sets of keys, a divisor of `n_heads`: heads share keys in groups
        (grouped-query attention). Equal to `n_heads` by default; needs `value_dimension` None.
    input_spectrum : array, optional
        Eigenvalues of XXᵀ for inputs X that are not orthonormal (then Q = XW_Q and K = XW_K), in
        any number, as equally likely values; scaled to mean 1.
    inputs : array of shape (n_tokens, m), optional
        X itself, one row for each token, scaled to mean squared norm 1; only XXᵀ matters, so that
        a Cholesky factor of a Gram matrix does as well. β² is then the mean variance of a score.
    rotary_base : float, optional
        Rotate queries and keys by their positions before they meet (RoPE), with frequencies
        base^{−2k/d_k}, k = 0 … d_k/2 − 1; 10,000 in most models. It matters for given inputs
        alone.
    depth : int
        D: the squared singular values of the product of D layers, √n A_⊥ᴰ … √n A_⊥¹, each with
        weights of its own over the same inputs. Since A_⊥ 1 = 0, that is n^{D/2} times the product
        Aᴰ … A¹ less its common row (docs/theory/depth.md, "The law"). One head, or a mean of
        heads, without mask and values.

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
    qk_norm: bool = False
    n_key_heads: int = 0
    input_spectrum: NDArray[np.float64] | None = None
    alibi_slope: float = 0.0  # m
    window: int | None = None
    sink: float = 0.0
    inputs: NDArray[np.float64] | None = None  # X
    rotary_base: float | None = None
    depth: int = 1  # D

    def __post_init__(self) -> None:
        self._check_sizes()
        self._check_heads()
        if self.input_spectrum is not None:
            self._set("input_spectrum", _checked_spectrum(self.input_spectrum))
        if self.inputs is not None:
            self._set("inputs", self._checked_inputs(self.inputs))
        self._check_positions()
        if self.depth > 1:
            self._check_depth()

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _check_sizes(self) -> None:
        self._set("n_tokens", count("n_tokens", self.n_tokens, at_least=2, at_most=10**6))
        self._set("n_heads", count("n_heads", self.n_heads, at_most=10**5))
        for name in ("head_dimension", "depth"):
            self._set(name, count(name, getattr(self, name)))
        for name in ("value_dimension", "output_dimension"):
            if getattr(self, name) is not None:
                self._set(name, count(name, getattr(self, name)))
        if self.output_dimension is not None and self.value_dimension is None:
            raise invalid_argument("value_dimension", "given when output_dimension is", None)
        for name in ("inverse_temperature", "alibi_slope", "sink"):
            self._set(name, scalar(name, getattr(self, name), at_least=0, at_most=LARGEST))

    def _check_heads(self) -> None:
        choice("combination", self.combination, ("concatenate", "mean"))
        for name in ("causal", "qk_norm"):
            if not isinstance(getattr(self, name), bool | np.bool_):
                raise invalid_argument(name, "True or False", getattr(self, name))
        keys = count("n_key_heads", self.n_key_heads, at_least=0) or self.n_heads
        if self.n_heads % keys:
            raise invalid_argument("n_key_heads", f"a divisor of {self.n_heads}", keys)
        if keys < self.n_heads and self.value_dimension is not None:
            raise invalid_argument("n_key_heads", "n_heads when there are values", keys)
        self._set("n_key_heads", keys)

    def _check_depth(self) -> None:
        allowed = [("causal", "False", not self.causal)]
        allowed += [("value_dimension", "None", self.value_dimension is None)]
        allowed += [("combination", "'mean'", self.n_heads == 1 or self.combination == "mean")]
        for name, wanted, is_met in allowed:
            if not is_met:
                raise invalid_argument(
                    name, f"{wanted} when depth is above 1", getattr(self, name)
                )

    def _checked_inputs(self, inputs: ArrayLike) -> NDArray[np.float64]:
        X = real_array("inputs", inputs, ndim=2)
        if len(X) != self.n_tokens or not X.shape[1]:
            raise invalid_argument(
                "inputs", f"of shape ({self.n_tokens}, m), a row for each token", X
            )
        if self.input_spectrum is not None:
            raise invalid_argument("input_spectrum", "None when inputs are given", "a spectrum")
        size = float(np.abs(X).max())
        if size == 0:
            raise invalid_argument("inputs", "not all 0", X)
        X = X / size
        return frozen(X / np.mean(np.sum(X**2, axis=1)) ** 0.5)

    def _check_positions(self) -> None:
        if self.window is not None:
            self._set("window", count("window", self.window))
        if self.sink >= 1:
            raise invalid_argument("sink", "below 1", self.sink)
        if self.has_pattern and not self.causal:
            raise invalid_argument("causal", "True when there is a mean pattern", self.causal)
        if self.rotary_base is not None:
            base = scalar("rotary_base", self.rotary_base, at_least=0)
            if base <= 1:
                raise invalid_argument("rotary_base", "above 1", base)
            if self.head_dimension % 2:
                raise invalid_argument("head_dimension", "even for RoPE", self.head_dimension)
            self._set("rotary_base", base)

    @property
    def token_ratio(self) -> float:
        """Ratio φ = n/d_k."""
        return self.n_tokens / self.head_dimension

    @property
    def has_pattern(self) -> bool:
        """Whether the mean pattern is other than uniform over the tokens that the mask leaves."""
        return bool(self.alibi_slope or self.sink) or self.window is not None

    def mean_pattern(self) -> NDArray[np.float64]:
        """Attention at β = 0 (n × n, rows sum to one): 1/n, 1/i over the first i, or a pattern.

        Examples
        --------
        >>> import attnlaw as al
        >>> head = al.SelfAttention(n_tokens=4, head_dimension=8, inverse_temperature=1.0,
        ...     causal=True, window=2, sink=0.5)
        >>> head.mean_pattern()
        array([[1.  , 0.  , 0.  , 0.  ],
               [0.5 , 0.5 , 0.  , 0.  ],
               [0.5 , 0.25, 0.25, 0.  ],
               [0.5 , 0.  , 0.25, 0.25]])
        """
        n = self.n_tokens
        if not self.causal:
            return np.full((n, n), 1 / n)
        lags = np.arange(n)[:, None] - np.arange(n)
        pattern = np.exp(-self.alibi_slope * np.maximum(lags, 0)) * (lags >= 0)
        if self.window is not None:
            pattern *= lags < self.window
        if self.sink:
            pattern[1:, 0] = 0.0
        pattern /= pattern.sum(axis=1, keepdims=True)
        if self.sink:
            pattern[1:] *= 1 - self.sink
            pattern[1:, 0] = self.sink
        return np.asarray(pattern)


def _checked_spectrum(values: ArrayLike) -> NDArray[np.float64]:
    spectrum = np.sort(real_array("input_spectrum", values, ndim=1))
    if not spectrum.size or spectrum[0] < 0 or spectrum[-1] == 0:
        raise invalid_argument("input_spectrum", "at least 0, and not all 0", values)
    return frozen(spectrum / spectrum.mean())


@dataclass(frozen=True, kw_only=True, eq=False)
class QueryAttention(Model[Alignment]):
    """Sequences in which only some tokens are informative, pooled by their match with a query.

    A sequence with label y = ±1 has L tokens. Each is informative with probability f, wherever
    it stands, so that weights of positions are of no use. Informative tokens of a sequence are
    e = y μ + ν + z, others e = z, with standard Gaussian z and a marker ν orthogonal to μ. A unit
    query q with q·ν = ρ‖ν‖ scores a token by h = q·e; tokens are pooled with weights that grow
    with h, and the query's own direction is then projected out.

    Parameters
    ----------
    n_tokens : int
        V, tokens in the table.
    informative_tokens : int
        How many of them are informative, an even number; half of them have each sign.
    dimension, n_samples : int
        d and N.
    length : int
        L, tokens in a sequence.
    informative_share : float
        f, between 1e-30 and 1: share of the text that is informative.
    signal_norm, marker_norm : float
        ‖μ‖ and ‖ν‖.
    query_overlap : float
        ρ, between 0 and 1, of a given query.
    query : "given" or "learned"
        With "learned" q is the leading eigenvector of the table itself, centred; ρ is then what
        it finds of the marker, and scores are scaled so that those of other tokens have mean 0
        and variance 1.
    scoring : "exponential", "softmax" or "sigmoid"
        Weight of a token before the sum over the sequence: e^{βh}/L; e^{βh} over the sum of them
        in its sequence; or 1/(1 + e^{−βh + …}), at β = n the chance that the token is informative.
    inverse_temperature : float
        β ≥ 0; 0 is mean pooling. Sigmoid scores take any β, the others β ≤ 150/(n + 10).

    Examples
    --------
    Half of the marker is seen by the query, and the scores of both kinds of tokens are two
    standard deviations apart:

    >>> model = QueryAttention(
    ...     n_tokens=12_000, informative_tokens=1_200, dimension=150, n_samples=900, length=20,
    ...     informative_share=0.1, signal_norm=1.0, marker_norm=4.0, query_overlap=0.5)
    >>> model.separation
    2.0
    """

    n_tokens: int  # V
    informative_tokens: int  # |A|
    dimension: int  # d
    n_samples: int  # N
    length: int  # L
    informative_share: float  # f
    signal_norm: float  # ‖μ‖
    marker_norm: float  # ‖ν‖
    query_overlap: float = 1.0  # ρ
    scoring: Scoring = "softmax"
    inverse_temperature: float = 0.0  # β
    query: Literal["given", "learned"] = "given"

    def __post_init__(self) -> None:
        for name, least in (("dimension", 3), ("n_samples", 2), ("length", 2), ("n_tokens", 4)):
            set_field(self, name, count(name, getattr(self, name), at_least=least))
        n = count("informative_tokens", self.informative_tokens, at_least=2)
        if n % 2 or n >= self.n_tokens:
            words = f"an even number below the {self.n_tokens} tokens"
            raise invalid_argument("informative_tokens", words, n)
        for name in ("signal_norm", "marker_norm", "inverse_temperature"):
            set_field(self, name, scalar(name, getattr(self, name), at_least=0, at_most=LARGEST))
        share = scalar("informative_share", self.informative_share, at_least=LEAST_SHARE, below=1)
        set_field(self, "informative_share", share)
        overlap = scalar("query_overlap", self.query_overlap, at_least=0, at_most=1)
        set_field(self, "query_overlap", overlap)
        choice("scoring", self.scoring, ("exponential", "softmax", "sigmoid"))
        if choice("query", self.query, ("given", "learned")) == "learned" and overlap != 1:
            raise invalid_argument("query_overlap", "left out for a learned query", overlap)
        most = LARGEST_EXPONENT / (10 + self.separation)
        if self.scoring != "sigmoid" and self.inverse_temperature > most:
            words = f"at most {most:.4g} for scores {self.separation:g} apart (e^{{βh}} overflows)"
            raise invalid_argument("inverse_temperature", words, self.inverse_temperature)

    @property
    def separation(self) -> float:
        """Distance n = ρ‖ν‖ between the scores of informative and other tokens."""
        return self.query_overlap * self.marker_norm

    @property
    def sizes(self) -> Sizes:
        """Whole numbers d, V and N."""
        return Sizes(self.dimension, self.n_tokens, self.n_samples)

    def importance(self, scores: Floats) -> Floats:
        """Return the weight g(h) that a score has before any normalisation."""
        h, beta = np.asarray(scores, dtype=np.float64), self.inverse_temperature
        if self.scoring != "sigmoid":
            return np.asarray(np.exp(beta * h))
        odds = np.log(self.informative_share / (1 - self.informative_share))
        return np.asarray(np.exp(-np.logaddexp(0.0, -beta * (h - self.separation / 2) - odds)))
