"""Compiled products with the sparse matrix of pooling weights; imported only when used.

A row of the weight matrix M has one entry for each position of a sequence, so a product is a
sum of a few rows of a small table, rows as wide as there are vectors in flight. Numba leaves
such a short inner loop scalar; here it is spelled out as LLVM vectors, which is about five
times faster.
"""

from typing import Any

import numba
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

__all__ = ["WIDTHS", "VectorRows", "add_gram_product", "compiled", "n_threads"]

WIDTHS = (2, 4, 8, 16)  # vectors in flight: powers of two, which fill the registers


class VectorRows:
    """Rows of a contiguous array, met as LLVM vectors of a fixed width."""

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
