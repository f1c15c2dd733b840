"""Rows of .parquet, .arrow and .jsonl files that hold a list each: token ids, or a vector.

A file is read from any row on (of lines: from any byte on), a few thousand rows at a time. What
cannot be used is named by its row, counted from 0, or its line, counted from 1.
"""

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import is_missing
from attnlaw._machine import require
from attnlaw.data.readers.columnar_files import ColumnSize, column_sizes, record_batches
from attnlaw.data.readers.entries import (
    JSON_BYTES,
    LINE_BYTES,
    bad_file,
    opened,
    require_line_room,
    require_room,
)

__all__ = [
    "BLOCK_ROWS",
    "label_words",
    "line_name",
    "lines_in",
    "list_column",
    "parquet_file",
    "parsed_lines",
    "row_batches",
    "row_name",
    "signed",
    "stacked_lines",
]

BLOCK_ROWS = 2**13  # read at a time
MOST_LETTERS = 1000  # of a label
MOST_PACKED = 100  # bytes of memory for one of a file of ids


def parquet_file(path: Path) -> Any:
    """Open a .parquet file."""
    parquet: Any = require("pyarrow.parquet", extra="corpora", purpose="A .parquet file")
    with opened(path):  # and not a pipe
        pass
    try:
        return parquet.ParquetFile(path)
    except Exception as error:  # pyarrow's are of several kinds
        raise bad_file(path, "be a complete .parquet file", str(error)[:120]) from None


def row_batches(
    path: Path, start: int, stop: int, column: str, label: str | None
) -> Iterator[tuple[int, Any]]:
    """Yield rows `start` to `stop` of a table, with the row that each batch begins with."""
    wanted = [column] if label is None else [column, label]
    first = 0
    if path.suffix.lower() == ".parquet":
        file = parquet_file(path)
        _check_columns(path, wanted, file.schema_arrow)
        sizes = [file.metadata.row_group(k).num_rows for k in range(file.num_row_groups)]
        ends = np.cumsum(sizes)
        groups = [k for k, end in enumerate(ends) if end > start and end - sizes[k] < stop]
        first = int(ends[groups[0]] - sizes[groups[0]])
        columns = column_sizes(path)
        if len(columns) != len(sizes):
            raise bad_file(path, "be a complete .parquet file", "a damaged footer")
        for k in groups:
            _require_group_room(path, sizes[k], columns[k], wanted)
        whole = _of_groups(path, file, groups, wanted, first)
    else:
        whole = record_batches(path)
    for batch in whole:
        _check_columns(path, wanted, batch.schema)
        low, high = max(start - first, 0), min(stop - first, batch.num_rows)
        if low < high:
            _require_consistent(path, batch.select(wanted), first)
        for k in range(low, high, BLOCK_ROWS):
            yield first + k, batch.slice(k, min(BLOCK_ROWS, high - k))
        first += batch.num_rows
        if first >= stop:
            return


def _require_consistent(path: Path, batch: Any, first: int) -> None:
    """Raise for lists that begin or end outside their values: Arrow reads what is there."""
    try:
        batch.validate(full=True)
    except ValueError as error:
        found = f"{str(error)[:80]} in row {first} or after"
        raise bad_file(path, "hold consistent columns", found) from None


def _require_group_room(
    path: Path, n_rows: int, columns: list[ColumnSize], wanted: list[str]
) -> None:
    """Raise if the rows read at a time do not fit: equal numbers are packed into next to none."""
    for name, n_values, n_bytes in columns:
        if name.partition(".")[0] not in wanted:
            continue
        share = min(1.0, BLOCK_ROWS / max(n_rows, 1))
        if 8 * n_values > MOST_PACKED * n_bytes:
            share = 1.0  # they may all be in one row
        require_room(path, 16 * share * n_values, f"column {name}")


def _of_groups(
    path: Path, file: Any, groups: list[int], wanted: list[str], first: int
) -> Iterator[Any]:
    try:
        for batch in file.iter_batches(BLOCK_ROWS, row_groups=groups, columns=wanted):
            yield batch
            first += batch.num_rows
    except (OSError, ValueError) as error:
        found = f"damage after row {first}: {str(error)[:80]}"
        raise bad_file(path, "be a complete .parquet file", found) from None


