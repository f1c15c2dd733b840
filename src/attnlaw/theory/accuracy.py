"""Test accuracy of linear classifiers of pooled sequences, in closed form."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import binom, ndtr

from attnlaw._checks import Floats, choice, invalid_argument, real, scalar_or_array
from attnlaw.laws.outliers import TINY, white_edge_parameter, white_overlap
from attnlaw.models import PooledSequences
from attnlaw.models.base import answers
from attnlaw.results import Accuracy
from attnlaw.theory.pooled import spike_parameter
from attnlaw.theory.token_accuracy import (
    TokenScore,
    centroid_score,
    component_score,
    ridge_score,
)
from attnlaw.theory.token_noise import NoiseScales
from attnlaw.theory.verbs import predict_accuracy
from attnlaw.theory.vocabulary import vocabulary_spikes

__all__ = ["gaussian_accuracy"]

CLASSIFIERS = ("ridge", "centroid", "component")
LEAST_RIDGE = 1e-12  # of the noise gain

MOST_ATOMS = 4096
"""Up to so many values of the other groups' sum, all are listed; beyond, Fourier inversion."""


@answers(predict_accuracy)
def accuracy_of_sequences(
    model: PooledSequences, ridge: ArrayLike | None = None, *, classifier: str = "ridge"
) -> Accuracy:
    """Predict the test accuracy of a linear classifier of pooled sequences.

    The label y is the sign at position 1; a new sequence is classified by the sign of b·x.

    Parameters
    ----------
    model : PooledSequences
        Its correlation must be made of entries 0, 1 and −1: groups of positions that share one
        sign (as in a prefix model), independent of each other. Otherwise R does not fix the
        joint law of the signs, and with it the accuracy.
    ridge : float or array
        λ > 0, for "ridge". Broadcasts with the model.
    classifier : "ridge", "centroid" or "component"
        b = (XᵀX/N + λI)⁻¹ Xᵀy/N; b = Xᵀy/N, the difference of the class centroids; or,
        without labels, b the leading unit eigenvector of the sample covariance, with the sign
        that agrees with the labels more often (the model must be centred).

    Returns
    -------
    Accuracy
        Of the shape to which the model and `ridge` broadcast.

    Notes
    -----
    Derived in docs/theory/classification.md, "Derivation", and written here in rational form.

    With P the signed weight of position 1's group, α and κ as in `predict`, a² = ‖μ‖² + δ for
    tokens and ‖μ‖² for Gaussian sampling, let p ∈ (0, 1/max(1, δ, γ)) solve

        λ p = κ (1−p)(1−δp)(1−γp),

    which is the page's equation for ν = λ/(1−γp): −p is the law's moment function at −λ. Then

        ω = a² p/(κ(1−δp)),   Γ = γp²(1+δ−2δp)/(1−δp²),   A = P ω/(1+αω),
        v = {Γ [1 + (α−P²) ω (2+αω)] + P²a²p²/(κ(1−δp²))} / ((1−Γ)(1+αω)²),
        MSE = v + (1−PA)² + (α−P²) A²,

    all sums of positive terms. The centroids are the limit λ → ∞ of λb,

        A = P a² ,   v = γκ²(1+δ) + κP²a² ,

    and the leading component, with t as in `predict` and ζ the overlap with μ + m, has

        A = ±a √ζ ,   v = κ(t+1)(t+δ)/(t+γ) − αa²ζ :

    the first term of v is ℓ²/λ, the variance of new sequences along a sample eigenvector (Ledoit
    and Péché 2011). Below threshold t is that of the edge, ζ = 0, and the accuracy one half.

    The score is A (w·s) plus Gaussian noise of variance v, so
    accuracy = E Φ((P + T) A/√v) over T = Σ ± W_g, the independent signs of the other groups. The
    expectation is exact: all values of T are listed when they are few, and otherwise it is a
    Fourier sum whose truncation and aliasing errors are both below 1e-16.

    Examples
    --------
    With infinitely many samples and tokens it is the best linear rule, Φ(‖μ‖/√κ) here:

    >>> import attnlaw as al
    >>> model = al.PooledSequences(
    ...     vocab_ratio=0.0, sample_ratio=0.0, signal_norm=0.5,
    ...     correlation=al.prefix_correlation(4, prefix=4), weights=al.mean_weights(4),
    ... )
    >>> round(al.predict_accuracy(model, ridge=1.0).accuracy, 6)     # Φ(1)
    0.841345
    >>> round(al.predict_accuracy(model, classifier="component").accuracy, 6)
    0.841345
    """
    choice("classifier", classifier, CLASSIFIERS)
    if ridge is None and classifier == "ridge":
        raise invalid_argument("ridge", "given for classifier='ridge'", ridge)
    largest = max(1.0, float(np.max(model.vocab_ratio)), float(np.max(model.sample_ratio)))
    factor = largest if classifier == "ridge" else 1.0
    lam = checked_ridge(model.noise_gain * factor, ridge, model.shape)
    delta, gamma, norm, lam = np.broadcast_arrays(
        model.vocab_ratio, model.sample_ratio, model.signal_norm, lam
    )
    groups = _group_weights(model)
    P, rest = groups.label, float(np.sum(groups.others**2))  # rest = α − P²
    scales = NoiseScales(np.ones(1), np.ones(1))
    if model.tokens_differ:
        gain, noise, scales = _token_score(model, classifier, P, norm, delta, gamma, lam)
        score = _Score(gain, noise)
    elif classifier == "ridge":
        score = _ridge_score(model, groups, delta, gamma, norm, lam)
    elif classifier == "centroid":
        kappa, a2 = model.noise_gain, _squared_mean(model, norm, delta)
        score = _Score(P * a2, gamma * kappa**2 * (1 + delta) + kappa * P**2 * a2)
    else:
        score = _component_score(model, P, delta, gamma, norm)
    gain, noise = score
    accuracy = np.zeros(noise.shape)
    for xi, mass in zip(scales.atoms, scales.masses, strict=True):
        ratio = gain / np.sqrt(np.maximum(xi * noise, TINY))
        accuracy = accuracy + mass * _expected_cdf(P, groups.others, ratio)
    return Accuracy(
        accuracy=scalar_or_array(accuracy),
        mean_squared_error=scalar_or_array(noise + (1 - P * gain) ** 2 + rest * gain**2),
        signal_gain=scalar_or_array(gain),
        noise_variance=scalar_or_array(noise),
    )


