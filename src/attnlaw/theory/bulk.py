"""The noise bulk of pooled sequences: its law, and its right edge in closed form.

Without a signal the sample covariance has the limiting spectrum κ (MP_δ ⊠ MP_γ). It is rational
in one parameter t, z(t) = κ (t+1)(t+δ)(t+γ)/t², and everything about outliers is said in t.
"""

from functools import reduce

import numpy as np
from numpy.typing import ArrayLike

from attnlaw._checks import Real, invalid_argument, real, scalar_or_array
from attnlaw.laws import Discrete, Law, MarchenkoPastur
from attnlaw.laws.outliers import white_edge_parameter, white_eigenvalue
from attnlaw.models import PooledClasses, PooledSequences, SequenceMixture
from attnlaw.models.vocabulary import tokens_alike
from attnlaw.theory.validity import warn_if_far_from_limit

__all__ = ["bulk_edge", "bulk_law", "edge_parameter"]


def bulk_law(model: PooledSequences | PooledClasses | SequenceMixture) -> Law:
    """Limiting spectrum of the noise: all eigenvalues but those of signal and mean.

    Parameters
    ----------
    model : PooledSequences, PooledClasses or SequenceMixture
        Its ratios must be single numbers; its signal plays no part.

    Returns
    -------
    Law
        κ (MP_δ ⊠ MP_γ); κ (H ⊠ MP_δ ⊠ MP_γ) for noise with a spectrum H; and
        MP_δ ⊠ (⊞_g q_g κ_g MP_{γ/q_g}) for a mixture. With density, cdf, quantile, edges and
        moments.

    Notes
    -----
    P1 Theorem 1; docs/theory/bulk.md, "Derivation". See `validity` for how close a finite length
    comes to it.

    Examples
    --------
    >>> import attnlaw as al
    >>> model = al.PooledSequences(
    ...     vocab_ratio=1.0, sample_ratio=1.0, signal_norm=1.5,
    ...     correlation=al.prefix_correlation(16, prefix=5), weights=al.mean_weights(16),
    ... )
    >>> bulk_law(model)
    0.0625 * (MarchenkoPastur(1) @ MarchenkoPastur(1))
    >>> bulk_law(model).edges.round(6)      # 27/4 κ
    array([0.      , 0.421875])
    """
    tokens_alike(model, "a law")
    if np.ndim(model.vocab_ratio) or np.ndim(model.sample_ratio):
        raise invalid_argument(
            "vocab_ratio and sample_ratio",
            "single numbers when a law is asked for",
            f"shapes {np.shape(model.vocab_ratio)} and {np.shape(model.sample_ratio)}",
        )
    delta, gamma = float(model.vocab_ratio), float(model.sample_ratio)
    warn_if_far_from_limit(model)
    if isinstance(model, SequenceMixture):
        gains, kind = np.unique(model.noise_gains.round(12), return_inverse=True)
        shares = np.bincount(kind, model.kind_shares)
        parts = zip(shares * gains, gamma / shares, strict=True)
        laws: list[Law] = [scale * MarchenkoPastur(ratio) for scale, ratio in parts]
        return MarchenkoPastur(delta) @ reduce(Law.__add__, laws)
    white = MarchenkoPastur(delta) @ MarchenkoPastur(gamma)
    if isinstance(model, PooledClasses) and model.noise_spectrum is not None:
        return model.noise_gain * (Discrete(model.noise_spectrum) @ white)
    return model.noise_gain * white


def edge_parameter(vocab_ratio: ArrayLike, sample_ratio: ArrayLike) -> Real:
    """Return the parameter t* of the bulk's right edge: a spike is seen when its t exceeds it.

    Parameters
    ----------
    vocab_ratio, sample_ratio : float or array
        δ = d/V ≥ 0 and γ = d/N ≥ 0; they broadcast.

    Returns
    -------
    float or array
        The unique positive root t* of t³ − (δ + γ + δγ) t − 2δγ = 0 (0 when both ratios are).

    Notes
    -----
    From z'(t) = 0, solved in closed form (docs/theory/bulk.md, "Edges").

    Examples
    --------
    With infinitely many tokens it is the BBP threshold √γ; equal unit ratios give 2:

    >>> edge_parameter(0.0, 0.25), edge_parameter(1.0, 1.0)
    (0.5, 2.0)
    """
    delta = np.asarray(real("vocab_ratio", vocab_ratio, at_least=0))
    gamma = np.asarray(real("sample_ratio", sample_ratio, at_least=0))
    return scalar_or_array(white_edge_parameter(delta, gamma))


def bulk_edge(
    vocab_ratio: ArrayLike, sample_ratio: ArrayLike, noise_gain: ArrayLike = 1.0
) -> Real:
    """Right edge of the noise bulk: no eigenvalue beyond it without a signal.

    Parameters
    ----------
    vocab_ratio, sample_ratio : float or array
        δ = d/V ≥ 0 and γ = d/N ≥ 0.
    noise_gain : float or array
        κ = wᵀw > 0.

    Returns
    -------
    float or array
        λ₊ = κ (t*+1)(t*+δ)(t*+γ)/t*² with t* from `edge_parameter`.

    Notes
    -----
    P1 Proposition 1; docs/theory/bulk.md, "Edges".

    Examples
    --------
    Infinite vocabulary: the Marchenko–Pastur edge (1+√γ)². Equal unit ratios: 27/4.

    >>> bulk_edge(0.0, 0.25), bulk_edge(1.0, 1.0)
    (2.25, 6.75)
    """
    delta = np.asarray(real("vocab_ratio", vocab_ratio, at_least=0))
    gamma = np.asarray(real("sample_ratio", sample_ratio, at_least=0))
    kappa = real("noise_gain", noise_gain, above=0)
    t_star = white_edge_parameter(delta, gamma)
    return scalar_or_array(kappa * white_eigenvalue(t_star, delta, gamma))
