"""Corpora in files or arrays, read as numbered chunks that any process can read alone.

==================  =====================================================================
``.npy``            token ids (N, L), pooled rows (N, d) or embeddings (N, L, d); a memory map
``.parquet``        a column of lists: token ids of each document, or a vector of each row
``.arrow``          the same, in the file or the stream format, memory-mapped
``.jsonl``          one JSON object a line with such a list, or the list itself
``.zarr``           as .npy; a folder
arrays              NumPy, Dask, Zarr or anything else that can be sliced by rows; chunks of a
                    Dask array can be computed where they are, see `attnlaw.sweeps.cluster`
==================  =====================================================================

How a corpus is divided depends on its files alone, not on who reads them. A sequence that
cannot be used is named by file and row (of .jsonl: the line), counted from 0 as NumPy does,
lines from 1.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import LARGEST_COUNT, count, invalid_argument, refuse_masked
from attnlaw.data.readers.array_files import npy_entries
from attnlaw.data.readers.columnar_files import record_batches
from attnlaw.data.readers.entries import BadFileError, bad_file
from attnlaw.data.readers.lists import (
    BLOCK_ROWS,
    label_words,
    line_name,
    lines_in,
    list_column,
    parquet_file,
    parsed_lines,
    row_batches,
    row_name,
    signed,
    stacked_lines,
)
from attnlaw.data.readers.zarr_folders import Bands, zarr_array
from attnlaw.data.user_arrays import converted

__all__ = ["ArrayPart", "Block", "Corpus", "count_tokens", "is_corpus", "is_dask", "open_corpus"]

CHUNK_ROWS = 2**16  # at least, of a chunk
MOST_CHUNKS = 1024  # of a part of the corpus, from which on chunks grow
CHUNK_BYTES = 2**24  # of a chunk of lines
MOST_TOKENS = 2**28  # kinds of tokens that are counted
TABULAR = (".parquet", ".arrow", ".feather", ".ipc")
LINES = (".jsonl", ".ndjson")
PATHS = str | Path


class Block(NamedTuple):
    """Consecutive sequences of one file."""

    values: NDArray[Any]  # (n, L) ids, negative where there is no token; (n, d); or (n, L, d)
    labels: NDArray[Any] | None  # as text
    source: str
    where: Callable[[int], str]  # row or line of the k-th sequence, in words

    def refuse(self, k: int, condition: str, found: str) -> BadFileError:
        """Return (not raise) the sentence about the k-th sequence."""
        return bad_file(Path(self.source), condition, f"{found} in {self.where(k)}")


class ArrayPart:
    """Consecutive rows of an array, sliced by their numbers in the whole of it."""

    def __init__(self, rows: NDArray[Any], first: int, n_rows: int) -> None:
        self._rows, self._first = rows, first
        self.dtype, self.shape = rows.dtype, (n_rows, *rows.shape[1:])

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        return self._rows[rows.start - self._first : rows.stop - self._first]


@dataclass(frozen=True, kw_only=True, eq=False)
class Corpus:
    """Files or arrays, read chunk by chunk: see `open_corpus`."""

    sources: tuple[Any, ...]
    column: str
    label: str | None  # column with the class of each row
    labels: Any  # or an array with them
    max_length: int

    def __post_init__(self) -> None:
        if self.labels is not None and len(self.sources) > 1:
            raise invalid_argument("labels", "given for a corpus of one array", self.labels)
        if self.labels is not None and len(self.labels) != self._sizes[0]:
            raise invalid_argument("labels", f"of length {self._sizes[0]}", self.labels)
        arrays = [n for n, s in zip(self.names, self.sources, strict=True)
                  if _suffix(s) not in (*LINES, *TABULAR)]  # fmt: skip
        if self.label is not None and arrays:
            text = "left out for arrays, which have no columns"
            raise invalid_argument("label", text, f"{self.label} for {arrays[0]}")
        if not any(self._sizes):
            raise invalid_argument("sources", "files or arrays with a sequence", self.names)

    @property
    def names(self) -> list[str]:
        """Names of the files, or what else the sequences come from."""
        return [str(s) if isinstance(s, PATHS) else "the array" for s in self.sources]

    @property
    def is_stored(self) -> bool:
        """Whether all of it is in files, which other processes can read."""
        return self.labels is None and all(isinstance(s, PATHS) for s in self.sources)

    @property
    def plain(self) -> dict[str, Any]:
        """What `open_corpus` takes to open the same corpus elsewhere, in plain types."""
        paths = [str(Path(name).absolute()) for name in self.names]
        return {
            "sources": paths,
            "column": self.column,
            "label": self.label,
            "max_length": self.max_length,
        }

    @cached_property
    def chunks(self) -> list[tuple[int, int, int]]:
        """Part, and first and last row (byte, for lines) of each chunk."""
        found = []
        for part, size in enumerate(self._sizes):
            in_lines = _suffix(self.sources[part]) in LINES
            step = max(CHUNK_BYTES if in_lines else CHUNK_ROWS, -(-size // MOST_CHUNKS))
            height = _height(self.sources[part])
            step += -step % height
            found += [(part, k, min(k + step, size)) for k in range(0, size, step)]
        return found

    @cached_property
    def _sizes(self) -> list[int]:
        """Rows of each part; bytes of a file of lines."""
        return [_size(source) for source in self.sources]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of a sequence: (length,) or (length, d); (max_length,) where lengths differ."""
        return self._kind[0]

    @property
    def is_of_ids(self) -> bool:
        """Whether sequences are of whole numbers."""
        return self._kind[1]

    @cached_property
    def _kind(self) -> tuple[tuple[int, ...], bool]:
        """Shape of a sequence, and whether it is of whole numbers; of arrays without a read."""
        part = self.chunks[0][0]
        if _suffix(self.sources[part]) in (*LINES, *TABULAR):
            values = next(iter(self.blocks(0))).values
            return values.shape[1:], values.dtype.kind in "iu"
        data = _array(self.sources[part])
        is_whole, shape = np.dtype(data.dtype).kind in "iu", tuple(data.shape[1:])
        if is_whole and len(shape) == 1:
            shape = (min(shape[0], self.max_length),)
        return shape, is_whole

    @cached_property
    def classes(self) -> tuple[str, ...]:
        """Labels that occur, in order; reads the whole corpus where they are in a column."""
        if self.labels is None and self.label is None:
            return ()
        if self.labels is not None:
            return tuple(np.unique(np.asarray(self.labels).astype(str)).tolist())
        seen: set[str] = set()
        for index in range(len(self.chunks)):
            for block in self.blocks(index):
                assert block.labels is not None
                seen |= set(block.labels.tolist())
        return tuple(sorted(seen))

    def describe(self, index: int) -> str:
        """Name a chunk."""
        part, start, stop = self.chunks[index]
        unit = "bytes" if _suffix(self.sources[part]) in LINES else "rows"
        return f"chunk {index} ({self.names[part]}, {unit} {start} to {stop - 1})"

    def blocks(self, index: int) -> Iterator[Block]:
        """Yield the sequences of a chunk, a few thousand at a time."""
        part, start, stop = self.chunks[index]
        source, name = self.sources[part], self.names[part]
        suffix = _suffix(source)
        if suffix in LINES:
            lines = lines_in(Path(source), start, stop)
            for places, rows, labels in parsed_lines(Path(source), lines, self.column, self.label):
                where = partial(line_name, Path(source), places)
                yield Block(stacked_lines(name, where, rows, self.max_length), labels, name, where)
            return
        if suffix in TABULAR:
            for first, batch in row_batches(Path(source), start, stop, self.column, self.label):
                where = partial(row_name, first)
                values = list_column(name, where, batch.column(self.column), self.max_length)
                labels = None
                if self.label is not None:
                    labels = label_words(name, where, batch.column(self.label).to_pylist())
                yield Block(values, labels, name, where)
            return
        data = _array(source)
        for first in range(start, stop, BLOCK_ROWS):
            rows_here = slice(first, min(first + BLOCK_ROWS, stop))
            labels = None
            if self.labels is not None:
                labels = label_words(
                    "labels", partial(row_name, first), np.asarray(self.labels[rows_here]).tolist()
                )
            values = np.asarray(data[rows_here])
            if values.ndim == 2 and values.dtype.kind in "iu":
                values = signed(name, partial(row_name, first), values[:, : self.max_length])
            yield Block(values, labels, name, partial(row_name, first))


