"""Outliers of pooled sequences from several classes, with noise of any covariance.

Letters: δ = d/V, γ = d/N, π the class shares, M the class means, H the spectrum of the noise,
u the parameter in which ℓ = κ u(1+δy) and λ = κ u(1+δy)(1+γy) (see `attnlaw.laws.outliers`).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from attnlaw._checks import Floats, scalar_or_array
from attnlaw.laws import Discrete, Law, MarchenkoPastur
from attnlaw.laws.outliers import TINY, Poles, falling_root
from attnlaw.models import PooledClasses
from attnlaw.models.base import answers
from attnlaw.results import ClassSpikes, Plan, Thresholds
from attnlaw.theory.planning import search_plan
from attnlaw.theory.verbs import law, plan, predict, thresholds, warn_if_far_from_limit
from attnlaw.theory.vocabulary_classes import (
    class_ceiling,
    law_of_token_classes,
    predict_token_classes,
    token_thresholds,
)

__all__: list[str] = []


@answers(law)
def law_of_classes(model: PooledClasses) -> Law:
    """Limiting spectrum of the noise: κ (H ⊠ MP_δ ⊠ MP_γ), H the spectrum of the noise.

    Examples
    --------
    >>> import attnlaw as al
    >>> model = al.PooledClasses(
    ...     vocab_ratio=0.5, sample_ratio=0.4, class_means=np.eye(2), noise_spectrum=[1.0, 3.0],
    ...     correlation=np.eye(4), weights="mean",
    ... )
    >>> al.law(model)
    Discrete([0.25, 0.75]) @ MarchenkoPastur(0.5) @ MarchenkoPastur(0.4)
    """
    delta, gamma = model.single_ratios("a law is")
    warn_if_far_from_limit(model)
    if model.vocabulary is not None and model.tokens_differ:
        return law_of_token_classes(model, model.vocabulary, delta, gamma)
    white = MarchenkoPastur(delta) @ MarchenkoPastur(gamma)
    if model.noise_spectrum is None:
        return model.noise_gain * white
    return model.noise_gain * (Discrete(model.noise_spectrum) @ white)


@answers(predict)
def predict_classes(model: PooledClasses) -> ClassSpikes:
    """Predict the outliers of pooled classes and their overlap with the class means.

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
    rows of a K × (K−1) orthonormal basis of the complement of √π). The sampling noise m_k of the
    mean of class k has covariance Σ/(V π_k), so √π_k m_k has Σ/V whatever the shares: it adds the
    same δ to every contrast. With A the contrasts of M and y(u) = (1/d) tr Σ(u−Σ)⁻¹,

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
    >>> al.predict(two).squared_overlaps.round(6)
    array([0.615738])
    >>> round(al.predict(al.PooledSequences(signal_norm=1.0, **common)).squared_overlap, 6)
    0.615738
    """
    warn_if_far_from_limit(model)
    if model.vocabulary is not None and model.tokens_differ:
        return predict_token_classes(model, model.vocabulary)
    shape, kappa = model.shape, model.noise_gain
    delta, gamma, scale = (
        np.broadcast_to(x, shape)[..., None]
        for x in (model.vocab_ratio, model.sample_ratio, model.signal_scale)
    )
    mean_noise = delta if model.sampling == "token" else np.zeros_like(delta)
    contrasts = _Contrasts.of(model)
    noise = contrasts.noise
    sample_edge, population_edge = noise.edge_offset(delta, gamma), noise.edge_offset(delta)
    edge = kappa * noise.eigenvalue(sample_edge, delta, gamma)

    offset = _spike_offsets(contrasts, model.snr, scale**2, delta, mean_noise, population_edge)
    in_population, seen = offset > population_edge * (1 + 1e-12), offset > sample_edge
    offset = np.maximum(offset, population_edge)
    population_slope = np.where(in_population, noise.log_slope(offset, delta), 1.0)
    zeta_sample = np.where(seen, noise.log_slope(offset, delta, gamma) / population_slope, 0.0)
    components = _signal_components(contrasts, offset, scale, delta, mean_noise)
    components = np.where(in_population[..., None], components, 0.0)
    zeta_population = np.sum(components**2, axis=-1)
    towards = np.einsum("...jr,kr->...jk", components, contrasts.directions)
    return ClassSpikes(
        top_eigenvalues=np.where(seen, kappa * noise.eigenvalue(offset, delta, gamma), edge),
        squared_overlaps=zeta_population * zeta_sample,
        bulk_edge=scalar_or_array(np.broadcast_to(edge[..., 0], shape)),
        population_eigenvalues=kappa * noise.eigenvalue(offset, delta),
        population_overlaps=zeta_population,
        sample_overlaps=zeta_sample,
        is_detectable=seen,
        class_overlaps=np.einsum("...j,...jk->...k", zeta_sample, towards**2),
    )


def _signal_components(
    contrasts: "_Contrasts", offset: Floats, scale: Floats, delta: Floats, mean_noise: Floats
) -> Floats:
    """Return P v for C's unit eigenvectors v, in coordinates of the signal space: (…, J, r).

    v is along Q B c, Q = (ℓ − κ Z_⊥ᵀZ_⊥/V)⁻¹, and ‖Q B c‖² = −d/dℓ of c·BᵀQB c, where
    BᵀQB = (S + δy)/(κ(1+δy)); P Q B c = P (u−Σ)⁻¹A c/(κ(1+δy)).
    """
    noise = contrasts.noise
    y, y_slope = noise.y(offset), noise.y_slope(offset)
    lift = 1 + delta * y
    sigma, c = contrasts.eigenpairs(offset, scale**2)
    sigma_slope = -np.einsum("...q,...qr,...r", c, contrasts.secular(offset, scale**2, 2), c)
    falling = (sigma + mean_noise * y) * delta * y_slope / lift**2
    falling = falling - (sigma_slope + mean_noise * y_slope) / lift
    ell_slope = noise.eigenvalue(offset, delta) * noise.log_slope(offset, delta)
    unit = np.sqrt(np.maximum(ell_slope, 0.0) / np.where(falling > 0, falling, 1.0))  # 1/‖Q B c‖
    return np.asarray(contrasts.projected(offset, c, scale) * (unit / lift)[..., None])


@answers(thresholds)
def thresholds_of_classes(model: PooledClasses) -> Thresholds:
    """Return the factors of the class means beyond which one, two, … eigenvalues leave the bulk.

    Parameters
    ----------
    model : PooledClasses
        Its ratios may be arrays; its signal scale plays no part.

    Returns
    -------
    Thresholds
        Of the shape of the ratios, with an axis of K − 1 outliers; infinite for a contrast
        without signal that stays in the bulk, 0 for one that leaves it without any.

    Notes
    -----
    Derived in docs/theory/classes.md, "Thresholds".

    With u at the edge, of C or of S, and σ_j the eigenvalues of S(u) at scale 1 (see
    `predict`), s² = (1 + δy − (α/κ) δy) / ((α/κ) σ_j); idealised without the last δy.

    Examples
    --------
    Two classes, infinite vocabulary, no correlation: the BBP threshold γ^{1/4}.

    >>> import attnlaw as al
    >>> model = al.PooledClasses(
    ...     vocab_ratio=0.0, sample_ratio=0.0625, class_means=[[1.0], [-1.0]],
    ...     correlation=np.eye(4), weights=al.mean_weights(4),
    ... )
    >>> al.thresholds(model)
    Thresholds(population_signal=[0], sample_signal=[0.5])
    """
    if model.vocabulary is not None and model.tokens_differ:
        return token_thresholds(model, model.vocabulary)
    contrasts = _Contrasts.of(model)
    snr, mean_noise = model.snr, float(model.sampling == "token")
    shape = np.broadcast_shapes(np.shape(model.vocab_ratio), np.shape(model.sample_ratio))
    delta, gamma = (
        np.broadcast_to(x, shape)[..., None] for x in (model.vocab_ratio, model.sample_ratio)
    )

    def critical_scale(offset: Floats) -> Floats:
        y = contrasts.noise.y(offset)
        S = contrasts.secular(offset, np.ones_like(offset))[..., 0, :, :]
        sigma = np.linalg.eigvalsh(S)[..., ::-1].clip(min=0)
        sigma = np.where(sigma > 1e-13 * np.maximum(sigma[..., :1], TINY), sigma, 0.0)
        missing = np.maximum(1 + (1 - snr * mean_noise) * delta * y, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            scale = np.sqrt(missing / (snr * sigma))
        return np.where((missing > 0) & (scale > 1e-14), scale, 0.0)

    noise = contrasts.noise
    return Thresholds(
        population_signal=critical_scale(noise.edge_offset(delta)),
        sample_signal=critical_scale(noise.edge_offset(delta, gamma)),
    )


@answers(plan)
def plan_of_classes(model: PooledClasses, squared_overlap: ArrayLike = 0.8) -> Plan:
    """Find by search what a wanted overlap of each outlier requires, see `search_plan`.

    Notes
    -----
    The ceiling is s²ω_j/(s²ω_j + δ tr Σ/d), ω_j the eigenvalues of AᵀA: where the signal
    dominates, the eigenvectors of C are those of (A + m)(A + m)ᵀ.
    """
    if model.vocabulary is not None and model.tokens_differ:
        return search_plan(model, squared_overlap, class_ceiling(model, model.vocabulary))
    scale, delta = np.broadcast_arrays(model.signal_scale, model.vocab_ratio)
    contrasts = _Contrasts.of(model)
    strength = np.linalg.eigvalsh(contrasts.energy.sum(axis=0))[::-1].clip(min=0)
    strength = scale[..., None] ** 2 * strength
    mean_noise = delta[..., None] * float(contrasts.noise.residues.sum())
    if model.sampling != "token":
        mean_noise = np.zeros_like(mean_noise)
    ceiling = strength / np.maximum(strength + mean_noise, TINY)
    return search_plan(model, squared_overlap, ceiling)


@dataclass(frozen=True)
class _Contrasts:
    """The class means as K − 1 orthogonal contrasts, split by the atoms of the noise."""

    noise: Poles
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
            noise, where = Poles.of_spectrum([1.0]), np.zeros(M.shape[1], dtype=np.intp)
        else:
            noise = Poles.of_spectrum(model.noise_spectrum)
            where = np.searchsorted(noise.poles, model.noise_spectrum)
        member = np.eye(len(noise.poles))[where]  # (n, atoms)
        energy = np.einsum("qn,rn,na->aqr", A, A, member)
        inside = np.einsum("qn,rn,na->aqr", A, basis, member)
        return cls(noise, energy, inside, directions)

    def secular(self, offset: Floats, squared_scale: Floats, power: int = 1) -> Floats:
        """Return S(u) = Aᵀ(u−Σ)⁻¹A, or −S'(u) with the power 2: shape (…, J, J)."""
        values = np.tensordot(self.noise.inverse(offset) ** power, self.energy, axes=1)
        return np.asarray(squared_scale[..., None, None] * values)

    def eigenpairs(self, offset: Floats, squared_scale: Floats) -> tuple[Floats, Floats]:
        """Return the j-th largest eigenpair of S(u_j), for every j."""
        values, vectors = np.linalg.eigh(self.secular(offset, squared_scale))
        j = np.arange(values.shape[-1])
        chosen = np.moveaxis(vectors[..., j, :, j[::-1]], 0, -2)  # indexing puts j first
        return values[..., j, j[::-1]].clip(min=0), chosen

    def projected(self, offset: Floats, vectors: Floats, scale: Floats) -> Floats:
        """Return (u−Σ)⁻¹A c in the coordinates of the signal space: shape (…, J, r)."""
        parts = np.tensordot(self.noise.inverse(offset), self.inside, axes=1)
        return np.asarray(scale[..., None] * np.einsum("...q,...qr->...r", vectors, parts))


