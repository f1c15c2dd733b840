"""Pool sequences of any kind by weights of any kind: the function behind `AttentionPooling`."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnlaw._checks import choice, invalid_argument, real_array
from attnlaw.data.masks import remaining_weights
from attnlaw.data.sequences import as_sequences
from attnlaw.weights import BY_LENGTH, by_name

__all__ = ["pool_sequences", "position_weights"]

NAMED = tuple(BY_LENGTH)


def pool_sequences(
    sequences: Any,
    weights: str | ArrayLike = "mean",
    *,
    table: ArrayLike | None = None,
    mask: Any = None,
    lengths: Any = None,
) -> NDArray[Any]:
    """Pool each sequence to one vector, x_i = Σ_l w_il T_il.

    Parameters
    ----------
    sequences : array of shape (N, length, d), or of int and shape (N, length)
        Embeddings; or rows of `table`, negative where there is no token.
    weights : "mean", "causal", "last" or array of shape (length,)
        Named weights are those of each sequence's own tokens (their mean, causal attention
        over them, the last of them). An array weighs positions; where some of them hold no
        token, the weights that remain are rescaled to the same Σ|w|.
    table : array of shape (V, d), optional
        Embeddings of the tokens.
    mask : array of bool and shape (N, length), optional
        True where there is a token.
    lengths : array of int and shape (N,), optional
        The same for sequences padded at the end.

    Returns
    -------
    array of shape (N, d)
        In float32 if the embeddings are, otherwise in float64.

    Examples
    --------
    >>> tokens = np.array([[[1.0], [3.0]], [[5.0], [np.nan]]])
    >>> pool_sequences(tokens, "mean", lengths=[2, 1])
    array([[2.],
           [5.]])
    """
    data = as_sequences(sequences, table, mask=mask, lengths=lengths)
    return data.pool(position_weights(weights, data.shape[1], data.mask))


def position_weights(
    weights: str | ArrayLike, length: int, mask: NDArray[np.bool_] | None = None
) -> NDArray[np.float64]:
    """Return weights as an array: (L,) if no token is missing, otherwise (N, L) as the mask."""
    L = length
    if isinstance(weights, str):
        name = choice("weights", weights, NAMED)
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


def _named(name: str, length: int) -> NDArray[np.float64]:
    """Return the weights of a name; one token has all of the weight."""
    return by_name(name, length) if length > 1 else np.ones(length)
