"""Predicted singular values of a head, with the outlier due to key norms.

A long key draws attention from every query: the entries of column j are raised by
r_j ≈ (β²/2)(‖k_j‖²/d_k − 1), a term √n 1 rᵀ/n of rank one, which is the harmonic of degree 0
(`kernel`). A singular value w of √n A_⊥ outside the bulk solves

    h n p₀(w) q₀(w) = 1 ,     p₀ = mean α₀ R ,   q₀ = mean γ₀ C ,

the D-transform of Benaych-Georges & Nadakuditi (2012) with the resolvents R, C of the bulk's
profile and α₀, γ₀ the squared factors of the term.
"""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from attnlaw._checks import Floats, choice, invalid_argument
from attnlaw.laws import CausalLaw, CavityLaw, Law, MixtureLaw, ProfileLaw, profile_resolvents
from attnlaw.models import SelfAttention
from attnlaw.models.base import answers
from attnlaw.results import AttentionSpectrum
from attnlaw.theory.attention.causal import causal_energies
from attnlaw.theory.attention.law import law_of_attention, score_energy, small_scale
from attnlaw.theory.attention.profiles import (
    AttentionProfile,
    by_input_spectrum,
    first_profile,
    norms_profile,
    tokens_term_energy,
)
from attnlaw.theory.verbs import predict

__all__ = ["KeyNormOutlier", "key_norm_outlier", "law_top"]


@answers(predict)
def predict_attention(model: SelfAttention, order: str = "auto") -> AttentionSpectrum:
    """Predict the singular values of attention.

    Parameters
    ----------
    model : SelfAttention
        Heads without values, over orthonormal inputs.
    order : str
        As in `law`.

    Returns
    -------
    AttentionSpectrum

    Notes
    -----
    With the law ν of √n A_⊥ and the key-norm term of squared strength τ (`key_norm_outlier`):

    - mean_square = ∫x ν + τ/n ;   second_moment = ∫x² ν + (τ² + 4τ ∫x ν)/n
    - bulk_edge: the right edge of ν; for order "tokens", which has no sharp edge, the point above
      which half a singular value is expected, about the median of the largest
    - AAᵀ = 11ᵀ/n + A_⊥A_⊥ᵀ, since rows sum to one, so s₁² = 1 + 1ᵀA_⊥A_⊥ᵀ1/n = 1 + (τ + m₁)/n and
      ‖A‖² = 1 + m₁ ;   s₂² = bulk_edge/n

    A causal head is U + D^{−1/2}Y, U uniform over the first i tokens and D = diag(i). Its norm is
    exact, ‖A‖² = Σ_i (1 + e_i)/i with e_i the mean energy of a row of i entries, and, to second
    order in Y, s_k² = σ_k² + Σ_i (e_i/i)(u_i² + variance of v_1 … v_i), with σ_k, u, v of U, whose
    inverse is bidiagonal (docs/theory/causal-heads.md, "The matrix itself").

    In the limit τ/n → 0: s₁ → 1, s₂ → 0 and ‖A‖² → e^{β²} (P3; docs/theory/attention.md,
    "The matrix itself").

    Examples
    --------
    >>> import attnlaw as al
    >>> head = al.SelfAttention(n_tokens=10**6, head_dimension=10**6, inverse_temperature=1.0)
    >>> seen = al.predict(head, order="first")
    >>> round(seen.squared_frobenius_norm, 4), round(seen.top_singular_value, 4)
    (2.7183, 1.0)
    """
    if model.value_dimension is not None:
        raise invalid_argument(
            "value_dimension", "None to predict A itself", model.value_dimension
        )
    if model.depth > 1:
        raise invalid_argument("depth", "1 to predict A itself", model.depth)
    if model.causal:
        return _predict_causal(model, order)
    model = by_input_spectrum(model)
    law = law_of_attention(model, order)
    n, share = model.n_tokens, _term_share(law)
    is_finite = order in ("auto", "norms", "tokens") and model.head_dimension >= 3
    is_finite = is_finite and model.input_spectrum is None
    is_finite = is_finite and small_scale(model.inverse_temperature)[0] > 0
    by_tokens = is_finite and order != "norms"
    energy = _term_energy(model, share, is_finite=is_finite, by_tokens=by_tokens)
    strength, mean = n * energy, law.moment(1)
    m1 = mean + energy
    is_sharp = share == 1 and not by_tokens
    edge = law_top(law) if is_sharp else float(law.quantile(1 - 0.5 / n))
    top = 1 + energy + m1 / n
    return AttentionSpectrum(
        mean_square=m1,
        second_moment=law.moment(2) + (strength**2 + 4 * strength * mean) / n,
        bulk_edge=edge,
        top_singular_value=top**0.5,
        second_singular_value=(edge / n) ** 0.5,
        squared_frobenius_norm=1 + m1,
        stable_rank=(1 + m1) / top,
    )


