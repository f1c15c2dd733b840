"""What theory says of a head's singular values, in the fields of an observation."""

from dataclasses import replace

import numpy as np

from attnlaw._checks import Floats, invalid_argument
from attnlaw._dispatch import answers
from attnlaw.laws import CausalLaw, CavityLaw, Law, MixtureLaw
from attnlaw.models import SelfAttention
from attnlaw.results import AttentionSpectrum
from attnlaw.theory.attention.causal import causal_energies
from attnlaw.theory.attention.inputs import by_input_spectrum
from attnlaw.theory.attention.law import law_of_attention, score_energy, small_scale
from attnlaw.theory.attention.profiles import (
    first_profile,
    norms_profile,
    tokens_term_energy,
)
from attnlaw.theory.verbs import predict

__all__ = ["law_top"]


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
    n = model.n_tokens
    finite = order in ("auto", "norms", "tokens") and model.head_dimension >= 3
    scale, beta = small_scale(model.inverse_temperature)
    finite = finite and model.input_spectrum is None and scale > 0
    outside = _term_share(law)
    head = replace(model, inverse_temperature=beta)
    if not outside:
        energy = 0.0
    elif finite and order != "norms":
        energy = outside * scale**2 * tokens_term_energy(head)  # of the fourth order in β
    else:
        energy = scale**2 * (norms_profile if finite else first_profile)(head).term_energy
    strength, mean = n * energy, law.moment(1)
    m1 = mean + energy
    edge = (
        float(law.quantile(1 - 0.5 / n))
        if outside < 1 or (finite and order != "norms")
        else law_top(law)
    )
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


def _term_share(law: Law) -> float:
    """Share of the key-norm term that comes on top of the law: none of it in a cavity law."""
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
