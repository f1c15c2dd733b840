r"""Leading eigenpairs of covariances at every signal norm, by block Lanczos.

Covariances are accessed only through matrix–vector products, so they may be matrices in memory
or products with a table that is drawn lazily (`_matrix_free.lazy_gaussian`). Several are solved
together: of one sample, its bulk and its population, or of one sample pooled in several ways.
"""

from collections.abc import Callable
from math import ceil, inf, log
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Floats
from attnlaw.simulation._matrix_free.lazy_gaussian import GENUINE
from attnlaw.simulation._matrix_free.secular import Eigenpairs, sweep_eigenpairs

__all__ = [
    "BlockLanczos",
    "KrylovRun",
    "ProductRun",
    "find_spikes",
    "grown",
    "orthonormal_blocks",
]

Products = Callable[[Floats, list[int]], Floats]
Sweep = Callable[[Floats, Floats, Floats, Floats, int], Eigenpairs]

Kind = TypeVar("Kind", bound=np.floating)

FIRST_CHECK = 10  # steps before convergence is first checked
DOUBTFUL = 1e-4  # share of a vector below which what is left of it may be rounding error


class KrylovRun(Protocol):
    """Krylov spaces of the matrices D = S₀[1:, 1:], grown together."""

    corners: Floats  # (n_matrices, 2): S₀₁₁ and b₁
    gains: Floats  # (n_matrices,): a
    start_coordinates: Floats  # (n_matrices, block, block): the rest of S₀u, b, … in the basis

    @property
    def sweep(self) -> Sweep | None:
        """A faster equivalent of `secular.sweep_eigenpairs`, if there is one."""

    @property
    def n_steps(self) -> int:
        """Number of blocks multiplied so far."""

    @property
    def matrix(self) -> Floats:
        """D in the bases, shape (n_matrices, size, size)."""

    @property
    def basis(self) -> Floats:
        """The bases, shape (n_matrices, n, size); the signal's coordinate is there and zero."""

    @property
    def is_exact(self) -> NDArray[np.bool_]:
        """Whether the space is invariant, for every matrix."""

    def advance(self, n_steps: int) -> None:
        """Take some more steps."""

    def keep(self, which: NDArray[np.bool_]) -> None:
        """Continue with some of the matrices only."""


class ProductRun:
    """A run driven by products.

    Parameters
    ----------
    columns : array of shape (n_matrices, n, 2 or more)
        For every matrix S₀u, b, and whatever else its Krylov space should start from. The signal
        u is the first coordinate.
    gains : array of shape (n_matrices,)
        a of every matrix.
    products : callable
        Takes vectors Y of shape (n matrices still sought, n, block) and which they are, and
        returns S₀Y. The result may have more coordinates than Y: those missing in Y are zero.
    """

    def __init__(self, columns: Floats, gains: Floats, products: Products) -> None:
        self.corners, self.gains = columns[:, 0, :2], gains
        self.sweep: Sweep | None = None
        self._products = products
        self._which = list(range(len(columns)))
        self._lanczos = BlockLanczos(_without_signal(columns))
        self.start_coordinates = self._lanczos.start_coordinates

    @property
    def n_steps(self) -> int:
        """Number of blocks multiplied so far."""
        return self._lanczos.n_steps

    @property
    def matrix(self) -> Floats:
        """D in the bases, shape (n_matrices, size, size)."""
        return self._lanczos.matrix

    @property
    def basis(self) -> Floats:
        """The bases, shape (n_matrices, n, size); the signal's coordinate is there and zero."""
        return self._lanczos.basis

    @property
    def is_exact(self) -> NDArray[np.bool_]:
        """Whether the space is invariant, for every matrix."""
        return np.asarray(~self._lanczos.newest.any(axis=(1, 2)))

    def advance(self, n_steps: int) -> None:
        """Take some more steps."""
        for _ in range(n_steps):
            product = self._products(self._lanczos.newest, self._which)
            self._lanczos.advance(_without_signal(product))
            if self.is_exact.any():
                return

    def keep(self, which: NDArray[np.bool_]) -> None:
        """Continue with some of the matrices only."""
        self._lanczos.keep(which)
        self._which = [name for name, kept in zip(self._which, which, strict=True) if kept]
        self.corners, self.gains = self.corners[which], self.gains[which]
        self.start_coordinates = self._lanczos.start_coordinates


