"""The steps of `revealed` and `lanczos` on real tokens, compiled; imported only when used.

For small tables a step of block Lanczos takes less time than the NumPy calls it is made of. Here
are the same steps in one loop, with the vectors as rows. `attnlaw.simulation.matrix_free` is the
place to read what they do.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnlaw.simulation.draws import chi, fill_normal
from attnlaw.simulation.kernels import add_gram_product, compiled
from attnlaw.simulation.lanczos import DOUBTFUL
from attnlaw.simulation.revealed import OBLIQUE
from attnlaw.simulation.rows import add_combinations, dot, dots, project_out, subtract

__all__ = ["Covariances", "State", "advance", "advance_lanczos", "roots", "transpose_multiply"]

Floats = NDArray[np.float64]
Vectors = NDArray[np.floating]


class Covariances(NamedTuple):
    """K of every column in flight: Π Mᵀ(I − 11ᵀ/N)M Π/N + within Π + between [c, 1]."""

    tokens: NDArray[np.unsignedinteger]  # (N, length)
    weights: Vectors  # (length, width), a column for each column; zeros where there is no M
    scaled: Vectors  # the same over N
    means: Vectors  # (n_weights, V): Mᵀ1/N
    mean_of: NDArray[np.int_]  # (columns,): the row of `means`, −1 when not centred
    is_stripped: NDArray[np.bool_]  # (columns,): whether Π stands around M
    within: Floats  # (columns,)
    between: Floats  # (columns, 2)


class State(NamedTuple):
    """What has been revealed of the table, and the Krylov spaces so far."""

    counts: NDArray[np.int64]  # vectors asked, directions known, steps taken
    asked: Vectors  # P: (room, V)
    images: Vectors  # G: (room, V)
    basis: Floats  # Y: (matrices, room, room), vectors as rows
    newest: Floats  # Y_k: (matrices, block, room)
    matrix: Floats  # YᵀSY: (matrices, room, room)
    lost: Floats  # (2,): inner products in the last two blocks of P, over eps


@compiled
def advance(words, n_steps, n_columns, K, state):
    """Take some steps.

    Parameters
    ----------
    words : array of four unsigned words
        State of the generator, see `draws`.
    n_steps : int
        How many.
    n_columns : int
        Dimension d of the table's columns' side.
    K : Covariances
        Of the columns in flight.
    state : State
        What is known; it is brought up to date in place.
    """
    for _ in range(n_steps):
        products = multiply(K, images_of(state))
        advance_lanczos(transpose_multiply(words, n_columns, products, state), state)


@compiled
def images_of(state):
    """Return Z times the newest vectors: (columns, V)."""
    known = state.counts[1]
    n, block = state.newest.shape[:2]
    coordinates = np.empty((n * block, known), dtype=state.images.dtype)
    for a in range(n):
        for j in range(block):
            for i in range(known):  # loops, not slices: numba compiles them ten times faster
                coordinates[a * block + j, i] = state.newest[a, j, i]
    images = np.zeros((n * block, state.images.shape[1]), dtype=state.images.dtype)
    add_combinations(images, coordinates, state.images[:known])
    return images


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
def multiply(K, vectors):
    """Return K times every row: (columns, V)."""
    n, V = vectors.shape
    width, half = K.weights.shape[1], V // 2
    table = np.zeros((V, width), dtype=vectors.dtype)
    out = np.zeros((V, width), dtype=vectors.dtype)
    plus, minus = np.empty(n), np.empty(n)  # class means
    for c in range(n):
        plus[c], minus[c] = class_means(vectors[c])
        above = plus[c] if K.is_stripped[c] else 0.0
        below = minus[c] if K.is_stripped[c] else 0.0
        for v in range(half):
            table[v, c] = vectors[c, v] - above
            table[half + v, c] = vectors[c, half + v] - below
    add_gram_product(K.tokens, K.weights, K.scaled, table, out)
    products = np.empty_like(vectors)
    for c in range(n):
        for v in range(V):
            products[c, v] = out[v, c]
        if K.mean_of[c] >= 0:
            mean, along = K.means[K.mean_of[c]], vectors.dtype.type(0)
            for v in range(V):
                along += mean[v] * table[v, c]
            subtract(products[c], along, mean)
        above, below = class_means(products[c])
        above = above if K.is_stripped[c] else 0.0
        below = below if K.is_stripped[c] else 0.0
        within = K.within[c]
        class_term = K.between[c, 0] * half * (plus[c] - minus[c])  # of c cᵀ
        mean_term = K.between[c, 1] * half * (plus[c] + minus[c])  # of 1 1ᵀ
        above += within * plus[c] - class_term - mean_term
        below += within * minus[c] + class_term - mean_term
        for v in range(half):
            products[c, v] += within * vectors[c, v] - above
            products[c, half + v] += within * vectors[c, half + v] - below
    return products


@compiled
def transpose_multiply(words, n_columns, vectors, state):
    """Return the coordinates of Zᵀ times every row, see `RevealedMatrix.transpose_multiply`.

    The rows themselves are overwritten.
    """
    asked, known = state.counts[0], state.counts[1]
    inside = dots(vectors, state.images[:known])
    new, shares = split(vectors, state.asked, asked, state.lost)
    R = gaussian_triangle(words, n_columns - known, new)
    rank, asked = len(R), asked + new

    fresh = state.images[known : known + rank]
    fill_normal(words, fresh)
    seen = dots(fresh, state.asked[:asked])
    for i in range(rank):
        for j in range(asked):
            seen[i, j] = (R[i, j - asked + new] if j >= asked - new else 0.0) - seen[i, j]
    add_combinations(fresh, seen, state.asked[:asked])
    state.counts[0], state.counts[1] = asked, known + rank

    rows = np.zeros((len(vectors), known + rank))
    for c in range(len(vectors)):
        for i in range(known):
            rows[c, i] = inside[c, i]
        for i in range(rank):
            for j in range(i, new):
                rows[c, known + i] += R[i, j] * shares[j, c]
    return rows


@compiled(fastmath=True)
def split(vectors, asked, p, lost):
    """Write W = P A + P₁ B; append P₁ to `asked`, return its size and B (overwrites W)."""
    n = len(vectors)
    lengths = np.empty(n)
    for j in range(n):
        lengths[j] = np.sqrt(dot(vectors[j], vectors[j]))
    project_out(vectors, asked[:p])
    shares = np.zeros((n, n))
    new, sine = orthonormalise(vectors, lengths, asked, p, shares)
    rounding = 1 / sine
    lost[0], lost[1] = lost[1], rounding + max(lost[0], lost[1]) / sine
    if lost[1] > OBLIQUE:
        lost[1] = rounding
        again = asked[p : p + new].copy()
        project_out(again, asked[:p])
        correction = np.zeros((n, n))
        new, _ = orthonormalise(again, np.ones(new), asked, p, correction)
        before = shares.copy()
        for i in range(n):
            for j in range(n):
                shares[i, j] = 0
                for k in range(n):
                    shares[i, j] += correction[i, k] * before[k, j]
    return new, shares


@compiled(fastmath=True)
def orthonormalise(vectors, lengths, asked, p, shares):
    """Append orthonormal rows to `asked` from row p on; return how many, and the least sine."""
    lost = 10 * np.finfo(vectors.dtype).eps
    new, sine = 0, 1.0
    for j in range(len(vectors)):
        x = vectors[j]
        for _ in range(2):
            for i in range(new):
                done = asked[p + i]
                share = dot(x, done)
                shares[i, j] += share
                subtract(x, share, done)
        length = np.sqrt(dot(x, x))
        if length > lost * lengths[j]:
            sine = min(sine, length / lengths[j])
            for v in range(len(x)):
                asked[p + new, v] = x[v] / length
            shares[new, j] = length
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
            length = np.sqrt(dot(x, x))
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
            if left <= 1e-12 * length:
                continue
            for v in range(size):
                x[v] /= left
            if left < DOUBTFUL * length:  # part of it may be rounding
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
