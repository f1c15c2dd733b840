"""Linear classifiers of pooled sequences, fitted and tested on fresh draws from the same table.

First two classes (`PooledSequences`), at every signal norm with the same draws; then K classes
(`PooledClasses`). What is predicted of them is derived in docs/theory/classification.md,
"Derivation", and docs/theory/classification.md, "K classes".
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, get_type_hints

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgWarning, solve

from attnlaw._checks import Floats, Random, choice, count, invalid_argument, scalar
from attnlaw.models import PooledClasses, PooledSequences
from attnlaw.models.base import answers
from attnlaw.models.vocabulary import tokens_alike
from attnlaw.results import Accuracy, ClassAccuracy
from attnlaw.simulation._matrix_free.plan import check_memory, reference_memory
from attnlaw.simulation.classes import principal_directions, sample_classes
from attnlaw.simulation.pooled import (
    PooledSample,
    covariance,
    leading_eigenpairs,
    n_candidates,
    pool,
    sample_frequent_tokens,
    sample_pooled,
    sample_tokens,
    token_classes,
)
from attnlaw.simulation.signs import sample_signs
from attnlaw.simulation.verbs import run_trials, simulate_accuracy, stacked

__all__ = ["ridge_coefficients"]

Trial = TypeVar("Trial", bound=Callable[..., Any])


def ridge_coefficients(pooled: Floats, labels: Floats, ridge: float) -> Floats:
    """Return the minimiser of (1/N)‖y − X b‖² + λ‖b‖².

    Parameters
    ----------
    pooled : array of shape (N, d)
        X.
    labels : array of shape (N,)
        y.
    ridge : float
        λ > 0.

    Notes
    -----
    b = (XᵀX + Nλ)⁻¹ Xᵀy = Xᵀ(XXᵀ + Nλ)⁻¹ y, whichever system is smaller.

    Examples
    --------
    >>> ridge_coefficients(np.array([[1.0], [-1.0]]), np.array([1.0, -1.0]), ridge=1.0)
    array([0.5])
    """
    X, y = pooled, labels
    N, d = X.shape
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", LinAlgWarning)
            if d <= N:
                return np.asarray(solve(X.T @ X + N * ridge * np.eye(d), X.T @ y, assume_a="pos"))
            return np.asarray(X.T @ solve(X @ X.T + N * ridge * np.eye(N), y, assume_a="pos"))
    except (LinAlgWarning, np.linalg.LinAlgError):  # a ridge that is tiny beside the variance
        U, s, V = np.linalg.svd(X, full_matrices=False)
        return np.asarray((U.T @ y * s / (s**2 + N * ridge)) @ V)


def classifies(*classifiers: str, memory: Callable[[Any, int], float]) -> Callable[[Trial], Trial]:
    """Return a decorator: repetitions of a trial answer `simulate_accuracy` for its model.

    Parameters
    ----------
    *classifiers : str
        Those that the trial knows.
    memory : callable
        Takes a model and a dimension, and returns the bytes of one trial without its test set.

    Notes
    -----
    A trial takes a model, a dimension, the ridge, the classifier, the number of test sequences and
    a Generator, and returns a dataclass.
    """

    def decorate(trial: Trial) -> Trial:
        def answer(
            model: Any,
            dimension: int | None = None,
            n_trials: int = 1,
            rng: Random = None,
            *,
            ridge: float | None = None,
            classifier: str = "ridge",
            n_test: int = 20_000,
            **workers: Any,
        ) -> Any:
            choice("classifier", classifier, classifiers)
            if ridge is None and classifier in ("ridge", "discriminant"):
                raise invalid_argument("ridge", f"given for classifier={classifier!r}", ridge)
            lam = scalar("ridge", 1.0 if ridge is None else ridge, above=0, at_most=1e100)
            n_test, n_jobs = count("n_test", n_test), count("n_jobs", workers.get("n_jobs", 1))
            d = model.sizes(dimension).dimension
            check_memory(n_jobs * (memory(model, d) + 24 * n_test * len(model.weights)), d)
            each = partial(trial, model, d, lam, classifier, n_test)
            return stacked(run_trials(each, n_trials, rng, **workers))

        answer.__annotations__["model"] = next(iter(get_type_hints(trial).values()))
        answers(simulate_accuracy)(answer)
        return trial

    return decorate


@dataclass(frozen=True, kw_only=True)
class _TestSet:
    """Fresh sequences from the table of a sample; they are never pooled, only their scores."""

    labels: Floats  # y (n_test,)
    gains: Floats  # t = w·s (n_test,)
    tokens: NDArray[np.int32]  # (n_test, L), if the noise is drawn token by token
    normals: Floats  # (n_test,) if it is not

    def scores(
        self, model: PooledSequences, sample: PooledSample, norm: float, b: Floats
    ) -> Floats:
        """Return x·b: Σ_l w_l (e·b)_{token l}, or (w·s) μ·b and a Gaussian with x·b's variance."""
        table, words = sample.table, model.vocabulary
        if words is None or not model.tokens_differ:
            p = np.full(len(table), 1 / max(len(table), 1))
            factor, mean = token_classes(len(table)).astype(np.float64), 1.0
        else:
            p, g = words.frequencies, words.weights
            factor, mean = g * words.signs, float(p @ g)
        if self.tokens.size:
            each_token = table @ b + norm * b[0] * factor
            return pool(each_token, self.tokens, model.weights)
        spread = np.sqrt(p @ (table @ b) ** 2) if len(table) else np.linalg.norm(b)
        return np.asarray(
            norm * mean * b[0] * self.gains + np.sqrt(model.noise_gain) * spread * self.normals
        )


