"""The store of a sweep: a directory that a kill at any moment leaves whole.

=====================  ===========================================================
``manifest.json``      the sweep, the versions and a digest of the source
``lock``               held by the one writer; the system frees it when that dies
``cells.journal``      what each finished cell observed, appended as it comes
``results.nc``         the labelled dataset, put in place after the last cell
``results.sha256``     its digest, as ``sha256sum`` writes it, verified at every read
=====================  ===========================================================

Once ``results.nc`` is in place the journal is removed: the order in which cells were finished,
and how often the sweep was interrupted, leaves no trace.

The journal is a row of records of one size: index, checksum, values. A record torn by a kill is
cut off at the next start or, told by its checksum, ignored; its cell is then computed again.
While the journal is there, it also rebuilds a ``results.nc`` that does not match its digest.
"""

import json
import os
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Floats
from attnlaw._store import (
    StoreError,
    atomic_path,
    checksum,
    exclusive,
    file_checksum,
    fingerprint,
    fingerprint_difference,
    writable,
)
from attnlaw.sweeps.cells import cell_shape
from attnlaw.sweeps.grid import Sweep

__all__ = [
    "JOURNAL",
    "RESULTS",
    "SOURCES",
    "Journal",
    "check_same",
    "has_results",
    "is_finished",
    "journal_size",
    "open_journal",
    "put_results",
    "read_journal",
    "read_manifest",
    "software",
    "software_difference",
    "writing",
]

FORMAT = "attnlaw sweep 1"
MANIFEST, LOCK, JOURNAL, RESULTS = "manifest.json", "lock", "cells.journal", "results.nc"
DIGEST = "results.sha256"
SPARSE_BYTES = 2**28  # from which on a file with less than one byte in eight on the disk is sparse
SYNC_SECONDS = 1.0  # of work that a power cut may cost; a kill costs nothing that was written
SOURCES = (  # what decides which numbers a cell observes
    "_checks.py",
    "_machine.py",
    "_store.py",
    "correlations.py",
    "weights.py",
    "models",
    "results.py",
    "simulation",
    "sweeps/parameters.py",
    "sweeps/grid.py",
    "sweeps/cells.py",
)


@contextmanager
def writing(path: Path, sweep: Sweep) -> Iterator[None]:
    """Begin or continue the store of a sweep, as its only writer.

    Raises
    ------
    StoreError
        When somebody else is writing, when the store is that of another sweep or version, or
        when the directory holds other things.
    """
    if path.exists() and not path.is_dir():
        raise StoreError(f"{path} must be a directory, got a file.")
    if path.exists() and not (path / MANIFEST).exists():
        others = [p.name for p in path.iterdir() if p.name not in (LOCK, f".partial-{MANIFEST}")]
        if others:
            raise StoreError(
                f"{path} must be a new directory or the store of a sweep, got a directory that "
                f"holds {others[0]!r} and no {MANIFEST}."
            )
    with writable(path):
        path.mkdir(parents=True, exist_ok=True)
    with exclusive(path / LOCK):
        if (path / MANIFEST).exists():
            check_same(path, sweep)
        else:
            text = json.dumps(_manifest(sweep), indent=1, ensure_ascii=False)
            with atomic_path(path / MANIFEST, only_writer=True) as partial:
                partial.write_text(text, "utf-8")
        yield


def put_results(path: Path, write: Callable[[Path], object]) -> None:
    """Put the dataset in place, written by `write(path)`, and remove the journal.

    The digest comes first: a kill between the two leaves a file that does not match, and the
    journal with which to write it again.
    """
    if not has_results(path):
        with atomic_path(path / RESULTS, only_writer=True) as partial:
            write(partial)
            with atomic_path(path / DIGEST, only_writer=True) as digest:
                digest.write_text(f"{file_checksum(partial)}  {RESULTS}\n", "utf-8")
    (path / JOURNAL).unlink(missing_ok=True)


def has_results(path: Path) -> bool:
    """Return whether the results are there and every byte of them is as it was written.

    Raises
    ------
    StoreError
        When they are damaged and no journal is left to rebuild them from.
    """
    _require_regular_files(path)
    if not (path / RESULTS).exists():
        return False
    try:
        written = (path / DIGEST).read_bytes()[:64].decode("ascii", "replace")
        found = file_checksum(path / RESULTS)
    except OSError as error:
        raise StoreError(
            f"{path} must hold a readable {RESULTS} and {DIGEST}, got "
            f"{error.strerror or str(error)!r}."
        ) from None
    if found != written and not (path / JOURNAL).exists():
        raise StoreError(
            f"{path / RESULTS} must be as it was written, got a damaged file: its SHA-256 is "
            f"{found[:12]}…, and {DIGEST} says {written[:12]!r}; restore it, or remove it to have "
            "the sweep computed again."
        )
    return found == written


