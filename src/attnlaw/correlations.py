r"""Positional correlations: how the signs at the positions of a sequence move together.

A sequence of length L carries signs s ∈ {±1}^L with E[s] = 0 and E[s sᵀ] = R. Here are the
usual R; any symmetric positive semi-definite matrix with a unit diagonal does as well.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnlaw._checks import choice, count, invalid_argument, real_array
from attnlaw._machine import require_memory

__all__ = [
    "KINDS",
    "autoregressive_correlation",
    "by_name",
    "check_correlation",
    "nearest_correlation",
    "prefix_correlation",
    "spiked_correlation",
]


def prefix_correlation(length: int, prefix: int, within: float = 1.0) -> NDArray[np.float64]:
    """Correlate the first `prefix` positions with each other; leave the rest independent.

    Parameters
    ----------
    length : int
        Sequence length L.
    prefix : int
        Number of correlated positions p, from 0 to L.
    within : float
        Correlation r inside the prefix, from 0 to 1.

    Returns
    -------
    array of shape (length, length)
        R with R_ll' = r for l ≠ l' ≤ p, and the identity elsewhere. Its largest eigenvalue, the
        best SNR, is 1 + (p−1) r (docs/theory/weights.md, "Which positions move together").

    Examples
    --------
    >>> prefix_correlation(3, prefix=2, within=0.5)
    array([[1. , 0.5, 0. ],
           [0.5, 1. , 0. ],
           [0. , 0. , 1. ]])
    """
    L, p = _checked_length(length), count("prefix", prefix, at_least=0)
    if p > L:
        raise invalid_argument("prefix", f"at most the length {L}", prefix)
    r = float(real_array("within", within, ndim=0))
    if not 0 <= r <= 1:
        raise invalid_argument("within", "between 0 and 1", within)
    R = np.eye(L)
    R[:p, :p] += r * (1 - np.eye(p))
    return R


def spiked_correlation(strength: float, direction: ArrayLike) -> NDArray[np.float64]:
    """Correlate positions along one direction: I + η q qᵀ, rescaled to a unit diagonal.

    Parameters
    ----------
    strength : float
        Spike strength η ≥ 0.
    direction : array of shape (length,)
        Direction q with any signs and support; it is normalised to ‖q‖ = 1.

    Returns
    -------
    array of shape (length, length)
        R_ll' = (I + η q qᵀ)_ll' / √((1 + η q_l²)(1 + η q_l'²))
        (docs/theory/weights.md, "Which positions move together").

    Examples
    --------
    Without strength there is no correlation:

    >>> spiked_correlation(0.0, [1, 1])
    array([[1., 0.],
           [0., 1.]])
    """
    q = real_array("direction", direction, ndim=1)
    eta = float(real_array("strength", strength, ndim=0))
    if eta < 0:
        raise invalid_argument("strength", "at least 0", strength)
    if not q.any():
        raise invalid_argument("direction", "different from zero", direction)
    q = q / np.abs(q).max()
    q = q / np.linalg.norm(q)
    scale = 1 / np.sqrt(1 + eta * q**2)
    R = eta * np.outer(q * scale, q * scale)
    np.fill_diagonal(R, 1.0)
    return R


def autoregressive_correlation(length: int, coefficient: float) -> NDArray[np.float64]:
    """Let the correlation decay with distance: R_ll' = a to the power of the distance.

    Parameters
    ----------
    length : int
        Sequence length L.
    coefficient : float
        Correlation a of neighbouring positions, from −1 to 1.

    Examples
    --------
    >>> autoregressive_correlation(3, 0.5)
    array([[1.  , 0.5 , 0.25],
           [0.5 , 1.  , 0.5 ],
           [0.25, 0.5 , 1.  ]])
    """
    L = _checked_length(length)
    a = float(real_array("coefficient", coefficient, ndim=0))
    if not -1 <= a <= 1:
        raise invalid_argument("coefficient", "between -1 and 1", coefficient)
    distance = np.abs(np.subtract.outer(np.arange(L), np.arange(L)))
    return np.asarray(a**distance, dtype=np.float64)


def check_correlation(correlation: ArrayLike) -> NDArray[np.float64]:
    """Return a user's correlation matrix, checked: square, unit diagonal, symmetric, PSD."""
    R = real_array("correlation", correlation, ndim=2)
    if R.shape[0] != R.shape[1] or R.size == 0:
        raise invalid_argument("correlation", "a square matrix", R)
    if not np.allclose(np.diag(R), 1, rtol=0, atol=1e-10):
        raise invalid_argument("correlation", "a matrix with a unit diagonal", np.diag(R).tolist())
    asymmetry = float(np.abs(R - R.T).max())
    if asymmetry > 1e-10:
        raise invalid_argument(
            "correlation", "symmetric to 1e-10", f"an asymmetry of {asymmetry:.3g}"
        )
    smallest = float(np.linalg.eigvalsh(R)[0])
    if smallest < -1e-10 * len(R):
        raise invalid_argument(
            "correlation", "positive semi-definite", f"a smallest eigenvalue of {smallest:.3g}"
        )
    return R


def nearest_correlation(matrix: ArrayLike) -> NDArray[np.float64]:
    """Return the positive semi-definite matrix with unit diagonal that is closest to a matrix.

    Parameters
    ----------
    matrix : array of shape (length, length)
        Symmetric.

    Returns
    -------
    array of shape (length, length)
        R that minimises ‖R − matrix‖ in the Frobenius norm.

    Notes
    -----
    Higham's alternating projections on positive semi-definite matrices and on those with a unit
    diagonal, with Dykstra's correction; they converge linearly.

    Examples
    --------
    A matrix that is a correlation stays; one that is none moves as little as it can.

    >>> bool(np.allclose(nearest_correlation([[1, 0.5], [0.5, 1]]), [[1, 0.5], [0.5, 1]]))
    True
    >>> nearest_correlation([[1, 1, 0], [1, 1, 1], [0, 1, 1]]).round(3)
    array([[1.   , 0.761, 0.157],
           [0.761, 1.   , 0.761],
           [0.157, 0.761, 1.   ]])
    """
    A = real_array("matrix", matrix, ndim=2)
    if A.shape[0] != A.shape[1] or not np.allclose(A, A.T):
        raise invalid_argument("matrix", "symmetric", A)
    X, correction = A, np.zeros_like(A)
    for _ in range(1000):
        shifted = X - correction
        values, vectors = np.linalg.eigh(shifted)
        Y = (vectors * np.maximum(values, 0)) @ vectors.T
        correction, before, X = Y - shifted, X, Y.copy()
        np.fill_diagonal(X, 1.0)
        if np.abs(X - before).max() < 1e-12:
            break
    values, vectors = np.linalg.eigh(X)
    R = (vectors * np.maximum(values, 0)) @ vectors.T  # what rounding left below 0
    scale = np.sqrt(np.diag(R))
    return np.asarray(R / np.outer(scale, scale))


def _checked_matrix(matrix: ArrayLike) -> NDArray[np.float64]:
    return check_correlation(matrix)


KINDS: Mapping[str, Callable[..., NDArray[np.float64]]] = {
    "prefix": prefix_correlation,
    "autoregressive": autoregressive_correlation,
    "spiked": spiked_correlation,
    "matrix": _checked_matrix,
}


def by_name(kind: str, **parameters: Any) -> NDArray[np.float64]:
    """Return the correlation of a kind.

    Parameters
    ----------
    kind : "prefix", "autoregressive", "spiked" or "matrix"
        `prefix_correlation` and so on; a matrix is checked.
    **parameters
        Arguments of that function; ``matrix`` of a matrix.

    Examples
    --------
    >>> by_name("prefix", length=3, prefix=2, within=0.5)
    array([[1. , 0.5, 0. ],
           [0.5, 1. , 0. ],
           [0. , 0. , 1. ]])
    """
    return KINDS[choice("correlation.kind", kind, tuple(KINDS))](**parameters)


def _checked_length(length: int) -> int:
    """Return the length of a sequence whose L×L correlations fit in memory a few times over."""
    L = count("length", length)
    require_memory(4 * 8 * L * L, "length", length, "correlations")
    return L
