"""Outliers of K classes whose tokens differ in frequency and importance, with any noise.

Letters as in `token_spikes` and `classes`: y(s) = mean r/(s − δr) over tokens; π the class shares,
M the class means; t the eigenvalues of the noise's covariance Σ. With u such that
(1/d) tr Σ(u−Σ)⁻¹ = y,

    x = u s y ,   λ = κ x φ(y) ,   Mᵀ(x − YᵀY)⁻¹M = Mᵀ(u−Σ)⁻¹M/(s y)

(white noise: u = 1 + 1/y, x = s(1+y)). Derived in docs/theory/vocabulary.md, "Classes and
anisotropic noise".
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Floats, scalar_or_array, warn_regime
from attnlaw.laws import Law
from attnlaw.laws.outliers import TINY
from attnlaw.models import PooledClasses, Vocabulary
from attnlaw.results import ClassSpikes, Thresholds
from attnlaw.theory.token_noise import NoiseScales, TokenSums, mixed_scales, reduced_sums
from attnlaw.theory.token_spikes import sign_change
from attnlaw.theory.vocabulary import TOLERATED_SHARE, bulk_law

__all__ = ["class_ceiling", "law_of_token_classes", "predict_token_classes", "token_thresholds"]


class _Point(NamedTuple):
    """The bulk and all forms at parameters s; derivatives are in s."""

    x: Floats
    x_slope: Floats
    growth: Floats  # λ'/(κφ)
    value: Floats  # λ/κ
    snr_slope: Floats
    theta: Floats  # Θ (…, 3K, 3K)
    K: Floats  # (…, 3K, 3K)
    K_slope: Floats
    projected: Floats  # components of the resolvent's M in the signal space (…, K, r)


class _Outlier(NamedTuple):
    """Unit eigenvectors RUc, R the resolvent of YᵀY: c, and their components along the signal."""

    point: _Point
    c: Floats  # (…, J, 3K), scaled so that the eigenvector has length one
    components: Floats  # (…, J, r)


@dataclass(frozen=True)
class ClassTokens:
    """A vocabulary of K classes, pooled one way."""

    sums: TokenSums  # masses: r times 1/V, then p/π², pg/π, pg² of every class
    scales: NoiseScales  # ξ
    spectrum: NoiseScales  # t over its mean
    variance: float  # mean t
    snr: float
    shares: Floats  # π
    means: Floats  # ḡ_k
    squares: Floats  # Σ p g² over class k
    class_means: Floats  # M (K, n)
    eigenvalues: Floats  # t of the n coordinates
    basis: Floats  # (r, n): orthonormal, spans M_k − M̄
    directions: Floats  # (K, r): unit M_k − M̄

    @classmethod
    def of(cls, model: PooledClasses, words: Vocabulary) -> "ClassTokens":
        p, k, g = model.token_frequencies, model.token_classes, words.weights
        pi, M, V = model.shares, model.class_means, words.n_tokens
        member = np.eye(len(pi))[k]  # (V, K)
        forms = [p / pi[k] ** 2, p * g / pi[k], p * g**2]
        weights = np.concatenate(
            [np.full((V, 1), 1 / V), *(f[:, None] * member for f in forms)], 1
        )
        sums = reduced_sums(V * p * g**2, weights, mean=float(p @ g), square=float(p @ g**2))
        t = np.ones(M.shape[1]) if model.noise_spectrum is None else model.noise_spectrum
        atoms, counts = np.unique(t / t.mean(), return_counts=True)
        centred = M - pi @ M
        lengths = np.linalg.norm(centred, axis=1, keepdims=True)
        _, sizes, basis = np.linalg.svd(np.sqrt(pi)[:, None] * centred, full_matrices=False)
        basis = basis[sizes > 1e-12 * max(float(sizes[0]), 1e-300)]
        return cls(
            sums=sums,
            scales=mixed_scales(model.kinds, p, g),
            spectrum=NoiseScales(atoms, counts / len(t)),
            variance=float(t.mean()),
            snr=model.snr,
            shares=pi,
            means=(p * g / pi[k]) @ member,
            squares=(p * g**2) @ member,
            class_means=M,
            eigenvalues=t,
            basis=basis,
            directions=(centred / np.where(lengths > 0, lengths, 1.0)) @ basis.T,
        )

    def edge(self, delta: Floats, gamma: Floats) -> Floats:
        """Return s at the right edge of the bulk, where λ is least; γ = 0: of the population."""
        top = delta * self.sums.top
        ratio = delta + gamma * float(self.scales.atoms.max())
        spread = float(self.spectrum.atoms.max())
        scale = np.maximum(ratio + np.sqrt(ratio), 1e-12) * self.sums.top * spread

        def falling(gap: Floats) -> Floats:
            s = top + gap
            y, slope = self.sums.y(s, delta)
            noise, noise_slope = self.spectrum.factor(y, np.ones_like(y))
            phi, phi_slope = self.scales.factor(y, gamma)
            return -s * (1 / s + slope * (noise_slope / noise + phi_slope / phi))

        return np.asarray(top + sign_change(falling, 1e-14 * scale, 1e3 * scale))

    def point(self, s: Floats, scale: Floats, delta: Floats, gamma: Floats) -> _Point:
        """Return everything at parameters s, right of the bulk."""
        values, slopes = self.sums.at(s, delta)
        y, y_slope = values[..., 0], slopes[..., 0]
        noise, noise_slope = self.spectrum.factor(y, np.ones_like(y))
        phi, phi_slope = self.scales.factor(y, gamma)
        u, u_slope = noise / y, (noise_slope - noise / y) / y * y_slope
        x = self.variance * s * noise
        x_slope = self.variance * (noise + s * noise_slope * y_slope)
        table, table_slope = s * y, y + s * y_slope
        distance = self.variance * u[..., None] - self.eigenvalues
        inverse = 1 / np.maximum(distance, 1e-15 * self.variance * u[..., None])  # (…, n)
        M, n = scale[..., None, None] * self.class_means, len(self.shares)
        first = (M * inverse[..., None, :]) @ np.swapaxes(M, -1, -2)
        second = (M * inverse[..., None, :] ** 2) @ np.swapaxes(M, -1, -2)
        K, K_slope = np.zeros((*s.shape, 3 * n, 3 * n)), np.zeros((*s.shape, 3 * n, 3 * n))
        K[..., :n, :n] = first / table[..., None, None]
        K_slope[..., :n, :n] = -first * (table_slope / table**2)[..., None, None]
        K_slope[..., :n, :n] -= second * (self.variance * u_slope / table)[..., None, None]
        each = np.arange(n)
        for i, (a, b) in enumerate(((1, 1), (1, 2), (2, 2))):
            for form, sums in ((K, values), (K_slope, slopes)):
                part = delta[..., None] * sums[..., 1 + i * n : 1 + (i + 1) * n]
                form[..., a * n + each, b * n + each] = part
                form[..., b * n + each, a * n + each] = part
        snr, snr_slope = np.full(s.shape, self.snr), np.zeros(s.shape)
        if gamma.any() and not self.scales.is_single:
            ratio, ratio_slope = self.scales.seen_signal(y, gamma)
            snr, snr_slope = self.snr * ratio, self.snr * ratio_slope * y_slope
        projected = (M * inverse[..., None, :]) @ self.basis.T / table[..., None, None]
        return _Point(
            x=x,
            x_slope=x_slope,
            growth=x_slope + x * phi_slope * y_slope / phi,
            value=x * phi,
            snr_slope=snr_slope,
            theta=self._theta(snr),
            K=K,
            K_slope=K_slope,
            projected=projected,
        )

    @property
    def between(self) -> Floats:
        """Matrix of Σ π_k (B_k − B̄)(B_k − B̄)ᵀ, B_k = ḡ_k M_k + m_k the means of the classes."""
        n = len(self.shares)
        B = np.concatenate([np.diag(self.means), np.eye(n), np.zeros((n, n))], axis=1)
        centred = B - self.shares @ B
        return np.asarray((centred.T * self.shares) @ centred)

    def _theta(self, snr: Floats) -> Floats:
        """Return Θ of C/κ = YᵀY + UΘUᵀ, U = [M_k, m_k, u_k]."""
        n = len(self.shares)
        B = self.shares @ np.concatenate(
            [np.diag(self.means), np.eye(n), np.zeros((n, n))], axis=1
        )
        theta = -np.outer(B, B)
        each = np.arange(n)
        theta[each, each] += self.squares
        theta[each, 2 * n + each] += 1
        theta[2 * n + each, each] += 1
        return np.asarray(theta + (snr - 1)[..., None, None] * self.between)

    def strengths(self, point: _Point) -> Floats:
        """Return eigenvalues of ΘK, falling: those above 1 are outliers beyond x(s)."""
        root = _root(point.K)
        return np.asarray(np.linalg.eigvalsh(root @ point.theta @ root)[..., ::-1])

    def outliers(
        self, scale: Floats, delta: Floats, gamma: Floats, edge: Floats
    ) -> tuple[Floats, NDArray[np.bool_]]:
        """Return s of the K − 1 leading outliers, the edge's where they are lost: (…, J)."""
        J = len(self.shares) - 1
        scale, delta, gamma, low = (
            np.repeat(x[..., None], J, axis=-1) for x in (scale, delta, gamma, edge)
        )

        def beyond(gap: Floats) -> Floats:
            strengths = self.strengths(self.point(low + gap, scale, delta, gamma))
            return np.diagonal(strengths[..., :J], axis1=-2, axis2=-1) - 1

        strength = (1 + self.snr) * (float(self.means.max()) ** 2 + self.sums.square)
        length = scale**2 * float(np.sum(self.class_means**2)) / self.variance
        s = low + sign_change(beyond, 1e-12 * low, 1e3 * (low + strength * (1 + delta + length)))
        return np.asarray(s), np.asarray(s > low * (1 + 2e-12))

    def eigenvectors(self, s: Floats, scale: Floats, delta: Floats, gamma: Floats) -> _Outlier:
        """Return the eigenvectors of the j-th outlier at s_j, elementwise."""
        scale, delta, gamma = (
            np.broadcast_to(x[..., None], s.shape) for x in (scale, delta, gamma)
        )
        point = self.point(s, scale, delta, gamma)
        root = _root(point.K)
        values, vectors = np.linalg.eigh(root @ point.theta @ root)
        J = s.shape[-1]
        j = np.arange(J)
        b = np.moveaxis(vectors[..., j, :, values.shape[-1] - 1 - j], 0, -2)  # (…, J, 3K)
        Kc = np.einsum("...ij,...j->...i", root, b)
        c = np.einsum("...ij,...j->...i", point.theta, Kc)
        width = -np.einsum("...i,...ij,...j->...", c, point.K_slope, c)
        width = width - point.snr_slope * np.einsum("...i,ij,...j->...", Kc, self.between, Kc)
        good = (width > 0) & (point.growth > 0)
        unit = np.sqrt(np.where(good, point.growth, 0.0) / np.where(good, width, 1.0))
        c = c * unit[..., None]
        n = len(self.shares)
        return _Outlier(point, c, np.einsum("...k,...kr->...r", c[..., :n], point.projected))


