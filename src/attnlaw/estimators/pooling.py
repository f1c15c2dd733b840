"""Pool sequences of any kind: positions, tokens and pooled vectors, as `AttentionPooling` does.

A pooled vector is x_i = Σ_l u_il T_il with u_il ∝ w_l g_v(i,l), or the maximum of the tokens, or
both; then x → (x − m)(1 − UUᵀ)(C + sλ̄)^(−1/2). The four choices are the weights w of the
positions, the importance g of the tokens, the number of leading components U removed, and the
shrinkage s of the whitening.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnlaw._checks import Floats, choice, invalid_argument, real_array, refuse_extremes
from attnlaw.data.corpus_statistics import CorpusStatistics
from attnlaw.data.pooled_tokens import sequences_with_token
from attnlaw.data.sequences import Sequences
from attnlaw.data.user_arrays import as_sequences, remaining_weights
from attnlaw.weights import BY_LENGTH, by_name

__all__ = [
    "POOLINGS",
    "TOKEN_WEIGHTS",
    "PostProcessing",
    "RowSpectrum",
    "max_scale",
    "pool",
    "pool_sequences",
    "position_weights",
    "token_importance",
    "weigh_tokens",
    "weights_where_present",
]

Rows = NDArray[Any]  # float32 stays float32

POSITIONS = (*BY_LENGTH, "first", "late")
POOLINGS = (*POSITIONS, "max", "mean+max")
TOKEN_WEIGHTS = ("uniform", "sif", "idf")

OVERSAMPLED, N_ITERATIONS = 6, 8  # of subspace iteration
MAX_SHARE = 0.5  # standard deviation of the maximum beside that of the mean in "mean+max"


def pool_sequences(
    sequences: Any,
    weights: str | ArrayLike = "mean",
    *,
    table: ArrayLike | None = None,
    mask: Any = None,
    lengths: Any = None,
) -> Rows:
    """Pool each sequence to one vector, x_i = Σ_l w_il T_il.

    Parameters
    ----------
    sequences : array of shape (N, length, d), or of int and shape (N, length)
        Embeddings; or rows of `table`, negative where there is no token. Lists of unequal length
        and torch tensors are accepted, too.
    weights : str or array of shape (length,)
        "mean", "causal", "last", "first" or "late" (w_l ∝ l): those of each sequence's own
        tokens. "max": the largest value of each coordinate; "mean+max": both side by side. An
        array weighs positions; where some of them hold no token, the weights that remain are
        rescaled to the same Σ|w|.
    table : array of shape (V, d), optional
        Embeddings of the tokens.
    mask : array of bool or int and shape (N, length), optional
        True or 1 where there is a token.
    lengths : array of int and shape (N,), optional
        The same for sequences padded at the end.

    Returns
    -------
    array of shape (N, d), or (N, 2d) for "mean+max"
        In float32 if the embeddings are, otherwise in float64.

    Examples
    --------
    >>> tokens = np.array([[[1.0], [3.0]], [[5.0], [np.nan]]])
    >>> pool_sequences(tokens, "mean", lengths=[2, 1])
    array([[2.],
           [5.]])
    >>> pool_sequences([[[1.0], [3.0]], [[5.0]]], "mean+max")
    array([[2., 3.],
           [5., 5.]])
    """
    return pool(as_sequences(sequences, table, mask=mask, lengths=lengths), weights)


def pool(
    data: Sequences,
    weights: str | ArrayLike,
    importance: Floats | None = None,
    *,
    scale: float = 1.0,
) -> Rows:
    """Return the pooled sequences; `importance` (N, L) is that of each token.

    The importance enters averages; a maximum takes the tokens as they are. `scale` multiplies
    the maximum in "mean+max".
    """
    if isinstance(weights, str) and weights == "max":
        return data.maximum.copy()
    both = isinstance(weights, str) and weights == "mean+max"
    if isinstance(weights, str) and not both:
        choice("weights", weights, POOLINGS)
    if not isinstance(weights, str) and np.ndim(weights) == 2:
        w = real_array("weights", weights)
        if w.shape != data.shape[:2]:
            raise invalid_argument("weights", f"of shape {data.shape[:2]}", w)
    else:
        w = position_weights("mean" if both else weights, data.shape[1], data.mask)
    refuse_extremes("weights", np.abs(w).max())
    averages = data.pool(w if importance is None else weigh_tokens(w, importance))
    if not both:
        return averages
    largest = data.maximum
    return np.hstack([averages, largest * largest.dtype.type(scale)])


def max_scale(pooled: Rows) -> float:
    """Return the factor of the maximum in vectors pooled by "mean+max" with scale 1.

    Half of the ratio of the standard deviations: with equal parts, a classifier of the vectors
    would be regularised by the less informative part.
    """
    d = pooled.shape[1] // 2
    total = np.sqrt(np.sum(np.var(pooled, axis=0, dtype=np.float64).reshape(2, d), axis=1))
    return float(MAX_SHARE * total[0] / total[1]) if total.all() else 1.0


def position_weights(
    weights: str | ArrayLike, length: int, mask: NDArray[np.bool_] | None = None
) -> Floats:
    """Return weights as an array: (L,) if no token is missing, otherwise (N, L) as the mask.

    Examples
    --------
    >>> position_weights("late", 3).round(3)
    array([0.167, 0.333, 0.5  ])
    """
    L = length
    if isinstance(weights, str):
        name = choice("weights", weights, POSITIONS)
        if mask is None:
            return _named(name, L)
        each = np.zeros(mask.shape)
        n_tokens = mask.sum(axis=1)
        for n in np.unique(n_tokens):
            some = n_tokens == n
            rank = np.cumsum(mask[some], axis=1) - 1  # of each token among those present
            each[some] = np.where(mask[some], _named(name, int(n))[rank], 0)
        return each
    w = real_array("weights", weights, ndim=1)
    if len(w) != L:
        raise invalid_argument("weights", f"of length {L}, like the sequences", w)
    if not w.any():
        raise invalid_argument("weights", "different from zero", w.tolist())
    if mask is None:
        return w
    return remaining_weights(w, mask)


def weights_where_present(weights: Floats, mask: NDArray[np.bool_]) -> Floats:
    """Return weights of positions (N, L); the mean's for a sequence with no token under them.

    Examples
    --------
    >>> weights_where_present(np.array([0.0, 1.0]), np.array([[True, True], [True, False]]))
    array([[0., 1.],
           [1., 0.]])
    """
    lost = ~(mask & (weights != 0)).any(axis=1)
    each = np.empty(mask.shape)
    each[lost] = position_weights("mean", len(weights), mask[lost])
    each[~lost] = position_weights(weights, len(weights), mask[~lost])
    return each


def _named(name: str, length: int) -> Floats:
    """Return the weights of a name; one token has all of the weight."""
    if name == "first":
        return np.asarray(np.eye(1, length)[0])
    if name == "late":
        return np.arange(1.0, length + 1) * (2 / (length * (length + 1)))
    return by_name(name, length) if length > 1 else np.ones(length)


def weigh_tokens(weights: Floats, importance: Floats) -> Floats:
    """Multiply the weights of positions by the importance of their tokens, to the same Σ|w|.

    Examples
    --------
    >>> weigh_tokens(np.array([0.5, 0.5]), np.array([[1.0, 3.0], [0.0, 0.0]]))
    array([[0.25, 0.75],
           [0.5 , 0.5 ]])
    """
    w = np.broadcast_to(weights, importance.shape)
    product = w * importance
    left = np.abs(product).sum(axis=1, keepdims=True)
    total = np.abs(w).sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(left > 0, product * (total / left), w))


def token_importance(
    name: str,
    tokens: NDArray[np.integer[Any]],
    mask: NDArray[np.bool_] | None,
    n_tokens: int,
    *,
    smoothing: float = 1e-3,
    corpus: CorpusStatistics | None = None,
) -> Floats:
    """Return the importance g of V tokens from sequences in which they occur.

    Parameters
    ----------
    name : "uniform", "sif" or "idf"
        1; smooth inverse frequency a/(a + p_v), p_v the share of the text; smooth inverse
        document frequency 1 + log((1 + N)/(1 + n_v)), n_v the number of sequences with token v.
    tokens : array of int and shape (N, L)
        Ids from 0 to V − 1.
    mask : array of bool and shape (N, L), optional
        True where there is a token.
    n_tokens : int
        V.
    smoothing : float
        a > 0.
    corpus : CorpusStatistics, optional
        Counts of a larger corpus of the same tokens, to be used in place of these sequences'.

    Notes
    -----
    Smooth inverse frequency is optimal, and a is derived, in docs/theory/vocabulary.md, "The best
    token weights".

    Examples
    --------
    >>> tokens = np.array([[0, 0], [0, 1]])
    >>> token_importance("sif", tokens, None, 3, smoothing=0.25)
    array([0.25, 0.5 , 1.  ])
    """
    if choice("token_weights", name, TOKEN_WEIGHTS) == "uniform":
        return np.ones(n_tokens)
    if corpus is not None:
        N, counts, occurs_in = corpus.n_sequences, corpus.token_counts, corpus.document_counts
        more = max(0, n_tokens - len(counts))
        counts, occurs_in = np.pad(counts, (0, more)), np.pad(occurs_in, (0, more))
    else:
        ids = tokens if mask is None else np.where(mask, tokens, -1)
        N, counts = len(ids), np.bincount(ids[ids >= 0], minlength=n_tokens)
        occurs_in = (
            counts if name == "sif" else sequences_with_token(ids, n_tokens, compiled=False)
        )
    if name == "sif":
        return np.asarray(smoothing / (smoothing + counts / counts.sum()))
    return np.asarray(1 + np.log((1 + N) / (1 + occurs_in)))


@dataclass(frozen=True, kw_only=True)
class PostProcessing:
    """Post-processing of pooled vectors: x → (x − m)(1 − UᵀU) A."""

    mean: Floats | None = None  # m (d,); None: vectors are left as they are
    components: Floats | None = None  # U (k, d)
    matrix: Floats | None = None  # A (d, d)

    def apply(self, rows: Rows) -> Rows:
        """Return the vectors after processing, in their own precision."""
        if self.mean is None:
            return rows
        Z = rows - self.mean.astype(rows.dtype)
        if self.components is not None and len(self.components):
            U = self.components.astype(rows.dtype)
            Z -= (Z @ U.T) @ U
        return np.asarray(Z if self.matrix is None else Z @ self.matrix.astype(rows.dtype))


class RowSpectrum:
    """Mean and principal components of rows, from which post-processing is made."""

    def __init__(self, rows: Rows) -> None:
        self.n, self.dimension = rows.shape
        self.mean = rows.mean(axis=0, dtype=np.float64)
        self._centred = rows - self.mean.astype(rows.dtype)

    @cached_property
    def covariance(self) -> Floats:
        """C (d, d), in double precision."""
        X = self._centred
        return np.asarray((X.T @ X).astype(np.float64) / self.n)

    @cached_property
    def _eigen(self) -> tuple[Floats, Rows]:
        """Eigenvalues, falling, and vectors (d, rank)."""
        n, X = self.n, self._centred
        if n >= self.dimension:
            values, vectors = np.linalg.eigh((X.T @ X) / X.dtype.type(n))
            return np.maximum(values[::-1].astype(np.float64), 0.0), vectors[:, ::-1]
        X = X.astype(np.float64)  # vectors are made by division, which float32 does not survive
        values, vectors = np.linalg.eigh(X @ X.T / n)
        values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
        kept = values > 1e-10 * values[0]
        return values[kept], (X.T @ vectors[:, kept]) / np.sqrt(n * values[kept])

    def processing(
        self, n_removed: int | None, whitening: float | None, *, rotated: bool = False
    ) -> PostProcessing:
        """Return the processing that takes away components and whitens; None twice: none.

        (C + sλ̄)^(−1/2) = (sλ̄)^(−1/2) + V[(λ + sλ̄)^(−1/2) − (sλ̄)^(−1/2)]Vᵀ, times √λ̄ so that the
        scale of the vectors does not change; λ̄ is the mean eigenvalue. `rotated` takes the inverse
        of a Cholesky factor of C + sλ̄ instead, and components by subspace iteration: a tenth of
        the time, for vectors whose cosines are the same.
        """
        if n_removed is None and whitening is None:
            return PostProcessing()
        k = n_removed or 0
        if rotated:
            U = self._leading(k) if k else None
            A = None if whitening is None else self._inverse_factor(whitening)
            return PostProcessing(mean=self.mean, components=U, matrix=A)
        values, V = self._eigen if k or whitening is not None else (None, None)
        U = np.empty((0, self.dimension)) if V is None else V[:, :k].T
        if whitening is None or values is None or V is None:
            return PostProcessing(mean=self.mean, components=U)
        mean_value = max(float(values.sum()) / self.dimension, np.finfo(float).tiny)
        floor = whitening * mean_value
        inside = np.sqrt(mean_value / (values + floor))
        outside = 1 / np.sqrt(whitening)
        A = (V * (inside - outside).astype(V.dtype)) @ V.T
        A[np.diag_indices_from(A)] += V.dtype.type(outside)
        return PostProcessing(mean=self.mean, components=U, matrix=A)

    def _leading(self, k: int) -> Floats:
        """Return k leading eigenvectors (k, d), by subspace iteration with some more."""
        C = self.covariance
        some = np.random.default_rng(0).standard_normal((self.dimension, k + OVERSAMPLED))
        Q = np.linalg.qr(some)[0]
        for _ in range(N_ITERATIONS):
            Q = np.linalg.qr(C @ Q)[0]
        _, inner = np.linalg.eigh(Q.T @ C @ Q)
        return np.asarray((Q @ inner[:, ::-1][:, :k]).T)

    def _inverse_factor(self, whitening: float) -> Floats:
        """Return √λ̄ R^(−1) with RᵀR = C + sλ̄."""
        from scipy.linalg import cholesky
        from scipy.linalg.lapack import dtrtri

        mean_value = max(float(np.trace(self.covariance)) / self.dimension, np.finfo(float).tiny)
        shrunken = self.covariance.copy()
        shrunken[np.diag_indices_from(shrunken)] += whitening * mean_value
        inverse, _ = dtrtri(cholesky(shrunken, overwrite_a=True, check_finite=False))
        return np.asarray(np.sqrt(mean_value) * inverse)
