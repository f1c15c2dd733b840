"""Steps of block Lanczos on covariances of a lazy table.

For small tables a step of block Lanczos takes less time than the NumPy calls it is made of. Here
are the same steps in one loop, with the vectors as rows; `_matrix_free.trial` says what they do.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Floats
from attnlaw.simulation._matrix_free.compiled.kernels import (
    TILE,
    add_combinations,
    clear,
    compiled,
    dot,
    subtract,
)
from attnlaw.simulation._matrix_free.compiled.lazy_gaussian import transpose_multiply
from attnlaw.simulation._matrix_free.compiled.products import WIDTHS, add_gram_product
from attnlaw.simulation._matrix_free.krylov import DOUBTFUL, GENUINE

__all__ = [
    "Covariances",
    "KrylovSpaces",
    "advance_bidiagonal",
    "advance_lanczos",
    "advance_tokens",
    "begin_lanczos",
    "bidiagonal_covariance_product",
    "chosen",
    "collect",
    "empty_spaces",
    "images_of_newest",
    "multiply_transposed",
    "spread",
]

Vectors = NDArray[np.floating]

COUNTS = np.dtype([("steps", np.int64)], align=True)


class Covariances(NamedTuple):
    """K of every column to multiply: Π Mᵀ(I − 11ᵀ/N)M Π/N + within Π + between [c, 1]."""

    weights: Vectors  # (length, width), a column for each column; zeros where there is no M
    scaled: Vectors  # the same over N
    means: Vectors  # (n_weights, V): Mᵀ1/N
    mean_of: NDArray[np.int_]  # (columns,): the row of `means`, −1 when not centred
    is_projected: NDArray[np.bool_]  # (columns,): whether Π stands around M
    within: Floats  # (columns,)
    between: Floats  # (columns, 2)


class KrylovSpaces(NamedTuple):
    """The Krylov spaces of several matrices so far; the arrays are updated in place."""

    counts: Any  # of COUNTS, by attribute in compiled code and by key outside
    basis: Floats  # Y: (matrices, room, coordinates), vectors as rows
    newest: Floats  # Y_k: (matrices, block, coordinates)
    matrix: Floats  # YᵀSY: (matrices, room, room)


def chosen(K: Covariances, which: NDArray[np.bool_]) -> Covariances:
    """Return K of some of the columns."""
    columns = np.flatnonzero(which)
    width = next(w for w in WIDTHS if w >= len(columns))
    weights, scaled = np.zeros((2, len(K.weights), width), dtype=K.weights.dtype)
    weights[:, : len(columns)] = K.weights[:, columns]
    scaled[:, : len(columns)] = K.scaled[:, columns]
    return Covariances(
        weights=weights,
        scaled=scaled,
        means=K.means,
        mean_of=K.mean_of[columns],
        is_projected=K.is_projected[columns],
        within=K.within[columns],
        between=K.between[columns],
    )


def empty_spaces(n_matrices: int, block: int, n_steps: int, n_coordinates: int) -> KrylovSpaces:
    """Return Krylov spaces with room for some steps."""
    counts = np.zeros(1, COUNTS)[0]
    size, end = block * n_steps, block * (n_steps + 1)
    return KrylovSpaces(
        counts=counts,
        basis=np.zeros((n_matrices, size, n_coordinates)),
        newest=np.zeros((n_matrices, block, n_coordinates)),
        matrix=np.zeros((n_matrices, end, end)),
    )


@compiled
def advance_tokens(n_steps, tokens, K, table, spaces):
    """Take some steps with the covariances of pooled tokens.

    Parameters
    ----------
    n_steps : int
        How many.
    tokens : array of unsigned int, shape (N, length)
        Row of the table at every position.
    K : Covariances
        Of all newest vectors.
    table : LazyTable
        What is known of the table; updated in place.
    spaces : KrylovSpaces
        Updated in place.
    """
    columns, V = spaces.newest.shape[0] * spaces.newest.shape[1], table.queried.shape[1]
    vectors = np.empty((2 * columns, V), dtype=table.queried.dtype)
    images = np.empty((columns, V), dtype=table.queried.dtype)
    spread_images = np.empty((V, K.weights.shape[1]), dtype=table.queried.dtype)
    out = np.empty_like(spread_images)
    for _ in range(n_steps):
        images_of_newest(table, spaces, images)
        means = spread(K, images, spread_images)
        clear(out)
        add_gram_product(tokens, K.weights, K.scaled, spread_images, out)
        collect(K, images, spread_images, means, out, vectors[:columns])
        advance_lanczos(transpose_multiply(vectors, table), spaces)


@compiled
def images_of_newest(table, spaces, images):
    """Write Z times the newest vectors into `images`: (columns, V)."""
    forgotten, known = table.counts.forgotten, table.counts.known
    n, block = spaces.newest.shape[:2]
    coordinates = np.empty((n * block, known - forgotten))
    for a in range(n):
        for j in range(block):
            for i in range(forgotten, known):  # loops, not slices: numba compiles them faster
                coordinates[a * block + j, i - forgotten] = spaces.newest[a, j, i]
    clear(images)
    add_combinations(images, coordinates, table.images[: known - forgotten], 0, images.shape[1])


@compiled(fastmath=True)
def class_means(x):
    """Return the means over the tokens of each class."""
    half = len(x) // 2
    plus = minus = 0.0
    for v in range(half):
        plus += x[v]
        minus += x[half + v]
    return plus / half, minus / half


@compiled(fastmath=True)
def spread(K, vectors, table):
    """Write Π times every row into a column of a table for M; return the means of the classes."""
    n, V = vectors.shape
    half = V // 2
    means = np.empty((n, 2))
    for v in range(V):
        for c in range(n, table.shape[1]):
            table[v, c] = 0
    for c in range(n):
        means[c, 0], means[c, 1] = class_means(vectors[c])
        above = means[c, 0] if K.is_projected[c] else 0.0
        below = means[c, 1] if K.is_projected[c] else 0.0
        for v in range(half):
            table[v, c] = vectors[c, v] - above
            table[half + v, c] = vectors[c, half + v] - below
    return means


@compiled(fastmath=True)
def collect(K, vectors, table, means, out, products):
    """Write into `products` K times every row, given MᵀM/N times the table in `out`."""
    n, V = vectors.shape
    half = V // 2
    for c in range(n):
        for v in range(V):
            products[c, v] = out[v, c]
        if K.mean_of[c] >= 0:
            mean, along = K.means[K.mean_of[c]], 0.0
            for start in range(0, V, TILE):
                part = vectors.dtype.type(0)
                for v in range(start, min(start + TILE, V)):
                    part += mean[v] * table[v, c]
                along += part
            subtract(products[c], along, mean)
        plus, minus = means[c, 0], means[c, 1]
        above, below = class_means(products[c])
        above = above if K.is_projected[c] else 0.0
        below = below if K.is_projected[c] else 0.0
        within = K.within[c]
        class_term = K.between[c, 0] * half * (plus - minus)  # of c cᵀ
        mean_term = K.between[c, 1] * half * (plus + minus)  # of 1 1ᵀ
        above += within * plus - class_term - mean_term
        below += within * minus + class_term - mean_term
        for v in range(half):
            products[c, v] += within * vectors[c, v] - above
            products[c, half + v] += within * vectors[c, half + v] - below


@compiled
def advance_bidiagonal(n_steps, B, table, spaces):
    """Take some steps with the idealised covariance, see `_matrix_free.gaussian_run`."""
    for _ in range(n_steps):
        product = bidiagonal_covariance_product(B, spaces.newest[0], table)
        advance_lanczos(product, spaces)


@compiled
def bidiagonal_covariance_product(B, vectors, table):
    """Return Bᵀ Gᵀ G B times every row, drawing what is not yet known of G."""
    n, d = vectors.shape
    both = np.empty((2 * n, d))
    multiply(B, vectors, both)
    coordinates = transpose_multiply(both, table)
    images = np.zeros_like(vectors)
    add_combinations(images, coordinates, table.images[: table.counts.known], 0, d)
    return multiply_transposed(B, images)


@compiled
def multiply(B, vectors, out):
    """Write B times every row into `out`; the rows of B are its diagonal and superdiagonal."""
    for c in range(len(vectors)):
        x, y = vectors[c], out[c]
        for i in range(len(x)):
            y[i] = B[0, i] * x[i]
        for i in range(len(x) - 1):
            y[i] += B[1, i] * x[i + 1]


@compiled
def multiply_transposed(B, vectors):
    """Return Bᵀ times every row."""
    out = np.empty_like(vectors)
    for c in range(len(vectors)):
        x, y = vectors[c], out[c]
        for i in range(len(x)):
            y[i] = B[0, i] * x[i]
        for i in range(1, len(x)):
            y[i] += B[1, i - 1] * x[i - 1]
    return out


@compiled
def begin_lanczos(rows, spaces):
    """Make the start vectors the newest blocks, see `krylov.BlockLanczos`.

    `rows` has shape (matrices, block, coordinates) and is overwritten. Returns the coordinates of
    the start vectors in the basis, (matrices, block, block).
    """
    n, block = spaces.newest.shape[:2]
    coordinates = np.zeros((n, block, block))
    for a in range(n):
        for j in range(block):
            x = rows[a, j]
            x[0] = 0  # the signal's coordinate
            before = np.sqrt(dot(x, x))
            next_vector(x, before, j, 0, spaces.basis[a, :0], coordinates[a], spaces.newest[a])
    return coordinates


@compiled
def advance_lanczos(products, spaces):
    """Find the next blocks from the products with the newest ones, see `BlockLanczos.advance`.

    `products` are rows, matrix by matrix; they are overwritten.
    """
    n, block = spaces.newest.shape[:2]
    start = spaces.counts.steps * block
    end = start + block
    for a in range(n):
        Y, T, newest = spaces.basis[a, :end], spaces.matrix[a], spaces.newest[a]
        copy_rows(newest, Y, start, products.shape[1])
        for j in range(block):
            x = products[a * block + j]
            x[0] = 0  # the signal's coordinate
            before = np.sqrt(dot(x, x))
            for i in range(end):
                share = project(x, Y[i, : len(x)])
                if i >= start:
                    T[i, start + j] += share / 2  # symmetrised
                    T[start + j, i] += share / 2
            orthogonalise(x, Y, end)
            next_vector(x, before, j, start, Y, T, newest)
        for j in range(block):
            for i in range(block):
                T[start + j, end + i] = T[end + i, start + j]
    spaces.counts.steps += 1


@compiled(fastmath=True)
def next_vector(x, before, j, start, Y, T, newest):
    """Turn a product, Y taken from it, into row j of the next block, or into zeros.

    Its coefficients go into column start + j of T, below the rows that belong to Y; `before` is
    its length before Y was taken.
    """
    end = len(Y)
    for v in range(len(x)):
        newest[j, v] = 0
    for _ in range(2):
        for i in range(j):
            T[end + i, start + j] += project(x, newest[i, : len(x)])
    left = normalise(x)
    if left <= 1e-12 * before:
        return
    if left < DOUBTFUL * before:  # part of it may be rounding error
        orthogonalise(x, Y, end)
        orthogonalise(x, newest, j)
        again = normalise(x)
        if again < GENUINE:
            return
        left *= again
    for v in range(len(x)):
        newest[j, v] = x[v]
    T[end + j, start + j] = left


@compiled
def copy_rows(rows, out, first, size):
    """Copy the first entries of rows into `out` from row `first` on."""
    for j in range(len(rows)):
        for v in range(size):
            out[first + j, v] = rows[j, v]


@compiled(fastmath=True)
def project(x, y):
    """Take from x what lies along the unit vector y, in place; return the inner product."""
    share = dot(x, y)
    subtract(x, share, y)
    return share


@compiled(fastmath=True)
def orthogonalise(x, Y, n):
    """Take from x what lies along the first n rows of Y, one after the other."""
    for i in range(n):
        project(x, Y[i, : len(x)])


@compiled(fastmath=True)
def normalise(x):
    """Scale x to unit length in place, unless it is zero; return its length before."""
    left = np.sqrt(dot(x, x))
    if left > 0:
        for v in range(len(x)):
            x[v] /= left
    return left
