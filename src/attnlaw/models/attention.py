"""Attention heads that have learned nothing yet."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import choice, count, frozen, invalid_argument, real, real_array
from attnlaw.models.base import Model
from attnlaw.results import AttentionSpectrum

__all__ = ["SelfAttention"]

Combination = Literal["concatenate", "mean"]


@dataclass(frozen=True, kw_only=True, eq=False)
class SelfAttention(Model[AttentionSpectrum]):
    """Attention heads at initialisation: random queries and keys over orthonormal inputs.

    Queries Q and keys K are n × d_k standard Gaussian, and a head is A = softmax(β QKᵀ/√d_k) by
    rows. Studied are the squared singular values of D^{1/2}(A − U), U uniform attention over the
    tokens that a row sees and D their number: √n A_⊥ with A_⊥ = A − 11ᵀ/n, or, for a causal head,
    √i (A_ij − 1/i) for j ≤ i. And of what is made of several heads: side by side, √(n/h) [A_⊥¹ …
    A_⊥ʰ], or their mean, √n (A_⊥¹ + … + A_⊥ʰ)/h. Why these: docs/theory/attention.md, "Gaussian
    equivalence", and docs/theory/causal-heads.md, "The closed form".

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
    qk_norm : bool
        Scale queries and keys to the norm √d_k (QK-norm).
    n_key_heads : int, optional
        Number of different sets of keys, a divisor of `n_heads`: heads share keys in groups
        (grouped-query attention). Equal to `n_heads` by default; needs `value_dimension` None.
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
    qk_norm: bool = False
    n_key_heads: int = 0
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
            raise invalid_argument("value_dimension", "given when output_dimension is", None)
        beta = real("inverse_temperature", self.inverse_temperature, at_least=0)
        if isinstance(beta, np.ndarray):
            raise invalid_argument("inverse_temperature", "a single number", beta)
        set_field("inverse_temperature", beta)
        choice("combination", self.combination, ("concatenate", "mean"))
        for name in ("causal", "qk_norm"):
            if not isinstance(getattr(self, name), bool | np.bool_):
                raise invalid_argument(name, "True or False", getattr(self, name))
        keys = count("n_key_heads", self.n_key_heads, at_least=0) or self.n_heads
        if self.n_heads % keys:
            raise invalid_argument("n_key_heads", f"a divisor of {self.n_heads}", keys)
        if keys < self.n_heads and self.value_dimension is not None:
            raise invalid_argument("n_key_heads", "n_heads when there are values", keys)
        set_field("n_key_heads", keys)
        if self.input_spectrum is not None:
            spectrum = np.sort(real_array("input_spectrum", self.input_spectrum, ndim=1))
            if not spectrum.size or spectrum[0] < 0 or spectrum[-1] == 0:
                raise invalid_argument(
                    "input_spectrum", "at least 0, and not all 0", self.input_spectrum
                )
            set_field("input_spectrum", frozen(spectrum / spectrum.mean()))

    @property
    def token_ratio(self) -> float:
        """Ratio φ = n/d_k."""
        return self.n_tokens / self.head_dimension
