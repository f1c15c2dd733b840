r"""Weights and direction found jointly from covariances between different positions.

Tokens at two different positions share only the signal, so that on average only the diagonal
blocks C_ll' of the covariance of a sequence contain noise. The direction u and the weights w, of
norm 1 each, maximise

    J(w, u) = Σ_{l≠l'} w_l w_l' uᵀ C_ll' u .

For u fixed, w is the top eigenvector of the hollow L×L matrix Γ(u)_ll' = uᵀ C_ll' u; for w
fixed, u is the top eigenvector of the hollow d×d matrix S(w) = Σ_{l≠l'} w_l w_l' C_ll'.
J never decreases in this alternation. Several starts are carried along together, so that each pass
over the data is one matrix product (docs/theory/weights-from-data.md, "Where to start"). With
labels the direction comes from a regression, and one alternation suffices (`trained_weights`).
"""

from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Floats
from attnlaw.data.sequences import Sequences
from attnlaw.estimators.pooling import position_weights

__all__ = [
    "Optimum",
    "Search",
    "best_direction",
    "cross_position_covariance",
    "hollow",
    "trained_weights",
]

KRYLOV_STEPS = 5  # products with S(w) in each turn
MOST_TURNS = 60
SETTLED = 1e-6  # relative rise of J in one turn below which it has converged
NONNEGATIVE_STEPS = 50  # for weights that must not be negative, in each turn
AGREEING = 3  # starts that reach the same optimum before it is believed to be the best
EXPLORED = 2**17  # tokens on which many starts are tried; all are used in the end
BLOCK_NUMBERS = 2**24  # of projections at a time
TRAINED_ON = 10_000  # sequences from which weights are trained on labels
TRACE_NUMBERS = 2**25  # of embeddings from which τ is computed
FEW_POSITIONS = 100  # all eigenvectors of so few cost little more than one
PAIRWISE_PRODUCTS = 2e10  # spent on comparing positions pair by pair


class Optimum(NamedTuple):
    """The best weights and direction, and what they attain."""

    weights: Floats  # w (L,), ‖w‖ = 1
    direction: Floats  # u (d,), ‖u‖ = 1
    objective: float  # J(w, u)


def hollow(matrices: Floats) -> Floats:
    """Return square matrices (along leading axes) with their diagonals set to zero."""
    return np.asarray(matrices * (1 - np.eye(matrices.shape[-1])))


def cross_position_covariance(data: Sequences, directions: Floats) -> Floats:
    """Return the hollow Γ(u) for each column u of `directions`: (d, S) to (S, L, L)."""
    P = data.project(directions)
    products = np.zeros((len(P), P.shape[2], P.shape[2]))
    for rows, end in data.spans:
        part = P[:, rows, :end]
        products[:, :end, :end] += np.swapaxes(part, 1, 2) @ part
    products /= np.maximum(data.pair_counts, 1)
    return hollow(products)


