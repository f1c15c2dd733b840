"""Accuracy of linear classifiers for K classes of pooled sequences, in closed form.

Letters: δ = d/V, γ = d/N, π the class shares, M the class means, t the noise's eigenvalues,
κ = Σw². Groups g of positions share one class; W_g = Σ w_l and η_g = Σ w_l²/κ over a group. The
label is the class of position 1, whose group comes first: P = W_1, α = Σ W_g².
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from attnlaw._checks import Floats, choice, invalid_argument, scalar_or_array
from attnlaw.laws.outliers import TINY
from attnlaw.models import PooledClasses
from attnlaw.models.base import answers
from attnlaw.models.vocabulary import tokens_alike
from attnlaw.results import ClassAccuracy
from attnlaw.theory.accuracy import checked_ridge
from attnlaw.theory.verbs import predict_accuracy

__all__ = ["class_contrasts", "largest_score_probability"]

CLASSIFIERS = ("ridge", "centroid", "discriminant")
N_POINTS = 2**12  # of the low-discrepancy sequence; the error in an accuracy is below 3e-4


@answers(predict_accuracy)
def accuracy_of_classes(
    model: PooledClasses, ridge: ArrayLike | None = None, *, classifier: str = "ridge"
) -> ClassAccuracy:
    """Predict the test accuracy of a linear classifier of K classes of pooled sequences.

    Parameters
    ----------
    model : PooledClasses
        Its correlation must be made of 0 and 1: groups of positions that share one class,
        independent of each other. The label is the class of position 1.
    ridge : float or array
        λ > 0, for "ridge" and "discriminant". Broadcasts with the model.
    classifier : "ridge", "centroid" or "discriminant"
        Ridge regression of the class indicators with an intercept, the largest output wins;
        the nearest centroid; or regularised linear discriminant analysis,
        s_k = xᵀQx̄_k − x̄_kᵀQx̄_k/2 + log π_k with Q = (S_within + λ)⁻¹.

    Returns
    -------
    ClassAccuracy
        Of the shape to which the model and `ridge` broadcast.

    Notes
    -----
    Derived in docs/theory/classification.md, "K classes".

    With U = diag(√π) n, n orthonormal and nᵀ√π = 0, ψ^k = n_k/√π_k and A_M = MᵀU, let
    p₁ = mean t/(t+τ), p₂ = mean t²/(t+τ)² at the root τ of λ = κτ(1−δp₁)(1−γp₁), and

        Ω = (A_Mᵀ(Σ+τ)⁻¹A_M + δp₁)/(κ(1−δp₁)) ,  Ω_Σ = (A_MᵀΣ(Σ+τ)⁻²A_M + δp₂)/(κ(1−δp₂)) ,
        Γ = Γ₀ + Γ₁ ,   Γ₀ = γp₂(1−δp₁)²/(1−δp₂) ,   Γ₁ = γδp₁²

    (no δp in the numerators of Ω for Gaussian sampling). Ridge regression has scores π + Uŝ,

        ŝ ~ N(Aφ, Σ_g η_g V_{k_g}) ,   φ = Σ_g W_g ψ^{k_g} ,   Δ = (1+αΩ)⁻¹ ,   A = PΩΔ ,
        V̄ = (Γ(1 − 2PA + αA²) + P²ΔΩ_ΣΔ)/(1−Γ) ,
        V_c = V̄ + Γ₁[η₁(1−PA)X_c(1−PA) + Σ_{g>1} η_gW_g² AX_cA]/(1 − Γ₁Ση_g²) ,

    X_c = ψ^cψ^cᵀ − 1: tokens of a class recur in sequences of that class, so the noise depends on
    it (V_c = V̄ for Gaussian sampling). The formulas of the other two classifiers are beside their
    code. Probabilities are integrated over the other groups' classes and the scores by a scrambled
    Sobol sequence with a fixed seed, smooth in every parameter.

    K is fixed and small beside d; classes have their exact shares in the training set. Where a
    sequence has few tokens, the scores are not Gaussian and the prediction is too high: 1 point
    at five tokens, 0.2 to 0.5 at twenty.

    Examples
    --------
    Infinitely many samples and tokens, two classes: the best linear rule, Φ(‖μ‖/√κ).

    >>> import attnlaw as al
    >>> model = al.PooledClasses(
    ...     vocab_ratio=0.0, sample_ratio=0.0, class_means=[[0.5], [-0.5]],
    ...     correlation=al.prefix_correlation(4, prefix=4), weights=al.mean_weights(4),
    ... )
    >>> round(al.predict_accuracy(model, ridge=1.0).accuracy, 6)     # Φ(1)
    0.841345
    """
    tokens_alike(model, "an accuracy of classes")
    choice("classifier", classifier, CLASSIFIERS)
    if ridge is None and classifier != "centroid":
        raise invalid_argument("ridge", f"given for classifier={classifier!r}", ridge)
    lam = checked_ridge(model.noise_gain, ridge, model.shape)
    deltas, gammas, scales, lams = np.broadcast_arrays(
        model.vocab_ratio, model.sample_ratio, model.signal_scale, lam
    )
    points = _Points.of(model)
    each = np.empty((*lams.shape, model.n_classes))
    for i in np.ndindex(lams.shape):
        numbers = (float(x[i]) for x in (deltas, gammas, scales, lams))
        each[i] = points.accuracies(_scores(model, classifier, *numbers))
    return ClassAccuracy(accuracy=scalar_or_array(each @ model.shares), class_accuracies=each)


def _groups(model: PooledClasses) -> tuple[Floats, Floats]:
    """Return the weights W_g and shares of the noise η_g of groups of positions, 1's first."""
    R, w = np.round(model.correlation), model.weights
    if np.abs(R - model.correlation).max() > 1e-10:
        raise invalid_argument(
            "correlation",
            "made of 0 and 1 for an accuracy (groups of positions that share one class)",
            model.correlation,
        )
    members = R[np.argmax(R != 0, axis=1) == np.arange(len(w))]  # a row for each group
    weights, shares = members @ w, members @ w**2 / model.noise_gain
    used = (shares > 0) | (np.arange(len(weights)) == 0)
    return weights[used], shares[used]