def _spike_offsets(
    contrasts: _Contrasts,
    snr: float,
    squared_scale: Floats,
    delta: Floats,
    mean_noise: Floats,
    low: Floats,
) -> Floats:
    """Return u_j − max t, at least `low`, the population's edge, where spikes are lost in it."""
    H = contrasts.noise
    strength = np.linalg.eigvalsh(contrasts.energy.sum(axis=0))[::-1]
    strength = np.where(strength > 1e-13 * strength[0], strength, 0.0) * squared_scale
    if len(H.poles) == 1:
        return np.asarray(np.maximum(snr * strength + (snr * mean_noise - delta) * H.top, low))

    def excess(offset: Floats) -> Floats:
        y = H.y(offset)
        sigma = np.linalg.eigvalsh(contrasts.secular(offset, squared_scale))[..., ::-1]
        return snr * (np.diagonal(sigma, axis1=-2, axis2=-1) + mean_noise * y) - 1 - delta * y

    shape = np.broadcast_shapes(strength.shape, low.shape)
    edge = np.broadcast_to(low, shape)
    low = np.maximum(edge, 1e-8 * H.top)  # nearer to a pole, rounding hides all σ but the first
    mean = float(H.residues.sum())
    high = snr * (strength[..., :1] + mean_noise * mean)  # there σ + δy < κ/α
    high = np.broadcast_to(np.maximum(high, 2 * low), shape)
    exists = (excess(low) > 0) & ((strength > 0) | (mean_noise > 0))
    return np.where(exists, falling_root(excess, low, high), edge)
