"""Records of chunks, merged in an order that their numbers decide, and kept between runs.

Sums are rounded, so their order matters in the last digits. `ChunkTree` merges chunks 2k and
2k + 1 of each level of a binary tree as soon as both are there: the result depends on the corpus
alone, not on how many workers there were nor on who was first. Only unmerged records are kept, for
n chunks and w workers about w + log₂ n of them, and these are what a run has to store.
"""

import json
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Floats, invalid_argument
from attnlaw._store import atomic_path

__all__ = ["ChunkTree", "read_state", "write_state"]


class ChunkTree:
    """Records of chunks, merged two by two in an order that their numbers decide.

    Examples
    --------
    >>> class Sums:
    ...     merge = staticmethod(lambda a, b: a + b)
    >>> tree = ChunkTree(Sums(), 3)
    >>> for index in (2, 0, 1):
    ...     tree.add(index, np.array([10.0**index]))
    >>> sorted(tree.nodes), tree.result()
    ([(0, 2), (1, 0)], array([111.]))
    """

    def __init__(self, work: Any, n_chunks: int) -> None:
        self._work, self.n_chunks = work, n_chunks
        self.nodes: dict[tuple[int, int], Floats] = {}  # (level, k): chunks k·2^level and on

    def add(self, index: int, record: Floats) -> None:
        """Add the record of a chunk, and merge it as far as its neighbours are there."""
        level, k = 0, index
        while (level, k ^ 1) in self.nodes:
            other = self.nodes.pop((level, k ^ 1))
            pair = (record, other) if k % 2 == 0 else (other, record)
            record = self._work.merge(*pair)
            level, k = level + 1, k // 2
        self.nodes[level, k] = record

    @property
    def done(self) -> NDArray[np.bool_]:
        """Which chunks have been added."""
        done = np.zeros(self.n_chunks, dtype=bool)
        for level, k in self.nodes:
            done[k << level : (k + 1) << level] = True
        return done

    def result(self) -> Floats:
        """Return the record of all chunks."""
        if not self.done.all():
            raise invalid_argument("chunks", "all added", f"{self.done.sum()} of {self.n_chunks}")
        nodes: Iterable[tuple[int, int]] = sorted(self.nodes, key=lambda node: node[1] << node[0])
        total: Floats | None = None
        for node in nodes:  # of falling level: the binary digits of n_chunks
            record = self.nodes[node]
            total = record if total is None else self._work.merge(total, record)
        assert total is not None
        return total


def write_state(path: Path, tree: ChunkTree) -> None:
    """Replace the state, as a whole or not at all."""
    nodes = list(tree.nodes)
    records = [np.ascontiguousarray(tree.nodes[node], "<f8") for node in nodes]
    crc = 0
    for record in records:
        crc = zlib.crc32(record.data, crc)
    header = json.dumps({"nodes": nodes, "checksum": crc}) + "\n"
    with atomic_path(path, only_writer=True) as partial, partial.open("wb") as file:
        file.write(header.encode())
        for record in records:
            file.write(record.data)


def read_state(path: Path, size: int) -> dict[tuple[int, int], Floats]:
    """Return unmerged records; none if the state is not there or not as it was written."""
    try:
        with path.open("rb") as file:
            header = json.loads(file.readline())
            data = file.read()
        records = np.frombuffer(data, "<f8").reshape(len(header["nodes"]), size)
        if zlib.crc32(data) != header["checksum"]:
            return {}
        pairs = zip(header["nodes"], records, strict=True)
        return {(int(level), int(k)): r for (level, k), r in pairs}
    except (OSError, ValueError, KeyError, TypeError):
        return {}
