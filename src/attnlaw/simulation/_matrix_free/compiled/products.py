"""Products with the sparse matrix of pooling weights.

A row of the weight matrix M has one entry for each position of a sequence, so a product is a
sum of a few rows of a small table, rows as wide as there are vectors to multiply. Numba does not
vectorise such a short inner loop; here it is written as LLVM vectors, which is about five times
faster.

A product pools N sequences, each a sum over rows of a table of V tokens, and adds what it pooled
back to those rows. Sequence by sequence, a table of a million tokens is accessed at random, and
the processor waits for memory at every token. Where no cache holds the table the positions are
sorted once: a slab of sequences is processed strip by strip of the vocabulary, each small enough
for the second-level cache, and within a tile (slab and strip) in the order of the sequences, which
is prefetched.
"""

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from attnlaw.simulation._matrix_free.compiled.kernels import compiled

__all__ = ["WIDTHS", "Slab", "add_gram_product", "add_strips", "pool_slab", "sorted_slab"]

WIDTHS = (2, 4, 8, 16)  # vectors multiplied at once: powers of two, which fill the registers
STRIP_BITS = 14  # a strip has 2¹⁴ tokens: 128 KiB for two vectors in single precision


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


class Slab(NamedTuple):
    """Tokens of some sequences, sorted into tiles.

    An entry has, from its lowest bit up, the token within its strip, the position, and how many
    sequences lie between this entry and the one before it in the tile. Where that is more than
    the bits can tell, entries at a position beyond the last stand between them.
    """

    entries: NDArray[np.uint32]
    starts: NDArray[np.int64]  # (strips + 1,): where tiles begin, and where the last one ends
    gap_shift: int  # where the bits of the gap begin
    height: int  # sequences


def sorted_slab(tokens: NDArray[np.integer], used: NDArray[np.int_], n_vocab: int) -> Slab:
    """Sort tokens into tiles.

    Parameters
    ----------
    tokens : array of int, shape (height, any number of positions)
        Row of the table at every position.
    used : array of int, shape (length,)
        The positions that are wanted.
    n_vocab : int
        V.

    Examples
    --------
    >>> sorted_slab(np.array([[0, 20_000], [1, 2]]), np.arange(2), 20_001).starts
    array([0, 3, 4])
    """
    starts = np.zeros(1 + -(-n_vocab // 2**STRIP_BITS), dtype=np.int64)
    gap_shift = STRIP_BITS + len(used).bit_length()
    _count(tokens, used, gap_shift, starts[1:])
    np.cumsum(starts, out=starts)
    entries = np.empty(starts[-1], dtype=np.uint32)
    _sort(tokens, used, gap_shift, starts[:-1].copy(), entries)
    return Slab(entries, starts, gap_shift, len(tokens))


@compiled
def _count(tokens, used, gap_shift, sizes):
    """Count the entries of every tile."""
    widest, last = (1 << (32 - gap_shift)) - 1, np.zeros(len(sizes), dtype=np.int64)
    for row in range(len(tokens)):
        for position in used:
            strip = tokens[row, position] >> STRIP_BITS
            gap = row - last[strip]
            sizes[strip] += 1 if gap <= widest else 1 + (gap - 1) // widest
            last[strip] = row


@compiled
def _sort(tokens, used, gap_shift, ends, entries):
    """Write the entries of every tile; `ends` are where the tiles begin."""
    widest, within = (1 << (32 - gap_shift)) - 1, (1 << STRIP_BITS) - 1
    length, last = len(used), np.zeros(len(ends), dtype=np.int64)
    for row in range(len(tokens)):
        for position in range(length):
            token = tokens[row, used[position]]
            strip = token >> STRIP_BITS
            gap = row - last[strip]
            while gap > widest:
                entries[ends[strip]] = (widest << gap_shift) | (length << STRIP_BITS)
                ends[strip] += 1
                gap -= widest
            entry = (gap << gap_shift) | (position << STRIP_BITS) | (token & within)
            entries[ends[strip]] = entry
            ends[strip] += 1
            last[strip] = row


@intrinsic
def _add_row(typingctx, out, i, weights, position, table, j, lanes):
    """Add weights[position] ∘ table[j] to out[i], rows as wide as the tuple `lanes` is long."""
    signature = types.void(out, i, weights, position, table, j, lanes)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kinds, width = signature.args, signature.args[6].count
        X, w, Z = (VectorRows(context, builder, kinds[k], args[k], width) for k in (0, 2, 4))
        i, at, j = (context.cast(builder, args[k], kinds[k], types.intp) for k in (1, 3, 5))
        term = builder.fmul(w.load(at), Z.load(j), flags=["contract"])
        X.store(i, builder.fadd(X.load(i), term, flags=["contract"]))
        return context.get_dummy_value()

    return signature, codegen


@compiled
def pool_slab(slab, weights, table, pooled, lanes):
    """Write the pooled sequences of a slab: Σ_l weights[l] table[token(l)].

    Parameters
    ----------
    slab : Slab
        The tokens.
    weights : array of shape (length + 1, width)
        Weight of every position, one column for each column of the table; the last are zero.
    table : array of shape (V, width)
        What is pooled.
    pooled : array of shape (height, width)
        The result.
    lanes : tuple of int
        As long as `width`, which must be known when this is compiled.
    """
    within, beside = (1 << STRIP_BITS) - 1, (1 << (slab.gap_shift - STRIP_BITS)) - 1
    for row in range(len(pooled)):
        for k in range(len(lanes)):
            pooled[row, k] = 0
    for strip in range(len(slab.starts) - 1):
        row, rows = 0, table[strip << STRIP_BITS :]
        for k in range(slab.starts[strip], slab.starts[strip + 1]):
            entry = slab.entries[k]
            row += entry >> slab.gap_shift
            _add_row(
                pooled, row, weights, (entry >> STRIP_BITS) & beside, rows, entry & within, lanes
            )


@compiled
def add_strips(slab, first, beyond, weights, pooled, out, lanes):
    """Add what a slab pooled to its tokens, Mᵀ times `pooled`, in some strips of `out`.

    The strips are those from `first` to `beyond`; the other parameters are as in `pool_slab`.
    """
    within, beside = (1 << STRIP_BITS) - 1, (1 << (slab.gap_shift - STRIP_BITS)) - 1
    for strip in range(first, beyond):
        row, rows = 0, out[strip << STRIP_BITS :]
        for k in range(slab.starts[strip], slab.starts[strip + 1]):
            entry = slab.entries[k]
            row += entry >> slab.gap_shift
            _add_row(
                rows, entry & within, weights, (entry >> STRIP_BITS) & beside, pooled, row, lanes
            )