def _check_columns(path: Path, wanted: list[str], schema: Any) -> None:
    try:
        present = schema.names
    except UnicodeDecodeError as error:
        raise bad_file(path, "name its columns in UTF-8", str(error)) from None
    for name in wanted:
        if name not in present:
            found = ", ".join(present)[:120] or "none"
            raise bad_file(path, f"have a column called {name!r}", found)


def list_column(
    name: str, where: Callable[[int], str], column: Any, max_length: int
) -> NDArray[Any]:
    """Return a column of lists as an array: ids padded with −1, vectors of one length."""
    arrow: Any = require("pyarrow", extra="corpora", purpose="A column of lists")

    kind, types = column.type, arrow.types
    is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    if not is_list or not (
        types.is_integer(kind.value_type) or types.is_floating(kind.value_type)
    ):
        raise bad_file(Path(name), "hold lists of numbers", f"{kind} from {where(0)} on")
    if column.null_count:
        k = int(np.argmin(column.is_valid().to_numpy(zero_copy_only=False)))
        raise bad_file(Path(name), "hold a list in every row", f"none in {where(k)}")
    values = column.flatten()
    if types.is_fixed_size_list(kind):
        lengths = np.full(len(column), kind.list_size)
    else:
        lengths = np.asarray(column.value_lengths())
    if values.null_count:
        place = int(np.argmin(values.is_valid().to_numpy(zero_copy_only=False)))
        k = int(np.searchsorted(np.cumsum(lengths), place, side="right"))
        raise bad_file(Path(name), "hold a number in every place", f"none in {where(k)}")
    return _laid_out(name, where, values.to_numpy(zero_copy_only=False), lengths, max_length)


def _laid_out(
    name: str,
    where: Callable[[int], str],
    flat: NDArray[Any],
    lengths: NDArray[Any],
    max_length: int,
) -> NDArray[Any]:
    """Return lists, one after the other, as an array with one of them a row."""
    path, L = Path(name), int(lengths.max(initial=0))
    if lengths.min() == 0:
        found = f"none in {where(int(lengths.argmin()))}"
        raise bad_file(path, "hold a list with an entry in every row", found)
    if flat.dtype.kind == "f":
        if lengths.min() < L:
            k = int(np.argmax(lengths != lengths[0]))
            found = f"{lengths[0]} numbers in {where(0)} and {lengths[k]} in {where(k)}"
            raise bad_file(path, "hold token ids or vectors of one length", found)
        return flat.reshape(-1, L)
    if flat.min() < 0:
        k = int(np.searchsorted(np.cumsum(lengths), int(flat.argmin()), side="right"))
        raise bad_file(path, "hold token ids, from 0 on", f"{flat.min()} in {where(k)}")
    if lengths.min() == L:
        return signed(name, where, flat.reshape(-1, L)[:, :max_length])
    L = min(L, max_length)
    require_room(path, 32 * L * len(lengths), f"{len(lengths)} rows of up to {L} ids")
    ids = np.full((len(lengths), L), -1, dtype=np.int64)
    starts = np.cumsum(lengths) - lengths
    there = np.arange(L) < lengths[:, None]
    ids[there] = flat[(starts[:, None] + np.arange(L))[there]]
    if flat.dtype.kind == "u" and (lost := there & (ids < 0)).any():
        k = int(np.argmax(lost.any(axis=1)))
        raise bad_file(path, "hold ids below 2^63", f"{int(ids[lost][0]) % 2**64} in {where(k)}")
    return ids


