r"""Covariance of pooled sequences, one block at a time: N is limited by disk, not by memory.

The pooled embedding of a sequence is x_i = Σ_l w_l e_il; wanted are the mean x̄ and the
covariance S = (1/N) Σ (x_i − x̄)(x_i − x̄)ᵀ of a corpus that does not fit in memory. Each block
of sequences is pooled, centred by its own mean and added by the update of Chan, Golub and
LeVeque (1983), which is stable however large the mean is. Data may be an array in memory, a
memory map (float32 stays float32 on disk), or a Dask array.
"""

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from attnlaw._validation import complain, count, real_array

__all__ = [
    "CovarianceAccumulator",
    "PooledCovariance",
    "pooled_covariance",
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
        d = count("dimension", dimension)
        self._dtype = _precision(dtype)
        self._n = 0
        self._mean = np.zeros(d)
        self._scatter = np.zeros((d, d))

    def add(self, rows: ArrayLike) -> None:
        """Add a block of rows, an array of shape (n, dimension)."""
        X = np.asarray(rows)
        if X.ndim != 2 or X.shape[1] != len(self._mean):
            raise complain("rows", f"of shape (n, {len(self._mean)})", X)
        if len(X) == 0:
            return
        mean = X.mean(axis=0, dtype=np.float64)
        if not np.isfinite(mean).all():
            raise complain("rows", "finite", X)
        X = (X - mean).astype(self._dtype, copy=False)
        self._combine(len(X), mean, X.T @ X)

    def merge(self, other: "CovarianceAccumulator") -> None:
        """Add what another accumulator has seen."""
        if len(other._mean) != len(self._mean):
            raise complain("other", f"of dimension {len(self._mean)}", len(other._mean))
        if other._n:
            self._combine(other._n, other._mean, other._scatter)

    def _combine(self, n_b: int, m_b: NDArray[np.float64], M_b: NDArray[Any]) -> None:
        n_a, n = self._n, self._n + n_b
        delta = m_b - self._mean
        self._scatter += M_b
        if n_a:
            step = np.sqrt(n_a * n_b / n) * delta
            self._scatter += np.outer(step, step)  # symmetric to the last bit
        self._mean = self._mean + (n_b / n) * delta
        self._n = n

    def result(self, *, centred: bool = True) -> PooledCovariance:
        """Mean, covariance (second moment about zero if not centred) and number of rows."""
        if self._n == 0:
            raise complain("rows", "at least one before a result is asked for", 0)
        S = self._scatter / self._n
        if not centred:
            S += np.outer(self._mean, self._mean)
        return PooledCovariance(mean=self._mean.copy(), covariance=S, n_samples=self._n)


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
        worked on chunk by chunk where its chunks are. Two axes: rows that are pooled already.
    weights : array of shape (length,) or (n_samples, length), optional
        Pooling weights w, common or of each sequence; the mean of the positions if left out.
    mask : array of bool of shape (n_samples, length), optional
        True where there is a token. The weights that remain in a sequence are rescaled to the
        same Σ|w|, so that the mean of the positions becomes the mean of the tokens.
    lengths : array of int of shape (n_samples,), optional
        The same for sequences padded at the end: the number of their tokens.
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
    embeddings = _array("embeddings", embeddings, (2, 3), "fiu")
    if embeddings.ndim == 2:
        for name, value in (("weights", weights), ("mask", mask), ("lengths", lengths)):
            if value is not None:
                raise complain(name, "left out when the embeddings are pooled already", value)
        pooling = None
    else:
        pooling = Pooling(embeddings.shape[:2], weights, mask, lengths)
    size = _block_size(block_size, int(np.prod(embeddings.shape[1:])))
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
    tokens = _array("tokens", tokens, (2,), "iu")
    table = _array("table", table, (2,), "fiu")
    pooling = Pooling(tokens.shape, weights, mask, lengths)
    precision = _precision(dtype)
    (_, L), (V, d) = tokens.shape, table.shape
    if V * d * precision.itemsize <= TABLE_BYTES:
        table = np.ascontiguousarray(table, dtype=precision)
        size = _block_size(block_size, 2 * d + 4 * L)
    else:
        size = _block_size(block_size, L * d)
    return _over_chunks(tokens, table, pooling, size, dtype).result(centred=centred)


class Pooling:
    """Weights of the positions of each sequence, after the mask has been taken into account."""

    def __init__(
        self, shape: tuple[int, int], weights: Any = None, mask: Any = None, lengths: Any = None
    ) -> None:
        N, L = self.shape = shape
        w = np.full(L, 1 / L) if weights is None else weights
        w = real_array("weights", w) if np.ndim(w) == 1 else _array("weights", w, (2,), "fiu")
        if w.shape not in ((L,), (N, L)):
            raise complain("weights", f"of shape ({L},) or ({N}, {L})", w)
        if mask is not None and lengths is not None:
            raise complain("lengths", "left out when a mask is given", lengths)
        if mask is not None:
            mask = _array("mask", mask, (2,), "b")
            if mask.shape != (N, L):
                raise complain("mask", f"of shape ({N}, {L})", mask)
        if lengths is not None:
            lengths = _array("lengths", lengths, (1,), "iu")
            if lengths.shape != (N,) or lengths.min() < 0 or lengths.max() > L:
                raise complain("lengths", f"{N} whole numbers from 0 to {L}", lengths)
        self.weights, self.mask, self.lengths = w, mask, lengths

    @property
    def is_padded(self) -> bool:
        """Whether some positions hold no token, and so may hold anything."""
        return self.mask is not None or self.lengths is not None

    def part(self, rows: slice) -> tuple[Any, Any, Any]:
        """Weights, mask and lengths of some of the sequences, as the constructor takes them."""
        return (
            self.weights if self.weights.ndim == 1 else self.weights[rows],
            None if self.mask is None else self.mask[rows],
            None if self.lengths is None else self.lengths[rows],
        )

    def rows(self, rows: slice) -> NDArray[np.float64]:
        """Weights of some of the sequences, an array of shape (n, length)."""
        n, L = rows.stop - rows.start, self.shape[1]
        w = np.asarray(self.weights if self.weights.ndim == 1 else self.weights[rows], np.float64)
        if self.mask is not None:
            present = np.asarray(self.mask[rows])
        elif self.lengths is not None:
            present = np.arange(L) < self.lengths[rows, None]
        else:
            return np.broadcast_to(w, (n, L))
        kept = w * present
        left = np.abs(kept).sum(axis=1, keepdims=True)
        if not left.all():
            empty = rows.start + int(np.argmin(left))
            raise complain("mask or lengths", "such that weight remains", f"none in row {empty}")
        return np.asarray(kept * (np.abs(w).sum(axis=-1, keepdims=True) / left))

    def of_embeddings(self, block: NDArray[Any], rows: slice) -> NDArray[np.float64]:
        """Pool a block of embeddings of shape (n, length, dimension)."""
        w = self.rows(rows)
        if self.is_padded:
            block = np.where((w != 0)[..., None], block, 0)  # padding may hold anything
        return np.asarray(np.einsum("nl,nld->nd", w, block))

    def of_tokens(
        self, block: NDArray[Any], table: Any, rows: slice, dtype: np.dtype[Any]
    ) -> NDArray[Any]:
        """Pool a block of token ids of shape (n, length) through their table."""
        from scipy.sparse import csr_array

        w = self.rows(rows).astype(dtype)
        V, (n, L) = len(table), block.shape
        ids = np.where(w != 0, block, 0) if self.is_padded else block
        if ids.min() < 0 or ids.max() >= V:
            outside = int(ids.min() if ids.min() < 0 else ids.max())
            raise complain("tokens", f"rows of the table, from 0 to {V - 1}", outside)
        if table.dtype != dtype or not isinstance(table, np.ndarray):
            used, ids = np.unique(ids, return_inverse=True)
            table = np.asarray(table[used], dtype=dtype)
        M = csr_array((w.ravel(), ids.ravel(), np.arange(0, n * L + 1, L)), (n, len(table)))
        return np.asarray(M @ table)


def _array(argument: str, value: Any, ndim: tuple[int, ...], kinds: str) -> Any:
    """Return `value` as it is if it is an array (a memory map, a Dask array), checked."""
    array = value if hasattr(value, "dtype") else np.asarray(value)
    if array.dtype.kind not in kinds:
        words = {
            "fiu": "made of real numbers",
            "iu": "made of whole numbers",
            "b": "made of bools",
        }
        raise complain(argument, words[kinds], array.dtype.name)
    if array.ndim not in ndim or 0 in array.shape:
        axes = " or ".join(map(str, ndim))
        raise complain(argument, f"an array with {axes} axes, none of them empty", array)
    return array


def _precision(dtype: DTypeLike) -> np.dtype[Any]:
    """Return the type in which products are formed, checked."""
    if np.dtype(dtype) not in (np.float64, np.float32):
        raise complain("dtype", "float64 or float32", dtype)
    return np.dtype(dtype)


def _block_size(block_size: int | None, numbers_each: int) -> int:
    """Sequences to hold at a time."""
    if block_size is not None:
        return count("block_size", block_size)
    return max(1, BLOCK_BYTES // (8 * numbers_each))


def _accumulate(
    data: Any, table: Any, pooling: Pooling | None, size: int, dtype: DTypeLike
) -> CovarianceAccumulator:
    """Pool block by block: embeddings, or token ids if there is a table."""
    accumulator = CovarianceAccumulator((data if table is None else table).shape[-1], dtype)
    for start in range(0, len(data), size):
        rows = slice(start, min(start + size, len(data)))
        block = np.asarray(data[rows])
        with np.errstate(invalid="ignore", over="ignore"):
            if pooling is None:
                X = block
            elif table is None:
                X = pooling.of_embeddings(block, rows)
            else:
                X = pooling.of_tokens(block, table, rows, _precision(dtype))
            finite = bool(np.isfinite(X).all())
        if not finite:
            what = "embeddings" if table is None else "table"
            raise complain(what, "finite", f"NaN or infinity in rows {start} to {rows.stop - 1}")
        accumulator.add(X)
    return accumulator


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
        accumulators.append(delayed(_accumulate_chunk)(chunk, shared_table, part, size, dtype))
    while len(accumulators) > 1:  # a tree, so that few partial covariances are alive at a time
        pairs = zip(accumulators[::2], accumulators[1::2], strict=False)
        left = accumulators[len(accumulators) - len(accumulators) % 2 :]
        accumulators = [delayed(_merged)(a, b) for a, b in pairs] + left
    return accumulators[0].compute()  # type: ignore[no-any-return]


def _accumulate_chunk(
    data: NDArray[Any], table: Any, part: tuple[Any, Any, Any] | None, size: int, dtype: DTypeLike
) -> CovarianceAccumulator:
    pooling = None if part is None else Pooling((data.shape[0], data.shape[1]), *part)
    return _accumulate(data, table, pooling, size, dtype)


def _merged(a: CovarianceAccumulator, b: CovarianceAccumulator) -> CovarianceAccumulator:
    both = copy.deepcopy(a)  # a task may be run again, so it leaves what it was given alone
    both.merge(b)
    return both
