"""Linear classifiers of K classes of pooled sequences, fitted and tested on fresh draws."""

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Floats, Random, choice, count, invalid_argument, real
from attnlaw._dispatch import answers
from attnlaw.models import PooledClasses
from attnlaw.results import ClassAccuracy
from attnlaw.simulation._matrix_free.plan import check_memory
from attnlaw.simulation.accuracy import ridge_coefficients
from attnlaw.simulation.classes import principal_directions, sample_classes
from attnlaw.simulation.pooled import pool
from attnlaw.simulation.verbs import simulate_accuracy
from attnlaw.simulation.workers import Progress, run_trials

__all__: list[str] = []

CLASSIFIERS = ("ridge", "centroid", "discriminant")


@answers(simulate_accuracy)
def accuracy_of_classes(
    model: PooledClasses,
    dimension: int,
    n_trials: int = 1,
    rng: Random = None,
    *,
    ridge: float | None = None,
    classifier: str = "ridge",
    n_test: int = 20_000,
    n_jobs: int = 1,
    progress: Progress | None = None,
) -> ClassAccuracy:
    """Fit a linear classifier to pooled sequences of K classes and test it on fresh ones.

    The label of a sequence is the class at its first position. What is predicted of it is derived
    in docs/theory/classification.md, "K classes".

    Parameters
    ----------
    model : PooledClasses
        What is drawn. The ratios and the signal scale must be single numbers.
    dimension : int
        d; the ratios give the vocabulary and the number of training sequences.
    n_trials : int
        Number of independent trials (tables, training and test sets).
    rng : Generator, int or None
        Source of randomness; trial k has its own stream.
    ridge : float
        λ > 0, for "ridge" and "discriminant".
    classifier : "ridge", "centroid" or "discriminant"
        As in `predict_accuracy`.
    n_test : int
        Number of test sequences in each trial.
    n_jobs, progress
        As in `simulate`.

    Returns
    -------
    ClassAccuracy
        With the trials as first axis. The training set has each class in its exact share
        (rounded), as a stratified split has; random numbers of each class cost another
        O(K/N) of accuracy.

    Examples
    --------
    >>> import attnlaw as al
    >>> model = al.PooledClasses(
    ...     vocab_ratio=0.5, sample_ratio=0.25, class_means=8 * np.eye(3),
    ...     correlation=al.prefix_correlation(4, 2), weights=[0.5, 0.5, 0, 0])
    >>> al.simulate_accuracy(model, 50, rng=0, classifier="centroid").accuracy.round(2)
    array([1.])
    """
    choice("classifier", classifier, CLASSIFIERS)
    if ridge is None and classifier != "centroid":
        raise invalid_argument("ridge", f"given for classifier={classifier!r}", ridge)
    lam = float(np.asarray(real("ridge", 1.0 if ridge is None else ridge, above=0)))
    d, V, N = model.sizes(dimension)
    if np.ndim(model.signal_scale):
        words = "a single number when classes are drawn"
        raise invalid_argument("signal_scale", words, np.asarray(model.signal_scale))
    n_test, n_jobs = count("n_test", n_test), count("n_jobs", n_jobs)
    needed = 8 * (2 * V * d + 4 * N * d + 3 * d**2 + 3 * (N + n_test) * len(model.weights))
    check_memory(n_jobs * (needed + 8 * N * V * (model.sampling == "gaussian")), d)
    trial = partial(_trial, model, d, lam, classifier, n_test)
    each = np.stack(run_trials(trial, n_trials, rng, n_jobs=n_jobs, progress=progress))
    return ClassAccuracy(accuracy=each[:, 0], class_accuracies=each[:, 1:])


