"""Outliers of pooled sequences from several classes, with noise of any covariance.

Letters: δ = d/V, γ = d/N, π the class shares, M the class means, H the spectrum of the noise,
u the parameter in which ℓ = κ u(1+δy) and λ = κ u(1+δy)(1+γy) (see `noise_spectrum`).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Floats, scalar_or_array
from attnlaw.models import PooledClasses
from attnlaw.results import ClassSpikes
from attnlaw.theory.bulk import TINY, edge_root
from attnlaw.theory.noise_spectrum import NoiseSpectrum, falling_root
from attnlaw.theory.validity import warn_if_far_from_limit

__all__ = ["ClassThresholds", "class_thresholds", "predict_classes"]


def predict_classes(model: PooledClasses) -> ClassSpikes:
    """Predict the outliers of pooled classes, and how much of the class means they hold.

    Parameters
    ----------
    model : PooledClasses
        Its ratios and signal scale may be arrays.

    Returns
    -------
    ClassSpikes
        K − 1 outliers; the signal space is the span of the differences of class means. Below
        threshold, what the theorem gives: the edge for eigenvalues, 0 for overlaps.

    Notes
    -----
    Derived in docs/theory/classes.md, "Outliers".

    Given the table, the covariance of x is exactly C = κ Z_⊥ᵀZ_⊥/V + α B Bᵀ, the
    columns of B = Σ_k √π_k (M_k + m_k) n_kᵀ being the contrasts of the K class means (n_k the
    rows of a K × (K−1) orthonormal basis of the complement of √π). The mean m_k of the noise
    in class k has covariance Σ/(V π_k), so √π_k m_k has Σ/V whatever the shares: the same δ is
    lent to every contrast. With A the contrasts of M and y(u) = (1/d) tr Σ(u−Σ)⁻¹,

        S(u) = Aᵀ(u−Σ)⁻¹A ,  σ_j its eigenvalues ,  c_j its eigenvectors;
        u_j :   (α/κ) (σ_j(u) + δy(u)) = 1 + δy(u)       (idealised: no δy on the left)
        ℓ_j = κ u(1+δy) ,   λ_j = ℓ_j (1+γy) ,   ζ_samp = (log λ)'/(log ℓ)' ,
        ζ_pop = ‖P (u−Σ)⁻¹A c‖² (ℓ'/κ) / ((1+δy)² f) ,   f = −d/du (c·S c + δy)/(1+δy)

    with P the projector on the signal space (idealised: no δy beside S). White noise has
    u = 1 + t and closed forms: t_j = (α/κ)(ω_j + δ) − δ with ω_j the eigenvalues of AᵀA, those
    of the between-class covariance Σ_k π_k (M_k−M̄)(M_k−M̄)ᵀ, and ζ = ζ(t_j) ω_j/(ω_j+δ) as in
    `predict`.

    Contrasts without signal (σ_j = 0) are outliers, too, when (α/κ − 1) δ y is large enough:
    classes that differ by nothing but the noise of this table.

    Examples
    --------
    Two classes are `predict`:

    >>> import attnlaw as al
    >>> R = al.prefix_correlation(20, prefix=5)
    >>> w = al.optimal_weights(R)
    >>> common = dict(vocab_ratio=0.5, sample_ratio=0.4, correlation=R, weights=w)
    >>> two = al.PooledClasses(class_means=[[1.0], [-1.0]], **common)
    >>> al.predict_classes(two).squared_overlaps.round(6)
    array([0.615738])
    >>> round(al.predict(al.PooledSequences(signal_norm=1.0, **common)).squared_overlap, 6)
    0.615738
    """
    warn_if_far_from_limit(model)
    contrasts = _Contrasts.of(model)
    H, J = contrasts.noise, model.n_classes - 1
    kappa, snr, token = model.noise_gain, model.snr, model.sampling == "token"
    shape = model.shape
    delta, gamma, scale = (
        np.broadcast_to(x, shape)[..., None]
        for x in (model.vocab_ratio, model.sample_ratio, model.signal_scale)
    )
    lent = delta if token else np.zeros_like(delta)
    edge_gap, population_gap = _edge_gaps(H, delta, gamma)
    edge = kappa * H.eigenvalue(edge_gap, delta, gamma)

    gap = _spike_gaps(contrasts, snr, scale**2, delta, lent, population_gap)  # (…, J)
    in_population, seen = gap > population_gap * (1 + 1e-12), gap > edge_gap
    gap = np.maximum(gap, population_gap)
    y, y1 = H.y(gap), H.y_slope(gap)
    lift = 1 + delta * y
    S = contrasts.secular(gap, scale**2)
    sigma, c = _component(*np.linalg.eigh(S), J)
    slope = -np.einsum("...q,...qr,...r", c, contrasts.secular(gap, scale**2, power=2), c)
    # a = Q B c: its squared length is −d/dℓ of c·BᵀQB c, BᵀQB = (S + δy)/(κ(1+δy))
    falling = -(slope + lent * y1) / lift + (sigma + lent * y) * delta * y1 / lift**2
    ell = H.eigenvalue(gap, delta)
    ell1 = ell * H.relative_slope(gap, delta)
    inside = contrasts.projected(gap, c, scale) / lift[..., None]  # P Q B c, times κ
    share = np.where(in_population, ell1 / np.where(falling > 0, falling, 1.0), 0.0)
    pieces = share[..., None] * inside**2
    zeta_population = pieces.sum(axis=-1)
    log_ratio = H.relative_slope(gap, delta, gamma) / np.where(
        in_population, H.relative_slope(gap, delta), 1.0
    )
    zeta_sample = np.where(seen, log_ratio, 0.0)
    towards = np.einsum("...jr,kr->...jk", inside, contrasts.directions)
    return ClassSpikes(
        top_eigenvalues=np.where(seen, kappa * H.eigenvalue(gap, delta, gamma), edge),
        squared_overlaps=zeta_population * zeta_sample,
        bulk_edge=scalar_or_array(np.broadcast_to(edge[..., 0], shape)),
        population_eigenvalues=kappa * ell,
        population_overlaps=zeta_population,
        sample_overlaps=zeta_sample,
        is_detectable=seen,
        class_overlaps=np.einsum("...j,...jk->...k", zeta_sample * share, towards**2),
    )


@dataclass(frozen=True, kw_only=True)
class ClassThresholds:
    """Critical factors of the class means, for each of the K − 1 outliers along the last axis."""

    population_signal_scale: NDArray[np.float64]  # beyond it C has so many outliers
    sample_signal_scale: NDArray[np.float64]  # beyond it S has


def class_thresholds(model: PooledClasses) -> ClassThresholds:
    """Return the factors of the class means beyond which one, two, … eigenvalues leave the bulk.

    Parameters
    ----------
    model : PooledClasses
        Its ratios may be arrays; its signal scale plays no part.

    Returns
    -------
    ClassThresholds
        Of the shape of the ratios, with an axis of K − 1 outliers; infinite for a contrast
        without signal that stays in the bulk, 0 for one that leaves it without any.

    Notes
    -----
    Derived in docs/theory/classes.md, "Thresholds".

    With u at the edge, of C or of S, and σ_j the eigenvalues of S(u) at scale 1 (see
    `predict_classes`), s² = (1 + δy − (α/κ) δy) / ((α/κ) σ_j); idealised without the last δy.

    Examples
    --------
    Two classes, infinite vocabulary, no correlation: Baik, Ben Arous and Péché's γ^(1/4).

    >>> import attnlaw as al
    >>> model = al.PooledClasses(
    ...     vocab_ratio=0.0, sample_ratio=0.0625, class_means=[[1.0], [-1.0]],
    ...     correlation=np.eye(4), weights=al.mean_weights(4),
    ... )
    >>> al.class_thresholds(model)
    ClassThresholds(population_signal_scale=array([0.]), sample_signal_scale=array([0.5]))
    """
    contrasts = _Contrasts.of(model)
    snr, lends = model.snr, float(model.sampling == "token")
    shape = np.broadcast_shapes(np.shape(model.vocab_ratio), np.shape(model.sample_ratio))
    delta, gamma = (
        np.broadcast_to(x, shape)[..., None] for x in (model.vocab_ratio, model.sample_ratio)
    )

    def critical_scale(gap: Floats) -> Floats:
        y = contrasts.noise.y(gap)
        S = contrasts.secular(gap, np.ones_like(gap))[..., 0, :, :]
        sigma = np.linalg.eigvalsh(S)[..., ::-1].clip(min=0)
        sigma = np.where(sigma > 1e-13 * np.maximum(sigma[..., :1], TINY), sigma, 0.0)
        missing = np.maximum(1 + (1 - snr * lends) * delta * y, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            scale = np.sqrt(missing / (snr * sigma))
        return np.where((missing > 0) & (scale > 1e-14), scale, 0.0)

    sample, population = _edge_gaps(contrasts.noise, delta, gamma)
    return ClassThresholds(
        population_signal_scale=critical_scale(population),
        sample_signal_scale=critical_scale(sample),
    )


@dataclass(frozen=True)
class _Contrasts:
    """The class means as K − 1 orthogonal contrasts, split by the atoms of the noise."""

    noise: NoiseSpectrum
    energy: Floats  # (atoms, J, J): AᵀA in each eigenspace of the noise, falling in the whole
    inside: Floats  # (atoms, J, r): A in each eigenspace, in coordinates of the signal space
    directions: Floats  # (K, r): unit (M_k − M̄) in those coordinates

    @classmethod
    def of(cls, model: PooledClasses) -> "_Contrasts":
        M, pi = model.class_means, model.shares
        root = np.sqrt(pi)
        complement = np.linalg.svd(root[None])[2][1:]  # rows orthonormal, orthogonal to √π
        A = complement @ (root[:, None] * M)  # (J, n)
        centred = M - pi @ M
        _, sizes, basis = np.linalg.svd(A, full_matrices=False)
        basis = basis[sizes > 1e-12 * max(float(sizes[0]), 1e-300)]  # (r, n)
        lengths = np.linalg.norm(centred, axis=1, keepdims=True)
        directions = (centred / np.where(lengths > 0, lengths, 1.0)) @ basis.T
        if model.noise_spectrum is None:
            noise, where = NoiseSpectrum.of([1.0]), np.zeros(M.shape[1], dtype=np.intp)
        else:
            noise = NoiseSpectrum.of(model.noise_spectrum)
            where = np.searchsorted(noise.atoms, model.noise_spectrum)
        member = np.eye(len(noise.atoms))[where]  # (n, atoms)
        energy = np.einsum("qn,rn,na->aqr", A, A, member)
        inside = np.einsum("qn,rn,na->aqr", A, basis, member)
        return cls(noise, energy, inside, directions)

    def secular(self, gap: Floats, squared_scale: Floats, power: int = 1) -> Floats:
        """Return S(u) = Aᵀ(u−Σ)⁻¹A, or −S'(u) with the power 2: shape (…, J, J)."""
        values = np.tensordot(self.noise.inverse(gap) ** power, self.energy, axes=1)
        return np.asarray(squared_scale[..., None, None] * values)

    def projected(self, gap: Floats, vectors: Floats, scale: Floats) -> Floats:
        """Return (u−Σ)⁻¹A c in the coordinates of the signal space: shape (…, J, r)."""
        parts = np.tensordot(self.noise.inverse(gap), self.inside, axes=1)
        return np.asarray(scale[..., None] * np.einsum("...q,...qr->...r", vectors, parts))


def _edge_gaps(noise: NoiseSpectrum, delta: Floats, gamma: Floats) -> tuple[Floats, Floats]:
    """Return the gaps of the right edges of the sample and of the population."""
    if len(noise.atoms) == 1:  # white noise: t = g/Σ
        least = 1e-30 * noise.top  # stands for 0
        sample, population = (noise.top * x for x in (edge_root(delta, gamma), np.sqrt(delta)))
        return np.maximum(sample, least), np.maximum(population, least)
    return noise.edge_gap(delta, gamma), noise.edge_gap(delta)


def _spike_gaps(
    contrasts: _Contrasts,
    snr: float,
    squared_scale: Floats,
    delta: Floats,
    lent: Floats,
    low: Floats,
) -> Floats:
    """Return u_j − max t, at least `low`, the population's edge, where spikes are lost in it."""
    H = contrasts.noise
    strength = np.linalg.eigvalsh(contrasts.energy.sum(axis=0))[::-1]
    strength = np.where(strength > 1e-13 * strength[0], strength, 0.0) * squared_scale
    if len(H.atoms) == 1:
        return np.asarray(np.maximum(snr * strength + (snr * lent - delta) * H.top, low))

    def excess(gap: Floats) -> Floats:
        y = H.y(gap)
        sigma = np.linalg.eigvalsh(contrasts.secular(gap, squared_scale))[..., ::-1]
        return snr * (np.diagonal(sigma, axis1=-2, axis2=-1) + lent * y) - 1 - delta * y

    shape = np.broadcast_shapes(strength.shape, low.shape)
    edge = np.broadcast_to(low, shape)
    low = np.maximum(edge, 1e-8 * H.top)  # nearer to a pole, rounding hides all σ but the first
    mean = float(H.weights @ H.atoms)
    high = snr * (strength[..., :1] + lent * mean)  # there σ + δy < κ/α
    high = np.broadcast_to(np.maximum(high, 2 * low), shape)
    exists = (excess(low) > 0) & ((strength > 0) | (lent > 0))
    return np.where(exists, falling_root(excess, low, high), edge)


def _component(values: Floats, vectors: Floats, n: int) -> tuple[Floats, Floats]:
    """Of the eigenpairs of S(u_j) take, for every j, the j-th largest."""
    j = np.arange(n)
    chosen = np.moveaxis(vectors[..., j, :, n - 1 - j], 0, -2)  # indexing puts j first
    return values[..., j, n - 1 - j].clip(min=0), chosen