def predict_token_classes(model: PooledClasses, words: Vocabulary) -> ClassSpikes:
    """Predict the outliers of pooled classes with a vocabulary; see `predict`.

    Notes
    -----
    docs/theory/vocabulary.md, "Classes and anisotropic noise". The j-th outlier is where the j-th
    largest eigenvalue of ΘK is one; its eigenvector is along (x − YᵀY)⁻¹Uc with ΘKc = c.
    """
    tokens = ClassTokens.of(model, words)
    shape, kappa = model.shape, model.noise_gain
    delta, gamma, scale = (
        np.array(np.broadcast_to(x, shape), dtype=np.float64)
        for x in (model.vocab_ratio, model.sample_ratio, model.signal_scale)
    )
    none = np.zeros_like(gamma)
    edge, population_edge = tokens.edge(delta, gamma), tokens.edge(delta, none)
    s, seen = tokens.outliers(scale, delta, gamma, edge)
    s0, exists = tokens.outliers(scale, delta, none, population_edge)
    found, population = (
        tokens.eigenvectors(s, scale, delta, gamma),
        tokens.eigenvectors(s0, scale, delta, none),
    )
    _warn_if_shared(tokens, s, np.broadcast_to(delta[..., None], s.shape))
    edge_value = tokens.point(edge, scale, delta, gamma).value[..., None]
    components = np.where(seen[..., None], found.components, 0.0)
    both = seen & exists
    # ⟨v, w⟩ = c₁ᵀ(K₁ − K₂)c₂/(x₂ − x₁), a derivative where both are at the same x
    first, second = population.point, found.point
    distance = second.x - first.x
    apart = np.abs(distance) > 1e-6 * second.x
    slope = -first.K_slope / first.x_slope[..., None, None]
    quotient = (first.K - second.K) / np.where(apart, distance, 1.0)[..., None, None]
    form = np.where(apart[..., None, None], quotient, slope)
    overlap = np.einsum("...i,...ij,...j->...", population.c, form, found.c) ** 2
    towards = np.einsum("...jr,kr->...jk", components, tokens.directions)
    return ClassSpikes(
        top_eigenvalues=kappa * np.where(seen, found.point.value, edge_value),
        squared_overlaps=np.sum(components**2, axis=-1),
        bulk_edge=scalar_or_array(kappa * edge_value[..., 0]),
        population_eigenvalues=kappa * population.point.value,
        population_overlaps=np.sum(
            np.where(exists[..., None], population.components, 0.0) ** 2, axis=-1
        ),
        sample_overlaps=np.where(both, overlap, 0.0),
        is_detectable=seen,
        class_overlaps=np.sum(towards**2, axis=-2),
    )


