"""The smallest compiled loops: random numbers, and linear algebra on a few long rows.

NumPy's generator draws a normal number in about ten nanoseconds, most of them spent in calls.
Compiled into the loop that needs it, the same ziggurat on xoshiro256++ takes about three.

Long rows are processed one tile at a time, which the first-level cache holds, and sums over tiles
are accumulated in double precision.
"""

from typing import Any

import numba
import numpy as np

from attnlaw.simulation._matrix_free.stream import EDGES, HEIGHTS, TAIL, seeded_state

__all__ = [
    "TILE",
    "CompiledStream",
    "add_combinations",
    "chi",
    "clear",
    "compiled",
    "dot",
    "dots",
    "fill_normal",
    "fill_sign_tokens",
    "fill_tokens",
    "length",
    "n_threads",
    "project_out",
    "subtract",
]

TILE = 1024  # entries of a long row


def compiled(function: Any = None, **options: Any) -> Any:
    """Compile without the GIL, kept on disk where there is a place to write."""
    if function is None:
        return lambda function: compiled(function, **options)
    options = {"nogil": True, "error_model": "numpy", **options}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # neither the package's nor the user's cache directory is writable
        return numba.njit(**options)(function)


def n_threads() -> int:
    """Return how many threads a product may take (NUMBA_NUM_THREADS, by default all cores)."""
    return int(numba.get_num_threads())


