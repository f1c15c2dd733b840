"""Pooled sequences of token ids, X = M E, by compiled loops that keep frequent rows in cache.

A pooled sequence is a sum of L rows of the table, x_i = Σ_l w_il e_{v_il}, so pooling moves
N L d numbers and computes little: its speed is that of the memory in which rows lie. Several rows
are read at a time, which hides the wait for those that no cache holds, and each group is used for
all weightings of the tokens (a path of SIF's a) while it is in the first-level cache.
Under Zipf's law a few thousand rows make up most of a text and stay in the caches by themselves.

Without numba the same sums are formed by SciPy's sparse product, about twice as slow.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "can_compile",
    "pool_token_ids",
    "pool_with_weights",
    "sequences_with_token",
    "sif_nodes",
]

PAIR_ERROR = 1e-5  # of the weight that a path of SIF gives a pair of tokens, at most
GRID = 81  # frequencies at which that is looked at
TILE = 192  # columns that are pooled with all weightings, one after the other

Floats = NDArray[np.floating]
Ids = NDArray[np.integer]


@cache
def can_compile() -> bool:
    """Return whether numba is there to compile the loops."""
    try:
        import numba  # noqa: F401
    except ImportError:
        return False
    return True


def pool_with_weights(
    ids: Ids, weights: Floats, table: Floats, *, compiled: bool = True
) -> Floats:
    """Return Σ_l w_il e_{v_il} in the precision of the table.

    Parameters
    ----------
    ids : array of int of shape (n, L)
        Rows of the table.
    weights : array of shape (n, L)
        Of the positions of each sequence.
    table : array of shape (V, d)
        C-contiguous.
    compiled : bool
        Compile the loop where that is possible, which takes a second the first time.

    Examples
    --------
    >>> pool_with_weights(np.array([[0, 1]]), np.array([[0.25, 0.75]]), np.eye(2))
    array([[0.25, 0.75]])
    """
    n, L = ids.shape
    w = np.ascontiguousarray(weights, dtype=table.dtype)
    if compiled and can_compile():
        X = np.empty((n, table.shape[1]), dtype=table.dtype)
        _compiled("positions")(np.ascontiguousarray(ids), w, table, X)
        return X
    from scipy.sparse import csr_array

    M = csr_array((w.ravel(), ids.ravel(), np.arange(0, n * L + 1, L)), (n, len(table)))
    return np.asarray(M @ table)


def pool_token_ids(
    ids: Ids, table: Floats, token_weights: Floats | None, shift: Floats, out: Floats
) -> None:
    """Write the means of the tokens of each sequence, for each weighting, less a shift.

    Parameters
    ----------
    ids : array of int of shape (n, L)
        Rows of the table; negative where there is no token, anywhere in a row that has one.
    table : array of shape (V, d)
        C-contiguous.
    token_weights : array of shape (V, K) or None
        Importance g of each token in each of K weightings; None is K = 1 with g = 1.
    shift : array of shape (K, d)
        Subtracted from the result, before it is rounded to the precision of the table.
    out : array of shape (K, n, d)
        Filled with (1/L_i) Σ_l g_{v_il} e_{v_il} − shift.

    Examples
    --------
    >>> X = np.empty((1, 2, 2))
    >>> ids = np.array([[0, 1], [1, -1]])
    >>> pool_token_ids(ids, np.eye(2), None, np.zeros((1, 2)), X)
    >>> X[0]
    array([[0.5, 0.5],
           [0. , 1. ]])
    """
    ids = np.ascontiguousarray(ids)
    if can_compile():
        if token_weights is None:
            _compiled("mean")(ids, table, shift[0], out[0])
        else:
            _compiled("weighted")(ids, table, token_weights, shift, out)
        return
    present = ids >= 0
    rows = np.where(present, ids, 0)
    each = present / present.sum(axis=1, keepdims=True)
    for k in range(len(out)):
        w = each if token_weights is None else each * token_weights[rows, k]
        out[k] = pool_with_weights(rows, w, table) - shift[k]


def sequences_with_token(ids: Ids, n_vocab: int, *, compiled: bool = True) -> NDArray[np.int64]:
    """Return how many sequences hold each token, however often: (V,).

    Parameters
    ----------
    ids : array of int of shape (n, L)
        From 0 to V − 1; negative where there is no token.
    n_vocab : int
        V.
    compiled : bool
        Compile the loop where that is possible, which takes a second the first time.

    Examples
    --------
    >>> sequences_with_token(np.array([[2, 2, -1], [0, 2, 0]]), 4)
    array([1, 0, 2, 0])
    """
    found = np.zeros(n_vocab, dtype=np.int64)
    if compiled and can_compile():
        _compiled("documents")(np.ascontiguousarray(ids), np.full(n_vocab, -1), found)
        return found
    rows = np.sort(ids, axis=1)
    first = rows >= 0
    first[:, 1:] &= rows[:, 1:] != rows[:, :-1]
    found += np.bincount(rows[first], minlength=n_vocab)
    return found


def sif_nodes(
    frequencies: NDArray[np.float64], a: NDArray[np.float64]
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return which of the values a of SIF to pool with, and how the others follow.

    Parameters
    ----------
    frequencies : array of shape (V,)
        p of the tokens.
    a : array of shape (n,)
        Values wanted, above 0; token v has the weight g_a(p_v) = a/(a + p_v).

    Returns
    -------
    nodes : array of shape (m,)
        Places in `a`.
    mixing : array of shape (n, m)
        c with g_a(p) g_a(q) = Σ_j c_aj g_j(p) g_j(q) to 1e-5 for all frequencies p, q up to the
        largest, 0 among them. A covariance is linear in these products, and a mean in
        g_a(p) g_a(0) = g_a(p), so both follow with the same c.

    Notes
    -----
    a²/((a + p)(a + q)) is, as a function of a, a divided difference of p ↦ ap/(a + p): the
    functions for all p and q span no more than those of Cauchy's kernel 1/(a + p), whose singular
    values fall geometrically (Beckermann and Townsend, 2017). Nodes are chosen by a QR
    decomposition with column pivoting.

    Examples
    --------
    >>> nodes, mixing = sif_nodes(np.array([0.5, 0.3, 0.2]), np.geomspace(0.1, 0.2, 30))
    >>> len(nodes), bool(abs(mixing.sum(axis=1) - 1).max() < 1e-5)
    (4, True)
    """
    from scipy.linalg import lstsq, qr

    p = frequencies[frequencies > 0]
    grid = np.concatenate([[0.0], np.geomspace(p.min(), p.max(), GRID - 1)])
    G = a / (a + grid[:, None])
    A = (G[:, None, :] * G).reshape(-1, len(a))
    order = qr(A, mode="r", pivoting=True)[1]
    for m in range(1, len(a)):
        nodes = np.sort(order[:m])
        mixing = lstsq(A[:, nodes], A)[0]
        if np.abs(A[:, nodes] @ mixing - A).max() <= PAIR_ERROR:
            return nodes, mixing.T
    return np.arange(len(a)), np.eye(len(a))


