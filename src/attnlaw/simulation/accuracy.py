"""Linear classifiers of pooled sequences, fitted and tested on fresh draws."""

from dataclasses import dataclass, fields
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve

from attnlaw._checks import Floats, Random, choice, count, invalid_argument, real
from attnlaw._dispatch import answers
from attnlaw.models import PooledSequences
from attnlaw.models.vocabulary import tokens_alike
from attnlaw.results import Accuracy
from attnlaw.simulation._matrix_free.plan import check_memory, reference_memory
from attnlaw.simulation.pooled import (
    PooledSample,
    pool,
    sample_pooled,
    sample_tokens,
    token_classes,
)
from attnlaw.simulation.signs import sample_signs
from attnlaw.simulation.spectrum import covariance, leading_eigenpairs
from attnlaw.simulation.verbs import simulate_accuracy
from attnlaw.simulation.workers import Progress, run_trials

__all__ = ["ridge_coefficients"]

CLASSIFIERS = ("ridge", "centroid", "component")


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
    if d <= N:
        return np.asarray(solve(X.T @ X + N * ridge * np.eye(d), X.T @ y, assume_a="pos"))
    return np.asarray(X.T @ solve(X @ X.T + N * ridge * np.eye(N), y, assume_a="pos"))


@answers(simulate_accuracy)
def accuracy_of_sequences(
    model: PooledSequences,
    dimension: int | None = None,
    n_trials: int = 1,
    rng: Random = None,
    *,
    ridge: float | None = None,
    classifier: str = "ridge",
    n_test: int = 20_000,
    n_jobs: int = 1,
    progress: Progress | None = None,
) -> Accuracy:
    """Fit a linear classifier to pooled sequences and test it on fresh ones from the same table.

    The label of a sequence is the sign at its first position. What is predicted of it is derived
    in docs/theory/classification.md, "Derivation".

    Parameters
    ----------
    model : PooledSequences
        What is drawn. The ratios must be single numbers; the signal norm may be an array.
        If centred, the training mean is subtracted from training and test sequences.
    dimension : int
        d; the ratios give the vocabulary and the number of training sequences.
    n_trials : int
        Number of independent trials (tables, training and test sets).
    rng : Generator, int or None
        Source of randomness; trial k has its own stream.
    ridge : float
        λ > 0 in (1/N)‖y − X b‖² + λ‖b‖², for "ridge".
    classifier : "ridge", "centroid" or "component"
        b is that minimiser; Xᵀy/N; or the leading unit eigenvector of the sample covariance,
        with the sign that agrees with more labels of the training set.
    n_test : int
        Number of test sequences in each trial.
    n_jobs, progress
        As in `simulate`.

    Returns
    -------
    Accuracy
        Every field an array of shape (n_trials, … as the signal norm). Over the test set:
        accuracy that of the sign of x·b as an answer for the label y; mean_squared_error the
        mean of (y − x·b)²; signal_gain the slope A of the regression of x·b on the gain w·s
        (no intercept); noise_variance the mean of (x·b − A w·s)².

    Examples
    --------
    >>> import attnlaw as al
    >>> model = al.PooledSequences(
    ...     vocab_ratio=0.5, sample_ratio=0.25, signal_norm=5.0,
    ...     correlation=al.prefix_correlation(4, 2), weights=[0.5, 0.5, 0, 0])
    >>> al.simulate_accuracy(model, 50, rng=0, ridge=0.1).accuracy.round(2)
    array([1.])
    """
    tokens_alike(model, "an accuracy")
    choice("classifier", classifier, CLASSIFIERS)
    if ridge is None and classifier == "ridge":
        raise invalid_argument("ridge", "given for classifier='ridge'", ridge)
    if classifier == "component" and not model.centred:
        raise invalid_argument("model", "centred for classifier='component'", model.centred)
    lam = float(np.asarray(real("ridge", 1.0 if ridge is None else ridge, above=0)))
    n_test, n_jobs = count("n_test", n_test), count("n_jobs", n_jobs)
    d = model.sizes(dimension).dimension
    test_bytes = 24 * n_test * model.length
    check_memory(n_jobs * (reference_memory(model, d) + test_bytes), d)
    trial = partial(_accuracy_trial, model, d, lam, classifier, n_test)
    trials = run_trials(trial, n_trials, rng, n_jobs=n_jobs, progress=progress)
    return Accuracy(
        **{f.name: np.stack([getattr(x, f.name) for x in trials]) for f in fields(Accuracy)}
    )


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
        table = sample.table
        if self.tokens.size:
            each_token = table @ b + norm * b[0] * token_classes(len(table))
            return pool(each_token, self.tokens, model.weights)
        spread = (
            np.linalg.norm(table @ b) / np.sqrt(len(table)) if len(table) else np.linalg.norm(b)
        )
        return np.asarray(
            norm * b[0] * self.gains + np.sqrt(model.noise_gain) * spread * self.normals
        )


def _sample_test(
    model: PooledSequences, sample: PooledSample, n_test: int, rng: np.random.Generator
) -> _TestSet:
    signs = sample_signs(model.correlation, n_test, rng)
    tokens, normals = np.empty((0, 0), dtype=np.int32), np.empty(0)
    if sample.tokens.size:
        tokens = sample_tokens(signs, len(sample.table), rng)
    else:
        normals = rng.standard_normal(n_test)
    return _TestSet(
        labels=signs[:, 0].astype(np.float64),
        gains=signs @ model.weights,
        tokens=tokens,
        normals=normals,
    )


def _direction(X: Floats, y: Floats, ridge: float, classifier: str) -> Floats:
    """Return b, whose product with a sequence is its score."""
    if classifier == "ridge":
        return ridge_coefficients(X, y, ridge)
    if classifier == "centroid":
        return np.asarray(y @ X / len(X))
    u = leading_eigenpairs(covariance(X, centred=True))[1][0]
    return np.asarray(u * np.sign(np.sum(np.sign(X @ u) * y) or 1.0))


def _accuracy_trial(
    model: PooledSequences,
    dimension: int,
    ridge: float,
    classifier: str,
    n_test: int,
    rng: np.random.Generator,
) -> Accuracy:
    """Fit and test once, at every signal norm with the same draws."""
    sample = sample_pooled(model, dimension, rng)
    test = _sample_test(model, sample, n_test, rng)
    y, t = test.labels, test.gains
    rows = []
    norms = np.asarray(model.signal_norm)
    for norm in norms.ravel():
        X = sample.pooled(norm)
        centre = X.mean(axis=0) if model.centred else np.zeros(dimension)
        b = _direction(X - centre, sample.signs[:, 0].astype(np.float64), ridge, classifier)
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
