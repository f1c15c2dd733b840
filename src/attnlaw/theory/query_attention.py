"""Attention to a query: what data-dependent weights gain, and when they gain nothing.

Letters: f share of informative tokens, n = ρ‖ν‖ distance of their scores, g(h) weight of a score;
D_v variance of token v in the pooled noise, ω_v its mean weight. Derived in
docs/theory/query-attention.md, "The outlier".
"""

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from attnlaw._checks import (
    LARGEST,
    Floats,
    Real,
    invalid_argument,
    real,
    real_array,
    scalar,
    scalar_or_array,
    warn_regime,
)
from attnlaw.models.attention import LEAST_SHARE, QueryAttention
from attnlaw.models.base import answers
from attnlaw.results import Alignment
from attnlaw.theory.token_noise import NoiseScales, noise_scales, reduced_sums
from attnlaw.theory.token_spikes import VocabularySpikes
from attnlaw.theory.verbs import predict

__all__ = [
    "best_inverse_temperature",
    "exponential_gain",
    "learned_query_overlap",
    "posterior_gain",
    "predict_query_attention",
    "random_attention_gains",
]

TIMES = 240  # least points of the integrals over t in which the softmax's sum is split
WIDEST_STEP = 0.25  # between them, in log t: the trapezoidal rule errs by 1e-15
SHARPEST = 30.0  # standard deviation of random scores up to which their softmax is integrated

TOLERATED_SHARE = 0.015
"""Share of the best-scoring token in the noise around the signal's eigenvalue without a warning.

Drawn on seven settings, checked on 59 others: docs/theory/query-attention.md, "Sharp attention".
"""


@answers(predict)
def predict_query_attention(model: QueryAttention) -> Alignment:
    """Predict eigenvalue and overlap with the signal, the query's direction projected out.

    Parameters
    ----------
    model : QueryAttention
        What is pooled, and how.

    Returns
    -------
    Alignment
        Below threshold, the edge and an overlap of 0. A `RegimeWarning` says where single tokens
        with large weights share the signal's eigenvector.

    Notes
    -----
    docs/theory/query-attention.md, "The outlier". Tokens have scores at the Gaussian quantiles.
    With D_v = p_v ω_v² for weights that are not normalised (ω = g/√L), and for the softmax

        φ(t) = Σ p e^{−tg} ,   D_v = L p_v g_v² ∫ t e^{−t g_v} φ(t)^{L−1} dt ,
        ω = √L ω₀ ,   ω₀(h) ω₀(h') ≈ ∫ t g g' e^{−t(g+g')} φ(t)^{L−2} dt

    with ω₀ the leading eigenfunction of that kernel,

    the outlier is that of `VocabularySpikes` with rows V D, sums over informative tokens and snr
    L. A learned query is treated as a given one with the overlap of `learned_query_overlap`.
    """
    if model.query == "learned":
        rho = learned_query_overlap(model)
        model = replace(model, query="given", query_overlap=rho)
    h, p, own = _tokens(model)
    g = model.importance(h)
    g = g / g.max()  # its powers are numbers
    L, V = model.length, model.n_tokens
    if model.scoring == "softmax":
        D, omega = _softmax_moments(g, p, L)
        scales = NoiseScales(np.ones(1), np.ones(1))
    else:
        omega = g / (p @ g) / np.sqrt(L)
        D = p * omega**2
        scales = noise_scales(np.ones(L), p, g).seen_in(model.n_samples)
    zero = np.zeros(V)
    seen = np.divide(p**2 * omega**2, D, out=np.zeros(V), where=D > 0)  # row and mass are 0 with D
    weights = [np.full(V, 1 / V), own * seen, own * p * omega, own * D, zero, zero]
    sums = reduced_sums(
        V * D, np.stack(weights, axis=1), mean=float(own @ (p * omega)), square=float(own @ D)
    )
    spikes = VocabularySpikes(sums, scales, float(L))
    d = model.dimension - 1
    arguments = (model.signal_norm, d / V, d / model.n_samples)
    found = spikes.spike(*(np.asarray(x) for x in arguments))
    share = float(spikes.largest_share(found.s, np.asarray(d / V)))
    if share > TOLERATED_SHARE:
        warn_regime(
            f"the token with the largest weight makes {share:.1%} of the noise around the "
            "signal's eigenvalue: overlaps at a finite size scatter between eigenvectors of "
            "single tokens; with a smaller inverse_temperature, or sigmoid scores, they do not."
        )
    return Alignment(
        top_eigenvalue=float(found.eigenvalue), squared_overlap=float(found.squared_overlap)
    )