def class_contrasts(shares: Floats) -> Floats:
    """Return n (K, K−1), orthonormal columns orthogonal to √π: a Householder reflection."""
    root = np.sqrt(shares)
    v = root.copy()
    v[0] += 1.0
    return np.asarray((np.eye(len(v)) - np.outer(v, v) * 2 / (v @ v))[:, 1:])


@dataclass(frozen=True, kw_only=True)
class _Scores:
    """Scores of a sequence: N(offset + φ·slope, base + Σ_c (share of its noise in c) each_c)."""

    offset: Floats  # (K,)
    slope: Floats  # (K−1, K)
    base: Floats  # (K, K)
    each: Floats  # (K, K, K)


class _Setting(NamedTuple):
    """Classes, groups and ratios at one point; letters as in `accuracy_of_classes`."""

    delta: float
    gamma: float
    kappa: float
    P: float
    alpha: float
    W: Floats
    eta: Floats
    pi: Floats
    psi: Floats
    A_M: Floats
    t: Floats  # eigenvalues of Σ
    is_token: bool
    table: Floats  # δ for tokens, else 0: noise that the class means share


def _scores(
    model: PooledClasses, classifier: str, delta: float, gamma: float, scale: float, lam: float
) -> _Scores:
    """Return the law of the scores, in the limit."""
    W, eta = _groups(model)
    pi, n = model.shares, class_contrasts(model.shares)
    U, psi = np.sqrt(pi)[:, None] * n, n / np.sqrt(pi)[:, None]
    A_M = scale * model.class_means.T @ U
    t = np.ones(len(A_M)) if model.noise_spectrum is None else model.noise_spectrum
    is_token = model.sampling == "token"
    table = (delta if is_token else 0) * np.eye(model.n_classes - 1)
    numbers = delta, gamma, model.noise_gain, float(W[0]), float(W @ W)
    setting = _Setting(*numbers, W, eta, pi, psi, A_M, t, is_token, table)
    if classifier == "centroid":
        return _centroid_scores(setting)
    if classifier == "ridge":
        return _ridge_scores(setting, U, _resolvents(setting, lam))
    return _discriminant_scores(setting, _resolvents(setting, lam))