def find_spikes(
    run: KrylovRun,
    norms: Floats,
    *,
    tolerance: float,
    n_pairs: int = 1,
) -> list[Eigenpairs]:
    r"""Return the leading eigenpairs of S(μ) = S₀ + ‖μ‖ (u bᵀ + b uᵀ) + ‖μ‖² a u uᵀ.

    Parameters
    ----------
    run : KrylovRun
        The matrices S₀ with their b and a; it is advanced until all have converged.
    norms : array of shape (n_norms,)
        Values of ‖μ‖.
    tolerance : float
        The search for a matrix ends when no eigenvector has more than this share of its mass in
        the last block of the Krylov space, which tells how much would still come if the space
        were larger. Eigenvalues and overlaps with the signal then err by about `tolerance`, up to
        ten times that where eigenvalues crowd (at the edge of the bulk), eigenvectors by about
        its root.
    n_pairs : int
        How many eigenpairs, from the largest down.

    Returns
    -------
    list of Eigenpairs
        For every matrix, in the original coordinates.

    Notes
    -----
    Without the signal's row and column S(μ) is one matrix D for all norms, and its leading
    eigenvectors lie in the Krylov space of D that starts from the rest of these columns
    (docs/theory/simulation.md, "Block Lanczos"). The mass in the last block falls by about the
    same factor at every step, which tells when to check again.

    Examples
    --------
    >>> S = np.diag([1.0, 3.0, 2.0])
    >>> columns = np.stack([S[0], np.array([0.0, 1.0, 1.0])], axis=1)[None]
    >>> run = ProductRun(columns, np.array([2.0]), lambda Y, which: S @ Y)
    >>> (pairs,) = find_spikes(run, np.array([0.0, 1.0]), tolerance=1e-9)
    >>> pairs.values.round(3)
    array([[3.   , 4.247]])
    """
    active = np.arange(len(run.gains))
    found: list[Eigenpairs | None] = [None] * len(active)
    wait, seen = FIRST_CHECK, (0, np.ones(len(active)))  # at first all mass is at the end
    while len(active):
        run.advance(wait)
        pairs = _eigenpairs(run, norms, n_pairs)
        block = run.start_coordinates.shape[1]
        last = np.sum(pairs.vectors[..., -block:] ** 2, axis=-1).max(axis=(0, 2))
        is_done = run.is_exact | (last <= tolerance)
        for i in np.flatnonzero(is_done):
            found[active[i]] = _in_full(pairs, run, int(i))
        wait = _wait(run.n_steps, last, seen, tolerance)
        seen, active = (run.n_steps, last[~is_done]), active[~is_done]
        if is_done.any() and len(active):
            run.keep(~is_done)
    return [pairs for pairs in found if pairs is not None]


def _wait(n_steps: int, last: Floats, seen: tuple[int, Floats], tolerance: float) -> int:
    """Return after how many steps to check again, from how the mass at the end has fallen."""
    then, before = seen if len(seen[1]) == len(last) else (0, np.ones_like(last))
    soonest = inf
    for was, is_now in zip(before.tolist(), last.tolist(), strict=True):
        if is_now > tolerance:
            fall = log(max(was / is_now, 1 + 1e-9)) / (n_steps - then)
            soonest = min(soonest, ceil(log(is_now / tolerance) / fall))
    return int(min(max(soonest, 1), 2 + n_steps // 2))


def _eigenpairs(run: KrylovRun, norms: Floats, n_pairs: int) -> Eigenpairs:
    """Return the eigenpairs in the Krylov spaces; the signal is still the first coordinate."""
    T, ends = run.matrix, run.start_coordinates
    (n, size, _), block = T.shape, slice(1, 1 + ends.shape[1])
    matrix, coupling = np.zeros((n, size + 1, size + 1)), np.zeros((n, size + 1))
    matrix[:, 1:, 1:] = T
    matrix[:, 0, 0], coupling[:, 0] = run.corners.T
    matrix[:, 0, block] = matrix[:, block, 0] = ends[:, :, 0]
    coupling[:, block] = ends[:, :, 1]
    return (run.sweep or sweep_eigenpairs)(matrix, coupling, run.gains, norms, n_pairs)


def _in_full(pairs: Eigenpairs, run: KrylovRun, i: int) -> Eigenpairs:
    """Return the eigenpairs of one matrix in the original coordinates."""
    vectors = pairs.vectors[:, i]
    full = vectors[..., 1:] @ run.basis[i].T
    full[..., 0] += vectors[..., 0]
    return Eigenpairs(pairs.values[:, i], full)


def _without_signal(vectors: Floats) -> Floats:
    vectors = vectors.copy()
    vectors[:, 0] = 0
    return vectors


class BlockLanczos:
    """Orthonormal bases in which symmetric matrices are block tridiagonal.

    The matrices are accessed only through matrix–vector products: the caller multiplies `newest`
    and passes the result to `advance`. Vectors may grow longer from step to step (a missing
    coordinate is zero), so the bases may lie in a space whose directions are still being drawn.

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
    Each new block is orthogonalised twice against all of Y. A vector that is only rounding error
    is replaced by zero: it adds a row and a column of zeros to YᵀSY, which is one more eigenvalue
    0 and leaves the largest ones of a covariance as they are.

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

    `originals` are the same vectors before they were projected onto the complement of `basis`.
    What is left of one counts as rounding error when it is 10¹² times shorter; when it is 10⁴
    times shorter, part of it may be, so it is projected once more, and must keep most of its
    length.
    """
    Y = vectors.copy()
    block = Y.shape[2]
    lengths = np.sqrt(np.einsum("anb,anb->ab", originals, originals))
    B = np.zeros((len(Y), block, block))
    for j in range(block):
        column = Y[:, :, j : j + 1]
        for _ in range(2 if j else 0):  # twice is enough (Kahan)
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
            again[again < GENUINE] = 0
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