def open_corpus(
    sources: Any,
    *,
    column: str = "tokens",
    label: str | None = None,
    labels: Any = None,
    max_length: int = 512,
) -> Corpus:
    """Open a corpus that need not fit in memory.

    Parameters
    ----------
    sources : path, array, or several
        Files by their suffix: see `attnlaw.data.corpora`; arrays of any library that slices.
    column : str
        Of .parquet, .arrow and .jsonl files: where token ids or vectors are.
    label : str, optional
        Column with the class of each row.
    labels : array of shape (N,), optional
        Classes, when the corpus is one array.
    max_length : int
        Tokens kept of each sequence.

    Returns
    -------
    Corpus

    Examples
    --------
    >>> corpus = open_corpus(np.array([[3, 4, -1], [5, 5, 5]]))
    >>> corpus.chunks, corpus.is_of_ids
    ([(0, 0, 2)], True)
    """
    if isinstance(sources, Corpus):
        return sources
    several = isinstance(sources, list | tuple) and all(isinstance(s, PATHS) for s in sources)
    parts = tuple(sources) if several else (sources,)
    parts = tuple(s if isinstance(s, PATHS) else converted("sources", s) for s in parts)
    if not parts:
        raise invalid_argument("sources", "at least one file or array", sources)
    for part in parts:
        if isinstance(part, PATHS) and not Path(part).exists():
            raise ValueError(f"{part} must be a corpus, got nothing at that place.")
    if isinstance(labels, PATHS):
        labels = _array(labels)
    refuse_masked("labels", labels)
    L = count("max_length", max_length)
    return Corpus(sources=parts, column=column, label=label, labels=labels, max_length=L)


