"""Weights of the positions of each sequence, and sequences pooled by them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import invalid_argument, real_array
from attnlaw.data.covariance.arrays import array, converted, is_by_position

__all__ = ["Pooling"]


class Pooling:
    """Weights of the positions of each sequence, after the mask has been taken into account."""

    def __init__(
        self,
        shape: tuple[int, int],
        weights: Any = None,
        mask: Any = None,
        lengths: Any = None,
        first: int = 0,
    ) -> None:
        N, L = self.shape = shape
        self.first = first  # place of the first of these sequences in the corpus, for messages
        w = np.full(L, 1 / L) if weights is None else converted("weights", weights)
        w = real_array("weights", w) if w.ndim == 1 else array("weights", w, (2,), "fiu")
        if w.shape not in ((L,), (N, L)):
            raise invalid_argument("weights", f"of shape ({L},) or ({N}, {L})", w)
        if mask is not None and lengths is not None:
            raise invalid_argument("lengths", "left out when a mask is given", lengths)
        if mask is not None:
            mask = array("mask", mask, (2,), "b")
            if mask.shape != (N, L):
                raise invalid_argument("mask", f"of shape ({N}, {L})", mask)
        if lengths is not None:
            lengths = array("lengths", lengths, (1,), "iu")
            if lengths.shape != (N,) or lengths.min() < 0 or lengths.max() > L:
                raise invalid_argument("lengths", f"{N} whole numbers from 0 to {L}", lengths)
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
            empty = self.first + rows.start + int(np.argmin(left))
            raise invalid_argument(
                "mask or lengths", "such that weight remains", f"none in row {empty}"
            )
        return np.asarray(kept * (np.abs(w).sum(axis=-1, keepdims=True) / left))

    def of_embeddings(self, block: NDArray[Any], rows: slice) -> NDArray[np.float64]:
        """Pool a block of embeddings of shape (n, length, dimension)."""
        w = self.rows(rows)
        X = _weighted_sum(w, block)
        if self.is_padded and not np.isfinite(X).all():  # padding may hold anything: 0 · NaN
            X = _weighted_sum(w, block, skip_zeros=True)
        return X

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
            raise invalid_argument("tokens", f"rows of the table, from 0 to {V - 1}", outside)
        is_ready = isinstance(table, np.ndarray) and table.dtype == dtype
        if not is_ready or not table.flags.c_contiguous:
            used, ids = np.unique(ids, return_inverse=True)
            table = np.asarray(table[used], dtype=dtype)
        M = csr_array((w.ravel(), ids.ravel(), np.arange(0, n * L + 1, L)), (n, len(table)))
        return np.asarray(M @ table)


def _weighted_sum(
    w: NDArray[np.float64], block: Any, *, skip_zeros: bool = False
) -> NDArray[np.float64]:
    """Pool a block of shape (n, length, dimension) as it lies in memory: Σ_l w_nl block_nl."""
    if is_by_position(block):
        X = np.zeros((block.shape[0], block.shape[2]), order="F")
        for w_l, e_l in zip(w.T[..., None], np.moveaxis(block, 1, 0), strict=True):
            X += w_l * (np.where(w_l, e_l, 0) if skip_zeros else e_l)
        return X
    if skip_zeros:
        block = np.where(w[..., None], block, 0)
    return np.asarray(np.einsum("nl,nld->nd", w, block))
