"""Several heads side by side, and the best of their combinations.

Letters: K = [w_hᵀw_h'] and A = [w_hᵀRw_h']; κ_h the eigenvalues of K, and A in its eigenbasis.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnlaw._checks import Floats, invalid_argument, real_array, scalar_or_array
from attnlaw.correlations import check_correlation
from attnlaw.laws.outliers import TINY, OutlierCurve, falling_root
from attnlaw.models import MultiHeadPooling
from attnlaw.models.base import answers
from attnlaw.results import Plan, Spikes, Thresholds
from attnlaw.theory.planning import search_plan
from attnlaw.theory.pooled import ceiling, norm_ceiling
from attnlaw.theory.verbs import plan, predict, thresholds, warn_if_far_from_limit

__all__ = ["HeadCombination", "combine_heads"]

_LEAST = 1e-30  # stands for the offset 0
_LEAST_SPIKE = 1e-8  # nearer to the edge of the population, rounding hides outliers


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
        Its sign is arbitrary; heads that others can replace need not have coefficient zero.

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


@answers(predict)
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
    >>> al.predict(al.MultiHeadPooling(weights=[w], **common)).squared_overlaps.round(6)
    array([0.776287])
    >>> round(al.predict(al.PooledSequences(weights=w, **common)).squared_overlap, 6)
    0.776287
    """
    warn_if_far_from_limit(model)
    token, shape = model.sampling == "token", model.shape
    delta, gamma, norm = (
        np.broadcast_to(x, shape)[..., None]
        for x in (model.vocab_ratio, model.sample_ratio, model.signal_norm)
    )
    theta = norm**2 + (delta if token else 0.0)
    ratio = model.n_heads * gamma
    blocks = _Blocks.of(model, delta)
    edge_offset = blocks.edge_between(
        np.full_like(delta, _LEAST), blocks.reach + 10 * ratio, ratio
    )
    edge = blocks.eigenvalue(edge_offset, ratio)
    offset, in_population = _spike_offsets(blocks, theta, 10 * ratio)
    seen = offset > edge_offset
    zeta_population = np.where(in_population, _signal_share(blocks, offset, theta), 0.0)
    zeta_population = zeta_population * (ceiling(norm, delta) if token else 1.0)
    ell = blocks.u(offset)
    zeta_sample = np.where(seen, ell * blocks.log_slope(offset, ratio), 0.0)
    return Spikes(
        top_eigenvalues=np.where(seen, blocks.eigenvalue(offset, ratio), edge),
        squared_overlaps=zeta_population * zeta_sample,
        bulk_edge=scalar_or_array(np.broadcast_to(edge[..., 0], shape)),
        population_eigenvalues=ell,
        population_overlaps=zeta_population,
        sample_overlaps=zeta_sample,
        is_detectable=seen,
    )


@answers(thresholds)
def thresholds_of_multi_head(model: MultiHeadPooling) -> Thresholds:
    """Return the signal norms beyond which one, two, … eigenvalues leave the bulk.

    Notes
    -----
    With the offset at the edge, of C or of S, θ_j is one over the j-th largest eigenvalue of
    A^{1/2} diag(g) A^{1/2} (see `predict_multi_head`); ‖μ‖² is θ_j, less δ for tokens and at
    least 0. Infinite for combinations of heads without signal.

    Examples
    --------
    One head, infinite vocabulary, no correlation: the BBP threshold γ^{1/4}.

    >>> import attnlaw as al
    >>> heads = al.MultiHeadPooling(
    ...     vocab_ratio=0.0, sample_ratio=0.0625, signal_norm=1.0, correlation=np.eye(4),
    ...     weights=["mean"],
    ... )
    >>> al.thresholds(heads).sample_signal.round(9)
    array([0.5])
    """
    shape = np.broadcast_shapes(np.shape(model.vocab_ratio), np.shape(model.sample_ratio))
    delta, gamma = (
        np.broadcast_to(x, shape)[..., None] for x in (model.vocab_ratio, model.sample_ratio)
    )
    mean_noise = delta if model.sampling == "token" else np.zeros_like(delta)
    ratio = model.n_heads * gamma
    blocks = _Blocks.of(model, delta)

    def critical_norms(offset: Floats) -> Floats:
        secular = blocks.secular(offset, np.ones_like(offset))[..., 0, :, :]
        values = np.linalg.eigvalsh(secular)[..., ::-1]
        kept = values > 1e-13 * np.maximum(values[..., :1], TINY)
        theta = np.where(kept, 1 / np.where(kept, values, 1.0), np.inf)
        return np.asarray(np.sqrt(np.maximum(theta - mean_noise, 0.0)))

    edge = blocks.edge_between(np.full_like(delta, _LEAST), blocks.reach + 10 * ratio, ratio)
    return Thresholds(
        population_signal=critical_norms(np.full_like(delta, _LEAST_SPIKE)),
        sample_signal=critical_norms(np.maximum(edge, _LEAST_SPIKE)),
    )