class _Score(NamedTuple):
    gain: Floats  # A
    noise: Floats  # v


def _squared_mean(model: PooledSequences, norm: Floats, delta: Floats) -> Floats:
    """Return a², the squared length of half the difference of the table's class means."""
    return np.asarray(norm**2 + delta if model.sampling == "token" else norm**2)


def _token_score(
    model: PooledSequences, classifier: str, label: float, *numbers: Floats
) -> TokenScore:
    """Return the score of tokens that differ."""
    if not model.centred:
        raise invalid_argument("model", "centred when it has a vocabulary", model.centred)
    norm, delta, gamma, ridge = numbers
    spikes, kappa = vocabulary_spikes(model), model.noise_gain
    if classifier == "ridge":
        return ridge_score(spikes, kappa, label, norm, delta, gamma, ridge)
    score = centroid_score if classifier == "centroid" else component_score
    return score(spikes, kappa, label, norm, delta, gamma)


def checked_ridge(noise_gain: float, ridge: ArrayLike | None, shape: tuple[int, ...]) -> Floats:
    """Return λ, which broadcasts with a model of this shape; 1 if it is left out.

    A λ so small beside κ max(1, δ, γ) that 1 − δp is lost to rounding is rejected.
    """
    bounds = {"above": 0.0, "at_least": LEAST_RIDGE * noise_gain, "at_most": 1e60}
    lam = np.asarray(real("ridge", 1.0 if ridge is None else ridge, **bounds))
    try:
        np.broadcast_shapes(lam.shape, shape)
    except ValueError:
        raise invalid_argument("ridge", f"broadcastable to {shape}", lam) from None
    return lam


