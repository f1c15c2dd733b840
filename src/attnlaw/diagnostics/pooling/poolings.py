"""Poolings to choose from, applied to all sequences in one pass over the tokens.

Beside them: copies among the sequences, and several poolings at a time on threads.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnlaw._checks import Floats
from attnlaw._machine import n_cores, one_blas_thread
from attnlaw.data.sequences import Sequences, TokenSequences
from attnlaw.estimators.pooling import position_weights

__all__ = ["FIXED", "Rows", "Run", "copy_groups", "pool_all", "pooling_weights", "side_by_side"]

Rows = NDArray[np.float32]
Run = Callable[..., Iterable]  # type: ignore[type-arg]  # like `map`

WIDE = 1500  # dimensions from which BLAS itself makes good use of several processors
MOST_THREADS = 4  # each holds a copy of the pooled sequences
COMPARED = 8  # coordinates of every token in which sequences must agree to be copies

FIXED = ("mean", "last", "late", "causal")
"""Poolings that need no data: all tokens alike, the last, later ones more, causal attention."""


def pooling_weights(
    weights: str | ArrayLike, length: int, mask: NDArray[np.bool_] | None = None
) -> Floats:
    """Weights of the positions: (L,) if no token is missing, otherwise (N, L) as the mask.

    As `attnlaw.estimators.pool_sequences` has them, and "late": w_l ∝ l, counting the tokens that
    are there. Sequences that have a token nowhere where the weights look get their mean.

    Examples
    --------
    >>> pooling_weights("late", 3).round(3)
    array([0.167, 0.333, 0.5  ])
    >>> pooling_weights([0.0, 1.0], 2, np.array([[True, True], [True, False]]))
    array([[0., 1.],
           [1., 0.]])
    """
    if not isinstance(weights, str):
        if mask is None:
            return position_weights(weights, length)
        lost = ~(mask & (np.asarray(weights) != 0)).any(axis=1)
        each = np.empty(mask.shape)
        each[lost] = position_weights("mean", length, mask[lost])
        each[~lost] = position_weights(weights, length, mask[~lost])
        return each
    if weights != "late":
        return position_weights(weights, length, mask)
    if mask is None:
        ranks = np.arange(1.0, length + 1)
        return np.asarray(ranks / ranks.sum())
    ranks = np.cumsum(mask, axis=1) * mask.astype(np.float64)
    return np.asarray(ranks / ranks.sum(axis=1, keepdims=True))


def pool_all(
    data: Sequences,
    weights: Mapping[str, NDArray[np.floating]],
    run: Run = map,
) -> dict[str, Rows]:
    """Pool the sequences by several weights at once; tokens are laid out only once.

    Parameters
    ----------
    data : Sequences
    weights : dict of arrays of shape (L,) or (N, L)
    run : callable
        `map`, or that of an executor with several threads.

    Returns
    -------
    dict of arrays of shape (N, d)
        In float32, under the same names.
    """
    pooled = data.pool_many(list(weights.values()), run)
    return dict(zip(weights, pooled, strict=True))


def copy_groups(data: Sequences) -> NDArray[np.intp]:
    """Return a number for each sequence, the same for copies and only for them.

    Copies have the same tokens at the same positions, or embeddings that agree in the first
    eight coordinates.

    Examples
    --------
    >>> from attnlaw.data.sequences import as_sequences
    >>> copy_groups(as_sequences([[0, 1], [1, 1], [0, 1]], np.eye(2)))
    array([0, 1, 0])
    """
    N, L, d = data.shape
    numbers: dict[bytes, int] = {}
    groups = np.empty(N, dtype=np.intp)
    size = max(1, 2**22 // (L * d))
    for start in range(0, N, size):
        block = slice(start, min(start + size, N))
        if isinstance(data, TokenSequences):
            rows = data.tokens[block].copy()
        else:
            rows = data.embed(block)[:, :, :COMPARED].copy()
        if data.mask is not None:
            rows[~data.mask[block]] = -1
        for i, row in enumerate(rows, start):
            groups[i] = numbers.setdefault(row.tobytes(), len(numbers))
    return groups


@contextmanager
def side_by_side(dimension: int) -> Iterator[Run]:
    """Give a `map` for work on matrices of so many dimensions, on all processors.

    Notes
    -----
    NumPy and SciPy come with a BLAS each, and each BLAS with threads that wait by turning in a
    loop. On matrices of some hundred dimensions they wait more than they work: advice on 20,000
    labelled sequences of 64 tokens in 576 dimensions took 17.6 s of processor on two idle cores
    with them and 11 s without, for the same time on the clock, and 108 s when others used the
    cores, too. So BLAS gets one thread here, and poolings are worked on side by side.

    Examples
    --------
    >>> with side_by_side(100) as run:
    ...     list(run(abs, [-1, 2]))
    [1, 2]
    """
    if dimension >= WIDE:
        yield map
        return
    with one_blas_thread(), ThreadPoolExecutor(min(n_cores(), MOST_THREADS)) as executor:
        yield executor.map
