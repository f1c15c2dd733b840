"""The steps of `revealed` and `lanczos` on real tokens, compiled; imported only when used.

For small tables a step of block Lanczos takes less time than the NumPy calls it is made of. Here
are the same steps in one loop, with the vectors as rows. `_matrix_free.trial` is the
place to read what they do.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Floats
from attnlaw.simulation._matrix_free.draws import chi, fill_normal
from attnlaw.simulation._matrix_free.kernels import add_gram_product, compiled
from attnlaw.simulation._matrix_free.lanczos import DOUBTFUL
from attnlaw.simulation._matrix_free.lazy_gaussian import GENUINE, OBLIQUE
from attnlaw.simulation._matrix_free.rows import (
    TILE,
    add_combinations,
    clear,
    dot,
    dots,
    length,
    project_out,
    subtract,
)

__all__ = ["Covariances", "State", "advance", "advance_lanczos", "roots", "transpose_multiply"]

Vectors = NDArray[np.floating]


class Covariances(NamedTuple):
    """K of every column in flight: Π Mᵀ(I − 11ᵀ/N)M Π/N + within Π + between [c, 1]."""

    weights: Vectors  # (length, width), a column for each column; zeros where there is no M
    scaled: Vectors  # the same over N
    means: Vectors  # (n_weights, V): Mᵀ1/N
    mean_of: NDArray[np.int_]  # (columns,): the row of `means`, −1 when not centred
    is_stripped: NDArray[np.bool_]  # (columns,): whether Π stands around M
    within: Floats  # (columns,)
    between: Floats  # (columns, 2)


class State(NamedTuple):
    """What has been revealed of the table, and the Krylov spaces so far."""

    counts: NDArray[np.int64]  # vectors asked, directions known, steps taken, images forgotten
    asked: Vectors  # P: (room, V)
    images: Vectors  # G: (room, V), those of the directions known and not forgotten
    basis: Floats  # Y: (matrices, room, room), vectors as rows
    newest: Floats  # Y_k: (matrices, block, room)
    matrix: Floats  # YᵀSY: (matrices, room, room)
    lost: Floats  # (2,): inner products in the last two blocks of P, over eps
    is_chain: bool  # one matrix: images older than the newest are forgotten, see `RevealedMatrix`


@compiled
def advance(words, n_steps, n_columns, tokens, K, state):
    """Take some steps.

    Parameters
    ----------
    words : array of four unsigned words
        State of the generator, see `draws`.
    n_steps : int
        How many.
    n_columns : int
        Dimension d of the table's columns' side.
    tokens : array of unsigned int, shape (N, length)
        Row of the table at every position.
    K : Covariances
        Of the columns in flight.
    state : State
        What is known; it is brought up to date in place.
    """
    columns, V = state.newest.shape[0] * state.newest.shape[1], state.asked.shape[1]
    vectors = np.empty((2 * columns, V), dtype=state.asked.dtype)
    images = np.empty((columns, V), dtype=state.asked.dtype)
    table = np.empty((V, K.weights.shape[1]), dtype=state.asked.dtype)
    out = np.empty_like(table)
    for _ in range(n_steps):
        reveal(state, images)
        means = spread(K, images, table)
        clear(out)
        add_gram_product(tokens, K.weights, K.scaled, table, out)
        collect(K, images, table, means, out, vectors[:columns])
        advance_lanczos(transpose_multiply(words, n_columns, vectors, state), state)


@compiled
def reveal(state, images):
    """Write Z times the newest vectors into `images`: (columns, V)."""
    forgotten, known = state.counts[3], state.counts[1]
    n, block = state.newest.shape[:2]
    coordinates = np.empty((n * block, known - forgotten))
    for a in range(n):
        for j in range(block):
            for i in range(forgotten, known):  # loops, not slices: numba compiles them faster
                coordinates[a * block + j, i - forgotten] = state.newest[a, j, i]
    clear(images)
    add_combinations(images, coordinates, state.images[: known - forgotten], 0, images.shape[1])


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
        above = means[c, 0] if K.is_stripped[c] else 0.0
        below = means[c, 1] if K.is_stripped[c] else 0.0
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
        above = above if K.is_stripped[c] else 0.0
        below = below if K.is_stripped[c] else 0.0
        within = K.within[c]
        class_term = K.between[c, 0] * half * (plus - minus)  # of c cᵀ
        mean_term = K.between[c, 1] * half * (plus + minus)  # of 1 1ᵀ
        above += within * plus - class_term - mean_term
        below += within * minus + class_term - mean_term
        for v in range(half):
            products[c, v] += within * vectors[c, v] - above
            products[c, half + v] += within * vectors[c, half + v] - below


@compiled
def transpose_multiply(words, n_columns, vectors, state):
    """Return the coordinates of Zᵀ times rows, see `RevealedMatrix.transpose_multiply`.

    The rows are the first half of `vectors`; all of it is overwritten.
    """
    inside, lengths, R = begin_question(words, n_columns, vectors, state)
    project_out(vectors[: len(lengths) + len(R)], state.asked[: state.counts[0]])
    return end_question(vectors, inside, lengths, R, state)


@compiled
def begin_question(words, n_columns, vectors, state):
    """Draw what a question may need: R, and in the second half of `vectors` fresh Gaussians.

    Returns what is known of the answers, the lengths of the rows, and R.
    """
    n, known = len(vectors) // 2, state.counts[1]
    rows = vectors[:n]
    inside = dots(rows, state.images[: known - state.counts[3]], 0, rows.shape[1])
    R = gaussian_triangle(words, n_columns - known, n)
    fill_normal(words, vectors[n : n + len(R)])
    lengths = np.empty(n)
    for j in range(n):
        lengths[j] = length(rows[j])
    return inside, lengths, R


@compiled
def end_question(vectors, inside, lengths, R, state):
    """Return the answers, once P has been taken from the rows and from the fresh Gaussians."""
    n, V = len(vectors) // 2, vectors.shape[1]
    asked, known, forgotten = state.counts[0], state.counts[1], state.counts[3]
    new, shares = split(vectors[:n], lengths, state.asked, asked, state.lost)
    rank = min(len(R), new)
    fresh, P = vectors[n : n + rank], state.asked[asked : asked + new]
    seen = dots(fresh, P, 0, V)
    for i in range(rank):
        for j in range(new):
            seen[i, j] = R[i, j] - seen[i, j]
    add_combinations(fresh, seen, P, 0, V)

    rows = np.zeros((n, known + rank))
    for c in range(n):
        for i in range(forgotten, known):
            rows[c, i] = inside[c, i - forgotten]
        for i in range(rank):
            for j in range(i, new):
                rows[c, known + i] += R[i, j] * shares[j, c]
    if state.is_chain:
        forgotten = known
    state.counts[0], state.counts[1], state.counts[3] = asked + new, known + rank, forgotten
    for i in range(rank):
        image = state.images[known - forgotten + i]
        for v in range(V):
            image[v] = fresh[i, v]
    return rows


@compiled(fastmath=True)
def split(vectors, lengths, asked, p, lost):
    """Write W = P A + P₁ B, the A already taken; append P₁ to `asked`, return its size and B.

    `lengths` are those before; the rows of W are overwritten. See `RevealedMatrix._split`.
    """
    n = len(vectors)
    shares = np.zeros((n, n))
    least = 10 * np.finfo(vectors.dtype).eps
    new, sine = orthonormalise(vectors, lengths, least, asked, p, shares)
    lost[0], lost[1] = lost[1], (1 + max(lost[0], lost[1])) / sine
    if lost[1] > OBLIQUE:
        lost[1] = 1 / sine
        again = asked[p : p + new].copy()
        project_out(again, asked[:p])
        correction, first = np.zeros((n, n)), shares.copy()
        new, _ = orthonormalise(again, np.ones(new), GENUINE, asked, p, correction)
        for i in range(n):
            for j in range(n):
                shares[i, j] = 0
                for k in range(n):
                    shares[i, j] += correction[i, k] * first[k, j]
    return new, shares


@compiled(fastmath=True)
def orthonormalise(vectors, lengths, least, asked, p, shares):
    """Append orthonormal rows to `asked` from row p on; return how many, and the least sine.

    What is left of a row counts as rounding where it is shorter than its length times `least`.
    """
    new, sine = 0, 1.0
    for j in range(len(vectors)):
        x = vectors[j]
        for _ in range(2):
            for i in range(new):
                done = asked[p + i]
                share = dot(x, done)
                shares[i, j] += share
                subtract(x, share, done)
        left = length(x)
        if left > least * lengths[j]:
            sine = min(sine, left / lengths[j])
            for v in range(len(x)):
                asked[p + new, v] = x[v] / left
            shares[new, j] = left
            new += 1
    return new, sine


@compiled
def gaussian_triangle(words, dimension, n):
    """Draw the factor R of n Gaussian vectors, see `revealed.gaussian_triangle`."""
    rank = min(dimension, n)
    R = np.zeros((rank, n))
    for i in range(rank):
        R[i, i] = chi(words, dimension - i)
        fill_normal(words, R[i, i + 1 :])
    return R


@compiled(fastmath=True)
def advance_lanczos(rows, state):
    """Take the products with the newest blocks, see `BlockLanczos.advance`."""
    size = rows.shape[1]
    n, block = state.newest.shape[:2]
    start = state.counts[2] * block
    end = start + block
    for a in range(n):
        Y, T, newest = state.basis[a], state.matrix[a], state.newest[a]
        for j in range(block):
            for v in range(size):
                Y[start + j, v] = newest[j, v]
        for j in range(block):
            x = rows[a * block + j]
            x[0] = 0  # the signal's coordinate
            before = np.sqrt(dot(x, x))
            for repeat in range(2):
                for i in range(end):
                    y = Y[i, :size]
                    share = dot(x, y)
                    subtract(x, share, y)
                    if repeat == 0 and i >= start:
                        T[i, start + j] += share / 2  # symmetrised
                        T[start + j, i] += share / 2
            for v in range(size):
                newest[j, v] = 0
            for _ in range(2):
                for i in range(j):
                    y = newest[i, :size]
                    share = dot(x, y)
                    T[end + i, start + j] += share
                    subtract(x, share, y)
            left = np.sqrt(dot(x, x))
            if left <= 1e-12 * before:
                continue
            for v in range(size):
                x[v] /= left
            if left < DOUBTFUL * before:  # part of it may be rounding
                for i in range(end):
                    y = Y[i, :size]
                    subtract(x, dot(x, y), y)
                for i in range(j):
                    y = newest[i, :size]
                    subtract(x, dot(x, y), y)
                again = np.sqrt(dot(x, x))
                if again < 0.7:
                    continue
                left *= again
                for v in range(size):
                    x[v] /= again
            subtract(newest[j, :size], -1.0, x)
            T[end + j, start + j] = left
        for j in range(block):
            for i in range(block):
                T[start + j, end + i] = T[end + i, start + j]
    state.counts[2] += 1


def roots(squares, gaps, heads, top, tiny):
    """Solve the secular equation at every norm, see `secular.roots`."""
    n = squares.shape[-1]
    squares, gaps = (
        np.ascontiguousarray(np.broadcast_to(x, squares.shape)).reshape(-1, n)
        for x in (squares, gaps)
    )
    flat = (np.broadcast_to(x, heads.shape).ravel() for x in (heads, top, tiny))
    return _roots(squares, gaps, *flat).reshape(heads.shape)


@compiled
def _roots(squares, gaps, heads, top, tiny):
    eps = np.finfo(np.float64).eps
    out = np.empty(len(heads))
    for row in range(len(heads)):
        low, high, s = 0.0, top[row], top[row] / 2
        weight = 0.0
        for i in range(gaps.shape[1]):
            if gaps[row, i] == 0:
                weight += squares[row, i]
        is_close = False
        for _ in range(200):
            rest = slope = 0.0
            for i in range(gaps.shape[1]):
                if gaps[row, i] != 0:
                    inverse = 1 / (s + gaps[row, i])
                    term = squares[row, i] * inverse
                    rest += term
                    slope -= term * inverse
            if heads[row] + rest + weight / s > s:
                low = s
            else:
                high = s
            A, B = heads[row] + rest - slope * s, 1 - slope
            root = np.sqrt(A**2 + 4 * B * weight)
            step = (A + root) / (2 * B) if A > 0 else 2 * weight / (root - A)
            is_close = abs(step - s) <= 4 * eps * s + tiny[row] / 4
            s = step if is_close or low < step < high else (low + high) / 2
            if is_close or high - low <= tiny[row]:
                break
        out[row] = s if is_close or high - low <= tiny[row] else np.nan
    if np.isnan(out).any():
        raise ArithmeticError("the secular equation did not converge.")
    return out