def learned_query_overlap(model: QueryAttention) -> float:
    """Return ρ, the overlap of the table's leading eigenvector with the marker.

    Notes
    -----
    docs/theory/query-attention.md, "A learned query". The centred table has one spike of strength
    θ = φ(1−φ)‖ν‖², φ = |A|/V, and another, φ‖μ‖², along the signal. With δ = d/V

        ρ² = (1 − δ/θ²)/(1 + δ/θ)      if θ > √δ and θ > φ‖μ‖², else 0 .

    Scores of the tokens that q was learned from have the variance (1 + δ/θ)² and means that are
    ρ‖ν‖(1 + δ/θ) apart: in units of their standard deviation, as far apart as those of fresh
    tokens.

    Examples
    --------
    >>> model = QueryAttention(
    ...     n_tokens=4000, informative_tokens=600, dimension=80, n_samples=480, length=20,
    ...     informative_share=0.15, signal_norm=1.0, marker_norm=2.0, query="learned")
    >>> round(learned_query_overlap(model) ** 2, 3)
    0.888
    """
    share, ratio = model.informative_tokens / model.n_tokens, model.dimension / model.n_tokens
    theta = share * (1 - share) * model.marker_norm**2
    if theta**2 <= ratio or theta <= share * model.signal_norm**2:
        return 0.0
    return float(np.sqrt((1 - ratio / theta**2) / (1 + ratio / theta)))


def exponential_gain(
    inverse_temperature: ArrayLike, informative_share: ArrayLike, separation: ArrayLike
) -> Real:
    """Return the factor by which weights e^{βh} change the SNR of long sequences and large tables.

    Parameters
    ----------
    inverse_temperature, informative_share, separation : float or array
        β ≥ 0, f and n = ρ‖ν‖.

    Returns
    -------
    float or array
        1/(e^{β²} [f + (1−f) e^{−2βn}]), by logarithms.

    Examples
    --------
    Rare informative tokens: the best β is n, and the gain e^{n²}.

    >>> round(float(exponential_gain(1.0, 1e-9, 1.0) / np.exp(1.0)), 6)
    1.0
    """
    beta = np.asarray(
        real("inverse_temperature", inverse_temperature, at_least=0, at_most=LARGEST)
    )
    n = np.asarray(real("separation", separation, at_least=0, at_most=LARGEST))
    f = np.asarray(real("informative_share", informative_share, at_least=LEAST_SHARE, below=1))
    others = np.log1p(-f) - 2 * beta * n
    return scalar_or_array(np.exp(-(beta**2) - np.logaddexp(np.log(f), others)))


def best_inverse_temperature(informative_share: float, separation: float) -> float:
    """Return the β with the largest `exponential_gain`.

    Notes
    -----
    The stationary point β = n (1−f) e^{−2βn}/(f + (1−f) e^{−2βn}): the right side falls with β,
    so that bisection finds it.

    Examples
    --------
    >>> round(best_inverse_temperature(0.15, 2.0), 2)
    0.63
    """
    f = scalar("informative_share", informative_share, at_least=LEAST_SHARE, below=1)
    n = scalar("separation", separation, at_least=0, at_most=LARGEST)
    low, high = 0.0, n
    for _ in range(80):
        beta = (low + high) / 2
        others = (1 - f) * np.exp(-2 * beta * n)
        low, high = (beta, high) if beta < n * others / (f + others) else (low, beta)
    return (low + high) / 2


def posterior_gain(informative_share: float, separation: float) -> float:
    """Return the largest gain in SNR of any weights that depend on the score: the posterior's.

    Notes
    -----
    (E₁g)²/(f E₁g² + (1−f) E₀g²) is largest for g = p₁/(f p₁ + (1−f) p₀), up to a factor the
    probability that a token is informative: a sigmoid of the score. The gain is E₁ g ≤ 1/f.

    Examples
    --------
    >>> round(posterior_gain(0.15, 2.0), 2), round(posterior_gain(0.15, 20.0) * 0.15, 6)
    (3.6, 1.0)
    """
    f = scalar("informative_share", informative_share, at_least=LEAST_SHARE, below=1)
    n = scalar("separation", separation, at_least=0, at_most=LARGEST)
    x, w = np.polynomial.hermite_e.hermegauss(100)
    ratio = np.exp(-n * x - n**2 / 2)  # p₀/p₁ at h = n + x
    return float(w @ (1 / (f + (1 - f) * ratio)) / np.sqrt(2 * np.pi))


