r"""A Gaussian matrix of which only the queried products are ever drawn.

A matrix Z with independent standard Gaussian entries looks the same in every orthonormal basis,
on both sides. An algorithm that touches it only through products Zq and Zᵀp therefore needs no
entries: the answer to each query is drawn when it is made, conditionally on all earlier answers.
The idea is that of the Householder dice (Lu, 2021); here the columns' side is never stored at
all, because only inner products between its vectors are ever needed.
"""

from typing import Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from attnlaw._checks import Floats
from attnlaw.simulation._matrix_free.stream import Stream

__all__ = ["FullSpace", "ImplicitBasis", "LazyGaussian"]

Vectors = NDArray[np.floating]

OBLIQUE = 100.0  # inner products that may be taken for zero, in units of the rounding
GENUINE = (
    0.7  # length that a second projection must leave of a unit vector that is not rounding error
)


class Space(Protocol):
    """The space of the rows' side of a lazy matrix."""

    size: int  # length of the arrays that stand for vectors

    def gaussian(self, n: int, rng: np.random.Generator) -> Vectors:
        """Draw n standard Gaussian vectors, the columns of an array of shape (size, n)."""


class FullSpace:
    """R^dimension with its usual coordinates, all of them."""

    def __init__(self, dimension: int, dtype: DTypeLike = np.float64) -> None:
        self.size, self.dtype = dimension, np.dtype(dtype)

    def gaussian(self, n: int, rng: np.random.Generator) -> Vectors:
        """Draw n standard Gaussian vectors, the columns of an array of shape (size, n)."""
        is_single = self.dtype == np.float32
        return rng.standard_normal((self.size, n), dtype=np.float32 if is_single else np.float64)


class ImplicitBasis:
    """R^dimension in a basis that begins with the directions drawn so far.

    A Gaussian vector has independent normal coordinates along those, and the rest of it is as
    long as a Gaussian vector of the remaining dimensions: that rest is the next basis vector.
    So arrays stay as short as the number of vectors ever drawn, whatever the dimension.
    """

    def __init__(self, dimension: int) -> None:
        self.dimension, self.used, self.size = dimension, 0, min(dimension, 64)

    def gaussian(self, n: int, rng: np.random.Generator) -> Vectors:
        """Draw n standard Gaussian vectors, the columns of an array of shape (size, n)."""
        corner = gaussian_triangle(self.dimension - self.used, n, rng)
        met, self.used = self.used, self.used + len(corner)
        if self.used > self.size:
            self.size = min(self.dimension, 2 * self.used)
        vectors = np.zeros((self.size, n))
        vectors[:met] = rng.standard_normal((met, n))
        vectors[met : self.used] = corner
        return vectors

    def directions(self, n: int) -> Vectors:
        """Name n orthonormal vectors of the caller's, before anything is drawn: (size, n)."""
        self.used = n
        self.size = min(self.dimension, max(self.size, 2 * n))
        return np.eye(self.size, n)


def gaussian_triangle(dimension: int, n: int, rng: np.random.Generator) -> Floats:
    """Draw the factor R of G = QR for n Gaussian vectors (columns of G) in `dimension`.

    Notes
    -----
    Bartlett: R has independent χ_{dimension−i} on its diagonal, N(0, 1) above it, and is
    independent of Q. It has min(dimension, n) rows.

    Examples
    --------
    >>> gaussian_triangle(1000, 2, np.random.default_rng(0)).round(1)
    array([[31.2, -0.1],
           [ 0. , 32.5]])
    """
    rank = min(dimension, n)
    R = np.triu(rng.standard_normal((rank, n)), k=1)
    R[np.diag_indices(rank)] = np.sqrt(rng.chisquare(dimension - np.arange(rank)))
    return R


