"""First and second moments of tokens at each position, and what positions share.

`independent_noise` is the covariance of pooled sequences of independent tokens;
`measure_coherence` is what positions have in common, evaluated without labels on held-out
sequences.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Floats
from attnlaw.data.corpus_pass import count_corpus
from attnlaw.data.corpus_statistics import CorpusStatistics
from attnlaw.data.sequences import Sequences, TokenSequences
from attnlaw.diagnostics.pooling.poolings import Run, pooling_weights, standard_error
from attnlaw.estimators.pooling_weights import learn_and_evaluate, normalised
from attnlaw.models import effective_vocabulary

__all__ = [
    "Basis",
    "Coherence",
    "TokenStatistics",
    "covariance",
    "draw_ids",
    "independent_noise",
    "measure_coherence",
    "position_means",
    "token_statistics",
]

MOST_TOKENS = 100_000  # laid out for a covariance; more would not change it
MOST_WORDS = 20  # rows of a table that enter one, a dimension; the rarer are drawn
BLOCK_NUMBERS = 2**22
MOST_CELLS = 2**24  # pairs of position and word counted at a time


class Basis(NamedTuple):
    """A covariance in its own coordinates."""

    variances: Floats  # (d,), increasing
    vectors: Floats  # (d, d), one in each column

    @staticmethod
    def of(matrix: Floats) -> "Basis":
        """Return the eigenvalues, none below 0, and eigenvectors of a symmetric matrix."""
        values, vectors = np.linalg.eigh(matrix)
        return Basis(np.maximum(values, 0.0), vectors)

    def components(self, vector: Floats) -> Floats:
        """Return the components of a vector in these coordinates."""
        return np.asarray(self.vectors.T @ vector)


def covariance(rows: NDArray[np.float32]) -> Floats:
    """Return the covariance of rows in single precision."""
    X = rows - rows.mean(axis=0)
    return np.asarray((X.T @ X).astype(np.float64) / len(X))


def position_means(data: Sequences) -> Floats:
    """Mean token at each position, shape (L, d); 0 where no sequence has one."""
    N, L, _ = data.shape
    present = np.ones((N, L), dtype=np.float32) if data.mask is None else data.mask
    present = present.astype(np.float32)
    return np.asarray(_sums(data, present) / np.maximum(present.sum(axis=0), 1)[:, None])


def independent_noise(
    data: Sequences, means: Floats, weights: NDArray[np.floating], rng: np.random.Generator
) -> Floats:
    """Covariance that pooled sequences would have if their tokens were independent.

    Parameters
    ----------
    data : Sequences
    means : array of shape (L, d)
        M, about which tokens vary.
    weights : array of shape (L,) or (N, L)
        w.
    rng : Generator
        Draws a subset of the sequences, if there are many; with a table, of the rare words.

    Returns
    -------
    array of shape (d, d)
        E Σ_l w_l² (T_l−M_l)(T_l−M_l)ᵀ: κΣ in the letters of the theory, without assuming that all
        positions vary alike.

    Notes
    -----
    Words of a table enter with the mass that they have in all sequences. Where many words occur,
    those with a mass m_v below some c enter with probability m_v/c and then with mass c, so that
    about 20 d of them do: no bias, and the frequent ones, which matter, are exact.

    Examples
    --------
    Two uncorrelated positions, averaged:

    >>> from attnlaw.data.user_arrays import as_sequences
    >>> signs = np.array([[1.0, 1.0], [-1.0, 1.0], [1.0, -1.0], [-1.0, -1.0]])
    >>> data = as_sequences(signs[:, :, None])
    >>> independent_noise(data, position_means(data), np.full(2, 0.5), np.random.default_rng(0))
    array([[0.5]])
    """
    N, L, d = data.shape
    if not isinstance(data, TokenSequences) and N * L > MOST_TOKENS:
        rows = np.sort(rng.choice(N, max(1, MOST_TOKENS // L), replace=False))
        data, weights = data.take(rows), weights if weights.ndim == 1 else weights[rows]
        N = len(rows)
    squares = np.broadcast_to(weights, (N, L)).astype(np.float32) ** 2
    if data.mask is not None:
        squares *= data.mask
    if isinstance(data, TokenSequences):
        second, sums, masses = _word_moments(data, squares, rng)
    else:
        second = np.zeros((d, d))
        for start in range(0, N, size := max(1, BLOCK_NUMBERS // (L * d))):
            block = slice(start, min(start + size, N))
            T = (data.embed(block) * np.sqrt(squares[block])[:, :, None]).reshape(-1, d)
            second += (T.T @ T).astype(np.float64)
        sums, masses = _sums(data, squares), squares.sum(axis=0, dtype=np.float64)
    cross = sums.T @ means
    return np.asarray(second - cross - cross.T + (means.T * masses) @ means) / N


def _word_moments(
    data: TokenSequences, squares: NDArray[np.float32], rng: np.random.Generator
) -> tuple[Floats, Floats, Floats]:
    """Σ w² T Tᵀ, Σ_i w_il² T_il and Σ_i w_il², from about 20 words a dimension."""
    L, d = data.shape[1:]
    tokens, positions = data.occurrences
    w2 = (squares.ravel() if data.mask is None else squares[data.mask]).astype(np.float64)
    mass: Floats = np.bincount(tokens, w2, minlength=len(data.table)).astype(np.float64)
    factors = _drawn(mass, max(MOST_WORDS * d, 2000), rng)
    (used,) = np.nonzero(factors)
    E = data.table[used].astype(np.float32, copy=False)
    places = np.zeros(len(mass), dtype=np.intp)
    places[used] = np.arange(len(used))
    w2 *= factors[tokens]
    cells = np.bincount(positions * len(used) + places[tokens], w2, L * len(used)).reshape(L, -1)
    sums, masses = (cells.astype(np.float32) @ E).astype(np.float64), cells.sum(axis=1)
    E *= np.sqrt((mass * factors)[used, None]).astype(np.float32)
    return (E.T @ E).astype(np.float64), sums, masses


def _drawn(mass: Floats, n: int, rng: np.random.Generator) -> Floats:
    """Draw about n words: one over the probability of each that is taken, 0 for the others."""
    if np.count_nonzero(mass) <= n:
        return (mass > 0).astype(np.float64)
    falling = np.sort(mass)[::-1]
    rest = np.cumsum(falling[::-1])[::-1]
    # With the k heaviest taken for sure, c = (mass of the rest)/(places left); the first k for
    # which the next is no heavier than that.
    c = rest[:n] / (n - np.arange(n))
    chances = np.minimum(mass / c[np.argmax(falling[:n] <= c)], 1.0)
    # Every place where the running sum of chances, in random order, passes a whole number: the
    # chances are as wanted, and the mass that is taken is the same whatever is drawn.
    order = rng.permutation(len(mass))
    steps = np.floor(np.cumsum(chances[order]) + rng.random())
    factors = np.zeros(len(mass))
    taken = order[np.diff(steps, prepend=0.0) > 0]
    factors[taken] = 1 / chances[taken]
    return factors


def _sums(data: Sequences, weights: NDArray[np.float32]) -> Floats:
    """Σ_i w_il T_il, shape (L, d); weights are 0 where there is no token."""
    N, L, d = data.shape
    sums = np.zeros((L, d))
    if isinstance(data, TokenSequences):
        V = len(data.table)
        for start in range(0, L, size := max(1, MOST_CELLS // V)):
            some = slice(start, min(start + size, L))
            cells = data.tokens[:, some] + V * np.arange(some.stop - start)
            mass = np.bincount(cells.ravel(), weights[:, some].ravel(), (some.stop - start) * V)
            sums[some] = mass.reshape(-1, V).astype(data.table.dtype) @ data.table
        return sums
    for start in range(0, N, size := max(1, BLOCK_NUMBERS // (L * d))):
        rows = slice(start, min(start + size, N))
        sums += np.einsum("il,ild->ld", weights[rows], data.embed(rows), dtype=np.float64)
    return sums


@dataclass(frozen=True, kw_only=True)
class Coherence:
    """What positions have in common, and how much of it each pooling keeps."""

    direction: Floats  # u (d,): along which positions move together most
    weights: Floats  # w (L,): learned from all sequences, Σ|w| = 1
    power: float  # of one token's signal along u
    correlation: Floats  # Γ/power (L, L): between positions along u, held out, hollow
    snr: dict[str, float]  # α/κ of each pooling
    snr_error: dict[str, float]  # its standard error
    gain: dict[str, float]  # over the mean
    gain_error: dict[str, float]


def measure_coherence(
    data: Sequences,
    choices: Mapping[str, str | Floats],
    rng: np.random.Generator,
    run: Run = map,
    *,
    groups: NDArray[np.intp] | None = None,
) -> Coherence:
    """Learn weights and direction from halves of the sequences, and evaluate on the other half.

    Parameters
    ----------
    data : Sequences
    choices : dict
        Poolings to evaluate beside the learned one, as `pooling_weights` takes them; "mean" is
        among them.
    rng : Generator
    run : callable
        `map`, or that of an executor with several threads.
    groups : array of shape (N,), optional
        Copies have the same number and stay in one half; errors count them once.

    Notes
    -----
    Derived in docs/theory/weights-from-data.md, "What is claimed, and when".

    Along a direction u learned elsewhere, sequence i gives

        j_i(w) = (Σ_l w_l p_il)² − Σ_l w_l² p_il² ,   p_il = T_il·u centred at each position,

    whose mean is Σ_{l≠l'} w_l w_l' Γ_ll': what positions have in common, without the noise that
    they have not. In units of the signal power θ of a token, SNR = 1 + mean j/(θ κ). Errors are
    those of the means over sequences.
    """
    N, L, _ = data.shape
    groups = np.arange(N) if groups is None else groups
    parts = _halves(groups, rng)
    halves = [data.take(rows) for rows in parts]
    order = groups[np.concatenate(parts[::-1])]  # of the numbers below
    learned = learn_and_evaluate(data, halves, rng, run=run)
    best, fits, power = learned.best, learned.fits, learned.power.value
    gamma = np.zeros((L, L))
    kept: dict[str, list[Floats]] = {name: [] for name in (*choices, "learned")}
    for half, fit in ((halves[1], fits[0]), (halves[0], fits[1])):
        P = half.project(fit.direction[:, None])[0].astype(np.float64)
        gamma += P.T @ P / np.maximum(half.pair_counts, 1) / 2
        for name, found in kept.items():
            choice = fit.weights if name == "learned" else choices[name]
            W = pooling_weights(choice, L, half.mask)
            j = np.sum(W * P, axis=1) ** 2 - np.sum(W**2 * P**2, axis=1)
            found.append(j / np.mean(np.broadcast_to(np.sum(W**2, axis=-1), len(P))))
    np.fill_diagonal(gamma, 0.0)
    each = {name: 1 + np.concatenate(found) / power for name, found in kept.items()}
    gains = {name: values - each["mean"] for name, values in each.items()}
    return Coherence(
        direction=best.direction,
        weights=normalised(best.weights),
        power=power,
        correlation=gamma / power,
        snr={name: float(np.clip(values.mean(), 0, L)) for name, values in each.items()},
        snr_error=_errors(each, order),
        gain={name: float(values.mean()) for name, values in gains.items()},
        gain_error=_errors(gains, order),
    )


def _halves(
    groups: NDArray[np.intp], rng: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the rows of two random halves, every group in one of them."""
    places = rng.permutation(int(groups.max()) + 1)[groups]
    order = np.argsort(places, kind="stable")
    middle = len(order) // 2
    while middle < len(order) - 1 and places[order[middle]] == places[order[middle - 1]]:
        middle += 1
    return np.sort(order[:middle]), np.sort(order[middle:])


def _errors(values: Mapping[str, Floats], groups: NDArray[np.intp]) -> dict[str, float]:
    return {name: standard_error(v, groups) for name, v in values.items()}


@dataclass(frozen=True, kw_only=True)
class TokenStatistics:
    """How unequal the tokens of the texts are, and the effect of token weights."""

    n_types: int  # V: different tokens that occur
    effective_size: float  # V_eff = 1/Σp², of the mean
    smoothing: float  # a* = 1/(N·SNR)
    weighted_size: float  # V_eff = (Σpg)²/Σp²g² with g = 1/(a* + p)


def token_statistics(counts: NDArray[Any], smoothing: float) -> TokenStatistics:
    """Return the effect of smooth inverse frequency on the effective number of tokens.

    Parameters
    ----------
    counts : array of shape (V,)
        How often each token occurs.
    smoothing : float
        a*.

    Examples
    --------
    >>> found = token_statistics(np.array([5, 1, 0]), 1e-6)
    >>> round(found.effective_size, 2), round(found.weighted_size, 2)
    (1.38, 2.0)
    """
    p = counts[counts > 0] / counts.sum()
    return TokenStatistics(
        n_types=len(p),
        effective_size=effective_vocabulary(p),
        smoothing=smoothing,
        weighted_size=effective_vocabulary(p, smoothing / (smoothing + p)),
    )


def draw_ids(
    sequences: Any,
    n_vocab: int,
    n: int,
    rng: np.random.Generator,
    whole: CorpusStatistics | None = None,
) -> tuple[int, NDArray[np.intp], NDArray[Any], CorpusStatistics] | None:
    """Draw n of many sequences of token ids, and count the tokens of all of them.

    Parameters
    ----------
    sequences : array of int and shape (N, L)
        In memory or a memory map, of which only what is drawn is copied.
    n_vocab : int
        V.
    n : int
        Sequences to draw.
    rng : Generator
    whole : CorpusStatistics, optional
        Counts that are known already.

    Returns
    -------
    tuple or None
        N, the rows drawn, their ids, and the counts; None if there is nothing to draw from.
    """
    is_array = isinstance(sequences, np.ndarray) and sequences.ndim == 2
    if not is_array or sequences.dtype.kind not in "iu" or len(sequences) <= n:
        return None
    N, L = sequences.shape
    rows = np.sort(rng.choice(N, n, replace=False))
    whole = whole or count_corpus(sequences, n_vocab, max_length=L)
    return N, rows, np.asarray(sequences[rows]), whole
