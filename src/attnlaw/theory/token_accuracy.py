"""Scores of linear classifiers when tokens differ in frequency and in importance.

Letters as in `token_spikes`; M₁ half the difference of the class means and C_w the covariance
within a class, both of this table; ξ the noise scale of a sequence. The score of a sequence with
signs s is A (w·s) + √(ξv) z. Derived in docs/theory/classification.md, "Tokens that differ".
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from attnlaw._checks import Floats
from attnlaw.laws.outliers import TINY
from attnlaw.theory.token_noise import NoiseScales
from attnlaw.theory.token_spikes import VocabularySpikes, sign_change

__all__ = ["TokenScore", "centroid_score", "component_score", "ridge_score"]


class TokenScore(NamedTuple):
    """The score of a sequence: gain times w·s, and Gaussian noise of variance ξ times this."""

    gain: Floats  # A
    noise: Floats  # v
    scales: NoiseScales  # ξ


class _Forms(NamedTuple):
    """Forms of the resolvent of C_w/κ at x(s), and what the bulk gives there."""

    x: Floats
    y: Floats
    y_slope: Floats  # dy/dx
    F: Floats  # M₁ᵀ(x − C_w/κ)⁻¹M₁
    F_slope: Floats  # dF/dx


def ridge_score(
    spikes: VocabularySpikes,
    kappa: float,
    label: float,
    norm: Floats,
    delta: Floats,
    gamma: Floats,
    ridge: Floats,
) -> TokenScore:
    """Return the score of ridge regression on the label, elementwise.

    Notes
    -----
    With s = −σ, Y = −y(s) and ω of `NoiseScales.opposite`, φ = ωY, q = γ/ω:

        λ = κ σ(1 − Y) φ            fixes σ ,   e_jk = E ξ^j/(1+ξq)^k ,
        Ω = −F/(κφ) ,   Ω₂ = −(F + xF')/(κφ²) ,   T = −γ(y + xy')/φ² ,
        A = P e₀₁Ω/(1 + α e₀₁Ω) ,   c = e₀₁(P − αA) ,
        v = [c²Ω₂ + T e₁₂ (1 − 2PA + αA²)]/(1 − T e₂₂) .
    """
    scales, alpha, P = spikes.scales, spikes.snr * kappa, label

    def excess(sigma: Floats) -> Floats:
        Y = -spikes.sums.y(-sigma, delta)[0]
        omega = scales.opposite(Y, gamma)
        return np.where((Y < 1) & (omega > 0), ridge - kappa * sigma * (1 - Y) * omega * Y, 1.0)

    reach = ridge / kappa + spikes.sums.square * (1 + gamma) * (1 + delta)
    sigma = sign_change(excess, 1e-12 * reach, 1e3 * reach)
    forms = _forms(spikes, -sigma, norm, delta)
    omega = scales.opposite(-forms.y, gamma)
    phi, q = -omega * forms.y, gamma / omega
    mean = _mean(scales, -q)
    inner = -forms.F / (kappa * phi)
    squared = -(forms.F + forms.x * forms.F_slope) / (kappa * phi**2)
    leverage = -gamma * (forms.y + forms.x * forms.y_slope) / phi**2
    seen = mean(0, 1)
    A = P * seen * inner / (1 + alpha * seen * inner)
    error = 1 - 2 * P * A + alpha * A**2
    v = (seen * (P - alpha * A)) ** 2 * squared + leverage * mean(1, 2) * error
    return TokenScore(A, v / (1 - leverage * mean(2, 2)), scales)


def component_score(
    spikes: VocabularySpikes,
    kappa: float,
    label: float,
    norm: Floats,
    delta: Floats,
    gamma: Floats,
) -> TokenScore:
    """Return the score of the sample's eigenvector that is most aligned with the signal.

    Notes
    -----
    At the outlier's s, with q = γ/σ and e_jk = E ξ^j/(1−ξq)^k, the eigenvector is
    u = Q(αAψM₁ + h), Q = (λ − φC_w)⁻¹, h Gaussian noise of the sample. That ‖u‖ = 1 and v = uᵀC_wu
    gives two linear equations in A² and v:

        a₁ = −F'/(κφ)² ,  a₂ = −(F + xF')/(κφ²) ,  t₁ = −γy'/(κφ²) ,  t₂ = −γ(y + xy')/φ² ,
        v = B A² ,   B = [(αe₀₁)²a₂ + αt₂e₁₂]/(1 − t₂e₂₂) ,
        1/A² = (αe₀₁)²a₁ + t₁(αe₁₂ + e₂₂B) .

    Below threshold A = 0, and v = 1/(t₁e₂₂) at the edge.
    """
    scales, alpha = spikes.scales, spikes.snr * kappa
    found = spikes.spike(norm, delta, gamma)
    seen = found.is_detectable & (found.squared_overlap > 0)
    s = np.where(seen, found.s, spikes.edge(delta, gamma))
    forms = _forms(spikes, s, norm, delta)
    phi, _ = scales.factor(forms.y, gamma)
    mean = _mean(scales, gamma * forms.y / phi)
    signal = (alpha * mean(0, 1)) ** 2
    a1 = -forms.F_slope / (kappa * phi) ** 2
    a2 = -(forms.F + forms.x * forms.F_slope) / (kappa * phi**2)
    t1 = -gamma * forms.y_slope / (kappa * phi**2)
    t2 = -gamma * (forms.y + forms.x * forms.y_slope) / phi**2
    rest = np.where(seen, 1 - t2 * mean(2, 2), 1.0)
    B = (signal * a2 + alpha * t2 * mean(1, 2)) / rest
    square = 1 / (signal * a1 + t1 * (alpha * mean(1, 2) + mean(2, 2) * B))
    at_edge = 1 / np.maximum(t1 * mean(2, 2), TINY)
    gain = np.where(seen, np.sqrt(np.maximum(square, 0.0)), 0.0)
    return TokenScore(np.sign(label) * gain, np.where(seen, B * square, at_edge), scales)


def centroid_score(
    spikes: VocabularySpikes,
    kappa: float,
    label: float,
    norm: Floats,
    delta: Floats,
    gamma: Floats,
) -> TokenScore:
    """Return the score of b = Xᵀy/N, which is PM₁ plus noise of covariance C_w/N.

    Notes
    -----
    A = P‖M₁‖² and v = P² M₁ᵀC_wM₁ + tr C_w²/N, with the sums ⟨a⟩_n = Σ a (δr)^n over tokens,

        ‖M₁‖² = ḡ²‖μ‖² + ⟨p⟩₁ ,   tr C_w²/N = γκ²(δ mean r² + (Σpg²)²) ,
        M₁ᵀC_wM₁/κ = Σpg² ‖M₁‖² + ⟨p⟩₂ + Σpg² ḡ²‖μ‖⁴ + 2ḡ‖μ‖²⟨pg⟩₁ − (τḡ‖μ‖² + ⟨pc⟩₁)² − ‖M₁‖⁴ .
    """
    sums, P = spikes.sums, label
    gbar, square, tilt = sums.mean, sums.square, sums.tilt
    signal = norm**2
    first = delta[..., None] * (sums.masses.sum(axis=0))  # Σ a δr
    second = delta**2 * float(sums.masses[:, 1] @ sums.rows)
    noise = gamma * kappa**2 * (delta * float(sums.masses[:, 0] @ sums.rows) + square**2)
    if not spikes.token:
        M1 = gbar**2 * signal
        return TokenScore(P * M1, noise + P**2 * kappa * square * M1, spikes.scales)
    M1 = gbar**2 * signal + first[..., 1]
    form = square * M1 + second + square * gbar**2 * signal**2 - M1**2
    form = form + 2 * gbar * signal * first[..., 2] - (tilt * gbar * signal + first[..., 4]) ** 2
    return TokenScore(P * M1, noise + P**2 * kappa * form, spikes.scales)


def _mean(scales: NoiseScales, q: Floats) -> Callable[[int, int], Floats]:
    """Return the function (j, k) ↦ E ξ^j/(1 − ξq)^k."""

    def mean(power: int, pole: int) -> Floats:
        values = scales.atoms**power / (1 - scales.atoms * q[..., None]) ** pole
        return np.asarray(values @ scales.masses)

    return mean


def _forms(spikes: VocabularySpikes, s: Floats, norm: Floats, delta: Floats) -> _Forms:
    """Return forms of the resolvent of C_w/κ = YᵀY + UΘUᵀ at s, left or right of the bulk.

    With K of docs/theory/vocabulary.md, "The outlier", and g = (I − ΘK)⁻¹e: F = eᵀKg and
    dF/ds = gᵀK'g, where M₁ = Ue. Θ is that of C without its part in α.
    """
    sums = spikes.sums
    values, slopes = sums.at(s, delta)
    y, y_ds = values[..., 0], slopes[..., 0]
    x, x_ds = s * (1 + y), 1 + y + s * y_ds
    if not spikes.token:
        F, F_ds = sums.mean**2 * norm**2 / s, -(sums.mean**2) * norm**2 / s**2
        return _Forms(x, y, y_ds / x_ds, F, F_ds / x_ds)
    K, K_ds = np.zeros((*s.shape, 4, 4)), np.zeros((*s.shape, 4, 4))
    K[..., 0, 0], K_ds[..., 0, 0] = norm**2 / s, -(norm**2) / s**2
    places = ((1, 1, 1), (1, 2, 2), (2, 2, 3), (1, 3, 4), (2, 3, 5), (3, 3, 1))
    for i, j, k in places:
        K[..., i, j] = K[..., j, i] = delta * values[..., k]
        K_ds[..., i, j] = K_ds[..., j, i] = delta * slopes[..., k]
    e, M0 = np.array([sums.mean, 1, 0, 0]), np.array([sums.tilt, 0, 0, 1])
    theta = -np.outer(M0, M0) - np.outer(e, e)
    theta[0, 0] += sums.square
    theta[0, 2] += 1
    theta[2, 0] += 1
    g = np.linalg.solve(np.eye(4) - theta @ K, np.broadcast_to(e[:, None], (*s.shape, 4, 1)))
    g = g[..., 0]
    F = np.einsum("i,...ij,...j", e, K, g)
    F_ds = np.einsum("...i,...ij,...j", g, K_ds, g)
    return _Forms(x, y, y_ds / x_ds, F, F_ds / x_ds)