class LazyGaussian:
    """A standard Gaussian matrix Z (rows × columns), drawn only where it is queried.

    The columns' side is described in an orthonormal basis q₁, q₂, … that grows with the queries;
    its vectors are arrays of coordinates, and a missing coordinate is zero. The first basis
    vectors are the caller's; the others are the directions of the answers.

    Parameters
    ----------
    rows : Space
        The space of vectors on the rows' side; several matrices may share it.
    n_columns : int
        Dimension of the columns' side.
    rng : Generator
        Source of randomness.
    n_first : int
        How many basis vectors are the caller's.
    chained : bool
        The caller promises to query `transpose_multiply` only for W = A Z y, with the same
        symmetric A each time and y the directions drawn last (block Lanczos): then the images of
        older directions are dropped, which halves the memory. See `transpose_multiply`.

    Notes
    -----
    Known at any time are orthonormal p's (columns of P) whose Zᵀp lies in the span of the q's,
    and the images G = Z [q₁ q₂ …]. For W on the rows' side write W = P A + P₁ B with new
    orthonormal P₁ ⟂ P. Then

        Zᵀ W = Σ_j q_j (GᵀW)_j + Q₁ R B ,      R from `gaussian_triangle`

    because the part of Zᵀ P₁ outside the span of the q's is independent of the past, and Q₁ names
    its directions. Their images are Z Q₁ = P₁ Rᵀ + (I − PPᵀ) Ξ with P now including P₁ and Ξ
    a fresh Gaussian: PᵀZ is known, the rest is not. Derived in docs/theory/simulation.md, "A table
    that is never drawn".
    """

    def __init__(
        self,
        rows: Space,
        n_columns: int,
        rng: np.random.Generator,
        *,
        n_first: int = 1,
        chained: bool = False,
    ) -> None:
        self.rows, self.n_columns, self.rng, self.chained = rows, n_columns, rng, chained
        self.n_known = n_first
        self._queried, self._images = Columns(), Columns()
        self._lost = 0.0, 0.0  # inner products in the last two blocks of P, over eps
        self.newest = self._gaussian(n_first)  # images of the directions drawn last
        self._images.append(self.newest)

    def multiply(self, coordinates: Floats) -> Vectors:
        """Return Zy for the columns y of an array of coordinates."""
        if self.chained:
            recent = self.newest.shape[1]
            return self.newest @ coordinates[len(coordinates) - recent :].astype(self.newest.dtype)
        return self._images.combine(coordinates, self.rows.size)

    def transpose_multiply(self, vectors: Vectors) -> Floats:
        """Return the coordinates of Zᵀw for the columns w, drawing what is not yet known.

        Where the matrix is chained, coordinates older than the newest are left at zero: by the
        symmetry of Lanczos they belong to the two blocks before, whose coefficients are known.
        """
        inside = self._coordinates_inside(vectors)
        new, shares = self._split(vectors)
        R = gaussian_triangle(self.n_columns - self.n_known, new.shape[1], self.rng)
        self._draw_images(new, R, self._gaussian(len(R)))
        return np.concatenate([inside, R @ shares])

    def _gaussian(self, n: int) -> Vectors:
        """Draw n standard Gaussian vectors on the rows' side."""
        return self.rows.gaussian(n, self.rng)

    def _orthonormal(self, vectors: Vectors, lengths: Floats) -> tuple[Vectors, Floats, float]:
        """Return orthonormal columns of what is left of vectors, see `orthonormal`."""
        return orthonormal(vectors, lengths, max(1e-7, 10 * float(np.finfo(vectors.dtype).eps)))

    def _orthonormal_again(self, vectors: Vectors) -> tuple[Vectors, Floats, float]:
        """Return orthonormal columns of unit vectors after a second projection."""
        return orthonormal(vectors, np.ones(vectors.shape[1]), GENUINE)

    def _coordinates_inside(self, vectors: Vectors) -> Floats:
        if not self.chained:
            return self._images.dot(vectors).astype(np.float64, copy=False)
        inside = np.zeros((self.n_known, vectors.shape[1]))
        recent = self.newest.shape[1]
        inside[self.n_known - recent :] = fitted(self.newest, len(vectors)).T @ vectors
        return inside

    def _split(self, vectors: Vectors) -> tuple[Vectors, Floats]:
        """Return P₁ and B with W = P A + P₁ B, and add P₁ to P.

        One projection turns inner products ε among the columns of P into at most ε/sine between
        P and P₁, the sine being that of the angle between W and P. In a Krylov space W lies
        mostly along the last two blocks, so without a second projection ε would grow from step
        to step; it is tracked, and the second one is made when it is needed. A direction of
        which that leaves little was mostly rounding error and ε: keeping it would mistake rounding
        error for a new Krylov vector, and ε would grow again.
        """
        W = np.asfortranarray(fitted(vectors, self.rows.size))
        lengths = np.sqrt(np.einsum("ij,ij->j", W, W, dtype=np.float64))
        W = W - self._queried.combine(self._queried.dot(W), self.rows.size)
        new, shares, sine = self._orthonormal(W, lengths)
        self._lost = self._lost[1], (1 + max(self._lost)) / sine
        if self._lost[1] > OBLIQUE:
            self._lost = self._lost[0], 1 / sine
            new = new - self._queried.combine(self._queried.dot(new), self.rows.size)
            new, correction, _ = self._orthonormal_again(new)
            shares = correction @ shares
        self._queried.append(new)
        return new, shares

    def _draw_images(self, new: Vectors, R: Floats, fresh: Vectors) -> None:
        """Turn fresh Gaussians into the images of the directions Q₁ that R introduced."""
        fresh = np.asfortranarray(fitted(fresh, self.rows.size))
        fresh -= self._queried.combine(self._queried.dot(fresh), len(fresh))
        fresh += fitted(new, len(fresh)) @ R.T.astype(new.dtype)
        self.n_known += len(R)
        self.newest = fresh
        if not self.chained:
            self._images.append(fresh)