def _ridge_score(
    model: PooledSequences,
    groups: "_Groups",
    delta: Floats,
    gamma: Floats,
    norm: Floats,
    lam: Floats,
) -> _Score:
    P, kappa, rest = groups.label, model.noise_gain, float(np.sum(groups.others**2))
    alpha = P**2 + rest
    a2 = _squared_mean(model, norm, delta)
    p = _moment_parameter(lam / kappa, delta, gamma)
    omega = a2 * p / (kappa * (1 - delta * p))
    population = 1 - delta * p**2
    leverage = gamma * p**2 * (1 + delta - 2 * delta * p) / population  # Γ
    edge = 1 - (delta + gamma + delta * gamma) * p**2 + 2 * delta * gamma * p**3
    noise = leverage * (1 + rest * omega * (2 + alpha * omega))
    noise = noise + P**2 * a2 * p**2 / (kappa * population)
    noise = noise / (edge / population * (1 + alpha * omega) ** 2)  # edge/population = 1 − Γ
    return _Score(P * omega / (1 + alpha * omega), noise)


def _component_score(
    model: PooledSequences, P: float, delta: Floats, gamma: Floats, norm: Floats
) -> _Score:
    if not model.centred:
        raise invalid_argument("model", "centred for classifier='component'", model.centred)
    t = spike_parameter(norm, delta, model.snr, token=model.sampling == "token")
    t_star = white_edge_parameter(delta, gamma)
    signal = _squared_mean(model, norm, delta) * white_overlap(t, t_star, delta, gamma)  # a²ζ
    t = np.maximum(np.maximum(t, t_star), TINY)
    # ℓ²/λ = κ(t+1)(t+δ)/(t+γ)
    variance = model.noise_gain * (t + 1) * ((t + delta) / (t + gamma))
    return _Score(np.sign(P) * np.sqrt(signal), variance - model.signal_gain * signal)


class _Groups(NamedTuple):
    label: float  # P: signed weight of position 1's group
    others: Floats  # W_g: signed weights of the other groups, without zeros


def _group_weights(model: PooledSequences) -> _Groups:
    """Return the weight with which each group's sign enters w·s."""
    R = np.round(model.correlation)
    if np.abs(R - model.correlation).max() > 1e-10:
        raise invalid_argument(
            "correlation",
            "made of 0, 1 and -1 for an accuracy (groups of positions that share one sign)",
            model.correlation,
        )
    first = np.argmax(R != 0, axis=1) == np.arange(model.length)  # first position of its group
    weights = R[first] @ model.weights
    others = weights[1:]
    return _Groups(float(weights[0]), others[others != 0])


def _moment_parameter(ridge: Floats, delta: Floats, gamma: Floats) -> Floats:
    """Return the root p of ridge · p = (1−p)(1−δp)(1−γp) in (0, 1/max(1, δ, γ)).

    There the right side minus the left is convex and falls from 1, so Newton's method from 0
    climbs to the root and never passes it.
    """
    p = np.zeros(ridge.shape)
    for _ in range(500):
        one, vocab, sample = 1 - p, 1 - delta * p, 1 - gamma * p
        value = one * vocab * sample - ridge * p
        slope = vocab * sample + delta * one * sample + gamma * one * vocab + ridge
        following = p + np.maximum(value, 0.0) / slope
        if np.all(following <= p):
            break
        p = following
    return p


def _expected_cdf(P: float, others: Floats, ratio: Floats) -> Floats:
    """Return E Φ((P + Σ ± W_g) r) for every r in `ratio`, the signs independent and fair."""
    sizes, counts = np.unique(np.abs(others), return_counts=True)
    expectation = _by_listing if np.prod(counts + 1.0) <= MOST_ATOMS else _by_fourier
    chance = expectation(P, sizes, counts.astype(np.float64), ratio)
    return np.clip(chance, 0.0, 1.0)  # sums of many terms round, and a chance must not


def _by_listing(P: float, sizes: Floats, counts: Floats, ratio: Floats) -> Floats:
    sums, chances = np.array([P]), np.ones(1)
    for size, n in zip(sizes, counts, strict=True):
        plus = np.arange(n + 1)
        sums = np.add.outer(sums, (2 * plus - n) * size).ravel()
        chances = np.multiply.outer(chances, binom(n, plus) / 2.0**n).ravel()
    total = np.zeros(ratio.shape)
    for part in _blocks(len(sums), ratio.size):
        total += ndtr(np.multiply.outer(ratio, sums[part])) @ chances[part]
    return total


