"""Block Lanczos with full reorthogonalisation, step by step, several matrices at once."""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Floats

__all__ = ["BlockLanczos", "grown", "orthonormal_blocks"]

Kind = TypeVar("Kind", bound=np.floating)


DOUBTFUL = 1e-4  # share of a vector below which what is left of it may be rounding


class BlockLanczos:
    """Orthonormal bases in which symmetric matrices are block tridiagonal.

    The matrices are met only through their products: whoever drives this multiplies `newest` and
    hands the result to `advance`. Vectors may grow longer from step to step (a missing coordinate
    is zero), so the bases can live in a space that is still being discovered.

    Parameters
    ----------
    start : array of shape (n_matrices, n, block)
        Vectors whose Krylov spaces are built, a block for each matrix.

    Attributes
    ----------
    start_coordinates : array of shape (n_matrices, block, block)
        B₀ with start = Y₁ B₀: the start vectors in the basis, of which only Y₁ is needed.
    newest : array of shape (n_matrices, n, block)
        Y_k, whose product with the matrix comes next. Where it is zero the space is invariant,
        and the matrix in this basis is exact.

    Notes
    -----
    With Y = [Y₁ … Y_k],  S Y_k = Y_{k−1} B_{k−1}ᵀ + Y_k A_k + Y_{k+1} B_k,  and YᵀSY is block
    tridiagonal with A on the diagonal and B below it (docs/theory/simulation.md, "Block Lanczos").
    Each new block is orthogonalised twice against all of Y. A vector that is lost in rounding is
    replaced by zero: it adds a row and a column of zeros to YᵀSY, which is one more eigenvalue 0
    and no harm to the largest ones of a covariance.

    Examples
    --------
    >>> S = np.diag([1.0, 2.0, 5.0])
    >>> run = BlockLanczos(np.ones((1, 3, 1)))
    >>> while run.newest.any():
    ...     run.advance(S @ run.newest)
    >>> np.linalg.eigvalsh(run.matrix).round(12)
    array([[1., 2., 5.]])
    """

    def __init__(self, start: Floats) -> None:
        self.newest, self.start_coordinates = orthonormal_blocks(start, start)
        self.block = start.shape[2]
        self.n_steps = 0
        self._basis = np.zeros((len(start), 64, 64))
        self._matrix = np.zeros((len(start), 64, 64))

    @property
    def basis(self) -> Floats:
        """Y of the blocks already multiplied, shape (n_matrices, n, size of `matrix`)."""
        return self._basis[:, : self.newest.shape[1], : self.n_steps * self.block]

    @property
    def matrix(self) -> Floats:
        """YᵀSY of the blocks already multiplied: block tridiagonal, symmetric."""
        size = self.n_steps * self.block
        return self._matrix[:, :size, :size]

    def advance(self, product: Floats) -> None:
        """Take S times `newest` and find the next block of the basis."""
        end = (self.n_steps + 1) * self.block
        here, below = slice(end - self.block, end), slice(end, end + self.block)
        self._basis = _with_room(self._basis, product.shape[1], end)
        self._matrix = _with_room(self._matrix, below.stop, below.stop)
        self._basis[:, : self.newest.shape[1], here] = self.newest
        self.n_steps += 1

        Y = self._basis[:, : product.shape[1], :end]
        Yt = np.swapaxes(Y, 1, 2)
        inside = Yt @ product
        rest = product - Y @ inside
        rest -= Y @ (Yt @ rest)
        self.newest, B = orthonormal_blocks(rest, product, Y)
        A = inside[:, here]
        self._matrix[:, here, here] = (A + np.swapaxes(A, 1, 2)) / 2
        self._matrix[:, below, here], self._matrix[:, here, below] = B, np.swapaxes(B, 1, 2)

    def keep(self, which: NDArray[np.bool_]) -> None:
        """Go on with some of the matrices only."""
        self.newest, self.start_coordinates = self.newest[which], self.start_coordinates[which]
        self._basis, self._matrix = self._basis[which], self._matrix[which]


def orthonormal_blocks(
    vectors: Floats, originals: Floats, basis: Floats | None = None
) -> tuple[Floats, Floats]:
    """Return Y and B with vectors = Y B, the columns of Y orthonormal or zero.

    `originals` are the same vectors before the `basis` was taken from them. What is left of one
    counts as rounding when it is that much shorter; when it is only much shorter, part of it
    may be, so the basis is taken from it once more, and little must be left to take.
    """
    Y = vectors.copy()
    block = Y.shape[2]
    lengths = np.sqrt(np.einsum("anb,anb->ab", originals, originals))
    B = np.zeros((len(Y), block, block))
    for j in range(block):
        column = Y[:, :, j : j + 1]
        for _ in range(2 if j else 0):  # twice is enough
            done = Y[:, :, :j]
            share = np.swapaxes(done, 1, 2) @ column
            column -= done @ share
            B[:, :j, j : j + 1] += share
        length = np.sqrt(np.einsum("an,an->a", column[:, :, 0], column[:, :, 0]))
        length[length <= 1e-12 * lengths[:, j]] = 0
        _scale(column, length)
        if basis is not None and np.any(length < DOUBTFUL * lengths[:, j]):
            for known in (basis, Y[:, :, :j]):
                column -= known @ (np.swapaxes(known, 1, 2) @ column)
            again = np.sqrt(np.einsum("an,an->a", column[:, :, 0], column[:, :, 0]))
            again[again < 0.7] = 0
            length *= again
            _scale(column, again)
        B[:, j, j] = length
    return Y, B


def _with_room(array: Floats, n_rows: int, n_columns: int) -> Floats:
    """Return the array, moved into a larger one with zeros where it has no room."""
    n, rows, columns = array.shape
    if n_rows <= rows and n_columns <= columns:
        return array
    return grown(array, (n, max(rows, 2 * n_rows), max(columns, 2 * n_columns)))


def grown(array: NDArray[Kind], shape: tuple[int, ...]) -> NDArray[Kind]:
    """Return the array in the corner of a larger one, zeros elsewhere."""
    larger = np.zeros(shape, dtype=array.dtype)
    larger[tuple(slice(n) for n in array.shape)] = array
    return larger


def _scale(column: Floats, length: Floats) -> None:
    """Divide by the length, in place; what has no length becomes zero."""
    column *= np.divide(1, length, out=np.zeros_like(length), where=length > 0)[:, None, None]
