"""Random numbers inside compiled loops.

NumPy's generator draws a normal number in about ten nanoseconds, most of them spent in calls.
Compiled into the loop that needs it, the same ziggurat on xoshiro256++ takes about three.
"""

import numpy as np

from attnlaw.simulation._matrix_free.compiled.kernels import compiled
from attnlaw.simulation._matrix_free.stream import EDGES, HEIGHTS, TAIL, seeded_state

__all__ = ["CompiledStream", "chi", "fill_normal", "fill_sign_tokens", "fill_tokens"]


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
