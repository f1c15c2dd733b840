"""Products with the sparse matrix of pooling weights, and linear algebra on a few long rows.

A row of the weight matrix M has one entry for each position of a sequence, so a product is a
sum of a few rows of a small table, rows as wide as there are vectors to multiply. Numba does not
vectorise such a short inner loop; here it is written as LLVM vectors, which is about five times
faster. Long rows are processed one tile at a time, which the first-level cache holds, and sums
over tiles are accumulated in double precision.
"""

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

__all__ = [
    "TILE",
    "WIDTHS",
    "VectorRows",
    "add_combinations",
    "add_gram_product",
    "clear",
    "compiled",
    "dot",
    "dots",
    "length",
    "n_threads",
    "project_out",
    "subtract",
]

WIDTHS = (2, 4, 8, 16)  # vectors multiplied at once: powers of two, which fill the registers
TILE = 1024  # entries of a long row


class VectorRows:
    """Rows of a contiguous array as LLVM vectors of a fixed width."""

    def __init__(self, context: Any, builder: Any, kind: Any, array: Any, width: int) -> None:
        self._data = context.make_array(kind)(context, builder, array).data
        self._builder, self._width = builder, width
        self._index = context.get_value_type(types.intp)
        self.kind = ir.VectorType(context.get_data_type(kind.dtype), width)
        self._align = kind.dtype.bitwidth // 8

    def _pointer(self, row: Any) -> Any:
        offset = self._builder.mul(row, ir.Constant(self._index, self._width))
        place = self._builder.gep(self._data, [offset])
        return self._builder.bitcast(place, self.kind.as_pointer())

    def load(self, row: Any) -> Any:
        """Load a row as one vector."""
        return self._builder.load(self._pointer(row), align=self._align)

    def store(self, row: Any, value: Any) -> None:
        """Store one vector as a row."""
        self._builder.store(value, self._pointer(row), align=self._align)


def _token(context: Any, builder: Any, kind: Any, tokens: Any, sequence: Any) -> Any:
    """Return the number of positions, and a function that loads the token at one of them."""
    array = context.make_array(kind)(context, builder, tokens)
    length = builder.extract_value(array.shape, 1)
    start = builder.gep(array.data, [builder.mul(sequence, length)])
    index = context.get_value_type(types.intp)
    return length, lambda at: builder.zext(builder.load(builder.gep(start, [at])), index)


@intrinsic(prefer_literal=True)
def add_gram_row(typingctx, tokens, i, weights, scaled, table, out, width):
    """Pool x = Σ_l weights[l] table[tokens[i, l]], then out[tokens[i, l]] += scaled[l] x."""
    if not isinstance(width, types.IntegerLiteral):
        return None
    signature = types.void(tokens, i, weights, scaled, table, out, width)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kinds, n = signature.args, width.literal_value
        w, v, Z, W = (VectorRows(context, builder, kinds[j], args[j], n) for j in (2, 3, 4, 5))
        length, token = _token(context, builder, kinds[0], args[0], args[1])
        sums = [
            cgutils.alloca_once_value(builder, ir.Constant(Z.kind, [0.0] * n)) for _ in range(4)
        ]

        def pool(at, total):  # four sums, so that an addition need not wait for the one before
            term = builder.fmul(w.load(at), Z.load(token(at)), flags=["contract"])
            builder.store(builder.fadd(builder.load(total), term, flags=["contract"]), total)

        four = ir.Constant(length.type, 4)
        quads = builder.udiv(length, four)
        with cgutils.for_range(builder, quads) as loop:
            for k, total in enumerate(sums):
                at = builder.add(builder.mul(loop.index, four), ir.Constant(length.type, k))
                pool(at, total)
        rest = builder.mul(quads, four)
        with cgutils.for_range(builder, builder.sub(length, rest)) as loop:
            pool(builder.add(rest, loop.index), sums[0])
        a, b, c, d = (builder.load(total) for total in sums)
        pooled = builder.fadd(builder.fadd(a, b), builder.fadd(c, d))
        with cgutils.for_range(builder, length) as loop:
            row = token(loop.index)
            term = builder.fmul(v.load(loop.index), pooled, flags=["contract"])
            W.store(row, builder.fadd(W.load(row), term, flags=["contract"]))
        return context.get_dummy_value()

    return signature, codegen


def compiled(function: Any = None, **options: Any) -> Any:
    """Compile without the GIL, kept on disk where there is a place to write."""
    if function is None:
        return lambda function: compiled(function, **options)
    options = {"nogil": True, "error_model": "numpy", **options}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # neither the package's nor the user's cache directory is writable
        return numba.njit(**options)(function)


@compiled
def add_gram_product(tokens, weights, scaled, table, out):
    """Add Mᵀ D M Z to `out`, column by column, with its own M for each column.

    Parameters
    ----------
    tokens : array of unsigned int, shape (N, length)
        Row of the table at every position.
    weights : array of shape (length, width)
        Weight of every position, one column of weights for each column of the table.
    scaled : array of shape (length, width)
        The same times the entry of D (usually 1/N).
    table : array of shape (V, width)
        Z; `width` is one of WIDTHS.
    out : array of shape (V, width)
        What is added to.
    """
    width = table.shape[1]
    if width == 2:
        for i in range(len(tokens)):
            add_gram_row(tokens, i, weights, scaled, table, out, 2)
    elif width == 4:
        for i in range(len(tokens)):
            add_gram_row(tokens, i, weights, scaled, table, out, 4)
    elif width == 8:
        for i in range(len(tokens)):
            add_gram_row(tokens, i, weights, scaled, table, out, 8)
    else:
        for i in range(len(tokens)):
            add_gram_row(tokens, i, weights, scaled, table, out, 16)


def n_threads() -> int:
    """Return how many threads a product may take (NUMBA_NUM_THREADS, by default all cores)."""
    return int(numba.get_num_threads())


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
