"""Covariance of pooled sequences, one block at a time: N is limited by disk, not by memory.

The pooled embedding of a sequence is x_i = Σ_l w_l e_il; wanted are the mean x̄ and the
covariance S = (1/N) Σ (x_i − x̄)(x_i − x̄)ᵀ of a corpus that does not fit in memory. Each block
of sequences is pooled, centred by its own mean and added by the update of Chan, Golub and
LeVeque (1983), which is stable however large the mean is. Data may be an array in memory, a
memory map (float32 stays float32 on disk), or a Dask array.

`CovarianceAccumulator` holds mean and covariance of the rows that have arrived.
"""

import copy
import math
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from attnlaw._checks import count, invalid_argument, look_at_part
from attnlaw._machine import require_memory
from attnlaw.data.user_arrays import Pooling, array, converted, is_by_position

__all__ = [
    "CovarianceAccumulator",
    "PooledCovariance",
    "pooled_covariance",
    "precision",
    "token_covariance",
]

BLOCK_BYTES = 2**25  # of float64 numbers held at a time: small enough to stay near the cache
TABLE_BYTES = 2**28  # a table up to this size is converted once, a larger one row by row


@dataclass(frozen=True, kw_only=True)
class PooledCovariance:
    """Mean and covariance of pooled sequences."""

    mean: NDArray[np.float64]  # x̄, shape (dimension,)
    covariance: NDArray[np.float64]  # S, shape (dimension, dimension)
    n_samples: int  # N

    def __repr__(self) -> str:
        d, N = len(self.mean), self.n_samples
        return f"PooledCovariance(mean=<{d} values>, covariance=<{d}×{d}>, n_samples={N})"


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
        if not np.diag(M).any() and X.any():
            raise invalid_argument(
                "rows", f"large enough for their squares to be {self._dtype}", X
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


def pooled_covariance(
    embeddings: Any,
    weights: ArrayLike | None = None,
    *,
    mask: Any = None,
    lengths: ArrayLike | None = None,
    centred: bool = True,
    block_size: int | None = None,
    dtype: DTypeLike = np.float64,
) -> PooledCovariance:
    """Covariance of pooled token embeddings, read once and block by block.

    Parameters
    ----------
    embeddings : array of shape (n_samples, length, dimension) or (n_samples, dimension)
        In memory, a memory map (``np.load(path, mmap_mode="r")``), or a Dask array, which is
        worked on chunk by chunk where its chunks are. Of any real type and in any order of the
        axes; a Fortran-ordered file is read position by position, as it lies. Two axes: rows
        that are pooled already.
    weights : array of shape (length,) or (n_samples, length), optional
        Pooling weights w, common or of each sequence; the mean of the positions if left out.
    mask : array of bool of shape (n_samples, length), optional
        True where there is a token. The weights that remain in a sequence are rescaled to the
        same Σ|w|, so that the mean of the positions becomes the mean of the tokens.
    lengths : array of int of shape (n_samples,), optional
        The same for sequences padded at the end: the number of their tokens, at least 1.
    centred : bool
        Subtract the mean; otherwise the second moment (1/N) Σ x xᵀ is given.
    block_size : int, optional
        Sequences held at a time; the default holds 32 MiB of tokens.
    dtype : float64 or float32
        Precision of the products inside a block (see `CovarianceAccumulator`).

    Returns
    -------
    PooledCovariance
        Mean, covariance and number of sequences.

    Examples
    --------
    >>> tokens = np.random.default_rng(0).standard_normal((1000, 20, 3)).astype(np.float32)
    >>> blocked = pooled_covariance(tokens, block_size=64).covariance
    >>> np.allclose(blocked, np.cov(tokens.mean(axis=1, dtype=float).T, bias=True), atol=1e-12)
    True
    """
    embeddings = array("embeddings", embeddings, (2, 3), "fiu")
    if mask is None and lengths is None:  # padding may hold anything
        look_at_part("embeddings", embeddings)
    if embeddings.ndim == 2:
        for name, value in (("weights", weights), ("mask", mask), ("lengths", lengths)):
            if value is not None:
                raise invalid_argument(
                    name, "left out when the embeddings are pooled already", value
                )
        pooling = None
    else:
        pooling = Pooling(embeddings.shape[:2], weights, mask, lengths)
    by_position = is_by_position(embeddings)
    size = _block_size(block_size, math.prod(embeddings.shape[2 if by_position else 1 :]))
    return _over_chunks(embeddings, None, pooling, size, dtype).result(centred=centred)


def token_covariance(
    tokens: Any,
    table: Any,
    weights: ArrayLike | None = None,
    *,
    mask: Any = None,
    lengths: ArrayLike | None = None,
    centred: bool = True,
    block_size: int | None = None,
    dtype: DTypeLike = np.float64,
) -> PooledCovariance:
    """Covariance of pooled sequences given as token ids and a table of embeddings.

    The tokens of a block meet the table in one product with the sparse matrix of their
    weights, X = M E: the tokens' embeddings are never laid out one after the other.

    Parameters
    ----------
    tokens : array of int of shape (n_samples, length)
        Rows of the table; in memory, a memory map or a Dask array. Where the mask is False
        any number may stand.
    table : array of shape (n_vocab, dimension)
        Embeddings of the tokens, in memory or a memory map, of any real type. Of a table
        beyond 256 MiB only the rows that a block needs are read.
    weights, mask, lengths, centred, block_size, dtype
        As in `pooled_covariance`.

    Returns
    -------
    PooledCovariance
        Mean, covariance and number of sequences.

    Examples
    --------
    Two sequences of two tokens each, mean-pooled to (1/2, 1/2) and (0, 1):

    >>> token_covariance([[0, 1], [1, 1]], np.eye(2)).mean
    array([0.25, 0.75])
    """
    tokens = array("tokens", tokens, (2,), "iu")
    table = array("table", table, (2,), "fiu")
    pooling = Pooling(tokens.shape, weights, mask, lengths)
    kind = precision(dtype)
    (_, L), (V, d) = tokens.shape, table.shape
    if V * d * kind.itemsize <= TABLE_BYTES:
        table = np.ascontiguousarray(table, dtype=kind)
        size = _block_size(block_size, 2 * d + 4 * L)
    else:
        size = _block_size(block_size, L * d)
    return _over_chunks(tokens, table, pooling, size, dtype).result(centred=centred)


def _block_size(block_size: int | None, numbers_each: int) -> int:
    """Sequences to hold at a time."""
    if block_size is not None:
        return count("block_size", block_size)
    return max(1, BLOCK_BYTES // (8 * numbers_each))


def _accumulate(
    data: Any, table: Any, pooling: Pooling | None, size: int, dtype: DTypeLike, first: int = 0
) -> CovarianceAccumulator:
    """Pool block by block: embeddings, or token ids if there is a table."""
    accumulator = CovarianceAccumulator((data if table is None else table).shape[-1], dtype)
    for start in range(0, len(data), size):
        rows = slice(start, min(start + size, len(data)))
        block = data[rows]
        with np.errstate(invalid="ignore", over="ignore"):
            if pooling is None:
                X = np.asarray(block)
            elif table is None:
                X = pooling.of_embeddings(block, rows)
            else:
                X = pooling.of_tokens(np.asarray(block), table, rows, precision(dtype))
            finite = np.isfinite(X).all(axis=1)
        if not finite.all():
            k = int(np.argmin(finite))
            raise _not_finite(data[start + k], table, pooling, start + k, first)
        accumulator.add(X)
    return accumulator


def _not_finite(
    sequence: Any, table: Any, pooling: Pooling | None, k: int, first: int
) -> ValueError:
    """Return the sentence about the k-th sequence here, which is pooled to NaN or infinity."""
    where = f"NaN or infinity in row {first + k}"
    if pooling is not None and not np.isfinite(pooling.rows(slice(k, k + 1))).all():
        return invalid_argument("weights", "finite", where)
    if table is None:
        return invalid_argument("embeddings", "finite", where)
    tokens = [t for t in np.asarray(sequence).tolist() if 0 <= t < len(table)]
    token = next((t for t in tokens if not np.isfinite(table[t]).all()), None)
    return invalid_argument("table", "finite", f"NaN or infinity in row {token}")


def _over_chunks(
    data: Any, table: Any, pooling: Pooling | None, size: int, dtype: DTypeLike
) -> CovarianceAccumulator:
    """Accumulate over the data; over the chunks of a Dask array, each where it is."""
    if not hasattr(data, "__dask_graph__"):
        return _accumulate(data, table, pooling, size, dtype)
    from dask.delayed import delayed

    chunked = data.rechunk(dict.fromkeys(range(1, data.ndim), -1))
    shared_table = None if table is None else delayed(table)
    accumulators = []
    stop = 0
    for chunk, n in zip(chunked.to_delayed().ravel(), chunked.chunks[0], strict=True):
        start, stop = stop, stop + n
        part = None if pooling is None else pooling.part(slice(start, stop))
        first = 0 if np.isnan(start) else start
        accumulators.append(
            delayed(_accumulate_chunk)(chunk, shared_table, part, size, dtype, first)
        )
    while len(accumulators) > 1:  # a tree, so that few partial covariances are alive at a time
        pairs = zip(accumulators[::2], accumulators[1::2], strict=False)
        left = accumulators[len(accumulators) - len(accumulators) % 2 :]
        accumulators = [delayed(_merged)(a, b) for a, b in pairs] + left
    total: CovarianceAccumulator = accumulators[0].compute()
    return total


def _accumulate_chunk(
    data: NDArray[Any],
    table: Any,
    part: tuple[Any, Any, Any] | None,
    size: int,
    dtype: DTypeLike,
    first: int,
) -> CovarianceAccumulator:
    pooling = None if part is None else Pooling((data.shape[0], data.shape[1]), *part, first)
    return _accumulate(data, table, pooling, size, dtype, first)


def _merged(a: CovarianceAccumulator, b: CovarianceAccumulator) -> CovarianceAccumulator:
    both = copy.deepcopy(a)  # a task may be run again, so it leaves what it was given alone
    both.merge(b)
    return both
