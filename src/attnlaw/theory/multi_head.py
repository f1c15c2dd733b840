"""Several heads side by side, and the best of their combinations.

Letters: K = [w_hᵀw_h'] and A = [w_hᵀRw_h']; κ_h the eigenvalues of K, and A in its eigenbasis.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnlaw._checks import Floats, invalid_argument, real_array, scalar_or_array
from attnlaw.correlations import check_correlation
from attnlaw.models import MultiHeadPooling
from attnlaw.results import Spikes
from attnlaw.theory.bulk import TINY
from attnlaw.theory.noise_spectrum import falling_root
from attnlaw.theory.spikes import ceiling
from attnlaw.theory.validity import warn_if_far_from_limit

__all__ = ["HeadCombination", "combine_heads", "predict_multi_head"]


@dataclass(frozen=True, kw_only=True)
class HeadCombination:
    """The linear combination of heads that keeps the most signal."""

    coefficients: NDArray[np.float64]  # b, one for each head
    weights: NDArray[np.float64]  # Σ_h b_h w_h, of unit length: one head that does the same
    snr: float  # bᵀAb/bᵀKb


def combine_heads(weights: ArrayLike, correlation: ArrayLike) -> HeadCombination:
    """Return the combination of pooled heads with the largest signal-to-noise ratio.

    Parameters
    ----------
    weights : array of shape (n_heads, length)
        w_h, a row for each head.
    correlation : array of shape (length, length)
        R.

    Returns
    -------
    HeadCombination
        Sign free; zero coefficients of heads that others can replace are not sought.

    Notes
    -----
    Derived in docs/theory/several-heads.md, "The best combination".

    Σ_h b_h x_h is pooling with Σ_h b_h w_h, whose SNR bᵀAb/bᵀKb is largest at the
    top of the generalised eigenproblem A b = snr K b. It is solved in an orthonormal basis of
    the span of the heads, so that heads may depend on each other.

    Examples
    --------
    The mean of the prefix is a difference of two poor heads:

    >>> import attnlaw as al
    >>> R = al.prefix_correlation(4, prefix=2)
    >>> best = combine_heads([[1, 1, 1, 1], [0, 0, 1, 1]], R)
    >>> best.weights.round(3), round(best.snr, 12)
    (array([0.707, 0.707, 0.   , 0.   ]), 2.0)
    """
    R = check_correlation(correlation)
    W = real_array("weights", weights, ndim=2)
    if W.shape[1] != len(R) or not W.any():
        words = f"of shape (n_heads, {len(R)}) and not all 0"
        raise invalid_argument("weights", words, W)
    U, sizes, basis = np.linalg.svd(W, full_matrices=False)
    rank = int((sizes > 1e-12 * sizes[0]).sum())
    U, sizes, basis = U[:, :rank], sizes[:rank], basis[:rank]
    values, vectors = np.linalg.eigh(basis @ R @ basis.T)
    c = vectors[:, -1]
    w = c @ basis
    sign = 1.0 if w[np.argmax(np.abs(w))] > 0 else -1.0
    return HeadCombination(
        coefficients=sign * (U @ (c / sizes)), weights=sign * w, snr=float(values[-1])
    )


def predict_multi_head(model: MultiHeadPooling) -> Spikes:
    """Predict the outliers of concatenated heads.

    Parameters
    ----------
    model : MultiHeadPooling
        Its ratios and signal norm may be arrays.

    Returns
    -------
    Spikes
        H outliers; overlaps are the share of an eigenvector in the signal space, the vectors
        that hold a multiple of μ in every head.

    Notes
    -----
    Derived in docs/theory/several-heads.md, "The spectrum of the concatenation".

    Given the table, C = K ⊗ Z_⊥ᵀZ_⊥/V + A ⊗ (μ+m)(μ+m)ᵀ. In the eigenbasis of K
    the noise of block h is κ_h MP_δ: at ℓ, p_h = κ_h t_h solves p + κ_h(1+δ) + δκ_h²/p = ℓ, and

        y(ℓ) = (1/H) Σ κ_h/p_h ,   g_h = 1/(p_h + δκ_h) ,   λ = ℓ (1 + Hγ y)
        outliers where θ A^{1/2} diag(g) A^{1/2} has the eigenvalue 1, its eigenvector c;
        b = A^{1/2}c ,   ζ_pop = (‖μ‖²/θ) Σ g_h²b_h² / Σ (−g_h')b_h² ,   ζ_samp = (ℓ/λ) dλ/dℓ

    (idealised: θ = ‖μ‖²). The sample ratio of Hd dimensions is Hγ: concatenation pays for
    every head with noise. Heads made orthonormal have the closed forms of `predict`, one for
    each generalised eigenvalue of (A, K), with Hγ in place of γ; the best combination alone,
    `combine_heads`, has the largest of them with γ.

    Examples
    --------
    One head is `predict`:

    >>> import attnlaw as al
    >>> R, w = al.prefix_correlation(20, prefix=5), al.causal_weights(20)
    >>> common = dict(vocab_ratio=0.5, sample_ratio=0.4, signal_norm=1.5, correlation=R)
    >>> al.predict_multi_head(al.MultiHeadPooling(weights=[w], **common)).squared_overlaps.round(6)
    array([0.776287])
    >>> round(al.predict(al.PooledSequences(weights=w, **common)).squared_overlap, 6)
    0.776287
    """
    warn_if_far_from_limit(model)
    blocks = _Blocks(model)
    H, token, shape = model.n_heads, model.sampling == "token", model.shape
    delta, gamma, norm = (
        np.broadcast_to(x, shape)[..., None]
        for x in (model.vocab_ratio, model.sample_ratio, model.signal_norm)
    )
    theta = norm**2 + (delta if token else 0.0)
    ratio = H * gamma
    low = np.maximum(1e-30, np.zeros_like(delta))
    reach = 10 * (1 + delta + ratio)
    edge_gap = falling_root(lambda g: -blocks.log_slopes(g, delta, ratio)[0], low, reach)
    edge = blocks.sample_eigenvalue(edge_gap, delta, ratio)

    def excess(gap: Floats) -> Floats:
        values = np.linalg.eigvalsh(blocks.secular(gap, delta, theta))[..., ::-1]
        return np.asarray(np.diagonal(values, axis1=-2, axis2=-1) - 1)

    full = (*shape, H)
    start = np.broadcast_to(np.maximum(low, 1e-8), full)
    high = reach + theta * blocks.signal.trace() / blocks.top
    in_population = excess(start) > 0
    root = falling_root(excess, start, np.broadcast_to(high, full))
    gap = np.where(in_population, root, low)
    seen = gap > edge_gap
    ell = blocks.at(gap, delta)[0]
    p, p1 = blocks.noise(gap, delta)
    j = np.arange(H)
    vectors = np.linalg.eigh(blocks.secular(gap, delta, theta))[1]
    c = np.moveaxis(vectors[..., j, :, H - 1 - j], 0, -2)
    squares = (c @ blocks.root) ** 2  # b_h²
    g = 1 / (p + delta[..., None] * blocks.kappa)
    length = np.sum(g**2 * p1 * squares, axis=-1)
    zeta_population = np.sum(g**2 * squares, axis=-1) / np.where(length > 0, length, 1.0)
    zeta_population = np.where(in_population & (length > 0), zeta_population, 0.0)
    zeta_population = zeta_population * (ceiling(norm, delta) if token else 1.0)
    sample, _ = blocks.log_slopes(gap, delta, ratio)
    zeta_sample = np.where(seen, ell * sample, 0.0)
    return Spikes(
        top_eigenvalues=np.where(seen, blocks.sample_eigenvalue(gap, delta, ratio), edge),
        squared_overlaps=zeta_population * zeta_sample,
        bulk_edge=scalar_or_array(np.broadcast_to(edge[..., 0], shape)),
        population_eigenvalues=ell,
        population_overlaps=zeta_population,
        sample_overlaps=zeta_sample,
        is_detectable=seen,
    )


class _Blocks:
    """K ⊗ MP_δ and A in the eigenbasis of K, as functions of the gap t − √δ of the top block."""

    def __init__(self, model: MultiHeadPooling) -> None:
        values, basis = np.linalg.eigh(model.noise_gains)
        self.kappa = values.clip(min=0)
        self.top = float(self.kappa[-1])
        self.signal = basis.T @ model.signal_gains @ basis
        size, vectors = np.linalg.eigh(self.signal)
        self.root = (vectors * np.sqrt(size.clip(min=0))) @ vectors.T

    def at(self, gap: Floats, delta: Floats) -> tuple[Floats, Floats]:
        """Return ℓ = κ_max (t+1)(t+δ)/t, and t."""
        t = np.sqrt(delta) + gap
        return self.top * (t + 1) * (1 + delta / t), t

    def noise(self, gap: Floats, delta: Floats) -> tuple[Floats, Floats]:
        """Return p_h = κ_h t_h and dp_h/dℓ = 1/(1 − δ/t_h²), with the heads as last axis."""
        ell, t = (x[..., None] for x in self.at(gap, delta))
        d, kappa = delta[..., None], self.kappa
        half = (ell - kappa * (1 + d)) / 2
        p = half + np.sqrt(np.maximum(half**2 - d * kappa**2, 0.0))
        p = np.where(kappa == self.top, self.top * t, p)  # the digits of the gap
        product = np.where(kappa == self.top, (gap * (gap + 2 * np.sqrt(delta)))[..., None], 0.0)
        rest = np.where(kappa == self.top, product / t**2, 1 - d * (kappa / p) ** 2)
        return p, 1 / np.maximum(rest, TINY)

    def _y(self, gap: Floats, delta: Floats) -> tuple[Floats, Floats]:
        """Return y(ℓ) and its derivative."""
        p, p1 = self.noise(gap, delta)
        return np.mean(self.kappa / p, axis=-1), -np.mean(self.kappa / p**2 * p1, axis=-1)

    def sample_eigenvalue(self, gap: Floats, delta: Floats, ratio: Floats) -> Floats:
        """Return λ = ℓ (1 + Hγ y)."""
        return np.asarray(self.at(gap, delta)[0] * (1 + ratio * self._y(gap, delta)[0]))

    def log_slopes(self, gap: Floats, delta: Floats, ratio: Floats) -> tuple[Floats, Floats]:
        """Return the derivatives in ℓ of log λ and of log ℓ."""
        y, y1 = self._y(gap, delta)
        population = 1 / self.at(gap, delta)[0]
        return population + ratio * y1 / (1 + ratio * y), population

    def secular(self, gap: Floats, delta: Floats, theta: Floats) -> Floats:
        """Return θ A^{1/2} diag(g) A^{1/2}."""
        p, _ = self.noise(gap, delta)
        g = theta[..., None] / (p + delta[..., None] * self.kappa)
        return np.asarray((self.root * g[..., None, :]) @ self.root)