class CompiledStream:
    """Tokens as `stream.Stream` draws them, in compiled loops."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._words = seeded_state(rng)

    def tokens(self, signs, half, kind):
        """Draw a token for every sign, see `Stream.tokens`."""
        out = np.empty(signs.shape, dtype=kind)
        fill_tokens(self._words, signs, half, out)
        return out

    def sign_tokens(self, n, members, polarity, half, kind):
        """Draw n sequences with independent or shared signs, see `Stream.sign_tokens`."""
        out = np.empty((n, len(members)), dtype=kind)
        fill_sign_tokens(self._words, members, polarity, half, out)
        return out


@compiled(inline="always")
def _next(s0, s1, s2, s3):
    """Return 64 random bits and the next state: xoshiro256++ of Blackman & Vigna (2021)."""
    total = s0 + s3
    word = ((total << np.uint64(23)) | (total >> np.uint64(41))) + s0
    t = s1 << np.uint64(17)
    s2 ^= s0
    s3 ^= s1
    s1 ^= s2
    s0 ^= s3
    s2 ^= t
    s3 = (s3 << np.uint64(45)) | (s3 >> np.uint64(19))
    return word, s0, s1, s2, s3


@compiled
def _uniform(state):
    """Return a uniform number in (0, 1)."""
    word, s0, s1, s2, s3 = _next(state[0], state[1], state[2], state[3])
    state[0], state[1], state[2], state[3] = s0, s1, s2, s3
    return (np.float64(word >> np.uint64(11)) + 0.5) * 2.0**-53


@compiled
def _outside(state, i, x):
    """Return a number from layer i where x is not safely inside it; negative: try again."""
    if i == 0:  # the tail, by Marsaglia's exact method
        while True:
            x = -np.log(_uniform(state)) / TAIL
            if -2 * np.log(_uniform(state)) > x * x:
                return x + TAIL
    height = HEIGHTS[i] + _uniform(state) * (HEIGHTS[i + 1] - HEIGHTS[i])
    return x if height < np.exp(-x * x / 2) else -1.0


@compiled
def fill_normal(state, out):
    """Fill an array with independent standard normal numbers."""
    flat = out.reshape(-1)
    s0, s1, s2, s3 = state[0], state[1], state[2], state[3]
    k = 0
    while k < len(flat):
        word, s0, s1, s2, s3 = _next(s0, s1, s2, s3)
        i = word & np.uint64(255)
        x = np.float64(np.int64(word >> np.uint64(11))) * 2.0**-53 * EDGES[i]
        if x >= EDGES[i + np.uint64(1)]:  # about one in a hundred
            state[0], state[1], state[2], state[3] = s0, s1, s2, s3
            x = _outside(state, np.intp(i), x)
            s0, s1, s2, s3 = state[0], state[1], state[2], state[3]
            if x < 0:
                continue
        flat[k] = x * np.float64(np.int64((word >> np.uint64(7)) & np.uint64(2)) - 1)  # ±x
        k += 1
    state[0], state[1], state[2], state[3] = s0, s1, s2, s3


@compiled
def chi(state, freedom):
    """Return the length of a standard Gaussian vector in `freedom` ≥ 1 dimensions.

    Notes
    -----
    By Marsaglia & Tsang (2000): with δ = freedom/2 − 1/3 and a normal x, 2 δ (1 + x/√(9δ))³ is
    χ²-distributed after a rejection that seldom happens. One dimension is |x| itself.
    """
    x = np.empty(1)
    delta = freedom / 2 - 1 / 3
    while True:
        fill_normal(state, x)
        if freedom == 1:
            return abs(x[0])
        v = (1 + x[0] / np.sqrt(9 * delta)) ** 3
        if v > 0 and np.log(_uniform(state)) < x[0] ** 2 / 2 + delta * (1 - v + np.log(v)):
            return np.sqrt(2 * delta * v)


@compiled(inline="always")
def _below(n, unfair, s0, s1, s2, s3):
    """Return a uniform whole number below n < 2³² and the next state (Lemire 2019).

    `unfair` is 2³² mod n: so many of the 2³² words would favour some numbers and are drawn again.
    """
    while True:
        word, s0, s1, s2, s3 = _next(s0, s1, s2, s3)
        product = (word >> np.uint64(32)) * n
        if product & np.uint64(0xFFFFFFFF) >= unfair:
            return product >> np.uint64(32), s0, s1, s2, s3


@compiled
def fill_tokens(state, signs, half, out):
    """Draw a token for every sign: among the first `half` for +1, among the second for −1."""
    s0, s1, s2, s3 = state[0], state[1], state[2], state[3]
    n = np.uint64(half)
    unfair = np.uint64(2**32) % n
    for i in range(signs.shape[0]):
        for j in range(signs.shape[1]):
            token, s0, s1, s2, s3 = _below(n, unfair, s0, s1, s2, s3)
            out[i, j] = token + (n if signs[i, j] < 0 else np.uint64(0))
    state[0], state[1], state[2], state[3] = s0, s1, s2, s3


@compiled
def fill_sign_tokens(state, members, polarity, half, out):
    """Draw tokens whose signs are independent Rademacher signs, some shared by several positions.

    Parameters
    ----------
    state : array of four unsigned words
        Of the generator.
    members : array of int, shape (length,)
        The sign, at most the 64th, of each position.
    polarity : array of ±1, shape (length,)
        Whether the position has that sign or the opposite one.
    half : int
        Tokens in each class.
    out : array of unsigned int, shape (N, length)
        The tokens.
    """
    s0, s1, s2, s3 = state[0], state[1], state[2], state[3]
    n, one = np.uint64(half), np.uint64(1)
    unfair = np.uint64(2**32) % n
    turned = (polarity > 0).astype(np.uint64)
    for i in range(out.shape[0]):
        signs, s0, s1, s2, s3 = _next(s0, s1, s2, s3)
        for j in range(out.shape[1]):
            is_negative = ((signs >> np.uint64(members[j])) & one) ^ turned[j]
            token, s0, s1, s2, s3 = _below(n, unfair, s0, s1, s2, s3)
            out[i, j] = token + is_negative * n
    state[0], state[1], state[2], state[3] = s0, s1, s2, s3


@compiled(fastmath=True)
def dot(x, y):
    """Return x·y, summed in their own precision."""
    total = x.dtype.type(0)
    for v in range(len(x)):
        total += x[v] * y[v]
    return total


@compiled(fastmath=True)
def length(x):
    """Return ‖x‖."""
    total = 0.0
    for start in range(0, len(x), TILE):
        part = x.dtype.type(0)
        for v in range(start, min(start + TILE, len(x))):
            part += x[v] * x[v]
        total += part
    return np.sqrt(total)


@compiled(fastmath=True)
def subtract(x, share, y):
    """Take a share of y from x, in place."""
    share = x.dtype.type(share)
    for v in range(len(x)):
        x[v] -= share * y[v]


@compiled(fastmath=True)
def dots(X, Y, start, stop):
    """Return X Yᵀ over the columns from start to stop, in double precision.

    Two rows of X and four of Y at a time: faster than BLAS for a few long rows.
    """
    n, m, zero = len(X), len(Y), X.dtype.type(0)
    out = np.zeros((n, m))
    for low in range(start, stop, TILE):
        high = min(low + TILE, stop)
        for j in range(0, m, 4):
            y0, y1 = Y[j, low:high], Y[min(j + 1, m - 1), low:high]
            y2, y3 = Y[min(j + 2, m - 1), low:high], Y[min(j + 3, m - 1), low:high]
            for i in range(0, n, 2):
                x, x_ = X[i, low:high], X[min(i + 1, n - 1), low:high]
                a = b = c = d = a_ = b_ = c_ = d_ = zero
                for v in range(len(x)):
                    a += x[v] * y0[v]
                    b += x[v] * y1[v]
                    c += x[v] * y2[v]
                    d += x[v] * y3[v]
                    a_ += x_[v] * y0[v]
                    b_ += x_[v] * y1[v]
                    c_ += x_[v] * y2[v]
                    d_ += x_[v] * y3[v]
                for k, (first, second) in enumerate(((a, a_), (b, b_), (c, c_), (d, d_))):
                    if j + k < m:
                        out[i, j + k] += first
                        if i + 1 < n:
                            out[i + 1, j + k] += second
    return out


@compiled(fastmath=True)
def add_combinations(out, C, Y, start, stop):
    """Add C Y to `out` in the columns from start to stop, two rows and four of Y at a time."""
    n, m, kind = len(out), len(Y), out.dtype.type
    for low in range(start, stop, TILE):
        high = min(low + TILE, stop)
        for j in range(0, m - 3, 4):
            y0, y1 = Y[j, low:high], Y[j + 1, low:high]
            y2, y3 = Y[j + 2, low:high], Y[j + 3, low:high]
            for i in range(0, n - 1, 2):
                x, x_ = out[i, low:high], out[i + 1, low:high]
                a, b = kind(C[i, j]), kind(C[i, j + 1])
                c, d = kind(C[i, j + 2]), kind(C[i, j + 3])
                a_, b_ = kind(C[i + 1, j]), kind(C[i + 1, j + 1])
                c_, d_ = kind(C[i + 1, j + 2]), kind(C[i + 1, j + 3])
                for v in range(len(x)):
                    x[v] += a * y0[v] + b * y1[v] + c * y2[v] + d * y3[v]
                    x_[v] += a_ * y0[v] + b_ * y1[v] + c_ * y2[v] + d_ * y3[v]
        for i in range(n):
            for j in range(0 if i == n - 1 and n % 2 else m - m % 4, m):
                subtract(out[i, low:high], -C[i, j], Y[j, low:high])


@compiled
def clear(X):
    """Set all rows to zero; a loop, which numba compiles faster than an assignment to a slice."""
    for i in range(X.shape[0]):
        for v in range(X.shape[1]):
            X[i, v] = 0


@compiled
def project_out(X, Y):
    """Take from the rows of X what lies along the orthonormal rows of Y."""
    shares = dots(X, Y, 0, X.shape[1])
    for i in range(len(X)):
        for j in range(len(Y)):
            shares[i, j] = -shares[i, j]
    add_combinations(X, shares, Y, 0, X.shape[1])
