"""Mean and covariance of rows that arrive in blocks."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from attnlaw._checks import count, invalid_argument
from attnlaw._machine import require_memory
from attnlaw.data.masks import converted

__all__ = ["CovarianceAccumulator", "PooledCovariance", "precision"]


@dataclass(frozen=True, kw_only=True)
class PooledCovariance:
    """Mean and covariance of pooled sequences."""

    mean: NDArray[np.float64]  # x̄, shape (dimension,)
    covariance: NDArray[np.float64]  # S, shape (dimension, dimension)
    n_samples: int  # N


class CovarianceAccumulator:
    """Mean and covariance of rows that arrive in blocks, in any number and any order.

    Parameters
    ----------
    dimension : int
        Length d of a row.
    dtype : float64 or float32
        In what the products inside a block are formed; sums over blocks are always float64.
        float32 is up to twice as fast and good to about six digits.

    Notes
    -----
    Two sets of n_a and n_b rows with means m_a, m_b and scatters M_a, M_b together have

        m = m_a + (n_b/n) δ,   M = M_a + M_b + (n_a n_b/n) δ δᵀ,   δ = m_b − m_a.

    Examples
    --------
    >>> rows = np.arange(12.0).reshape(6, 2) ** 2
    >>> accumulator = CovarianceAccumulator(2)
    >>> accumulator.add(rows[:4])
    >>> accumulator.add(rows[4:])
    >>> np.allclose(accumulator.result().covariance, np.cov(rows.T, bias=True))
    True
    """

    def __init__(self, dimension: int, dtype: DTypeLike = np.float64) -> None:
        d = _checked_dimension(dimension)
        self._dtype = precision(dtype)
        # number, mean and scatter change together: an interrupt leaves all of them or none
        self._state = (0, np.zeros(d), np.zeros((d, d)))

    def add(self, rows: ArrayLike) -> None:
        """Add a block of rows, an array of shape (n, dimension)."""
        d = len(self._state[1])
        X = converted("rows", rows)
        if X.ndim != 2 or X.shape[1] != d:
            raise invalid_argument("rows", f"of shape (n, {d})", X)
        if len(X) == 0:
            return
        if X.dtype.kind not in "fiub":
            raise invalid_argument("rows", "made of real numbers", X.dtype.name)
        with np.errstate(over="ignore", invalid="ignore"):
            mean = X.mean(axis=0, dtype=np.float64)
            if not np.isfinite(mean).all():
                raise invalid_argument("rows", "finite", X)
            X = (X - mean).astype(self._dtype, copy=False)
            M = np.asarray(X.T @ X, dtype=np.float64)
        if not np.isfinite(np.diag(M)).all():  # where others overflow, so do these
            raise invalid_argument(
                "rows", f"small enough for their squares to be {self._dtype}", X
            )
        self._combine(len(X), mean, M)

    def merge(self, other: "CovarianceAccumulator") -> None:
        """Add what another accumulator has seen."""
        d, (n, mean, scatter) = len(self._state[1]), other._state
        if len(mean) != d:
            raise invalid_argument("other", f"of dimension {d}", len(mean))
        if n:
            self._combine(n, mean, scatter.copy())

    def _combine(self, n_b: int, m_b: NDArray[np.float64], M: NDArray[np.float64]) -> None:
        """Add rows of which these are number, mean and scatter; `M` is used up."""
        n_a, m_a, M_a = self._state
        n, delta = n_a + n_b, m_b - m_a
        M += M_a
        if n_a:
            step = np.sqrt(n_a * n_b / n) * delta
            M += np.outer(step, step)  # symmetric to the last bit
        self._state = (n, m_a + (n_b / n) * delta, M)

    def result(self, *, centred: bool = True) -> PooledCovariance:
        """Mean, covariance (second moment about zero if not centred) and number of rows."""
        n, mean, scatter = self._state
        if n == 0:
            raise invalid_argument("rows", "at least one before a result is asked for", 0)
        S = scatter / n
        if not centred:
            S += np.outer(mean, mean)
        return PooledCovariance(mean=mean.copy(), covariance=S, n_samples=n)


def precision(dtype: DTypeLike) -> np.dtype[Any]:
    """Return the type in which products are formed, checked."""
    with suppress(TypeError):
        if np.dtype(dtype) in (np.float64, np.float32):
            return np.dtype(dtype)
    raise invalid_argument("dtype", "float64 or float32", dtype)


def _checked_dimension(dimension: int) -> int:
    """Return the dimension of covariances that fit in memory a few times over."""
    d = count("dimension", dimension)
    require_memory(4 * 8 * d**2, "dimension", d, "covariances")
    return d
