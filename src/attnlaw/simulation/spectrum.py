"""Covariances, their eigenvalues and leading eigenvectors, and overlaps, by plain computation."""

import numpy as np
from scipy.linalg import eigh

from attnlaw._checks import Floats
from attnlaw.models import PooledSequences
from attnlaw.simulation.pooled import PooledSample, class_means, split_classes

__all__ = [
    "bulk_noise",
    "covariance",
    "eigenvalues",
    "leading_eigenpairs",
    "population_covariance",
    "squared_overlap",
]


def covariance(pooled: Floats, *, centred: bool) -> Floats:
    """Return S = XᵀX/N, after subtracting the sample mean if `centred`.

    Examples
    --------
    >>> covariance(np.array([[1.0, 0.0], [3.0, 0.0]]), centred=True)
    array([[1., 0.],
           [0., 0.]])
    """
    X = pooled - pooled.mean(axis=0) if centred else pooled
    return np.asarray(X.T @ X / len(X))


def population_covariance(model: PooledSequences, table: Floats, signal_norm: float) -> Floats:
    """Return the covariance that pooled sequences from this very table have.

    Parameters
    ----------
    model : PooledSequences
        Its sampling, centring, weights and correlation.
    table : array of shape (V, d)
        The noise Z of the table; V = 0 stands for an infinite vocabulary.
    signal_norm : float
        ‖μ‖, along the first coordinate.

    Returns
    -------
    array of shape (d, d)
        E[x xᵀ | table], without E[x | table] E[x | table]ᵀ if the model is centred.

    Notes
    -----
    No limit is taken: docs/theory/pooled-covariance.md, "Derivation".

    With the class split z_v = z̄ + c_v m + (Z_⊥)_v:

        token       C = κ Z_⊥ᵀZ_⊥/V + α (μ+m)(μ+m)ᵀ + (Σw)² z̄ z̄ᵀ     (last term if not centred)
        gaussian    C = κ ZᵀZ/V + α μμᵀ
        V = ∞       C = κ I + α μμᵀ
    """
    V, d = table.shape
    alpha, kappa = model.signal_gain, model.noise_gain
    mu = signal_norm * np.eye(d)[0]
    if V == 0:
        return kappa * np.eye(d) + alpha * np.outer(mu, mu)
    if model.sampling == "gaussian":
        return np.asarray(kappa * (table.T @ table) / V + alpha * np.outer(mu, mu))
    within, mean, difference = split_classes(table)
    C = kappa * (within.T @ within) / V + alpha * np.outer(mu + difference, mu + difference)
    if not model.centred:
        C += model.weights.sum() ** 2 * np.outer(mean, mean)
    return np.asarray(C)


def bulk_noise(model: PooledSequences, sample: PooledSample) -> Floats:
    """Return the pooled noise without any spike: class-centred tokens.

    Notes
    -----
    M Z_⊥ = X₀ − (Σw) 1 z̄ᵀ − t mᵀ: its population covariance is κ Z_⊥ᵀZ_⊥/V, the bulk and
    nothing else. Noise that is not drawn token by token has no spike to begin with.
    """
    if not sample.tokens.size:
        return sample.noise
    mean, difference = class_means(sample.table)
    X = sample.noise - model.weights.sum() * mean
    X -= np.outer(sample.gains, difference)
    return np.asarray(X)


def eigenvalues(matrix: Floats) -> Floats:
    """Return all eigenvalues of a symmetric matrix, in ascending order."""
    return np.asarray(eigh(matrix, eigvals_only=True, check_finite=False))


def leading_eigenpairs(matrix: Floats, n_pairs: int = 1) -> tuple[Floats, Floats]:
    """Return the largest eigenvalues and their unit eigenvectors (rows), largest first.

    Examples
    --------
    >>> values, vectors = leading_eigenpairs(np.diag([1.0, 3.0, 2.0]), 2)
    >>> values, np.abs(vectors[0])
    (array([3., 2.]), array([0., 1., 0.]))
    """
    d = len(matrix)
    values, vectors = eigh(matrix, subset_by_index=[d - n_pairs, d - 1], check_finite=False)
    return values[::-1], vectors.T[::-1]


def squared_overlap(first: Floats, second: Floats) -> Floats:
    """Return (a·b)²/(‖a‖²‖b‖²) of vectors along the last axis.

    Examples
    --------
    >>> float(squared_overlap(np.array([1.0, 0.0]), np.array([2.0, 2.0])))
    0.5
    """
    dot = np.sum(first * second, axis=-1)
    return np.asarray(dot**2 / (np.sum(first**2, axis=-1) * np.sum(second**2, axis=-1)))