def _by_fourier(P: float, sizes: Floats, counts: Floats, ratio: Floats) -> Floats:
    r"""Expand the sign of Y = P + Σ ± W_g + ξ/r, ξ standard normal, as a square wave.

    On |y| < 2π/h the square wave Σ_k 4/(π(2k+1)) sin(u_k y), u_k = (k+½)h, is the sign of y.
    Hence P(Y > 0) = ½ + Σ_k Im E e^{iu_kY}/(π(k+½)), E e^{iuY} = e^{iuP} Π cos(uW_g) e^{−u²/2r²},
    up to the chance that |Y| ≥ 2π/h. The reach of 2π/h is |P| + Σ|W_g| + 9/r: 2 Φ(−9) < 1e-18.
    """
    reach = abs(P) + float(counts @ sizes)
    r = np.minimum(np.abs(ratio), 1e6 / reach)  # beyond, Φ is a step at any scale
    step = 2 * np.pi / (reach * np.max(r, initial=0.0) + 9)  # of x = u/r
    nodes = np.arange(0.5, np.ceil(8.6 / step))  # k + ½
    total = np.zeros(r.shape)
    for part in _blocks(len(nodes), r.size):
        x = nodes[part] * step
        u = np.multiply.outer(r, x)
        waves = np.sin(P * u)
        for size, n in zip(sizes, counts, strict=True):
            waves *= np.cos(size * u) ** n
        total += waves @ (np.exp(-(x**2) / 2) / (np.pi * nodes[part]))
    return np.asarray(0.5 + np.sign(ratio) * total)


def _blocks(n: int, other: int) -> Iterator[slice]:
    """Cut range(n) so that an array of one block by `other` stays small."""
    width = max(1, 2**17 // max(other, 1))
    return (slice(start, start + width) for start in range(0, n, width))


def gaussian_accuracy(
    variances: Floats, mean_products: Floats, n_samples: float, balance: float, ridge: float
) -> float:
    """Return the accuracy of ridge classification of two classes, from covariance, means and N.

    Parameters
    ----------
    variances : array of shape (d,)
        Eigenvalues t of the covariance within a class.
    mean_products : array of shape (d,)
        Squared components m_j² of half the difference of the class means along its eigenvectors;
        unbiased estimates may have negative entries.
    n_samples : float
        Size N of the training set, or infinity.
    balance : float
        ȳ, the mean of labels ±1.
    ridge : float
        λ.

    Notes
    -----
    Derived in docs/theory/classification.md, "Any noise, classes of any size".

    With σ² = 1 − ȳ² the variance of the label, ν solves λ = ν (1 − (1/N) Σ t/(t+ν)) and

        ω = Σ m²/(t+ν),  ω_Σ = Σ m²t/(t+ν)²,  Γ = (1/N) Σ t²/(t+ν)²,  A = σ²ω/(1+σ²ω),
        v = [Γσ²(1−A)² + σ⁴ω_Σ/(1+σ²ω)²]/(1−Γ) :

    the score of a sample of class y is ȳ + A(y−ȳ) plus noise of variance v, and its sign is the
    predicted label. With unequal m² and K classes: `PooledClasses` with one token a sequence.

    Examples
    --------
    Infinitely many samples, white noise: Φ(‖m‖).

    >>> round(gaussian_accuracy(np.ones(4), np.full(4, 0.25), np.inf, 0.0, 1e-9), 6)
    0.841345
    """
    from scipy.optimize import brentq

    t, variance = variances, 1 - balance**2

    def excess(log_nu: float) -> float:
        nu = np.exp(log_nu)
        return float(nu * (1 - np.sum(t / (t + nu)) / n_samples) - ridge)

    high = np.log(ridge + t.max() + t.sum() / min(n_samples, 1e300)) + 1
    nu = float(np.exp(brentq(excess, np.log(ridge) - 1e-12, high)))
    omega = max(float(np.sum(mean_products / (t + nu))), 0.0)
    omega_noise = max(float(np.sum(mean_products * t / (t + nu) ** 2)), 0.0)
    leverage = float(np.sum((t / (t + nu)) ** 2)) / n_samples
    A = variance * omega / (1 + variance * omega)
    noise = leverage * variance * (1 - A) ** 2
    noise += variance**2 * omega_noise / (1 + variance * omega) ** 2
    root = np.sqrt(max(noise / (1 - leverage), 1e-300))
    share = (1 + balance) / 2
    right = share * ndtr((balance + A * (1 - balance)) / root)
    return float(right + (1 - share) * ndtr((A * (1 + balance) - balance) / root))
