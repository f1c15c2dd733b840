"""The journal: what each finished cell observed, appended as it comes.

A journal is a row of records of one size: index, checksum, values. A record torn by a kill is
cut off at the next start or, told by its checksum, ignored; its cell is then computed again.
"""

import os
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Floats
from attnlaw.sweeps.cells import cell_shape
from attnlaw.sweeps.files import writable
from attnlaw.sweeps.grid import Sweep

__all__ = ["Journal", "journal_size", "open_journal", "read_journal"]

SYNC_SECONDS = 1.0  # of work that a power cut may cost; a kill costs nothing that was written


class Journal:
    """A journal open for writing, by one writer at a time."""

    def __init__(self, path: Path, handle: int, record: np.dtype[Any]) -> None:
        self._path, self._handle, self._record = path, handle, record
        self._synced = time.monotonic()

    def append(self, index: int, values: Floats) -> None:
        """Write what a cell observed."""
        record = np.zeros((), dtype=self._record)
        record["index"], record["values"] = index, values
        record["checksum"] = _checksum(record.tobytes())
        data = memoryview(record.tobytes())
        with writable(self._path):
            while data:
                data = data[os.write(self._handle, data) :]
            if time.monotonic() - self._synced > SYNC_SECONDS:
                os.fsync(self._handle)
                self._synced = time.monotonic()


@contextmanager
def open_journal(path: Path, sweep: Sweep) -> Iterator[Journal]:
    """Open a journal at its end, after the last whole record, and bring it to disk when done."""
    record = _record(sweep)
    with writable(path):
        handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
    try:
        size = os.fstat(handle).st_size
        whole = size - size % record.itemsize
        os.ftruncate(handle, whole)
        os.lseek(handle, whole, os.SEEK_SET)
        yield Journal(path, handle, record)
    finally:
        os.fsync(handle)
        os.close(handle)


def read_journal(path: Path, sweep: Sweep) -> tuple[NDArray[np.bool_], Floats]:
    """Read which cells are done, and what they observed: NaN where they are not.

    Returns
    -------
    done : array of bool, shape (n_cells,)
    values : array of shape (n_cells, *cell_shape)
    """
    done = np.zeros(sweep.n_cells, dtype=bool)
    values = np.full((sweep.n_cells, *cell_shape(sweep)), np.nan)
    try:
        data = path.read_bytes()
    except FileNotFoundError:  # not begun yet, or finished and removed
        return done, values
    record = _record(sweep)
    records = np.frombuffer(data, record, count=len(data) // record.itemsize)
    whole = memoryview(data)[: records.nbytes]
    starts = range(0, len(whole), record.itemsize)
    sums = np.array([_checksum(whole[k : k + record.itemsize]) for k in starts], dtype=np.uint64)
    index = records["index"]
    is_sound = (records["checksum"] == sums) & (index >= 0) & (index < sweep.n_cells)
    places = index[is_sound]
    done[places] = True
    values[places] = records["values"][is_sound]
    return done, values


def journal_size(sweep: Sweep) -> int:
    """Return the bytes of a journal of all cells."""
    return sweep.n_cells * _record(sweep).itemsize


def _record(sweep: Sweep) -> np.dtype[Any]:
    """Lay out a record; little-endian everywhere, so that a store may move between machines."""
    return np.dtype([("index", "<i8"), ("checksum", "<u8"), ("values", "<f8", cell_shape(sweep))])


def _checksum(record: bytes | memoryview) -> int:
    """Return the checksum of a record: of its index and its values, and not of itself."""
    return zlib.crc32(record[16:], zlib.crc32(record[:8]))