def _sample_test(
    model: PooledSequences, sample: PooledSample, n_test: int, rng: np.random.Generator
) -> _TestSet:
    signs = sample_signs(model.correlation, n_test, rng)
    tokens, normals = np.empty((0, 0), dtype=np.int32), np.empty(0)
    if sample.tokens.size:
        words = model.vocabulary
        if words is not None and model.tokens_differ:
            tokens = sample_frequent_tokens(signs, words, rng)
        else:
            tokens = sample_tokens(signs, len(sample.table), rng)
    else:
        normals = rng.standard_normal(n_test)
    return _TestSet(
        labels=signs[:, 0].astype(np.float64),
        gains=signs @ model.weights,
        tokens=tokens,
        normals=normals,
    )


def _direction(X: Floats, y: Floats, ridge: float, classifier: str, n_candidates: int) -> Floats:
    """Return b, whose product with a sequence is its score; the signal is the first coordinate."""
    if classifier == "ridge":
        return ridge_coefficients(X, y, ridge)
    if classifier == "centroid":
        return np.asarray(y @ X / len(X))
    _, vectors = leading_eigenpairs(covariance(X, centred=True), n_candidates)
    u = vectors[np.argmax(vectors[:, 0] ** 2)]
    return np.asarray(u * np.sign(np.sum(np.sign(X @ u) * y) or 1.0))


@classifies("ridge", "centroid", "component", memory=reference_memory)
def _accuracy_trial(
    model: PooledSequences,
    dimension: int,
    ridge: float,
    classifier: str,
    n_test: int,
    rng: np.random.Generator,
) -> Accuracy:
    """Fit and test once, at every signal norm with the same draws."""
    if classifier == "component" and not model.centred:
        raise invalid_argument("model", "centred for classifier='component'", model.centred)
    sample = sample_pooled(model, dimension, rng)
    test = _sample_test(model, sample, n_test, rng)
    y, t = test.labels, test.gains
    rows = []
    words = model.vocabulary
    several = words is not None and model.tokens_differ
    n = n_candidates(words, dimension) if several and words is not None else 1
    norms = np.asarray(model.signal_norm)
    for norm in norms.ravel():
        X = sample.pooled(norm)
        centre = X.mean(axis=0) if model.centred else np.zeros(dimension)
        labels = sample.signs[:, 0].astype(np.float64)
        b = _direction(X - centre, labels, ridge, classifier, n)
        score = test.scores(model, sample, norm, b) - centre @ b
        A = t @ score / (t @ t)
        rows.append(
            (
                np.mean(np.sign(score) == y),
                np.mean((y - score) ** 2),
                A,
                np.mean((score - A * t) ** 2),
            )
        )
    columns = np.reshape(rows, (*norms.shape, 4))
    names = ("accuracy", "mean_squared_error", "signal_gain", "noise_variance")
    return Accuracy(**{name: columns[..., i] for i, name in enumerate(names)})


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


def _classes_memory(model: PooledClasses, dimension: int) -> float:
    """Return bytes: table, sequences, covariances, classes of positions."""
    d, V, N = model.sizes(dimension)
    idealised = 8 * N * V * (model.sampling == "gaussian")
    return 8.0 * (2 * V * d + 4 * N * d + 3 * d**2 + 3 * N * len(model.weights)) + idealised


@classifies("ridge", "centroid", "discriminant", memory=_classes_memory)
def _classes_trial(
    model: PooledClasses,
    dimension: int,
    ridge: float,
    classifier: str,
    n_test: int,
    rng: np.random.Generator,
) -> ClassAccuracy:
    """Fit and test once: the accuracy, and that within each class."""
    tokens_alike(model, "an accuracy of classes")
    if np.ndim(model.signal_scale):
        words = "a single number when classes are drawn"
        raise invalid_argument("signal_scale", words, np.asarray(model.signal_scale))
    table = _Table.draw(model, dimension, rng)
    classes = _stratified_classes(model, model.sizes(dimension).n_samples, rng)
    X, y = table.sequences(classes, None, rng), classes[:, 0]
    directions, constants = _fit(X, y, model.n_classes, ridge, classifier)
    test = sample_classes(model.correlation, model.shares, n_test, rng)
    truth = test[:, 0]
    right = (table.sequences(test, directions, rng) + constants).argmax(axis=1) == truth
    each = [
        right[truth == k].mean() if (truth == k).any() else np.nan for k in range(len(table.means))
    ]
    return ClassAccuracy(accuracy=right.mean(), class_accuracies=np.array(each))


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