class StreamedGaussian(LazyGaussian):
    """A `LazyGaussian` on all coordinates that draws what the compiled loops draw, in their order.

    R and the fresh Gaussians of a query are drawn before its new directions are known, for as
    many of them as there can be, and directions are orthonormalised one after the other: see
    `compiled.lazy_gaussian`.

    Parameters
    ----------
    rows : FullSpace
        The space of the rows' side.
    n_columns, rng, chained
        As in `LazyGaussian`.
    """

    def __init__(
        self,
        rows: FullSpace,
        n_columns: int,
        rng: np.random.Generator,
        *,
        chained: bool = False,
    ) -> None:
        self._stream, self._kind = Stream(rng), rows.dtype
        super().__init__(rows, n_columns, rng, chained=chained)

    def _gaussian(self, n: int) -> Vectors:
        numbers = self._stream.normal(n * self.rows.size)
        return numbers.reshape(n, self.rows.size).T.astype(self._kind)

    def _orthonormal(self, vectors: Vectors, lengths: Floats) -> tuple[Vectors, Floats, float]:
        return gram_schmidt(vectors, lengths, 10 * float(np.finfo(vectors.dtype).eps))

    def _orthonormal_again(self, vectors: Vectors) -> tuple[Vectors, Floats, float]:
        return gram_schmidt(vectors, np.ones(vectors.shape[1]), GENUINE)

    def transpose_multiply(self, vectors: Vectors) -> Floats:
        """Return the coordinates of Zᵀw for the columns w, drawing what is not yet known."""
        inside, n = self._coordinates_inside(vectors), vectors.shape[1]
        R = np.zeros((min(self.n_columns - self.n_known, n), n))
        for i in range(len(R)):
            R[i, i] = self._stream.chi(self.n_columns - self.n_known - i)
            R[i, i + 1 :] = self._stream.normal(n - i - 1)
        fresh = self._gaussian(len(R))
        new, shares = self._split(vectors)
        rank = min(len(R), new.shape[1])
        R = R[:rank, : new.shape[1]]
        self._draw_images(new, R, fresh[:, :rank])
        return np.concatenate([inside, R @ shares])


