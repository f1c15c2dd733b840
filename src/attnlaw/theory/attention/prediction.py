"""What theory says of a head's singular values, in the fields of an observation."""

from attnlaw._checks import invalid_argument
from attnlaw.laws import Law
from attnlaw.models import SelfAttention
from attnlaw.results import AttentionSpectrum
from attnlaw.theory.attention.law import attention_law
from attnlaw.theory.attention.profiles import first_profile, norms_profile

__all__ = ["predict_attention"]


def predict_attention(model: SelfAttention, order: str = "auto") -> AttentionSpectrum:
    """Predict the singular values of attention.

    Parameters
    ----------
    model : SelfAttention
        Heads without values, over orthonormal inputs.
    order : str
        As in `attention_law`.

    Returns
    -------
    AttentionSpectrum

    Notes
    -----
    With the law ν of √n A_⊥ and the key-norm term of squared strength τ (`key_norm_outlier`):

    - mean_square = ∫x ν + τ/n ;   second_moment = ∫x² ν + (τ² + 4τ ∫x ν)/n
    - bulk_edge: the right edge of ν; for order "tokens", which has no sharp edge, the point above
      which half a singular value is expected
    - AAᵀ = 11ᵀ/n + A_⊥A_⊥ᵀ, since rows sum to one, so s₁² = 1 + 1ᵀA_⊥A_⊥ᵀ1/n = 1 + (τ + m₁)/n and
      ‖A‖² = 1 + m₁ ;   s₂² = bulk_edge/n

    In the limit τ/n → 0: s₁ → 1, s₂ → 0 and ‖A‖² → e^{β²} (P3; docs/theory/attention.md,
    "The matrix itself").

    Examples
    --------
    >>> import attnlaw as al
    >>> head = al.SelfAttention(n_tokens=10**6, head_dimension=10**6, inverse_temperature=1.0)
    >>> seen = al.predict_attention(head, order="first")
    >>> round(seen.squared_frobenius_norm, 4), round(seen.top_singular_value, 4)
    (2.7183, 1.0)
    """
    if model.value_dimension is not None:
        raise invalid_argument(
            "value_dimension", "None to predict A itself", model.value_dimension
        )
    law = attention_law(model, order)
    n = model.n_tokens
    finite = order in ("auto", "norms", "tokens") and model.head_dimension >= 3
    finite = finite and model.input_spectrum is None and model.inverse_temperature > 0
    energy = (norms_profile if finite else first_profile)(model).term_energy
    strength, mean = n * energy, law.moment(1)
    m1 = mean + energy
    edge = float(law.quantile(1 - 0.5 / n)) if finite and order != "norms" else law_top(law)
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


def law_top(law: Law) -> float:
    """Largest point of a law, an atom if nothing else."""
    return float(max([*law.edges[-1:], *law.atom.location[-1:]]))
