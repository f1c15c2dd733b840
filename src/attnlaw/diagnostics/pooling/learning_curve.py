"""Accuracy with more labelled data, predicted from the data at hand."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnlaw._checks import Floats, invalid_argument, real_array
from attnlaw.data.user_arrays import labels_array
from attnlaw.theory.class_accuracy import class_contrasts

__all__ = ["MULTIPLES", "RIDGES", "LearningCurve", "predict_learning_curve"]

RIDGES = (0.003, 0.03, 0.3, 3.0, 30.0)
"""λ to choose from, in units of the mean variance of a coordinate."""

MULTIPLES = (1.0, 2.0, 4.0, np.inf)
"""Numbers of samples for which predictions are made, in units of the present one."""

MOST_ROWS = 10_000  # samples that are looked at; more would not change the curve
MOST_SPENT = 0.5  # share of the degrees of freedom up to which leave-one-out scores are used
LEAST_NOISE = 0.02  # share of the noise that is left at any number of samples
RIDGE_TEMPERATURE = 0.2  # standard errors by which an accuracy may be lower and still count
NO_SIGNAL = 0.6  # prior probability that the classes do not differ
GRID = np.geomspace(1e-3, 1e3, 400)  # gains of a signal, in standard errors
PRIOR = GRID / (1 + (GRID / 6) ** 2)  # half of Cauchy's density, of scale 6, times the spacing
PRIOR /= PRIOR.sum()
BANDWIDTH, N_SHIFTS = 1.0, 8  # of the smoothed count, in units of n^(−1/5); shifts of each score
# Standard deviations of the interval: of a count, of the extrapolated change, of the rest
COUNT_ERROR, CHANGE_ERROR, OTHER_ERROR = 1.1, 0.3, 0.005


@dataclass(frozen=True, kw_only=True)
class LearningCurve:
    """Predicted accuracy of ridge classification at several numbers of training samples."""

    n_samples: tuple[float, ...]  # N′
    accuracies: tuple[float, ...]
    intervals: tuple[tuple[float, float], ...]  # at 95 %, of the mean over training sets
    majority_accuracy: float  # of always answering the largest class


def predict_learning_curve(
    vectors: ArrayLike,
    labels: ArrayLike,
    n_samples: Sequence[float] | None = None,
) -> LearningCurve:
    """Predict the accuracy of ridge classification at other numbers of training samples.

    Parameters
    ----------
    vectors : array of shape (n, d)
        Labelled samples, for example pooled sequences. Copies must have been removed.
    labels : array of shape (n,)
        Class of each, two or more classes with at least two samples.
    n_samples : sequence of float, optional
        N′, infinity allowed; by default n, 2n, 4n and infinity.

    Returns
    -------
    LearningCurve
        For ridge regression of the class indicators with an intercept, where the largest output
        wins and λ is the best of `RIDGES`.

    Notes
    -----
    Derived in docs/theory/classification.md, "Learning curves".

    Training on N′ samples with λ′ acts like the population problem with the ridge ν, where
    λ′ = ν(1 − h(ν)/N′), h(ν) = tr C(C+ν)⁻¹. At equal ν the gains A of the scores are the same at
    every N′, and the covariance of the errors is (C₀)/(1−Γ) with Γ ∝ 1/N′. So the leave-one-out
    scores at the λ that has this ν at the present n are moved to N′ without any estimate of the
    class means:

        ŝ_i → μ_k + T (ŝ_i − μ_k) ,   V → V′ = [(1−Γ)V − (Γ−Γ′)(1−A)²]/(1−Γ′) = T V T ,

    μ_k the mean score of the class of i, V the covariance around it, A the mean of ŝψᵀ. The
    accuracy is the share of moved scores whose largest entry is right, each score smoothed to a
    Gaussian cloud of n^(−1/5) times the spread of all, so that the count is more regular. It is
    averaged with that of the largest class, which has the posterior probability p₀ that the
    classes do not differ (prior .6; else the mean gain has a half-Cauchy density of six standard
    errors), so that pure noise is predicted to stay at chance. The variance of the interval is
    1.1² times that of a count, since leave-one-out answers depend on each other, plus the squares
    of 30 % of the predicted change and of half a point, and p₀(1−p₀) times the squared difference
    of the two answers.

    Examples
    --------
    Two classes half of whose coordinates differ:

    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(2, size=400)
    >>> X = rng.standard_normal((400, 100)) + 0.25 * y[:, None] * (np.arange(100) < 50)
    >>> curve = predict_learning_curve(X, y)
    >>> bool(curve.accuracies[0] < curve.accuracies[2] < 0.85)     # Φ(√50 · 0.25/2) = 0.81
    True
    """
    X = real_array("vectors", vectors, ndim=2)
    y = labels_array("labels", labels, len(X))
    classes, numbers, counts = np.unique(y, return_inverse=True, return_counts=True)
    if len(classes) < 2 or counts.min() < 2:
        found = f"{len(classes)} classes, the smallest of {counts.min()}"
        raise invalid_argument("labels", "two or more classes of at least two samples", found)
    targets = tuple(len(X) * np.array(MULTIPLES)) if n_samples is None else tuple(n_samples)
    if len(X) > MOST_ROWS:
        rows = _some(numbers, MOST_ROWS)
        X, numbers = X[rows], numbers[rows]
    sample = _LabelledSample.of(X, numbers)
    no_signal = _no_signal_probability(sample)
    majority = float(sample.expected_shares.max())
    now, *curve = (_signal_accuracy(sample, N) for N in (len(X), *targets))
    accuracies, intervals = [], []
    for with_signal in curve:
        accuracy = no_signal * majority + (1 - no_signal) * with_signal
        variance = (
            COUNT_ERROR**2 * accuracy * (1 - accuracy) / sample.n
            + (CHANGE_ERROR * (with_signal - now)) ** 2
            + no_signal * (1 - no_signal) * (with_signal - majority) ** 2
            + OTHER_ERROR**2
        )
        half = 1.96 * float(np.sqrt(variance))
        accuracies.append(accuracy)
        intervals.append((max(accuracy - half, 0.0), min(accuracy + half, 1.0)))
    return LearningCurve(
        n_samples=tuple(map(float, targets)),
        accuracies=tuple(accuracies),
        intervals=tuple(intervals),
        majority_accuracy=float(sample.shares.max()),
    )


def _some(labels: NDArray[np.intp], n: int) -> NDArray[np.intp]:
    """Return every m-th sample of each class, about n of all."""
    order = np.argsort(labels, kind="stable")
    return np.sort(order[np.round(np.linspace(0, len(order) - 1, n)).astype(np.intp)])


@dataclass(frozen=True, kw_only=True)
class _LabelledSample:
    """Singular vectors of a centred sample, and its classes in reduced coordinates."""

    n: int
    labels: NDArray[np.intp]
    shares: Floats  # π (K,)
    expected_shares: Floats  # the same of new samples, drawn together as far as chance made them
    to_scores: Floats  # U (K, K−1): scores of the classes are π + Uŝ
    targets: Floats  # ψ of each sample (n, K−1): mean 0, covariance 1
    variances: Floats  # w: eigenvalues of XᵀX/n, above 0
    vectors: Floats  # Q (n, rank): left singular vectors
    scale: float  # mean variance of a coordinate

    @staticmethod
    def of(X: Floats, labels: NDArray[np.intp]) -> "_LabelledSample":
        n, d = X.shape
        shares = np.bincount(labels) / n
        root, contrasts = np.sqrt(shares), class_contrasts(shares)
        X = X - X.mean(axis=0)
        w, Q = np.linalg.eigh((X @ X.T if n <= d else X.T @ X) / n)
        kept = w > 1e-10 * max(float(w[-1]), np.finfo(float).tiny)
        w, Q = w[kept], Q[:, kept]
        return _LabelledSample(
            n=n,
            labels=labels,
            shares=shares,
            expected_shares=_shrunk_shares(shares, n),
            to_scores=root[:, None] * contrasts,
            targets=(contrasts / root[:, None])[labels],
            variances=w,
            vectors=Q if n <= d else X @ (Q / np.sqrt(n * w)),
            scale=max(float(w.sum()) / d, np.finfo(float).tiny),
        )

    @cached_property
    def eigenvalues(self) -> Floats:
        """Return t: of the covariance with n − 1 degrees of freedom."""
        return self.variances * self.n / (self.n - 1)

    @cached_property
    def products(self) -> Floats:
        return np.asarray(self.vectors.T @ self.targets)

    @cached_property
    def squares(self) -> Floats:
        return self.vectors**2

    @cached_property
    def shifts(self) -> Floats:
        """Return standard normal numbers (m, n, K−1), the same for every ridge."""
        shape = (N_SHIFTS, *self.targets.shape)
        return np.asarray(np.random.default_rng(0).standard_normal(shape))

    def dimension(self, ridge: float) -> float:
        """Return h(s) = Σ t/(t+s), the degrees of freedom at a ridge."""
        return float(np.sum(self.eigenvalues / (self.eigenvalues + ridge)))

    def equivalent_ridge(self, ridge: float, n_samples: float) -> float:
        """Return the ridge s that has here the ν that `ridge` has with N′ samples.

        ν = s/(1 − h(s)/(n−1)) (Silverstein's equation), and ridge = ν (1 − h(s)/N′). Not less
        than where leave-one-out scores become unreliable.
        """
        from scipy.optimize import brentq

        t, m = self.eigenvalues, self.n - 1

        def excess(log_s: float) -> float:
            h = self.dimension(np.exp(log_s))
            return float(np.exp(log_s) / (1 - h / m) * (1 - h / n_samples) - ridge)

        def spent(log_s: float) -> float:
            return self.dimension(np.exp(log_s)) - MOST_SPENT * m

        low = float(np.log(t.max())) - 25
        if spent(low) > 0:
            low = brentq(spent, low, float(np.log(t.sum())) + 5)
        if excess(low) >= 0:
            return float(np.exp(low))
        high = float(np.log(ridge + t.sum())) + 2
        return float(np.exp(brentq(excess, low, max(high, low + 1))))

    def leverage(self, ridge: float) -> float:
        """Return nΓ = h + ν dh/dν, estimated from the eigenvalues."""
        t, m = self.eigenvalues, self.n - 1
        ratios = t / (t + ridge)
        h, h2 = float(ratios.sum()), float(np.sum(ratios**2))
        nu = ridge / (1 - h / m)
        slope = (1 - (2 * h - h2) / m) / (1 - h / m) ** 2  # dν/ds
        return max(h - nu * (h - h2) / (ridge * slope), 0.0)

    def leave_one_out(self, ridge: float) -> Floats:
        """Return ŝ (n, K−1): regression of ψ on x, each sample answered by the others.

        r_i/(1−H_ii) is the residual without sample i; the mean of ψ over the others, −ψ_i/(n−1),
        is taken out of the intercept.
        """
        shrunk = self.variances / (self.variances + ridge)
        fitted = self.vectors @ (self.products * shrunk[:, None])
        leverages = 1 / self.n + self.squares @ shrunk
        scores = self.targets - (self.targets - fitted) / (1 - leverages)[:, None]
        return np.asarray(scores + self.targets / (self.n - 1))


def _shrunk_shares(shares: Floats, n: int) -> Floats:
    """Return shares without the part of their differences that chance explains.

    James and Stein: the deviations from 1/K times 1 − (K−1)/χ², χ² = nK Σ (π−1/K)².
    """
    K = len(shares)
    deviations = shares - 1 / K
    chi2 = n * K * float(np.sum(deviations**2))
    return np.asarray(1 / K + deviations * max(0.0, 1 - (K - 1) / max(chi2, 1e-300)))


class _Gain(NamedTuple):
    """Mean gain of leave-one-out scores at a ridge, and what is needed to move them."""

    scores: Floats  # ŝ (n, K−1)
    means: Floats  # μ (K, K−1)
    covariance: Floats  # V
    matrix: Floats  # A
    leverage: float  # Γ
    value: float  # a = tr A/(K−1)
    error: float  # its standard error


def _measure_gain(sample: _LabelledSample, ridge: float) -> _Gain:
    n, y = sample.n, sample.labels
    K, r = sample.to_scores.shape
    scores = sample.leave_one_out(ridge)
    means = np.stack([scores[y == k].mean(axis=0) for k in range(K)])
    noise = scores - means[y]
    V = noise.T @ noise / max(n - K, 1)
    A = scores.T @ sample.targets / n
    leverage = sample.leverage(ridge) / n
    value, variance = float(np.trace(A)) / r, float(np.trace(V)) / r
    error = _gain_error(value, variance, leverage, n * r)
    return _Gain(scores, means, V, (A + A.T) / 2, leverage, value, error)


def _no_signal_probability(sample: _LabelledSample) -> float:
    """Return the posterior probability that the classes do not differ.

    At the ridge that shows a signal best: its gain is z standard errors, and a signal of t ones
    is e^{zt − t²/2} times as likely as none.
    """
    best = -np.inf
    for ridge in RIDGES:
        gain = _measure_gain(sample, sample.equivalent_ridge(ridge * sample.scale, sample.n))
        best = max(best, gain.value / gain.error)
    factor = float(PRIOR @ np.exp(np.minimum(best * GRID - GRID**2 / 2, 600.0)))
    return NO_SIGNAL / (NO_SIGNAL + (1 - NO_SIGNAL) * factor)


def _signal_accuracy(sample: _LabelledSample, n_samples: float) -> float:
    """Predict at N′ if the classes differ: the mean over ridges about as good as the best one."""
    each = np.array([_accuracy_at(sample, r * sample.scale, n_samples) for r in RIDGES])
    best = float(each.max())
    error = np.sqrt(max(best * (1 - best), 1 / sample.n) / sample.n)
    weights = np.exp((each - best) / (RIDGE_TEMPERATURE * error))
    return float(weights @ each / weights.sum())


def _accuracy_at(sample: _LabelledSample, ridge: float, n_samples: float) -> float:
    """Return the smoothed share of right answers among scores moved to N′."""
    gain = _measure_gain(sample, sample.equivalent_ridge(ridge, n_samples))
    now, then = gain.leverage, gain.leverage * sample.n / n_samples  # Γ, Γ′
    bias = np.eye(len(gain.matrix)) - gain.matrix
    goal = ((1 - now) * gain.covariance - (now - then) * bias @ bias) / (1 - then)
    T = _transport(gain.covariance, goal)
    means = gain.means[sample.labels]
    accuracy = _smoothed_share(sample, means, (gain.scores - means) @ T, T @ gain.covariance @ T)
    return max(accuracy, float(sample.expected_shares.max()))


def _smoothed_share(
    sample: _LabelledSample, means: Floats, deviations: Floats, covariance: Floats
) -> float:
    """Return the share of right answers if each score stands for a Gaussian cloud around it.

    Scores μ + √(1−b²)(ŝ−μ) + b V^(1/2) z, z standard normal, have the covariance V of ŝ and more
    regular counts; b = n^(−1/5). In closed form for two classes, over a few z a sample for more.
    """
    from scipy.special import ndtr

    b = BANDWIDTH * sample.n**-0.2
    scores = means + np.sqrt(1 - b**2) * deviations
    own, U = sample.labels, sample.to_scores
    answers = sample.expected_shares + scores @ U.T
    if U.shape[1] == 1:
        sides = np.where(own == 1, 1.0, -1.0)
        spread = b * np.sqrt(covariance[0, 0]) * abs(U[1, 0] - U[0, 0])
        margins = sides * (answers[:, 1] - answers[:, 0]) / max(spread, np.finfo(float).tiny)
        return float(ndtr(margins).mean())
    values, Q = np.linalg.eigh(covariance)
    spread = b * (U @ (Q * np.sqrt(np.maximum(values, 0.0)))).T
    return float(np.mean([(answers + z @ spread).argmax(axis=1) == own for z in sample.shifts]))


def _transport(V: Floats, goal: Floats) -> Floats:
    """Return the symmetric T with T V T = V′, V′ cut from below at a small part of V.

    With W = V^(1/2): T = W⁻¹ (W V′ W)^(1/2) W⁻¹.
    """
    values, Q = np.linalg.eigh(V)
    values = np.maximum(values, 1e-12 * max(float(values[-1]), np.finfo(float).tiny))
    root, inverse = (Q * np.sqrt(values)) @ Q.T, (Q / np.sqrt(values)) @ Q.T
    ratios, P = np.linalg.eigh(inverse @ goal @ inverse)
    goal = root @ (P * np.maximum(ratios, LEAST_NOISE)) @ P.T @ root
    inner, R = np.linalg.eigh(root @ goal @ root)
    return np.asarray(inverse @ (R * np.sqrt(np.maximum(inner, 0.0))) @ R.T @ inverse)


def _gain_error(gain: float, variance: float, leverage: float, n: int) -> float:
    """Return the standard error of the mean gain of leave-one-out scores.

    Each pair of samples enters twice, once as training and once as test, so that the variance is
    2v/n without signal; it is up to 4v/n where the scores are signal.
    """
    a = min(max(gain, 0.0), 0.99)
    noise = min(variance, (variance + (1 - a) ** 2) * leverage)
    return float(np.sqrt(max((4 * variance - 2 * noise) * (1 - a), 1e-300) / n))