def _require_regular_files(path: Path) -> None:
    """Raise for a pipe, which would be waited for, a device, and a file of holes without end."""
    for name in (MANIFEST, RESULTS, DIGEST, JOURNAL):
        if (path / name).exists() and not (path / name).is_file():
            raise StoreError(f"{path / name} must be a regular file, got something else.")
        status = (path / name).stat() if (path / name).exists() else None
        stored = 512 * getattr(status, "st_blocks", 2**62)
        if status is not None and status.st_size > SPARSE_BYTES and 8 * stored < status.st_size:
            found = f"{status.st_size} bytes of which {stored} are on the disk"
            raise StoreError(f"{path / name} must be stored in full, got {found}.")


def read_manifest(path: Path) -> tuple[Sweep, dict[str, str]]:
    """Read the sweep of a store, and the fingerprint of the code that it was begun with."""
    _require_regular_files(path)
    try:
        manifest = json.loads((path / MANIFEST).read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise StoreError(
            f"{path} must be the store of a sweep, got no {MANIFEST} in it."
        ) from None
    except (ValueError, RecursionError):
        manifest = None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise StoreError(f"{path / MANIFEST} must be a manifest in the format {FORMAT!r}.")
    expected = manifest.pop("checksum", None)
    if expected != checksum([json.dumps(manifest)]):
        raise StoreError(
            f"{path / MANIFEST} must be as it was written, got a checksum that does not match."
        )
    try:
        return Sweep(**manifest["sweep"]), dict(manifest["software"])
    except (KeyError, TypeError, ValueError) as error:
        found = f"{type(error).__name__}: {str(error)[:80]}"
        raise StoreError(f"{path / MANIFEST} must describe a sweep, got {found}.") from None


def software() -> dict[str, str]:
    """Return the fingerprint of the code that decides which numbers a cell observes."""
    return fingerprint(SOURCES)


def software_difference(there: Mapping[str, str]) -> str:
    """Say in what another fingerprint differs from the one here; "" if in nothing."""
    return fingerprint_difference(there, software())


def is_finished(path: Path) -> bool:
    """Return whether there is nothing left to write."""
    return (path / RESULTS).exists() and not (path / JOURNAL).exists()


def check_same(path: Path, sweep: Sweep) -> None:
    """Raise when a store is that of another sweep or another version."""
    there, began_with = read_manifest(path)
    changed = software_difference(began_with)
    if changed:
        raise StoreError(
            f"{path} must be continued by the code that began it, got {changed}; continue with "
            "that code, or begin a new store."
        )
    ours, theirs = sweep.as_mapping(), there.as_mapping()
    for name in ours:
        if json.dumps(ours[name]) != json.dumps(theirs[name]):  # the order of weights counts
            raise StoreError(
                f"{path} must be the store of this very sweep, got another {name}: "
                f"{_short(theirs[name])} there, {_short(ours[name])} here; give the new sweep a "
                "store of its own."
            )


def _manifest(sweep: Sweep) -> dict[str, Any]:
    manifest = {"format": FORMAT, "software": software(), "sweep": sweep.as_mapping()}
    return {**manifest, "checksum": checksum([json.dumps(manifest)])}


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


class Journal:
    """A journal open for writing, by one writer at a time."""

    def __init__(self, path: Path, handle: int, record: np.dtype[Any]) -> None:
        self._path, self._handle, self._record = path, handle, record
        self._synced = time.monotonic()

    def append(self, index: int, values: Floats) -> None:
        """Write what a cell observed."""
        record = np.zeros((), dtype=self._record)
        record["index"], record["values"] = index, values
        record["checksum"] = _record_checksum(record.tobytes())
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
        with writable(path):
            size = os.fstat(handle).st_size
            whole = size - size % record.itemsize
            os.ftruncate(handle, whole)
            os.lseek(handle, whole, os.SEEK_SET)
        yield Journal(path, handle, record)
        with writable(path):
            os.fsync(handle)
    finally:
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
    sums = np.array(
        [_record_checksum(whole[k : k + record.itemsize]) for k in starts], dtype=np.uint64
    )
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


def _record_checksum(record: bytes | memoryview) -> int:
    """Return the checksum of a record: of its index and its values, and not of itself."""
    return zlib.crc32(record[16:], zlib.crc32(record[:8]))
