"""Inputs that are not orthonormal: XXᵀ = T with any spectrum (open in P2).

With Q = XW_Q and K = XW_K the scores are √n Y = √θ₂ Λ^{1/2} G₁G₂ᵀ Λ^{1/2}/√d_k + √(θ₁−θ₂) W in T's
eigenbasis: a variance profile with one block, α_i = γ_i = √θ₂ λ_i and ρ = n/d_k, and noise. By
symmetry its equations are two,

    R_i = −1/(w + √θ₂ λ_i p/(1 − ρp²) + (θ₁−θ₂) g) ,   p = mean √θ₂ λ R ,   g = mean R ,

and T = I gives back the law of orthonormal inputs (docs/theory/correlated-inputs.md).
"""

import numpy as np
from numpy.typing import NDArray

from attnlaw.laws import VarianceProfile
from attnlaw.models import SelfAttention
from attnlaw.theory.attention.quadrature import gauss_rule

__all__ = ["inputs_profile"]

_NODES = 96


def inputs_profile(model: SelfAttention, factors: tuple[float, ...]) -> VarianceProfile:
    """Return the profile of attention over inputs with the model's spectrum."""
    assert model.input_spectrum is not None
    spectrum, weights = _nodes(model.input_spectrum)
    square = model.inverse_temperature**2  # θ₂
    noise = np.expm1(square) - square  # θ₁ − θ₂
    is_mean = model.combination == "mean"
    share = 1 / model.n_heads if is_mean else 1.0
    ones = np.ones_like(spectrum)
    return VarianceProfile(
        row_weights=weights,
        column_weights=weights,
        row_variances=np.vstack([square**0.5 * spectrum, noise * ones]) * share,
        column_variances=np.vstack([square**0.5 * spectrum, ones]),
        ratios=np.array([model.token_ratio * share, 0.0]),
        repeats=1 if is_mean else model.n_heads,
        factors=factors,
    )


def _nodes(spectrum: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Distinct eigenvalues with their shares, or Gauss's rule for many of them."""
    values, counts = np.unique(spectrum, return_counts=True)
    if values.size <= _NODES:
        return values, counts / counts.sum()
    return gauss_rule(values, counts.astype(float), _NODES)