@cache
def _compiled(name: str) -> Callable[..., None]:
    """Compile a loop; numba keeps it on disk."""
    import numba

    loops: dict[str, Any] = {
        "mean": _mean_loop,
        "weighted": _weighted_loop,
        "positions": _positions_loop,
        "documents": _documents_loop,
    }
    compiled: Callable[..., None] = numba.njit(
        cache=True, nogil=True, fastmath={"contract"}, error_model="numpy"
    )(loops[name])
    return compiled


# The loops below are compiled by numba and are valid, if slow, as Python.


def _mean_loop(ids: Any, table: Any, shift: Any, out: Any) -> None:
    n, L = ids.shape
    d = table.shape[1]
    kept = np.empty(L, np.int64)
    for i in range(n):
        m = 0
        for t in range(L):
            if ids[i, t] >= 0:
                kept[m] = ids[i, t]
                m += 1
        x = out[i]
        for j in range(d):
            x[j] = 0
        t = 0
        while t + 8 <= m:
            a, b = table[kept[t]], table[kept[t + 1]]
            c, e = table[kept[t + 2]], table[kept[t + 3]]
            p, q = table[kept[t + 4]], table[kept[t + 5]]
            r, s = table[kept[t + 6]], table[kept[t + 7]]
            for j in range(d):
                x[j] += ((a[j] + b[j]) + (c[j] + e[j])) + ((p[j] + q[j]) + (r[j] + s[j]))
            t += 8
        while t < m:
            a = table[kept[t]]
            for j in range(d):
                x[j] += a[j]
            t += 1
        w = table.dtype.type(1.0 / m)
        for j in range(d):
            x[j] = x[j] * w - shift[j]


def _weighted_loop(ids: Any, table: Any, token_weights: Any, shift: Any, out: Any) -> None:
    n, L = ids.shape
    d = table.shape[1]
    K = token_weights.shape[1]
    kept = np.empty(L + 3, np.int64)
    g = np.empty((L + 3, K), table.dtype)
    for i in range(n):
        m = 0
        for t in range(L):
            if ids[i, t] >= 0:
                kept[m] = ids[i, t]
                m += 1
        for t in range(m):
            for k in range(K):
                g[t, k] = token_weights[kept[t], k] / m
        for t in range(m, m + 3):  #  up to a multiple of four, with weight zero
            kept[t] = kept[0]
            for k in range(K):
                g[t, k] = 0
        for k in range(K):
            for j in range(d):
                out[k, i, j] = -shift[k, j]
        for start in range(0, d, TILE):  # of columns: all weightings of a tile fit in a cache
            stop = min(start + TILE, d)
            for t in range(0, m, 4):
                a, b = table[kept[t], start:stop], table[kept[t + 1], start:stop]
                c, e = table[kept[t + 2], start:stop], table[kept[t + 3], start:stop]
                for k in range(K):
                    p, q, r, s = g[t, k], g[t + 1, k], g[t + 2, k], g[t + 3, k]
                    x = out[k, i, start:stop]
                    for j in range(stop - start):
                        x[j] += (p * a[j] + q * b[j]) + (r * c[j] + s * e[j])


def _positions_loop(ids: Any, weights: Any, table: Any, out: Any) -> None:
    n, L = ids.shape
    d = table.shape[1]
    for i in range(n):
        x = out[i]
        for j in range(d):
            x[j] = 0
        t = 0
        while t + 4 <= L:
            a, b = table[ids[i, t]], table[ids[i, t + 1]]
            c, e = table[ids[i, t + 2]], table[ids[i, t + 3]]
            p, q, r, s = weights[i, t], weights[i, t + 1], weights[i, t + 2], weights[i, t + 3]
            for j in range(d):
                x[j] += (p * a[j] + q * b[j]) + (r * c[j] + s * e[j])
            t += 4
        while t < L:
            a, p = table[ids[i, t]], weights[i, t]
            for j in range(d):
                x[j] += p * a[j]
            t += 1


def _documents_loop(ids: Any, last: Any, found: Any) -> None:
    n, L = ids.shape
    for i in range(n):
        for t in range(L):
            v = ids[i, t]
            if v >= 0 and last[v] != i:
                last[v] = i
                found[v] += 1