def _term_energy(model: SelfAttention, share: float, *, is_finite: bool, by_tokens: bool) -> float:
    """Mean energy τ/n of a row in the key-norm term, of the fourth order in β."""
    if share == 0:
        return 0.0
    scale, beta = small_scale(model.inverse_temperature)
    head = replace(model, inverse_temperature=beta)
    if by_tokens:
        return share * scale**2 * tokens_term_energy(head)
    return scale**2 * (norms_profile if is_finite else first_profile)(head).term_energy


def _term_share(law: Law) -> float:
    """Share of the key-norm term in addition to the law: none of it in a cavity law."""
    if isinstance(law, MixtureLaw):
        return sum(p * _term_share(part) for p, part in zip(law.weights, law.laws, strict=True))
    return 0.0 if isinstance(law, CavityLaw) else 1.0


def law_top(law: Law) -> float:
    """Largest point of a law, an atom if nothing else."""
    return float(max([*law.edges[-1:], *law.atom.location[-1:]]))


def _predict_causal(model: SelfAttention, order: str) -> AttentionSpectrum:
    if model.has_pattern:
        raise invalid_argument(
            "alibi_slope, window and sink", "0 or None to predict A itself", "a mean pattern"
        )
    law = law_of_attention(model, order)
    n, h = model.n_tokens, model.n_heads
    is_mean = model.combination == "mean"
    i = np.arange(1.0, n + 1)
    if isinstance(law, CausalLaw):
        energies, term = np.full(n, score_energy(model.inverse_temperature)), 0.0
    else:
        scale, beta = small_scale(model.inverse_temperature)
        share = _term_share(law) if scale else 0.0
        head = replace(model, inverse_temperature=beta)
        energies, term = causal_energies(head, whole=share == 0)
        energies, term = scale * energies, share * scale**2 * term
    left, right = (1 / h, 1 / h) if is_mean else (1.0, 1 / h)
    sigma, u, v = _leading_uniform(n)
    spread = np.cumsum(v**2, axis=0) / i[:, None] - (np.cumsum(v, axis=0) / i[:, None]) ** 2
    squares = sigma**2 + (energies / i) @ (left * u**2 + right * spread)
    norm = float(((1 + left * energies) / i).sum())
    mean = law.moment(1)
    return AttentionSpectrum(
        mean_square=mean + term,
        second_moment=law.moment(2) + 4 * term * mean,
        bulk_edge=float(law.quantile(1 - 0.5 / n)),
        top_singular_value=float(squares[0] ** 0.5),
        second_singular_value=float(squares[1] ** 0.5),
        squared_frobenius_norm=norm,
        stable_rank=norm / float(squares[0]),
    )


def _leading_uniform(n: int) -> tuple[Floats, Floats, Floats]:
    """Two leading singular values and vectors of causal uniform attention.

    Its inverse has i on the diagonal and −(i−1) below it, so that (UᵀU)⁻¹ is tridiagonal.
    """
    from scipy.linalg import eigh_tridiagonal

    i = np.arange(1.0, n + 1)
    # U⁻¹U⁻ᵀ: squares of the rows of U⁻¹ on the diagonal; its eigenvectors are those of UᵀU
    values, vectors = eigh_tridiagonal(
        i**2 + (i - 1) ** 2, -(i[:-1] ** 2), select="i", select_range=(0, 1)
    )
    sigma = np.asarray(values, dtype=np.float64) ** -0.5
    v = np.asarray(vectors, dtype=np.float64)
    u = np.cumsum(v, axis=0) / i[:, None] / sigma
    return sigma, np.asarray(u), v


@dataclass(frozen=True, kw_only=True)
class KeyNormOutlier:
    """The key-norm outlier among the squared singular values of √n A_⊥."""

    strength: float  # n E r²: squared singular value of the term itself
    threshold: float  # that it must exceed to leave the bulk at its top
    bulk_edge: float  # top of the bulk
    locations: Floats  # outliers, increasing: in gaps of the bulk, or above it
    squared_overlaps: Floats  # of their right singular vectors with the key norms
    is_detached: bool  # the last of them is above the bulk