def token_thresholds(model: PooledClasses, words: Vocabulary) -> Thresholds:
    """Return the signal scales beyond which the outliers pass the edge, with an axis of them."""
    tokens = ClassTokens.of(model, words)
    delta, gamma = (
        np.array(x, dtype=np.float64)
        for x in np.broadcast_arrays(model.vocab_ratio, model.sample_ratio)
    )
    J = model.n_classes - 1

    def critical(gamma: Floats) -> Floats:
        edge, d, g = (
            np.repeat(x[..., None], J, axis=-1) for x in (tokens.edge(delta, gamma), delta, gamma)
        )

        def below(scale: Floats) -> Floats:
            strengths = tokens.strengths(tokens.point(edge, scale, d, g))[..., :J]
            return 1 - np.diagonal(strengths, axis1=-2, axis2=-1)

        low, high = np.full(edge.shape, 1e-8), np.full(edge.shape, 1e8)
        found = sign_change(below, low, high)
        return np.where(below(low) <= 0, 0.0, np.where(below(high) > 0, np.inf, found))

    return Thresholds(
        population_signal=critical(np.zeros_like(gamma)), sample_signal=critical(gamma)
    )


def law_of_token_classes(
    model: PooledClasses, words: Vocabulary, delta: float, gamma: float
) -> Law:
    """Return the law of the noise bulk, with columns that differ by the noise's eigenvalues."""
    spectrum = [1.0] if model.noise_spectrum is None else model.noise_spectrum
    p, g = model.token_frequencies, words.weights
    return bulk_law(
        p, g, mixed_scales(model.kinds, p, g), model.noise_gain, delta, gamma, spectrum
    )