def _centroid_scores(setting: _Setting) -> _Scores:
    """Return the law of s_k = x·x̄_k − ‖x̄_k‖²/2.

    With σ_i = mean tⁱ, G₀ = A_MᵀA_M + δσ₁ and G₁ = κ(A_MᵀΣA_M + δσ₂):

        mean_k = Pφᵀ G₀ψ^k − [P²ψ^kᵀG₀ψ^k + γκσ₁/π_k]/2 ,
        cov_kj = P²ψ^kᵀG₁ψ^j + [k=j](γκ²/π_k)[σ₂ + δσ₁²(1 − η₁ + η₁ share_k/π_k)] .
    """
    delta, gamma, kappa, P, _, _, eta, pi, psi, A_M, t, is_token, table = setting
    s1, s2 = float(t.mean()), float(np.mean(t**2))
    G0 = A_M.T @ A_M + s1 * table
    G1 = kappa * (A_M.T @ (A_M * t[:, None]) + s2 * table)
    means = psi @ G0 @ psi.T
    again = delta * s1**2 * (eta[0] if is_token else 0.0)
    noise = gamma * kappa**2 / pi
    return _Scores(
        offset=-(P**2 * np.diag(means) + gamma * kappa * s1 / pi) / 2,
        slope=P * G0 @ psi.T,
        base=P**2 * psi @ G1 @ psi.T + np.diag(noise * (s2 + delta * s1**2 - again)),
        each=_own(noise * again / pi),
    )


class _Resolvents(NamedTuple):
    """What ridge regression and discriminant analysis have in common."""

    p1: float
    omega: Floats  # Ω
    omega_noise: Floats  # Ω_Σ
    leverage: float  # Γ
    own_class: float  # Γ₁/(1 − Γ₁Ση²), of tokens


def _resolvents(setting: _Setting, lam: float) -> _Resolvents:
    """Return Ω, Ω_Σ and Γ at the root τ of λ = κτ(1−δp₁)(1−γp₁)."""
    delta, gamma, kappa, _, _, _, eta, _, _, A_M, t, is_token, table = setting
    tau = _root(t, delta, gamma, lam / kappa)
    p1, p2 = float(np.mean(t / (t + tau))), float(np.mean((t / (t + tau)) ** 2))
    omega = (A_M.T @ (A_M / (t + tau)[:, None]) + p1 * table) / (kappa * (1 - delta * p1))
    omega_noise = A_M.T @ (A_M * (t / (t + tau) ** 2)[:, None]) + p2 * table
    omega_noise = omega_noise / (kappa * (1 - delta * p2))
    met_again = gamma * delta * p1**2  # Γ₁
    leverage = gamma * p2 * (1 - delta * p1) ** 2 / (1 - delta * p2) + met_again  # Γ
    own_class = met_again / (1 - met_again * float(eta @ eta)) if is_token else 0.0
    return _Resolvents(p1, omega, omega_noise, leverage, own_class)


def _ridge_scores(setting: _Setting, U: Floats, resolvents: _Resolvents) -> _Scores:
    """Return the law of π + Uŝ; the formulas are those of `accuracy_of_classes`."""
    _, _, _, P, alpha, W, eta, pi, psi, *_ = setting
    identity = np.eye(len(pi) - 1)
    _, omega, omega_noise, leverage, own_class = resolvents
    shrinkage = np.linalg.inv(identity + alpha * omega)  # Δ
    A = P * omega @ shrinkage
    A = (A + A.T) / 2
    error = identity - 2 * P * A + alpha * A @ A
    V = leverage * error + P**2 * shrinkage @ omega_noise @ shrinkage
    V = V / (1 - leverage)
    X = psi[:, :, None] * psi[:, None, :] - identity
    B = identity - P * A
    rest = float(eta[1:] @ W[1:] ** 2)
    V_c = V + own_class * (eta[0] * B @ X @ B + rest * A @ X @ A)
    return _Scores(offset=pi, slope=A @ U.T, base=np.zeros((len(pi),) * 2), each=U @ V_c @ U.T)