@dataclass(frozen=True, kw_only=True)
class _Table:
    """Tokens around the means of their classes."""

    model: PooledClasses
    means: Floats  # M (K, d)
    spread: Floats  # standard deviations of the noise (d,)
    noise: Floats  # Z (V, d); (0, d) when the vocabulary is infinite

    @staticmethod
    def draw(model: PooledClasses, dimension: int, rng: np.random.Generator) -> "_Table":
        d, V, _ = model.sizes(dimension)
        spread, means = principal_directions(model, d)
        noise = rng.standard_normal((V, d)) * spread
        return _Table(model=model, means=means, spread=spread, noise=noise)

    def sequences(
        self, classes: NDArray[np.intp], directions: Floats | None, rng: np.random.Generator
    ) -> Floats:
        """Return pooled sequences (N, d) with given classes, or their products with directions."""
        model, Z = self.model, self.noise
        w, kappa = model.weights, model.noise_gain
        K, V = len(self.means), len(Z)
        if V and model.sampling == "token":
            sizes = model.class_sizes(V)
            first = np.cumsum(sizes) - sizes
            tokens = first[classes] + rng.integers(sizes[classes])
            table = Z + np.repeat(self.means, sizes, axis=0)
            table = table if directions is None else table @ directions
            return pool(table, tokens.astype(np.int32), w)
        gains = np.stack([(classes == k) @ w for k in range(K)], axis=1)
        if directions is None:
            g = rng.standard_normal((len(classes), V or len(self.spread)))
            noise = g @ Z / np.sqrt(V) if V else g * self.spread
            return np.asarray(gains @ self.means + np.sqrt(kappa) * noise)
        # The noise of the scores is Gaussian with covariance κ BᵀCB: no need for d numbers each.
        root = Z @ directions / np.sqrt(V) if V else self.spread[:, None] * directions
        _, s, Vt = np.linalg.svd(root, full_matrices=False)
        g = rng.standard_normal((len(classes), len(s)))
        return np.asarray(gains @ (self.means @ directions) + np.sqrt(kappa) * (g * s) @ Vt)


def _stratified_classes(
    model: PooledClasses, n: int, rng: np.random.Generator
) -> NDArray[np.intp]:
    """Draw sequences of classes until each class is the label of its exact share of n."""
    quotas = model.class_sizes(max(n, model.n_classes))
    kept: list[NDArray[np.intp]] = []
    missing = quotas.copy()
    while missing.any():
        size = int(np.ceil(1.1 * np.max(missing / model.shares))) + 10
        classes = sample_classes(model.correlation, model.shares, size, rng)
        for k in np.flatnonzero(missing):
            rows = classes[classes[:, 0] == k][: missing[k]]
            kept.append(rows)
            missing[k] -= len(rows)
    return np.concatenate(kept)


def _trial(
    model: PooledClasses,
    dimension: int,
    ridge: float,
    classifier: str,
    n_test: int,
    rng: np.random.Generator,
) -> Floats:
    """Fit and test once: the accuracy, and that within each class."""
    table = _Table.draw(model, dimension, rng)
    classes = _stratified_classes(model, model.sizes(dimension).n_samples, rng)
    X, y = table.sequences(classes, None, rng), classes[:, 0]
    directions, constants = _fit(X, y, model.n_classes, ridge, classifier)
    test = sample_classes(model.correlation, model.shares, n_test, rng)
    answers = (table.sequences(test, directions, rng) + constants).argmax(axis=1)
    right, truth = answers == test[:, 0], test[:, 0]
    each = [
        right[truth == k].mean() if (truth == k).any() else np.nan for k in range(len(table.means))
    ]
    return np.array([right.mean(), *each])


def _fit(
    X: Floats, y: NDArray[np.intp], n_classes: int, ridge: float, classifier: str
) -> tuple[Floats, Floats]:
    """Return directions (d, K) and constants (K,): the class of x is argmax x·b_k + c_k."""
    Y, mean = np.eye(n_classes)[y], X.mean(axis=0)
    shares = Y.mean(axis=0)
    centroids = (Y.T @ X) / Y.sum(axis=0)[:, None]
    if classifier == "centroid":
        return centroids.T, -np.sum(centroids**2, axis=1) / 2
    if classifier == "ridge":
        B = ridge_coefficients(X - mean, Y - shares, ridge)
        return B, shares - mean @ B
    within = X - centroids[y]
    S = within.T @ within / len(X) + ridge * np.eye(X.shape[1])
    B = np.linalg.solve(S, (centroids - mean).T)
    distances = np.sum((centroids - mean) * B.T, axis=1)
    return B, np.log(shares) - distances / 2 - mean @ B