def class_ceiling(model: PooledClasses, words: Vocabulary) -> Floats:
    """Return s²ω_j/(s²ω_j + noise of the class means in that direction), with an axis of j."""
    tokens = ClassTokens.of(model, words)
    pi = tokens.shares
    complement = np.linalg.svd(np.sqrt(pi)[None])[2][1:]  # (J, K)
    A = complement @ (np.sqrt(pi)[:, None] * tokens.means[:, None] * tokens.class_means)
    values, vectors = np.linalg.eigh(A @ A.T)
    n = len(pi)
    mean_noise = tokens.sums.masses[:, 1 : 1 + n].sum(axis=0) * pi * tokens.variance  # over δ
    noise = (complement * mean_noise) @ complement.T
    each = np.einsum("ij,ik,kj->j", vectors, noise, vectors)
    scale, delta = np.broadcast_arrays(model.signal_scale, model.vocab_ratio)
    strength = scale[..., None] ** 2 * values[::-1].clip(min=0)
    return np.asarray(strength / np.maximum(strength + delta[..., None] * each[::-1], TINY))


def _root(K: Floats) -> Floats:
    """Return the symmetric square root of matrices that are positive up to rounding."""
    values, vectors = np.linalg.eigh(K)
    return np.asarray(
        (vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]) @ np.swapaxes(vectors, -1, -2)
    )


def _warn_if_shared(tokens: ClassTokens, s: Floats, delta: Floats) -> None:
    distance = s[..., None] - delta[..., None] * tokens.sums.rows
    parts = tokens.sums.masses[:, 0] / distance**2
    share = float(np.max(np.max(parts / tokens.sums.counts, -1) / parts.sum(-1), initial=0.0))
    if share > TOLERATED_SHARE:
        warn_regime(
            f"one token makes {share:.0%} of the noise around an outlier's eigenvalue, which is a "
            "bulk in the limit but an eigenvector of its own at a finite size: overlaps at a "
            "finite size scatter between these eigenvectors."
        )