def random_attention_gains(
    correlation: ArrayLike, inverse_temperature: float, *, causal: bool = False
) -> tuple[float, float]:
    """Return E[wᵀRw] and E[wᵀw] of attention whose scores do not depend on the signal.

    Scores between tokens, τ e_i·e_j/√d, are N(0, τ²) whatever the signal, because their signal
    part is of order d^{−1/2}: token–token attention of order-one scores is a random softmax, and
    loses (docs/theory/query-attention.md, "No gain from token–token scores").

    Parameters
    ----------
    correlation : array of shape (length, length)
        R.
    inverse_temperature : float
        τ between 0 and 30, the standard deviation of a score.
    causal : bool
        Whether row i attends only to the tokens before it (the first to itself).

    Returns
    -------
    signal_gain, noise_gain : float
        Of w, the mean over rows of the attention matrix.

    Examples
    --------
    Equal scores are mean pooling:

    >>> alpha, kappa = random_attention_gains(np.eye(4), 0.0)
    >>> round(alpha, 9), round(kappa, 9)
    (0.25, 0.25)
    """
    R = real_array("correlation", correlation, ndim=2)
    L = len(R)
    if R.shape != (L, L) or not L:
        raise invalid_argument("correlation", "a square matrix", R)
    tau = scalar("inverse_temperature", inverse_temperature, at_least=0, at_most=SHARPEST)
    moments = np.zeros((L, L))  # E w_j w_k
    mean = np.zeros(L)
    for row in range(1, L + 1):
        n = max(row - 1, 1) if causal else L
        square = _softmax_square(tau, n)
        inside = np.full((n, n), (1 - n * square) / max(n * (n - 1), 1))
        np.fill_diagonal(inside, square)
        moments[:n, :n] += inside - 1 / n**2
        mean[:n] += 1 / n
    moments = (moments + np.outer(mean, mean)) / L**2
    return float(np.sum(R * moments)), float(np.trace(moments))


def _tokens(model: QueryAttention) -> tuple[Floats, Floats, Floats]:
    """Return scores at the Gaussian quantiles, frequencies, and 1 for informative tokens."""
    counts = (model.informative_tokens, model.n_tokens - model.informative_tokens)
    shares = (model.informative_share, 1 - model.informative_share)
    scores = [ndtri((np.arange(n) + 0.5) / n) for n in counts]
    h = np.concatenate([scores[0] + model.separation, scores[1]])
    p = np.repeat(np.divide(shares, counts), counts)
    return h, p, np.where(np.arange(len(h)) < counts[0], 1.0, 0.0)


def _softmax_moments(g: Floats, p: Floats, length: int) -> tuple[Floats, Floats]:
    """Return D and ω of softmax weights over sequences of this length."""
    g = g / float(p @ g)
    t, dt = _times(g)
    decay = np.exp(-np.outer(g, t))  # (V, times)
    phi = p @ decay
    D = length * p * g**2 * (decay @ (t * phi ** (length - 1) * dt))
    factors = g[:, None] * decay * np.sqrt(t * phi ** (length - 2) * dt)
    _, vectors = np.linalg.eigh((factors.T * p) @ factors)
    return D, np.sqrt(length) * np.abs(factors @ vectors[:, -1])


def _softmax_square(tau: float, n: int) -> float:
    """Return E A₁² of a softmax over n independent N(0, τ²) scores."""
    x = np.linspace(-9, 9, 300 + int(60 * tau))  # the integrand is cut off within 1/τ
    w = np.exp(-(x**2) / 2)
    w = w / w.sum()
    g = np.exp(tau * x)
    t, dt = _times(g)
    decay = np.exp(-np.outer(g, t))
    return float(((w * g**2) @ decay * (w @ decay) ** (n - 1) * t) @ dt)


def _times(g: Floats) -> tuple[Floats, Floats]:
    """Return points and weights of ∫₀^∞ dt, even in log t, for functions of t g."""
    low, high = np.log(1e-7 / g.max()), np.log(60 / g.min())
    logs = np.linspace(low, high, max(TIMES, int((high - low) / WIDEST_STEP)))
    t = np.exp(logs)
    return t, t * (logs[1] - logs[0])