class Search:
    """The search for the maximum of J(w, u) over unit weights and directions.

    Weights with signs and without may be searched for in two threads.
    """

    def __init__(self, data: Sequences, rng: np.random.Generator) -> None:
        data = data.by_length()
        self._data = data
        self._few = data.some(max(1024, EXPLORED // data.shape[1]), rng)
        self._cheap_starts = cheap_starts(self._few, rng)
        plain, with_signs, self._for_pairs = rng.spawn(3)
        self._rngs = {False: plain, True: with_signs}  # what is drawn does not depend on threads
        self._lock = Lock()
        self._pairs: Floats | None = None

    def _pairwise_starts(self) -> Floats:
        with self._lock:
            if self._pairs is None:
                self._pairs = pairwise_starts(self._few, self._for_pairs)
            return self._pairs

    def maximise(self, *, signed: bool = True) -> Optimum:
        """Return the best maximum found from several starts.

        Unless `signed`, among weights that are not negative.
        """
        rng = self._rngs[signed]
        W, U, J = _explore(self._few, self._cheap_starts, rng, signed)
        if not _agree(W):
            found = _explore(self._few, self._pairwise_starts(), rng, signed)
            W = np.concatenate([W, found[0]])
            U = np.concatenate([U, found[1]], axis=1)
            J = np.concatenate([J, found[2]])
            W, U, J = _best(W, U, J, 8)
        W, U, J = _best(W, U, J, 1 if _agree(W) else 2)
        for _ in range(MOST_TURNS):
            before = J
            W, U, J = _turn(self._data, W, U, signed)
            if np.all(J - before <= SETTLED * np.abs(J)):
                break
        best = int(np.argmax(J))
        return Optimum(W[best], U[:, best], float(J[best]))


def best_direction(data: Sequences, weights: Floats, rng: np.random.Generator) -> Optimum:
    """Maximise J(w, u) over directions, for weights of norm 1."""
    W, U = weights[None, :], rng.standard_normal((data.shape[2], 1))
    J = -np.inf
    for _ in range(MOST_TURNS):
        U = _leading_directions(data, W, U)
        before, J = J, float(weights @ cross_position_covariance(data, U)[0] @ weights)
        if J - before <= SETTLED * abs(J):
            break
    return Optimum(weights, U[:, 0], J)


def _explore(
    data: Sequences, W: Floats, rng: np.random.Generator, signed: bool
) -> tuple[Floats, Floats, Floats]:
    """Take a few turns from every start, and some more from the better ones; best first."""
    W = W if signed else _without_signs(W)
    U = rng.standard_normal((data.shape[2], len(W)))
    for turns in (2, 2, 2):
        for _ in range(turns):
            W, U, J = _turn(data, W, U, signed)
        W, U, J = _best(W, U, J, 8)
        if _agree(W):
            break
    return W, U, J


def _agree(W: Floats) -> bool:
    """Return whether the first, best weights were reached from several starts."""
    return bool(np.sum((W @ W[0]) ** 2 > 0.9) >= AGREEING)


def _best(W: Floats, U: Floats, J: Floats, n: int) -> tuple[Floats, Floats, Floats]:
    """Keep the n candidates with the largest J, in falling order."""
    leading = np.argsort(-J)[:n]
    return W[leading], U[:, leading], J[leading]


def cheap_starts(data: Sequences, rng: np.random.Generator) -> Floats:
    """Return unit weights to start from, one in each row.

    The mean; the leading eigenvectors and the strongest pairs of τ_ll' = tr Ĉ_ll', which has
    signs; random weights.
    """
    L = data.shape[1]
    traces = _traces(data.some(max(256, TRACE_NUMBERS // (L * data.shape[2])), rng))
    leading = np.linalg.eigh(traces)[1][:, ::-1].T[:3]
    pairs = _pairs(traces, np.sign(traces), 6)
    W = np.concatenate([np.ones((1, L)), leading, pairs, rng.standard_normal((4, L))])
    return np.asarray(W / np.linalg.norm(W, axis=1, keepdims=True))


def pairwise_starts(data: Sequences, rng: np.random.Generator) -> Floats:
    """Return the strongest pairs of ‖Ĉ_ll'‖² without its bias, with either sign."""
    squares = _squared_norms(data, rng)
    W = [_pairs(squares, np.full(squares.shape, sign), 3) for sign in (1.0, -1.0)]
    return np.asarray(np.concatenate(W) / np.sqrt(2))


def _pairs(strengths: Floats, signs: Floats, n_pairs: int) -> Floats:
    """Return weights ±1 on each of the strongest pairs of positions."""
    first, second = np.triu_indices(len(strengths), 1)
    order = np.argsort(-np.abs(strengths[first, second]))[:n_pairs]
    W = np.zeros((len(order), len(strengths)))
    each = np.arange(len(order))
    W[each, first[order]] = 1
    W[each, second[order]] = np.where(signs[first[order], second[order]] < 0, -1, 1)
    return W


def _turn(data: Sequences, W: Floats, U: Floats, signed: bool) -> tuple[Floats, Floats, Floats]:
    """Improve the directions for these weights, then the weights for those directions."""
    U = _leading_directions(data, W, U)
    gamma = cross_position_covariance(data, U)
    leading = _leading_weights(gamma)
    if signed:
        return leading, U, np.einsum("si,sij,sj->s", leading, gamma, leading, optimize=True)
    # With M = Γ + shift positive semi-definite, w ← (Mw)₊/‖(Mw)₊‖ never lowers wᵀΓw. The two
    # signs of the top eigenvector, cut to what is positive, are tried beside the present w.
    each = np.stack([_without_signs(w) for w in (leading, -leading, W)], axis=2)  # (S, L, 3)
    shift = np.maximum(-_lowest(gamma), 0)[:, None, None]
    for _ in range(NONNEGATIVE_STEPS):
        each = _without_signs(gamma @ each + shift * each)
    J = np.sum(each * (gamma @ each), axis=1)
    best = np.argmax(J, axis=1)
    return each[np.arange(len(W)), :, best], U, J.max(axis=1)


def _leading_weights(gamma: Floats) -> Floats:
    """Return the top eigenvector of each matrix: (S, L, L) to (S, L)."""
    L = gamma.shape[-1]
    if L <= FEW_POSITIONS:
        return np.asarray(np.linalg.eigh(gamma)[1][:, :, -1])
    from scipy.linalg import eigh

    single, last = gamma.astype(np.float32), [L - 1, L - 1]  # projections are no preciser
    found = [eigh(M, subset_by_index=last, check_finite=False)[1][:, 0] for M in single]
    return np.stack(found).astype(np.float64)


def _lowest(gamma: Floats) -> Floats:
    """Return the lowest eigenvalue of each matrix, or a little less: (S,)."""
    if gamma.shape[-1] <= FEW_POSITIONS:
        return np.asarray(np.linalg.eigvalsh(gamma)[:, 0])
    from scipy.linalg import eigvalsh

    single = gamma.astype(np.float32)
    values = [eigvalsh(M, subset_by_index=[0, 0], check_finite=False) for M in single]
    return np.concatenate(values).astype(np.float64) * (1 + 1e-5)


def _without_signs(W: Floats) -> Floats:
    """Return positive parts, normalised along axis 1; equal weights where there is none."""
    W = np.maximum(W, 0)
    W = np.where(W.any(axis=1, keepdims=True), W, 1.0)
    return np.asarray(W / np.linalg.norm(W, axis=1, keepdims=True))


def _leading_directions(data: Sequences, W: Floats, U: Floats) -> Floats:
    """Lanczos for the top eigenvectors of the S(w), each from its own column of U."""
    A = hollow(W[:, :, None] * W[:, None, :]) / np.maximum(data.pair_counts, 1)
    A = A.astype(data.dtype, copy=False)

    def product(V: Floats) -> Floats:
        P = data.project(V)
        for rows, end in data.spans:  # beyond the last token P is 0, and of no use
            P[:, rows, :end] = P[:, rows, :end] @ A[:, :end, :end]
        return data.backproject(P)  # S(w) v = Σ_il (P A)_il T_il

    steps = min(KRYLOV_STEPS, data.shape[2])
    basis = [U / np.linalg.norm(U, axis=0)]
    images: list[Floats] = []
    for _ in range(steps):
        images.append(product(basis[-1]))
        fresh = images[-1].copy()
        for _ in range(2):  # twice is enough to be orthogonal to rounding
            for q in basis:
                fresh -= q * np.sum(q * fresh, axis=0)
        size = np.linalg.norm(fresh, axis=0)
        scale = np.abs(images[-1]).max() + np.finfo(float).tiny
        if len(basis) == steps or not np.all(size > 1e-7 * scale):
            break
        basis.append(fresh / size)
    Q, SQ = np.stack(basis[: len(images)], axis=2), np.stack(images, axis=2)  # (d, S, k)
    small = np.einsum("dsj,dsk->sjk", Q, SQ)
    top = np.linalg.eigh((small + np.swapaxes(small, 1, 2)) / 2)[1][:, :, -1]
    U = np.einsum("dsk,sk->ds", Q, top)
    return np.asarray(U / np.linalg.norm(U, axis=0))


def _traces(data: Sequences) -> Floats:
    """Return the hollow matrix of tr Ĉ_ll' = mean of T_il·T_il'."""
    L = data.shape[1]
    total = np.zeros((L, L))
    for T in data.centred_blocks():
        end = T.shape[1]
        total[:end, :end] += np.matmul(T, np.swapaxes(T, 1, 2)).sum(axis=0, dtype=np.float64)
    return hollow(total / np.maximum(data.pair_counts, 1))


def _squared_norms(data: Sequences, rng: np.random.Generator) -> Floats:
    """Return the hollow matrix of ‖Ĉ_ll'‖² without its bias.

    (1/n²) Σ_{i≠j} (T_il·T_jl)(T_il'·T_jl'): leaving out i = j removes the bias due to noise. A
    subset of the sequences is used if there are many.
    """
    _, L, d = data.shape
    few = data.some(max(256, int(np.sqrt(PAIRWISE_PRODUCTS / (L * d)))), rng)
    n, done = few.shape[0], 0
    T = np.zeros((L, n, d), dtype=np.float32)
    for block in few.centred_blocks():
        T[: block.shape[1], done : done + len(block)] = block.swapaxes(0, 1)
        done += len(block)
    unit = float(np.abs(T).max()) or 1.0  # fourth powers leave float32
    T /= np.float32(unit)
    total = np.zeros((L, L))
    size = max(1, int(2**22 / (L * n)))
    for start in range(0, n, size):
        stop = min(start + size, n)
        K = np.matmul(T[:, start:stop], np.swapaxes(T, 1, 2))
        K[:, np.arange(stop - start), np.arange(start, stop)] = 0
        K = K.reshape(L, -1)
        total += K @ K.T
    return hollow(total / n**2 * unit**4)


def trained_weights(data: Sequences, labels: NDArray[np.integer[Any]]) -> Floats:
    """Return the weights of the positions that tell the classes apart, from labels.

    Parameters
    ----------
    data : Sequences
    labels : array of int and shape (N,)
        Class of each sequence, from 0.

    Returns
    -------
    array of shape (L,)
        Σ|w| = 1.

    Notes
    -----
    One turn of the alternation for P1 App. J's problem min ‖Y − Σ_l w_l T_l B‖² + ridge, from mean
    pooling: with B from one half of the sequences, w is a regression on the L projections T_l B of
    the other half, and the two halves are added up. The weights are then shrunk towards the mean
    by the share of the differences between positions that chance explains, mean Var(w_l)/Var_l(w)
    (James and Stein).
    """
    N, L, _ = data.shape
    rows = np.arange(N)[:: -(-N // TRAINED_ON)]
    Y = np.eye(int(labels.max()) + 1)[labels]
    Y -= Y[rows].mean(axis=0)
    pooled = data.pool(position_weights("mean", L, data.mask))
    S, h = np.zeros((L, L)), np.zeros(L)
    for ours, theirs in ((rows[::2], rows[1::2]), (rows[1::2], rows[::2])):
        B = _ridge(pooled[ours], Y[ours])
        theirs = theirs[np.argsort(-data.ends[theirs], kind="stable")]
        half = data.take(theirs, once=True)
        size = max(1, BLOCK_NUMBERS // (len(theirs) * L))
        for start in range(0, B.shape[1], size):
            columns = slice(start, start + size)
            P = half.project(B[:, columns])  # (K, N/2, L)
            h += np.einsum("kil,ik->l", P, Y[theirs, columns].astype(P.dtype))
            for run, end in half.spans:
                flat = P[:, run, :end].reshape(-1, end)
                S[:end, :end] += flat.T @ flat
    n_columns = Y.shape[1]
    ridge = 1e-3 * np.trace(S) / L
    if not ridge > 0:
        return np.full(L, 1 / L)
    inverse = np.linalg.inv(S + ridge * np.eye(L))
    w = inverse @ h
    residual = float(np.sum(Y[rows] ** 2) - 2 * w @ h + w @ S @ w) / (len(rows) * n_columns)
    # One of the columns follows from the others, so they hold a little less than they seem to.
    chance = residual * float(np.mean(np.diag(inverse))) * n_columns / max(n_columns - 1, 1)
    spread = float(np.var(w))
    w = w.mean() + max(0.0, 1 - chance / spread if spread > 0 else 0.0) * (w - w.mean())
    total = float(np.abs(w).sum())
    return np.asarray(w / total) if total > 0 else np.full(L, 1 / L)


def _ridge(X: NDArray[Any], Y: Floats) -> Floats:
    """Return coefficients of a ridge regression, λ a tenth of the mean variance."""
    from scipy.linalg import cho_factor, cho_solve

    n = len(X)
    X = X - X.mean(axis=0)
    S = (X.T @ X).astype(np.float64) / n
    H = (X.T @ (Y - Y.mean(axis=0)).astype(X.dtype)).astype(np.float64) / n
    if not np.trace(S) > 0:
        return np.zeros_like(H)
    S[np.diag_indices_from(S)] += 0.1 * np.trace(S) / len(S)
    return np.asarray(cho_solve(cho_factor(S, check_finite=False), H, check_finite=False))
