r"""The random numbers of `compiled.kernels` without numba: the same numbers, drawn by NumPy.

A generator is sequential, NumPy fast on many numbers at once. But the state of xoshiro256++ is
256 bits and its step linear in them over GF(2), so the state m steps ahead is a product with a
fixed matrix: many stretches of the one sequence are produced side by side.
"""

from functools import cache
from math import erfc, exp, log, pi, sqrt
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Floats

__all__ = ["EDGES", "HEIGHTS", "TAIL", "Source", "Stream", "seeded_state"]

Words = NDArray[np.uint64]
Kind = TypeVar("Kind", bound=np.unsignedinteger)

STEPS = 64  # words of a stretch
MOST_STRETCHES = 1024  # a power of two
FEW = 8  # numbers that are drawn one by one
BATCH = 2**14  # numbers that are worked on at a time

# Ziggurat of Marsaglia & Tsang (2000): 256 layers of equal area under exp(−x²/2). Layer i reaches
# to EDGES[i]; the lowest holds the tail beyond TAIL, and its EDGES[0] is its area over its height.
TAIL = 3.6541528853610088


def _ziggurat() -> tuple[Floats, Floats]:
    area = TAIL * exp(-(TAIL**2) / 2) + sqrt(pi / 2) * erfc(TAIL / sqrt(2))
    edges = [area * exp(TAIL**2 / 2), TAIL]
    for _ in range(254):
        edges.append(sqrt(-2 * log(area / edges[-1] + exp(-(edges[-1] ** 2) / 2))))
    return np.array([*edges, 0.0]), np.exp(-(np.array([*edges, 0.0]) ** 2) / 2)


EDGES, HEIGHTS = _ziggurat()


def seeded_state(rng: np.random.Generator) -> Words:
    """Return a state of xoshiro256++ (four words) drawn from a generator."""
    return np.frombuffer(bytearray(rng.bytes(32)), dtype=np.uint64)


class Source(Protocol):
    """Where tokens are drawn from."""

    def tokens(self, signs: NDArray[np.int8], half: int, kind: type[Kind]) -> NDArray[Kind]:
        """Draw a token for every sign, see `Stream.tokens`."""

    def sign_tokens(
        self,
        n: int,
        members: NDArray[np.intp],
        polarity: NDArray[np.int8],
        half: int,
        kind: type[Kind],
    ) -> NDArray[Kind]:
        """Draw n sequences with independent or shared signs, see `Stream.sign_tokens`."""