class Columns:
    """Vectors of one length, kept as the rows of a few large arrays."""

    def __init__(self) -> None:
        self._chunks: list[Vectors] = []
        self._n_last = 0  # vectors in the last chunk

    def append(self, vectors: Vectors) -> None:
        """Keep the columns of an array; where it is longer than before, zeros are added."""
        size = len(vectors)
        if self._chunks and self._chunks[0].shape[1] < size:
            self._chunks = [fitted(chunk.T, size).T for chunk in self._chunks]
        while vectors.shape[1]:
            if not self._chunks or self._n_last == len(self._chunks[-1]):
                kept = sum(map(len, self._chunks))
                height = max(
                    64, min(kept, 2**20 // size)
                )  # short vectors: each as high as all before
                self._chunks.append(np.empty((height, size), dtype=vectors.dtype))
                self._n_last = 0
            chunk, taken = self._chunks[-1], vectors.shape[1]
            taken = min(len(chunk) - self._n_last, taken)
            chunk[self._n_last : self._n_last + taken] = vectors[:, :taken].T
            self._n_last += taken
            vectors = vectors[:, taken:]

    def _filled(self) -> list[Vectors]:
        return [*self._chunks[:-1], *(chunk[: self._n_last] for chunk in self._chunks[-1:])]

    def dot(self, vectors: Vectors) -> Vectors:
        """Return the inner products of all kept vectors with the columns of an array."""
        if not self._chunks:
            return np.zeros((0, vectors.shape[1]), dtype=vectors.dtype)
        parts = []
        for chunk in self._filled():
            shared = min(chunk.shape[1], len(vectors))
            parts.append((vectors[:shared].T @ chunk[:, :shared].T).T)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def combine(self, coefficients: NDArray[np.floating], size: int) -> Vectors:
        """Return the combinations of the kept vectors, as columns of length `size`."""
        if not self._chunks:
            return np.zeros((size, coefficients.shape[1]), dtype=coefficients.dtype)
        start, total = 0, np.zeros(0)
        for chunk in self._filled():
            share = coefficients[start : start + len(chunk)].astype(chunk.dtype, copy=False)
            part = share.T @ chunk[: len(share)]  # twice as fast as its transpose
            total = np.add(total, part, out=total) if start else part
            start += len(chunk)
        return fitted(total.T, size)


def orthonormal(vectors: Vectors, lengths: Floats, least: float) -> tuple[Vectors, Floats, float]:
    """Return orthonormal Q and B with vectors = Q B, and the smallest sine met.

    `lengths` are those of the same vectors before anything was taken from them: what is left of
    one counts as rounding error, and gives no column of Q, when it is shorter by a factor of
    `least`.

    Examples
    --------
    >>> Q, B, _ = orthonormal(np.array([[3.0, 6.0], [4.0, 8.0]]), np.array([5.0, 10.0]), 1e-7)
    >>> Q.shape, np.allclose(Q @ B, [[3, 6], [4, 8]])
    ((2, 1), True)
    """
    inverse = np.divide(1, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    long = vectors.astype(np.float64, copy=False)
    values, turns = np.linalg.eigh(inverse[:, None] * (long.T @ long) * inverse)  # squared sines
    kept = values > least**2
    roots, turns = np.sqrt(values[kept]), turns[:, kept]
    Q = vectors @ (inverse[:, None] * turns / roots).astype(vectors.dtype)
    return Q, (turns * roots).T * lengths, float(np.sqrt(values[kept].min(initial=1.0)))


def gram_schmidt(vectors: Vectors, lengths: Floats, least: float) -> tuple[Vectors, Floats, float]:
    """Do as `orthonormal`, one vector after the other."""
    n = vectors.shape[1]
    Q, B, sine = np.empty_like(vectors), np.zeros((n, n)), 1.0
    new = 0
    for j in range(n):
        x, done = vectors[:, j].copy(), Q[:, :new]
        for _ in range(2 if new else 0):
            share = done.T @ x
            B[:new, j] += share
            x -= done @ share
        left = float(np.sqrt(np.einsum("i,i->", x, x, dtype=np.float64)))
        if left > least * lengths[j]:
            sine = min(sine, left / lengths[j])
            Q[:, new], B[new, j] = x / vectors.dtype.type(left), left
            new += 1
    return Q[:, :new], B[:new], sine


def fitted(array: Vectors, size: int) -> Vectors:
    """Return the array with zeros added below, so that it has `size` rows."""
    missing = size - len(array)
    return array if missing <= 0 else np.pad(array, ((0, missing), (0, 0)))
