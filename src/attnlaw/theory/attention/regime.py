"""Where the laws of attention stop being true, with the number that says so."""

import numpy as np

from attnlaw._checks import warn_regime
from attnlaw.models import SelfAttention

__all__ = [
    "LEAST_DIMENSION",
    "effective_length",
    "normaliser_variance",
    "row_energy_variance",
    "warn_outside_regime",
]

_MOST_NORMALISER = 0.1
_MOST_ENERGY = 1.0
_MOST_CAUSAL_BETA = 1.7
_LEAST_SEEN = 40.0  # tokens, of a head with a mean pattern
LEAST_DIMENSION = 10
"""Head dimension from which laws of order "norms" and "tokens" hold to a few percent."""


def normaliser_variance(model: SelfAttention) -> float:
    """Relative variance of a row's normaliser, (E e^{β²r²} − 1)/n.

    Notes
    -----
    E e^{β²r²} = (1 − 2β²/d_k)^{−d_k/2}, which tends to e^{β²}; at about β = √(log n) one entry
    rules the normaliser and no expansion of the softmax holds. Infinite when 2β² ≥ d_k.

    Examples
    --------
    >>> import attnlaw as al
    >>> head = al.SelfAttention(n_tokens=1000, head_dimension=10**9, inverse_temperature=1.0)
    >>> round(1000 * normaliser_variance(head), 6)      # e − 1
    1.718282
    """
    return float(_exponential_moment(model.inverse_temperature**2, model.head_dimension)) / (
        model.n_tokens
    )


def row_energy_variance(model: SelfAttention) -> float:
    """Relative variance of the energy of a row over tokens, E f⁴/(n (E f²)²), for large d_k.

    Notes
    -----
    E f⁴ = e^{6β²} − 4e^{3β²} + 6e^{β²} − 3 for f = e^{βx−β²/2} − 1. Laws of order "first",
    "powers" and "norms" take the energy of a row to be its mean.

    Examples
    --------
    >>> import attnlaw as al
    >>> head = al.SelfAttention(n_tokens=1000, head_dimension=64, inverse_temperature=1.0)
    >>> round(row_energy_variance(head), 3)
    0.114
    """
    square = model.inverse_temperature**2
    if square > 100:
        return float("inf")
    if square < 1e-4:
        return 3 / model.n_tokens if square else 0.0  # f is linear, and Gaussian
    fourth = np.exp(6 * square) - 4 * np.exp(3 * square) + 6 * np.exp(square) - 3
    return float(fourth / np.expm1(square) ** 2 / model.n_tokens)


def _exponential_moment(square: float, dimension: int) -> float:
    """E e^{β²r²} − 1 for r² a mean of d squares of standard Gaussians."""
    if 2 * square >= dimension:
        return float("inf")
    exponent = -0.5 * dimension * np.log1p(-2 * square / dimension)
    return float(np.expm1(exponent)) if exponent < 700 else float("inf")


def effective_length(model: SelfAttention) -> float:
    """Effective number (Σπ)²/Σπ² of tokens that the last row of a causal head sees.

    tanh(mL/2)/tanh(m/2) for a slope m and L tokens, L if there is none.

    Examples
    --------
    >>> import attnlaw as al
    >>> head = al.SelfAttention(
    ...     n_tokens=1000, head_dimension=64, inverse_temperature=1.0, causal=True, window=128)
    >>> effective_length(head)
    128.0
    """
    n, m = model.n_tokens, model.alibi_slope
    length = min(n, model.window or n)
    if m * length < 1e-9:
        return float(length)
    return float(np.tanh(0.5 * m * length) / np.tanh(0.5 * m))


def warn_outside_regime(model: SelfAttention, order: str) -> None:
    """Warn when the model is outside the regime of a law of this order."""
    n, beta = model.n_tokens, model.inverse_temperature
    if order in ("norms", "tokens", "mixed") and 3 <= model.head_dimension < LEAST_DIMENSION:
        warn_regime(
            f"head_dimension {model.head_dimension} is below {LEAST_DIMENSION}: singular values "
            "fall over many orders of magnitude, and their distribution is off by about 0.05 at "
            "width 8 and 0.4 at width 4 (500 tokens).",
        )
    if model.causal:
        if order == "tokens" and beta > _MOST_CAUSAL_BETA:
            warn_regime(
                f"inverse_temperature {beta:g} is above {_MOST_CAUSAL_BETA:g}: single entries "
                'rule the rows of a causal head, and a law of order "tokens" is off by about '
                '0.05 at 2 and 0.2 at 4; order "cavity" is for heads without window or slope.',
            )
        seen = effective_length(model)
        if model.has_pattern and seen < min(_LEAST_SEEN, model.n_tokens):
            warn_regime(
                f"a row of this head sees {seen:.3g} tokens in effect, below {_LEAST_SEEN:g}: its "
                "law is off by about 0.02 at 32 tokens and 0.04 at 8.",
            )
        return
    if order in ("cavity", "mixed"):
        return
    variance = normaliser_variance(model)
    energy = row_energy_variance(model)
    if variance > _MOST_NORMALISER:
        warn_regime(
            f"inverse_temperature {beta:g} is near or above √(log n) = {np.log(n) ** 0.5:.3g}: a "
            f"row's normaliser has relative variance {variance:.3g}, and the law assumes that it "
            f"is below {_MOST_NORMALISER:g}.",
        )
    elif order != "tokens" and energy > _MOST_ENERGY:
        warn_regime(
            f"the energy of a row at {n} tokens has relative variance {energy:.3g}, and a law of "
            f'order "{order}" assumes that it is small; order "tokens" does not.',
        )