def key_norm_outlier(model: SelfAttention, order: str = "norms") -> KeyNormOutlier:
    """Predict where the key norms' rank-one term gives an outlier.

    Parameters
    ----------
    model : SelfAttention
        One head or several side by side or their mean, without values.
    order : "norms" or "first"
        The bulk: that of a finite head, or its limit.

    Returns
    -------
    KeyNormOutlier

    Notes
    -----
    For n, d_k → ∞ the strength tends to β⁴φ/2. With the bulk of order "norms" the
    term leaves its top when strength > threshold = strength/(h n p₀q₀) at the edge. It can also
    appear inside, in the gap between the bulk and the few large singular values of the linear part
    that n ≫ d_k opens. Derived in docs/theory/key-norm-outlier.md, "Condition"; a phase diagram is
    in docs/theory/key-norm-outlier.md, "In the limit: a closed form".

    Examples
    --------
    >>> import attnlaw as al
    >>> head = al.SelfAttention(n_tokens=1000, head_dimension=1000, inverse_temperature=1.0)
    >>> found = al.theory.key_norm_outlier(head)
    >>> found.is_detached, found.locations.size
    (False, 0)

    Many more tokens than head dimensions open a gap, where the term stands alone:

    >>> head = al.SelfAttention(n_tokens=2000, head_dimension=16, inverse_temperature=0.5)
    >>> found = al.theory.key_norm_outlier(head)
    >>> found.locations.round(2), found.squared_overlaps.round(2), found.bulk_edge > 40
    (array([4.4]), array([0.96]), True)
    """
    choice("order", order, ("norms", "first"))
    if model.value_dimension is not None:
        raise invalid_argument(
            "value_dimension", "None for key norms to show", model.value_dimension
        )
    if model.input_spectrum is not None:
        raise invalid_argument(
            "input_spectrum", "None for key norms to show", model.input_spectrum
        )
    parts = norms_profile(model) if order == "norms" else first_profile(model)
    scale = 1.0 if model.combination == "mean" else 1 / model.n_heads
    law = ProfileLaw(parts.profile, scale)
    term = _Term(parts, model.n_tokens)
    edges = np.sqrt(law.support / scale)  # singular values of the profile, as everything below
    strength = term.strength
    at_edge = float(term.visibility(edges[-1:, 1] * (1 + 1e-9))[0])
    gaps = [(a, b) for (_, a), (b, _) in pairwise(edges)]
    top = max(edges[-1, 1], np.sqrt(strength / scale)) * 3
    roots = [root for low, high in [*gaps, (edges[-1, 1], top)] for root in term.roots(low, high)]
    return KeyNormOutlier(
        strength=scale * strength,
        threshold=scale * strength / at_edge,
        bulk_edge=float(law.edges[-1]),
        locations=np.array([scale * root**2 for root in roots]),
        squared_overlaps=np.array([term.right_overlap(root) for root in roots]),
        is_detached=at_edge > 1,
    )


class _Term:
    """h n p₀(w) q₀(w) at real singular values w outside the bulk."""

    def __init__(self, parts: AttentionProfile, n: int) -> None:
        profile = parts.profile
        self.profile = profile
        size = np.sqrt(profile.repeats * n)
        self.rows = parts.term_rows * profile.row_weights * size
        self.columns = parts.term_columns * profile.column_weights * size
        self.strength = float(
            profile.repeats
            * n
            * (parts.term_rows @ profile.row_weights)
            * (parts.term_columns @ profile.column_weights)
        )

    def factors(self, w: Floats) -> tuple[Floats, Floats]:
        """Return p₀ and q₀, each with half of the strength; real outside the bulk."""
        R, C = profile_resolvents(self.profile, w)
        return R @ self.rows, C @ self.columns

    def visibility(self, w: Floats) -> Floats:
        """Return h n p₀ q₀; an outlier is where it is 1."""
        p, q = self.factors(w)
        return np.asarray(p * q)

    def roots(self, low: float, high: float) -> list[float]:
        """Return the outliers between two edges."""
        w = low + (high - low) * (0.5 - 0.5 * np.cos(np.pi * np.linspace(0, 1, 66)[1:-1]))
        value = self.visibility(w) - 1
        cross = np.flatnonzero((value[:-1] > 0) != (value[1:] > 0))
        a, b = w[cross], w[cross + 1]
        above = value[cross] > 0
        for _ in range(40):
            if not cross.size:
                break
            middle = 0.5 * (a + b)
            same = (self.visibility(middle) > 1) == above
            a, b = np.where(same, middle, a), np.where(same, b, middle)
        return [float(x) for x in 0.5 * (a + b)]

    def right_overlap(self, w: float) -> float:
        """Squared overlap of the right singular vector at an outlier w with the term's own.

        For unit vectors it is 2 R_u C_v²/(R_u C_v)', the formula of Benaych-Georges & Nadakuditi
        in these letters; p₀ and q₀ carry half of the strength each.
        """
        step = 1e-5 * w
        p, q = self.factors(np.array([w - step, w, w + step]))
        slope = (p[2] * q[2] - p[0] * q[0]) / (2 * step)
        return float(2 * p[1] * q[1] ** 2 / (slope * self.columns.sum()))
