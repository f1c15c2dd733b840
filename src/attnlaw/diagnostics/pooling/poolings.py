"""Poolings to choose from, applied to all sequences in one pass over the tokens."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnlaw._checks import Floats
from attnlaw.data.sequences import Sequences
from attnlaw.diagnostics.pooling.threads import Run
from attnlaw.estimators.pooling import position_weights

__all__ = ["FIXED", "Rows", "pool_all", "pooling_weights"]

Rows = NDArray[np.float32]

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