def _discriminant_scores(setting: _Setting, resolvents: _Resolvents) -> _Scores:
    """Return the law of s_k = xᵀQx̄_k − x̄_kᵀQx̄_k/2 + log π_k, Q = (S_within + λ)⁻¹.

    With ρ = 1/(1−γp₁), Δ = (1+(α−P²)Ω)⁻¹, Ω_w = ΩΔ and a₁ = η₁Γ₁/(1−Γ₁Ση²):

        mean_k = ρ[Pφᵀ Ω_wψ^k − P²ψ^kᵀΩ_wψ^k/2 − γp₁/(2π_k)] + log π_k ,
        cov_kj = ρ²{P²ψ^kᵀΔΩ_ΣΔψ^j/(1−Γ) + [k=j](1/π_k)[Γ/(1−Γ) + a₁(share_k/π_k − 1)]} .
    """
    _, gamma, _, P, alpha, _, eta, pi, psi, *_ = setting
    p1, omega, omega_noise, leverage, own_class = resolvents
    rho, a1 = 1 / (1 - gamma * p1), eta[0] * own_class
    shrinkage = np.linalg.inv(np.eye(len(omega)) + (alpha - P**2) * omega)  # Δ
    within = omega @ shrinkage
    V = P**2 * psi @ (shrinkage @ omega_noise @ shrinkage) @ psi.T / (1 - leverage)
    V = V + np.diag((leverage / (1 - leverage) - a1) / pi)
    bias = P**2 * np.diag(psi @ within @ psi.T) + gamma * p1 / pi
    return _Scores(
        offset=np.log(pi) - rho / 2 * bias,
        slope=rho * P * within @ psi.T,
        base=rho**2 * V,
        each=_own(rho**2 * a1 / pi**2),
    )


def _own(variances: Floats) -> Floats:
    """Return, for each class, the covariance whose only entry is the variance of that class."""
    K = len(variances)
    each = np.zeros((K, K, K))
    each[np.arange(K), np.arange(K), np.arange(K)] = variances
    return each


def _root(t: Floats, delta: float, gamma: float, lam: float) -> float:
    """Return the root τ of λ/κ = τ(1−δp₁(τ))(1−γp₁(τ)) where both factors are positive."""
    from scipy.optimize import brentq

    def p1(log_tau: float) -> float:
        return float(np.mean(t / (t + np.exp(log_tau))))

    def excess(log_tau: float) -> float:
        p = p1(log_tau)
        return float(np.exp(log_tau) * (1 - delta * p) * (1 - gamma * p) - lam)

    low, high = -300.0, float(np.log(t.max()) + 300)
    largest = max(delta, gamma)
    if largest * np.mean(t > 0) > 1:
        low = brentq(lambda log_tau: largest * p1(log_tau) - 1, low, high, xtol=1e-14)
    high = float(np.log(lam + (delta + gamma + delta * gamma) * t.mean() + lam) + 1)
    if excess(low) >= 0:  # λ below what rounding resolves at the edge of the domain
        return float(np.exp(low))
    return float(np.exp(brentq(excess, low, max(high, low + 1), xtol=1e-14, rtol=1e-14)))