def is_corpus(sources: Any) -> bool:
    """Return whether something is a corpus that need not fit in memory."""
    if isinstance(sources, list | tuple):
        return len(sources) > 0 and all(isinstance(source, PATHS) for source in sources)
    is_large = isinstance(sources, np.memmap) or is_dask(sources)
    return isinstance(sources, Corpus | str | Path) or (is_large and len(sources.shape) == 2)


def is_dask(source: Any) -> bool:
    """Return whether something is an array of Dask."""
    return hasattr(source, "__dask_graph__")


def count_tokens(sources: Any) -> NDArray[np.int64]:
    """Return how often each token id occurs in a corpus, from 0 to the largest: (V,).

    Examples
    --------
    >>> count_tokens(np.array([[3, 1, -1], [1, 1, 0]]))
    array([1, 3, 0, 1])
    """
    corpus = open_corpus(sources, max_length=LARGEST_COUNT)
    counts = np.zeros(0, dtype=np.int64)
    if is_dask(array := corpus.sources[0]):
        from dask.delayed import delayed

        found = [delayed(_counted)(part, "the array") for part in array.to_delayed().ravel()]
        for more in delayed(list)(found).compute():
            counts = _added(counts, more)
        return counts
    for index in range(len(corpus.chunks)):
        for block in corpus.blocks(index):
            counts = _added(counts, _counted(block.values, block.source, block.where))
    return counts


def _counted(
    ids: NDArray[Any], source: str, where: Callable[[int], str] = "place {}".format
) -> NDArray[np.int64]:
    """Return how often each id of a block occurs, from 0 to the largest."""
    block = Block(ids, None, source, where)
    if ids.dtype.kind not in "iu":
        raise block.refuse(0, "hold token ids", str(ids.dtype))
    there = ids[ids >= 0]
    if there.size and there.max() >= MOST_TOKENS:
        raise block.refuse(0, f"hold ids below {MOST_TOKENS}", f"{there.max()} on or after")
    return np.bincount(there.astype(np.int64, copy=False))


def _added(a: NDArray[np.int64], b: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the sum of two counts, of which one may be longer."""
    total = np.zeros(max(len(a), len(b)), dtype=np.int64)
    total[: len(a)] += a
    total[: len(b)] += b
    return total


def _suffix(source: Any) -> str:
    return Path(source).suffix.lower() if isinstance(source, PATHS) else ""


def _size(source: Any) -> int:
    """Rows of an array or a table; bytes of a file of lines."""
    suffix = _suffix(source)
    if suffix in LINES:
        return Path(source).stat().st_size
    if suffix == ".parquet":
        return int(parquet_file(Path(source)).metadata.num_rows)
    if suffix in TABULAR:
        return sum(batch.num_rows for batch in record_batches(Path(source)))
    return int(_array(source).shape[0])


def _height(source: Any) -> int:
    """Rows that are unpacked together, and so are read by one process."""
    is_folder = isinstance(source, PATHS) and Path(source).is_dir()
    data = _array(source) if is_folder else None
    return data.height if isinstance(data, Bands) else 1


def _array(source: Any) -> Any:
    """Return an array that can be sliced, checked for its type and axes."""
    data = source
    if isinstance(source, PATHS):
        path = Path(source)
        if path.suffix.lower() == ".npz":
            raise bad_file(path, "be unpacked into .npy files, which are memory-mapped", "an .npz")
        if path.is_dir():
            data = zarr_array(path)
        elif path.suffix.lower() == ".npy":
            data = next(iter(npy_entries(path).values())).load()
        else:
            known = ".npy, .parquet, .arrow, .feather, .ipc, .jsonl, .ndjson, or a Zarr folder"
            raise bad_file(path, f"be one of {known}", f"a {path.suffix or 'nameless'} file")
    name = Path(source) if isinstance(source, PATHS) else Path("the array")
    if np.dtype(data.dtype).kind not in "fiu":
        raise bad_file(name, "hold token ids or real numbers", f"dtype {data.dtype}")
    if len(data.shape) not in (1, 2, 3) or 0 in data.shape[1:]:
        raise bad_file(name, "have 2 or 3 axes", f"shape {tuple(data.shape)}")
    return data
