"""Linear algebra on a few long rows, compiled; imported only when used."""

import numpy as np

from attnlaw.simulation.kernels import compiled

__all__ = ["add_combinations", "dot", "dots", "project_out", "subtract"]


@compiled(fastmath=True)
def dot(x, y):
    """Return x·y."""
    total = x.dtype.type(0)
    for v in range(len(x)):
        total += x[v] * y[v]
    return total


@compiled(fastmath=True)
def subtract(x, share, y):
    """Take a share of y from x, in place."""
    share = x.dtype.type(share)
    for v in range(len(x)):
        x[v] -= share * y[v]


@compiled(fastmath=True)
def dots(X, Y):
    """Return X Yᵀ, two rows of X and four of Y at a time: faster than BLAS for a few long rows."""
    n, m, zero = len(X), len(Y), X.dtype.type(0)
    out = np.empty((n, m), dtype=X.dtype)
    for i in range(0, n, 2):
        x, x_ = X[i], X[min(i + 1, n - 1)]
        for j in range(0, m, 4):
            y0, y1 = Y[j], Y[min(j + 1, m - 1)]
            y2, y3 = Y[min(j + 2, m - 1)], Y[min(j + 3, m - 1)]
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
                    out[i, j + k] = first
                    out[min(i + 1, n - 1), j + k] = first if i + 1 == n else second
    return out


@compiled(fastmath=True)
def add_combinations(out, C, Y):
    """Add C Y to `out`, two of its rows and four of Y at a time."""
    n, m = len(out), len(Y)
    for i in range(0, n - 1, 2):
        x, x_ = out[i], out[i + 1]
        for j in range(0, m - 3, 4):
            a, b, c, d = C[i, j], C[i, j + 1], C[i, j + 2], C[i, j + 3]
            a_, b_, c_, d_ = C[i + 1, j], C[i + 1, j + 1], C[i + 1, j + 2], C[i + 1, j + 3]
            y0, y1, y2, y3 = Y[j], Y[j + 1], Y[j + 2], Y[j + 3]
            for v in range(len(x)):
                x[v] += a * y0[v] + b * y1[v] + c * y2[v] + d * y3[v]
                x_[v] += a_ * y0[v] + b_ * y1[v] + c_ * y2[v] + d_ * y3[v]
        for j in range(m - m % 4, m):
            subtract(x, -C[i, j], Y[j])
            subtract(x_, -C[i + 1, j], Y[j])
    if n % 2:
        for j in range(m):
            subtract(out[n - 1], -C[n - 1, j], Y[j])


@compiled
def project_out(X, Y):
    """Take from the rows of X what lies along the orthonormal rows of Y."""
    C = dots(X, Y)
    for i in range(len(X)):
        for j in range(len(Y)):
            C[i, j] = -C[i, j]
    add_combinations(X, C, Y)