@answers(plan)
def plan_of_multi_head(model: MultiHeadPooling, squared_overlap: ArrayLike = 0.8) -> Plan:
    """Find by search what a wanted overlap of each outlier requires, see `search_plan`."""
    return search_plan(model, squared_overlap, norm_ceiling(model))


def _spike_offsets(
    blocks: "_Blocks", theta: Floats, margin: Floats
) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the offsets where θ A^{1/2} diag(g) A^{1/2} has the eigenvalue 1, for each head.

    Also return whether the j-th largest eigenvalue reaches 1: only then does the population have
    an outlier, and otherwise the offset is next to 0, the population's edge.
    """

    def excess(offset: Floats) -> Floats:
        values = np.linalg.eigvalsh(blocks.secular(offset, theta))[..., ::-1]
        return np.asarray(np.diagonal(values, axis1=-2, axis2=-1) - 1)

    shape = (*theta.shape[:-1], len(blocks.kappa))
    low = np.full(shape, _LEAST_SPIKE)
    high = blocks.reach + margin + theta * blocks.signal.trace() / blocks.top
    exists = excess(low) > 0
    found = falling_root(excess, low, np.broadcast_to(high, shape))
    return np.where(exists, found, _LEAST), exists


def _signal_share(blocks: "_Blocks", offset: Floats, theta: Floats) -> Floats:
    """Return Σ g_h² b_h² / Σ (−g_h') b_h², the share of C's eigenvectors along μ + m."""
    j = np.arange(len(blocks.kappa))
    vectors = np.linalg.eigh(blocks.secular(offset, theta))[1]
    c = np.moveaxis(vectors[..., j, :, j[::-1]], 0, -2)  # the j-th largest at the j-th offset
    squares = (c @ blocks.signal_root) ** 2  # b_h²
    p, p_slope = blocks.noise(offset)
    g = 1 / (p + blocks.delta[..., None] * blocks.kappa)
    length = np.sum(g**2 * p_slope * squares, axis=-1)
    share = np.sum(g**2 * squares, axis=-1) / np.where(length > 0, length, 1.0)
    return np.where(length > 0, share, 0.0)


@dataclass(frozen=True, eq=False)
class _Blocks(OutlierCurve):
    """The population's noise K ⊗ MP_δ, over the offset t − √δ of its top block.

    Here u of `OutlierCurve` is the population eigenvalue ℓ, and the only ratio is Hγ.
    """

    delta: Floats  # δ, with a last axis of length 1 for the outliers
    kappa: Floats  # κ_h: eigenvalues of K
    signal: Floats  # A in the eigenbasis of K
    signal_root: Floats  # A^{1/2} there

    @classmethod
    def of(cls, model: MultiHeadPooling, delta: Floats) -> "_Blocks":
        kappa, basis = np.linalg.eigh(model.noise_gains)
        signal = basis.T @ model.signal_gains @ basis
        sizes, vectors = np.linalg.eigh(signal)
        root = (vectors * np.sqrt(sizes.clip(min=0))) @ vectors.T
        return cls(delta, kappa.clip(min=0), signal, root)

    @property
    def top(self) -> float:
        """Largest κ."""
        return float(self.kappa[-1])

    @property
    def reach(self) -> Floats:
        """Beyond the edge of the population, in the offset."""
        return np.asarray(10 * (1 + self.delta))

    def u(self, offset: Floats) -> Floats:
        """Return ℓ = κ_max (t+1)(t+δ)/t."""
        t = np.sqrt(self.delta) + offset
        return np.asarray(self.top * (t + 1) * (1 + self.delta / t))

    def noise(self, offset: Floats) -> tuple[Floats, Floats]:
        """Return p_h = κ_h t_h and dp_h/dℓ = 1/(1 − δ/t_h²), with the heads as last axis."""
        delta, kappa = self.delta[..., None], self.kappa
        root, g = np.sqrt(delta), offset[..., None]
        half = (self.u(offset)[..., None] - kappa * (1 + delta)) / 2
        p = half + np.sqrt(np.maximum(half**2 - delta * kappa**2, 0.0))
        is_top = kappa == self.top  # whose digits are those of the offset
        p = np.where(is_top, self.top * (root + g), p)
        rest = np.where(is_top, g * (g + 2 * root) / (root + g) ** 2, 1 - delta * (kappa / p) ** 2)
        return p, 1 / np.maximum(rest, TINY)

    def y(self, offset: Floats) -> Floats:
        """Return y(ℓ) = (1/H) Σ κ_h/p_h."""
        return np.asarray(np.mean(self.kappa / self.noise(offset)[0], axis=-1))

    def y_slope(self, offset: Floats) -> Floats:
        """Return y'(ℓ)."""
        p, p_slope = self.noise(offset)
        return np.asarray(-np.mean(self.kappa / p**2 * p_slope, axis=-1))

    def secular(self, offset: Floats, theta: Floats) -> Floats:
        """Return θ A^{1/2} diag(g) A^{1/2}, g_h = 1/(p_h + δκ_h)."""
        p, _ = self.noise(offset)
        g = theta[..., None] / (p + self.delta[..., None] * self.kappa)
        return np.asarray((self.signal_root * g[..., None, :]) @ self.signal_root)