class Stream:
    """Words, normals and tokens from a generator, in the order in which compiled loops draw them.

    Parameters
    ----------
    rng : Generator
        Gives the first state, see `seeded_state`.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self._state = seeded_state(rng).reshape(4, 1)
        self._ahead = np.empty(0, dtype=np.uint64)  # drawn and not yet used
        self._n_stretches = 16  # to draw next: more from time to time

    def _look(self, n: int) -> Words:
        """Return the next n words without using them up."""
        while len(self._ahead) < n:
            words, self._state = _stretches(self._state, max(n // STEPS, self._n_stretches))
            self._ahead = np.concatenate([self._ahead, words])
            self._n_stretches = min(2 * self._n_stretches, MOST_STRETCHES)
        return self._ahead[:n]

    def words(self, n: int) -> Words:
        """Return the next n words."""
        words = self._look(n)
        self._ahead = self._ahead[n:]
        return words

    def normal(self, n: int) -> Floats:
        """Return n independent standard normal numbers, see `compiled.kernels.fill_normal`."""
        if n <= FEW:
            return np.array([self._one_normal() for _ in range(n)])
        parts = []
        while n > 0:
            parts.append(self._some_normal(min(n, BATCH)))
            n -= len(parts[-1])
        return np.concatenate(parts)

    def _one_normal(self) -> float:
        """Return one normal number, in less time than many take together."""
        while True:
            word = int(self.words(1)[0])
            layer = word & 255
            x = (word >> 11) * 2.0**-53 * EDGES.item(layer)
            if x >= EDGES.item(layer + 1):
                x, n_words = _outside(layer, x, self._look(FEW))
                if n_words < 0:
                    x, n_words = _outside(layer, x, self._look(16 * FEW))
                self.words(n_words)
            if x >= 0:
                return x if word & 256 else -x

    def _some_normal(self, most: int, margin: int = 16) -> Floats:
        """Return at least one normal and up to `most`, from about as many words."""
        words = self._look(most + most // 50 + margin)
        layer = (words & np.uint64(255)).astype(np.intp)
        x = (words >> np.uint64(11)).astype(np.float64) * 2.0**-53 * EDGES[layer]
        sign = ((words >> np.uint64(7)) & np.uint64(2)).astype(np.float64) - 1
        is_used, end = np.ones(len(words), dtype=bool), 0
        extra: dict[int, int] = {}  # words beyond the first, of numbers that take several
        for p in np.flatnonzero(x >= EDGES[layer + 1]).tolist():  # about one in a hundred
            if p < end:
                continue  # a word that an earlier number has taken
            value, n_words = _outside(int(layer[p]), float(x[p]), words[p + 1 :])
            if n_words < 0:  # beyond the words at hand
                is_used[p:] = False
                break
            end = p + 1 + n_words
            is_used[p:end] = False
            if value >= 0:
                is_used[p], x[p], extra[p] = True, value, n_words
        at = np.flatnonzero(is_used)[:most]
        if not len(at):  # the first number takes more words than that
            return self._some_normal(most, 8 * margin)
        last = int(at[-1])
        self._ahead = self._ahead[last + 1 + extra.get(last, 0) :]
        return np.asarray(sign[at] * x[at])

    def chi(self, freedom: int) -> float:
        """Return the length of a standard Gaussian vector, see `compiled.kernels.chi`."""
        delta = freedom / 2 - 1 / 3
        while True:
            x = float(self.normal(1)[0])
            if freedom == 1:
                return abs(x)
            v = (1 + x / sqrt(9 * delta)) ** 3
            if v > 0 and log(_uniform(self.words(1)[0])) < x**2 / 2 + delta * (1 - v + log(v)):
                return sqrt(2 * delta * v)

    def tokens(self, signs: NDArray[np.int8], half: int, kind: type[Kind]) -> NDArray[Kind]:
        """Draw a token for every sign: among the first `half` for +1, among the others for −1."""
        drawn, missing = [np.empty(0, dtype=np.uint64)], signs.size
        while missing:
            token, is_fair = _below(self.words(missing), half)
            drawn.append(token[is_fair])
            missing -= len(drawn[-1])
        tokens = np.concatenate(drawn).reshape(signs.shape)
        return (tokens + np.uint64(half) * (signs < 0)).astype(kind)

    def sign_tokens(
        self,
        n: int,
        members: NDArray[np.intp],
        polarity: NDArray[np.int8],
        half: int,
        kind: type[Kind],
    ) -> NDArray[Kind]:
        """Draw n sequences whose positions have independent signs, or share one of at most 64.

        Parameters
        ----------
        n : int
            Number of sequences.
        members : array of int, shape (length,)
            The sign of each position.
        polarity : array of ±1, shape (length,)
            Whether the position has that sign or the opposite one.
        half : int
            Tokens in each class.
        kind : type
            Of the result.
        """
        length, which, turned = len(members), members.astype(np.uint64), polarity > 0
        tokens, row = np.empty((n, length), dtype=kind), 0
        while row < n:
            most = min(n - row, max(1, BATCH // (1 + length)))
            words = self._look(most * (1 + length)).reshape(most, -1)
            token, is_fair = _below(words[:, 1:], half)
            n_fair = most if is_fair.all() else int(np.argmin(is_fair.all(axis=1)))
            is_negative = ((words[:n_fair, :1] >> which) & np.uint64(1)).astype(bool) ^ turned
            tokens[row : row + n_fair] = token[:n_fair] + np.uint64(half) * is_negative
            self.words(n_fair * (1 + length))
            row += n_fair
            if n_fair < most:  # a row with a word that is drawn again: one by one
                is_negative = ((self.words(1) >> which) & np.uint64(1)).astype(bool) ^ turned
                signs = np.where(is_negative, np.int8(-1), np.int8(1))
                tokens[row] = self.tokens(signs, half, kind)
                row += 1
        return tokens


def _uniform(word: np.uint64) -> float:
    return (float(word >> np.uint64(11)) + 0.5) * 2.0**-53


def _outside(layer: int, x: float, words: Words) -> tuple[float, int]:
    """Return a number from a layer where x is not safely inside it, and how many words it took.

    A negative number: try again. A negative count: there are not enough words.
    """
    if layer > 0:
        if not len(words):
            return 0.0, -1
        height = HEIGHTS[layer] + _uniform(words[0]) * (HEIGHTS[layer + 1] - HEIGHTS[layer])
        return (x if height < exp(-x * x / 2) else -1.0), 1
    for k in range(0, len(words) - 1, 2):
        x = -log(_uniform(words[k])) / TAIL
        if -2 * log(_uniform(words[k + 1])) > x * x:
            return x + TAIL, k + 2
    return 0.0, -1


def _below(words: Words, n: int) -> tuple[Words, NDArray[np.bool_]]:
    """Return numbers below n < 2³², and whether they count: Lemire (2019)."""
    product = (words >> np.uint64(32)) * np.uint64(n)
    return product >> np.uint64(32), (product & np.uint64(0xFFFFFFFF)) >= np.uint64(2**32 % n)


def _step(s: Words) -> Words:
    """Return the words of some states, the columns of `s`, which become the next states."""
    total = s[0] + s[3]
    words: Words = ((total << np.uint64(23)) | (total >> np.uint64(41))) + s[0]
    t = s[1] << np.uint64(17)
    s[2] ^= s[0]
    s[3] ^= s[1]
    s[1] ^= s[2]
    s[0] ^= s[3]
    s[2] ^= t
    s[3] = (s[3] << np.uint64(45)) | (s[3] >> np.uint64(19))
    return words


def _stretches(state: Words, n: int) -> tuple[Words, Words]:
    """Return the words of at least one and about n stretches, and the state after them."""
    jump = 0
    while state.shape[1] < min(n, MOST_STRETCHES):  # twice as many states
        state = np.concatenate([state, _jumped(_jumps()[jump], state)], axis=1)
        jump += 1
    state = state.copy()
    words = np.empty((state.shape[1], STEPS), dtype=np.uint64)
    for step in range(STEPS):
        words[:, step] = _step(state)
    return words.ravel(), state[:, -1:]


@cache
def _jumps() -> list[Words]:
    """Return how to jump over 1, 2, 4, … stretches: images of every byte of a state.

    Shape (32, 256, 4): the image of a state is the exclusive or of those of its bytes.
    """
    bits = np.arange(256)
    states = np.zeros((4, 256), dtype=np.uint64)
    states[bits // 64, bits] = np.uint64(1) << (bits % 64).astype(np.uint64)
    for _ in range(STEPS):
        _step(states)
    jumps = []
    for _ in range(MOST_STRETCHES.bit_length() - 1):
        table = np.zeros((32, 256, 4), dtype=np.uint64)
        for bit in range(8):  # images of the bytes that have a further bit
            image = states.T.reshape(32, 8, 4)[:, bit, None]
            table[:, 1 << bit : 2 << bit] = table[:, : 1 << bit] ^ image
        jumps.append(table)
        states = _jumped(table, states)
    return jumps


def _jumped(table: Words, states: Words) -> Words:
    """Return the states ahead of the columns of `states`."""
    in_bytes = np.ascontiguousarray(states.T, dtype="<u8").view(np.uint8)  # (n, 32)
    ahead = np.zeros((states.shape[1], 4), dtype=np.uint64)
    for byte in range(32):
        ahead ^= table[byte, in_bytes[:, byte]]
    return np.asarray(ahead.T)
