"""Inputs that are not orthonormal: XXᵀ = T with any spectrum (open in P2).

With Q = XW_Q and K = XW_K the linear part of the scores is √θ₂ T^{1/2} G₁G₂ᵀ T^{1/2}/√d_k. In T's
eigenbasis it is a variance profile with one block, α_i = γ_i = √θ₂ λ_i and ρ = n/d_k; all other
degrees are as they were. If these are noise, the equations are two,

    R_i = −1/(w + √θ₂ λ_i p/(1 − ρp²) + (θ₁−θ₂) g) ,   p = mean √θ₂ λ R ,   g = mean R ,

and T = I gives back the law of orthonormal inputs. At finite n and d_k they have a profile of
their own, in the basis of tokens, which is free from T. Derived in
docs/theory/correlated-inputs.md, "Equations", and docs/theory/correlated-inputs.md, "Finite heads
over such inputs".
"""

from dataclasses import replace

import numpy as np

from attnlaw._checks import Floats, warn_regime
from attnlaw.laws import FreeProfile, VarianceProfile
from attnlaw.models import SelfAttention
from attnlaw.theory.attention.kernel import gauss_rule
from attnlaw.theory.attention.profiles import projections, tokens_profile

__all__ = ["by_input_spectrum", "first_inputs_profile", "tokens_inputs_profile"]

_NODES = 96
_MOST_SQUARES = 0.03


def by_input_spectrum(model: SelfAttention) -> SelfAttention:
    """Replace given inputs by the spectrum of XXᵀ, through which alone they enter the law.

    Degrees k ≥ 2 of the scores have correlations T_ii'ᵏ between tokens, which the law takes to be
    the identity: a `RegimeWarning` gives the mean of Σ_{i'≠i} T_ii'⁴ where it is above 0.03.
    """
    if model.inputs is None:
        return model
    X = model.inputs
    T = X @ X.T
    lengths = np.sqrt(np.maximum(np.diag(T), 1e-300))
    squares = float(np.sum((T / lengths / lengths[:, None]) ** 4) / len(T)) - 1
    if squares > _MOST_SQUARES:
        warn_regime(
            f"inputs are correlated beyond their spectrum: the cosines of a token with all others "
            f"have fourth powers that sum to {squares:.3g}, and the law assumes that they are "
            f"below {_MOST_SQUARES:g}; simulate_spectrum draws such heads.",
        )
    return replace(model, inputs=None, input_spectrum=np.maximum(np.linalg.eigvalsh(T), 0.0))


def first_inputs_profile(model: SelfAttention) -> VarianceProfile:
    """Return the profile of attention over inputs with a spectrum, for n and d_k infinite."""
    spectrum, weights = _nodes(model)
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
        factors=projections(model),
    )


def tokens_inputs_profile(model: SelfAttention) -> FreeProfile:
    """Return the same for finite heads: the linear part in T's eigenbasis, the rest in tokens'."""
    spectrum, weights = _nodes(model)
    tokens = tokens_profile(model).profile
    linear = VarianceProfile(
        row_weights=weights,
        column_weights=weights,
        row_variances=float(tokens.row_variances[0] @ tokens.row_weights) * spectrum[None],
        column_variances=float(tokens.column_variances[0] @ tokens.column_weights)
        * spectrum[None],
        ratios=tokens.ratios[:1],
        repeats=tokens.repeats,
    )
    assert tokens.row_means is not None
    assert tokens.column_means is not None
    rest = replace(
        tokens,
        row_variances=tokens.row_variances[1:],
        column_variances=tokens.column_variances[1:],
        row_means=tokens.row_means[1:],
        column_means=tokens.column_means[1:],
        ratios=tokens.ratios[1:],
        factors=(),
    )
    return FreeProfile(linear, rest, tokens.factors)


def _nodes(model: SelfAttention) -> tuple[Floats, Floats]:
    """Distinct eigenvalues with their shares, or Gauss's rule for many of them."""
    assert model.input_spectrum is not None
    values, counts = np.unique(model.input_spectrum, return_counts=True)
    if values.size <= _NODES:
        return values, counts / counts.sum()
    return gauss_rule(values, counts.astype(float), _NODES)
