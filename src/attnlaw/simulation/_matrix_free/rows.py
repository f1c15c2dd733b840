"""Linear algebra on a few long rows, compiled; imported only when used.

Rows are met a tile at a time, which the processor's first caches hold, and sums over tiles are
kept in double precision.
"""

import numpy as np

from attnlaw.simulation._matrix_free.kernels import compiled

__all__ = ["add_combinations", "clear", "dot", "dots", "length", "project_out", "subtract"]

TILE = 1024  # numbers of a row


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
