"""A Gaussian table of which only the queried products are drawn, vectors as rows.

The compiled counterpart of `_matrix_free.lazy_gaussian`, which says what is computed and why. A
query has three stages, so that large products with P can be shared by threads in between:

    begin_query    what is known of the answers; R and fresh Gaussians are drawn
    project_out    P is taken from the queried rows and from the fresh Gaussians
    end_query      new rows of P, the answers, and the images of the new directions
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Floats
from attnlaw.simulation._matrix_free.compiled.kernels import (
    add_combinations,
    chi,
    compiled,
    dot,
    dots,
    fill_normal,
    length,
    project_out,
    subtract,
)
from attnlaw.simulation._matrix_free.lazy_gaussian import GENUINE, OBLIQUE

__all__ = ["LazyTable", "begin_query", "empty_table", "end_query", "transpose_multiply"]

Vectors = NDArray[np.floating]

COUNTS = np.dtype(
    [
        ("queried", np.int64),  # orthonormal vectors in P
        ("known", np.int64),  # directions on the columns' side that have a name
        ("forgotten", np.int64),  # of these, the first ones, whose images are no longer kept
    ],
    align=True,
)


class LazyTable(NamedTuple):
    """What has been drawn of a Gaussian table; the arrays are updated in place."""

    counts: Any  # of COUNTS, by attribute in compiled code and by key outside
    queried: Vectors  # P: (room, V), orthonormal rows
    images: Vectors  # G: (room, V), of the directions known and not forgotten
    obliqueness: Floats  # (2,): inner products in the last two blocks of P, over eps
    words: NDArray[np.uint64]  # (4,): state of the generator, see `kernels`
    n_columns: int  # dimension of the columns' side
    is_chain: bool  # only the newest images are kept, see `LazyGaussian`


def empty_table(
    n_columns: int,
    words: NDArray[np.uint64],
    *,
    n_first: int,
    queried: Vectors,
    images: Vectors,
    is_chain: bool = False,
) -> LazyTable:
    """Return a table of which the images of the caller's first directions are drawn."""
    counts = np.zeros(1, COUNTS)[0]
    counts["known"] = n_first
    fill_normal(words, images[:n_first])
    return LazyTable(counts, queried, images, np.zeros(2), words, n_columns, is_chain)


@compiled
def transpose_multiply(vectors, table):
    """Return the coordinates of Zᵀ times rows, see `LazyGaussian.transpose_multiply`.

    The rows are the first half of `vectors`; all of it is overwritten.
    """
    inside, lengths, R = begin_query(vectors, table)
    project_out(vectors[: len(lengths) + len(R)], table.queried[: table.counts.queried])
    return end_query(vectors, inside, lengths, R, table)


@compiled
def begin_query(vectors, table):
    """Draw what a query may need: R, and in the second half of `vectors` fresh Gaussians.

    Returns what is known of the answers, the lengths of the rows, and R.
    """
    n, known = len(vectors) // 2, table.counts.known
    rows = vectors[:n]
    inside = dots(rows, table.images[: known - table.counts.forgotten], 0, rows.shape[1])
    R = gaussian_triangle(table.words, table.n_columns - known, n)
    fill_normal(table.words, vectors[n : n + len(R)])
    lengths = np.empty(n)
    for j in range(n):
        lengths[j] = length(rows[j])
    return inside, lengths, R


@compiled
def end_query(vectors, inside, lengths, R, table):
    """Return the answers, once P has been taken from the rows and from the fresh Gaussians."""
    n, counts = len(vectors) // 2, table.counts
    new, shares = split(vectors[:n], lengths, table)
    rank = min(len(R), new)
    answers = combine_answers(inside, R, shares, counts.forgotten, counts.known, rank, new)
    fresh = vectors[n : n + rank]
    impose_known_products(fresh, R, table.queried[counts.queried : counts.queried + new])
    if table.is_chain:
        counts.forgotten = counts.known
    append_rows(table.images, counts.known - counts.forgotten, fresh)
    counts.queried += new
    counts.known += rank
    return answers


@compiled
def combine_answers(inside, R, shares, forgotten, known, rank, new):
    """Return the coordinates: along known directions `inside`, along the new ones R B."""
    answers = np.zeros((len(inside), known + rank))
    for c in range(len(inside)):
        for i in range(forgotten, known):
            answers[c, i] = inside[c, i - forgotten]
        for i in range(rank):
            for j in range(i, new):
                answers[c, known + i] += R[i, j] * shares[j, c]
    return answers


@compiled
def impose_known_products(fresh, R, P):
    """Turn fresh Gaussians into images whose inner products with the new rows of P are R."""
    V = fresh.shape[1]
    missing = dots(fresh, P, 0, V)
    for i in range(len(fresh)):
        for j in range(len(P)):
            missing[i, j] = R[i, j] - missing[i, j]
    add_combinations(fresh, missing, P, 0, V)


@compiled
def append_rows(out, first, rows):
    """Copy rows into `out` from row `first` on; loops, which numba compiles faster than slices."""
    for i in range(len(rows)):
        row = out[first + i]
        for v in range(rows.shape[1]):
            row[v] = rows[i, v]


@compiled(fastmath=True)
def split(vectors, lengths, table):
    """Write W = P A + P₁ B, the A already taken; append P₁ to P, return its size and B.

    `lengths` are those before; the rows of W are overwritten. See `LazyGaussian._split`.
    """
    n, first, lost = len(vectors), table.counts.queried, table.obliqueness
    shares = np.zeros((n, n))
    least = 10 * np.finfo(vectors.dtype).eps
    new, sine = orthonormalise(vectors, lengths, least, table.queried, first, shares)
    lost[0], lost[1] = lost[1], (1 + max(lost[0], lost[1])) / sine
    if lost[1] > OBLIQUE:
        lost[1] = 1 / sine
        again = table.queried[first : first + new].copy()
        project_out(again, table.queried[:first])
        correction = np.zeros((n, n))
        new, _ = orthonormalise(again, np.ones(new), GENUINE, table.queried, first, correction)
        shares = small_product(correction, shares)
    return new, shares


@compiled(fastmath=True)
def small_product(A, B):
    """Return A B for small square matrices."""
    n = len(A)
    out = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            for k in range(n):
                out[i, j] += A[i, k] * B[k, j]
    return out


@compiled(fastmath=True)
def orthonormalise(vectors, lengths, least, out, first, shares):
    """Write orthonormal rows to `out` from row `first` on; return how many, and the least sine.

    What is left of a row counts as rounding where it is shorter than its length times `least`.
    """
    new, sine = 0, 1.0
    for j in range(len(vectors)):
        x = vectors[j]
        for _ in range(2):
            for i in range(new):
                done = out[first + i]
                share = dot(x, done)
                shares[i, j] += share
                subtract(x, share, done)
        left = length(x)
        if left > least * lengths[j]:
            sine = min(sine, left / lengths[j])
            for v in range(len(x)):
                out[first + new, v] = x[v] / left
            shares[new, j] = left
            new += 1
    return new, sine


@compiled
def gaussian_triangle(words, dimension, n):
    """Draw the factor R of n Gaussian vectors, see `lazy_gaussian.gaussian_triangle`."""
    rank = min(dimension, n)
    R = np.zeros((rank, n))
    for i in range(rank):
        R[i, i] = chi(words, dimension - i)
        fill_normal(words, R[i, i + 1 :])
    return R