@dataclass(frozen=True, kw_only=True)
class _Points:
    """Classes of the other groups, and uniform numbers for the scores: one row a point."""

    label_effects: Floats  # Pψ^k (K, K−1)
    label_share: float  # η₁
    other_effects: Floats  # Σ_{g>1} W_gψ^{k_g} (n, K−1)
    other_shares: Floats  # of the noise in each class (n, K)
    uniforms: Floats  # (n, K−2)

    @staticmethod
    def of(model: PooledClasses) -> "_Points":
        from scipy.stats import qmc

        W, eta = _groups(model)
        pi, K = model.shares, model.n_classes
        psi = class_contrasts(pi) / np.sqrt(pi)[:, None]
        n_others = len(W) - 1
        sobol = qmc.Sobol(max(n_others + K - 2, 1), seed=0)
        u = sobol.random(N_POINTS if n_others + K > 2 else 1)
        classes = np.searchsorted(np.cumsum(pi)[:-1], u[:, :n_others], side="right")
        effects, shares = np.zeros((len(u), K - 1)), np.zeros((len(u), K))
        for g in range(n_others):
            effects += W[g + 1] * psi[classes[:, g]]
            shares[np.arange(len(u)), classes[:, g]] += eta[g + 1]
        return _Points(
            label_effects=W[0] * psi,
            label_share=float(eta[0]),
            other_effects=effects,
            other_shares=shares,
            uniforms=u[:, n_others:],
        )

    def accuracies(self, scores: _Scores) -> Floats:
        """Return the accuracy within each class."""
        K = len(scores.offset)
        found = np.empty(K)
        varies = self.other_shares.any()
        for k in range(K):
            means = scores.offset + (self.label_effects[k] + self.other_effects) @ scores.slope
            shares = self.other_shares.copy() if varies else self.other_shares[:1].copy()
            shares[:, k] += self.label_share
            covariances = scores.base + np.tensordot(shares, scores.each, axes=1)
            found[k] = largest_score_probability(k, means, covariances, self.uniforms)
        return found


def largest_score_probability(
    label: int, means: Floats, covariances: Floats, uniforms: Floats
) -> float:
    """Return P(s_k > s_j for all j ≠ k), averaged over Gaussian laws s ~ N(m_i, C_i).

    Parameters
    ----------
    label : int
        k.
    means : array of shape (n, K)
        m_i.
    covariances : array of shape (n, K, K) or (1, K, K)
        C_i, or one for all; only those of differences of scores matter.
    uniforms : array of shape (n, at least K − 2)
        Points of a low-discrepancy sequence in the unit cube, beside those that chose m_i, C_i.

    Notes
    -----
    The differences s_k − s_j are K − 1 Gaussian numbers of mean m and covariance LLᵀ, sorted so
    that the least certain comes first. Genz' separation of variables (J. Comput. Graph. Statist.
    1, 141, 1992) integrates them one after the other:

        a_i = (m_i + Σ_{j<i} L_ij z_j)/L_ii ,   c_i = Φ(a_i) ,   z_i = −Φ⁻¹(u_i c_i) ,

    and the probability is the mean of Π c_i. Two classes need no u: Φ(m/σ).

    Examples
    --------
    Three scores alike:

    >>> from scipy.stats import qmc
    >>> u = qmc.Sobol(1, seed=0).random_base2(10)
    >>> round(largest_score_probability(0, np.zeros((1024, 3)), np.eye(3)[None], u), 4)
    0.3333
    """
    k, n_others = label, means.shape[1] - 1
    others = np.delete(np.arange(n_others + 1), k)
    m = means[:, [k]] - means[:, others]
    C = covariances
    own, cross = C[:, k, k][:, None, None], C[:, k, others]
    D = own - cross[:, :, None] - cross[:, None, :] + C[:, others[:, None], others]
    variances = np.mean(np.diagonal(D, axis1=1, axis2=2), axis=0)
    order = np.argsort(m.mean(axis=0) / np.sqrt(np.maximum(variances, TINY)))
    m, D = m[:, order], D[:, order[:, None], order]
    # A sum of squares may be singular (scores that move together); rounding must not stop it.
    ridge = 1e-13 * np.trace(D, axis1=1, axis2=2)[:, None, None] + TINY
    L = np.linalg.cholesky(D + ridge * np.eye(n_others))
    z = np.zeros((len(m), n_others))
    probability = np.ones(len(m))
    for i in range(n_others):
        c = ndtr((m[:, i] + np.sum(L[:, i, :i] * z[:, :i], axis=1)) / L[:, i, i])
        probability *= c
        if i < n_others - 1:
            z[:, i] = -ndtri(np.clip(uniforms[:, i] * c, TINY, 1 - 1e-16))
    return float(probability.mean())
