r"""Weights and direction found together, from covariances between different positions only.

Tokens at two different positions share the signal and nothing else, so that of all blocks
C_ll' of the covariance of a sequence only the diagonal ones hold noise in the mean. Sought are a
direction u and weights w, of norm 1 each, with the largest

    J(w, u) = Σ_{l≠l'} w_l w_l' uᵀ C_ll' u .

For u fixed, w is the top eigenvector of the hollow L×L matrix Γ(u)_ll' = uᵀ C_ll' u; for w
fixed, u is the top eigenvector of the hollow d×d matrix S(w) = Σ_{l≠l'} w_l w_l' C_ll'. Taking
turns, J never falls. Several starts are carried along together, so that each pass over the data
is one matrix product (docs/theory/weights-from-data.md).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnlaw.estimators.sequences import Floats, Sequences

__all__ = ["Optimum", "cross_position_covariance", "hollow", "maximise"]

KRYLOV_STEPS = 5  # products with S(w) in each turn
MOST_TURNS = 60
SETTLED = 1e-6  # relative rise of J in one turn below which it has converged
EXPLORED = 3072  # sequences on which many starts are tried; all are used in the end
PAIRWISE_PRODUCTS = 2e10  # spent on comparing positions pair by pair


class Optimum(NamedTuple):
    """The best weights and direction, and what they attain."""

    weights: NDArray[np.float64]  # w (L,), ‖w‖ = 1
    direction: NDArray[np.float64]  # u (d,), ‖u‖ = 1
    objective: float  # J(w, u)


def hollow(matrices: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return square matrices (along leading axes) with their diagonals set to zero."""
    return np.asarray(matrices * (1 - np.eye(matrices.shape[-1])))


def cross_position_covariance(
    data: Sequences, directions: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the hollow Γ(u) for each column u of `directions`: (d, S) to (S, L, L)."""
    P = data.project(directions)
    products = (np.swapaxes(P, 1, 2) @ P).astype(np.float64)
    return hollow(products / np.maximum(data.pair_counts, 1))


def maximise(data: Sequences, rng: np.random.Generator) -> Optimum:
    """Maximise J(w, u) over unit weights and directions, from several starts."""
    N, _, d = data.shape
    few = data if N <= EXPLORED else data.take(np.sort(rng.choice(N, EXPLORED, replace=False)))
    W = starts(few, rng)
    U = rng.standard_normal((d, len(W)))
    for turns, kept in ((2, 8), (4, 2)):
        for _ in range(turns):
            W, U, J = _turn(few, W, U)
        leading = np.argsort(-J)[:kept]
        W, U, J = W[leading], U[:, leading], J[leading]
    for _ in range(MOST_TURNS):
        before = J
        W, U, J = _turn(data, W, U)
        if np.all(J - before <= SETTLED * np.abs(J)):
            break
    best = int(np.argmax(J))
    return Optimum(W[best], U[:, best], float(J[best]))


def starts(data: Sequences, rng: np.random.Generator, n_random: int = 4) -> NDArray[np.float64]:
    """Return unit weights to start from, one in each row.

    The mean; the leading eigenvectors and the strongest pairs of τ_ll' = tr Ĉ_ll', which knows
    signs; the strongest pairs of ‖Ĉ_ll'‖² without its bias, with either sign; random ones.
    """
    L = data.shape[1]
    traces = _traces(data)
    leading = np.linalg.eigh(traces)[1][:, ::-1].T[:3]
    squares = _squared_norms(data, rng)
    rows = [np.ones((1, L)), leading, rng.standard_normal((n_random, L))]
    rows.append(_pairs(traces, np.sign(traces), 6))
    rows += [_pairs(squares, np.full((L, L), sign), 3) for sign in (1.0, -1.0)]
    W = np.concatenate(rows)
    return np.asarray(W / np.linalg.norm(W, axis=1, keepdims=True))


def _pairs(
    strengths: NDArray[np.float64], signs: NDArray[np.float64], n_pairs: int
) -> NDArray[np.float64]:
    """Return weights ±1 on each of the strongest pairs of positions."""
    first, second = np.triu_indices(len(strengths), 1)
    order = np.argsort(-np.abs(strengths[first, second]))[:n_pairs]
    W = np.zeros((len(order), len(strengths)))
    each = np.arange(len(order))
    W[each, first[order]] = 1
    W[each, second[order]] = np.where(signs[first[order], second[order]] < 0, -1, 1)
    return W


def _turn(
    data: Sequences, W: NDArray[np.float64], U: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Improve the directions for these weights, then the weights for those directions."""
    U = _leading_directions(data, W, U)
    values, vectors = np.linalg.eigh(cross_position_covariance(data, U))
    return vectors[:, :, -1], U, values[:, -1]


def _leading_directions(
    data: Sequences, W: NDArray[np.float64], U: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Lanczos for the top eigenvectors of the S(w), each from its own column of U."""
    A = hollow(W[:, :, None] * W[:, None, :]) / np.maximum(data.pair_counts, 1)

    def product(V: NDArray[np.float64]) -> NDArray[np.float64]:
        P: Floats = data.project(V)
        return data.backproject(P @ A.astype(P.dtype))  # S(w) v = Σ_il (P A)_il T_il

    steps = min(KRYLOV_STEPS, data.shape[2])
    basis = [U / np.linalg.norm(U, axis=0)]
    images: list[NDArray[np.float64]] = []
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


def _traces(data: Sequences) -> NDArray[np.float64]:
    """Return the hollow matrix of tr Ĉ_ll' = mean of T_il·T_il'."""
    L = data.shape[1]
    total = np.zeros((L, L))
    for T in data.centred_blocks():
        total += np.matmul(T, np.swapaxes(T, 1, 2)).sum(axis=0, dtype=np.float64)
    return hollow(total / np.maximum(data.pair_counts, 1))


def _squared_norms(data: Sequences, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return the hollow matrix of ‖Ĉ_ll'‖² without its bias.

    (1/n²) Σ_{i≠j} (T_il·T_jl)(T_il'·T_jl'): leaving out i = j removes the part that noise has
    in the mean. On as many sequences as can be afforded.
    """
    N, L, d = data.shape
    n = int(np.clip(np.sqrt(PAIRWISE_PRODUCTS / (L * d)), 64, N)) if N > 64 else N
    few = data if n == N else data.take(np.sort(rng.choice(N, n, replace=False)))
    T = np.concatenate(list(few.centred_blocks())).swapaxes(0, 1).astype(np.float32)
    total = np.zeros((L, L))
    block = max(1, int(2**22 / (L * n)))
    for start in range(0, n, block):
        stop = min(start + block, n)
        K = np.matmul(T[:, start:stop], np.swapaxes(T, 1, 2))
        K[:, np.arange(stop - start), np.arange(start, stop)] = 0
        K = K.reshape(L, -1)
        total += K @ K.T
    return hollow(total / n**2)
