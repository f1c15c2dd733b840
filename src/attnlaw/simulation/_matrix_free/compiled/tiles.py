"""Products with the matrix of pooling weights when no cache holds the table.

A product pools N sequences, each a sum over rows of a table of V tokens, and adds what it pooled
back to those rows. Sequence by sequence, a table of a million tokens is accessed at random, and
the processor waits for memory at every token. Here the positions are sorted once: a slab of
sequences is processed strip by strip of the vocabulary, each small enough for the second-level
cache, and within a tile (slab and strip) in the order of the sequences, which is prefetched.
"""

from typing import Any, NamedTuple

import numpy as np
from numba.core import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from attnlaw.simulation._matrix_free.compiled.kernels import VectorRows, compiled

__all__ = ["Slab", "add_strips", "pool_slab", "sorted_slab"]

STRIP_BITS = 14  # a strip has 2¹⁴ tokens: 128 KiB for two vectors in single precision


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