def lines_in(path: Path, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that begin in a range of bytes, with the place where each begins."""
    with opened(path) as stream:
        if start:
            stream.seek(start - 1)
            stream.readline()  # begun in the range before
        while (place := stream.tell()) < stop and (line := stream.readline(LINE_BYTES)):
            if line.strip():
                yield place, line


def parsed_lines(
    path: Path, lines: Iterator[tuple[int, bytes]], column: str, label: str | None
) -> Iterator[tuple[list[int], list[NDArray[Any]], NDArray[Any] | None]]:
    """Yield lines as arrays, a few thousand at a time, with the places where they begin."""
    places: list[int] = []
    rows: list[NDArray[Any]] = []
    labels: list[Any] = []

    def taken() -> tuple[list[int], list[NDArray[Any]], NDArray[Any] | None]:
        where = partial(line_name, path, places)
        return places, rows, None if label is None else label_words(str(path), where, labels)

    for place, line in lines:
        require_line_room(path, line, JSON_BYTES)
        try:
            row = json.loads(line)
            values = np.asarray(row[column] if isinstance(row, dict) else row)
            if label is not None:
                labels.append(row[label])
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            found = f"{type(error).__name__}: {str(error)[:80]} in {line_name(path, [place], 0)}"
            raise bad_file(path, f"hold JSON with a list {column!r} a line", found) from None
        if values.ndim != 1 or not len(values) or values.dtype.kind not in "iuf":
            found = f"{str(row)[:40]} in {line_name(path, [place], 0)}"
            raise bad_file(path, "hold a list of numbers a line", found)
        places.append(place)
        rows.append(values)
        if len(rows) == BLOCK_ROWS:
            yield taken()
            places, rows, labels = [], [], []
    if rows:
        yield taken()


def label_words(name: str, where: Callable[[int], str], labels: list[Any]) -> NDArray[Any]:
    """Return labels as text; a missing one is no class of its own, nor are two cut to one."""
    words = []
    for k, label in enumerate(labels):
        if is_missing(label):
            raise bad_file(Path(name), "hold a label in every row", f"{label} in {where(k)}")
        words.append(str(label))
        if len(words[-1]) > MOST_LETTERS or not _is_word(words[-1]):
            found = f"{words[-1][:40]!r} in {where(k)}"
            raise bad_file(Path(name), f"hold labels of at most {MOST_LETTERS} letters", found)
    longest = max(map(len, words), default=0)  # NumPy gives each the room of the longest
    require_room(Path(name), 4 * longest * len(words), "its labels")
    return np.array(words)


def _is_word(text: str) -> bool:
    """Whether a text is kept by NumPy, which drops NUL at the end, and has whole letters."""
    try:
        return not text.endswith("\0") and bool(text.encode() or True)
    except UnicodeEncodeError:
        return False


def stacked_lines(
    name: str, where: Callable[[int], str], rows: list[NDArray[Any]], max_length: int
) -> NDArray[Any]:
    """Return rows of a file of lines as one array."""
    lengths = np.array([len(row) for row in rows])
    kinds = [row.dtype.kind for row in rows]
    if len(set(kinds)) > 1:
        k = next(k for k, kind in enumerate(kinds) if kind != kinds[0])
        found = f"{rows[k].tolist()[:3]} in {where(k)} beside {rows[0].tolist()[:3]}"
        raise bad_file(Path(name), "hold token ids, or vectors of one length", found)
    return _laid_out(name, where, np.concatenate(rows), lengths, max_length)


def signed(name: str, where: Callable[[int], str], ids: NDArray[Any]) -> NDArray[Any]:
    """Return whole numbers of any type and byte order as the loops take them: (n, L)."""
    if ids.dtype.kind == "u" and ids.size and (largest := ids.max()) >= 2**63:
        k = int(np.argmax(ids.max(axis=1)))
        raise bad_file(Path(name), "hold ids below 2^63", f"{largest} in {where(k)}")
    return ids if ids.dtype in (np.int32, np.int64) and ids.dtype.isnative else ids.astype("i8")


def row_name(first: int, k: int) -> str:
    """Return the name of the k-th row of a block."""
    return f"row {first + k}"


def line_name(path: Path, places: list[int], k: int) -> str:
    """Return the number of the line that begins at the k-th place, counted from 1."""
    n, left = 1, places[k]
    with opened(path) as stream:
        while left and (data := stream.read(min(left, 2**20))):
            n += data.count(b"\n")
            left -= len(data)
    return f"line {n}"
