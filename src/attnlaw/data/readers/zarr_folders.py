"""Arrays in folders of Zarr: read by the `zarr` package, which sees only what was checked before.

A folder is many files: a description in JSON, and a file for each chunk, compressed. Zarr waits
for a pipe, unpacks a chunk to whatever size it has, and takes one that got lost for one of fill
values. So it reads through a store that opens regular files only, limits the description, wants
every chunk, and asks of each how many bytes it unpacks to before it is unpacked. Codecs whose
answer cannot be had in advance are refused; `zarr.open_array` opens those, and its arrays are
taken as any other.
"""

import json
import math
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from attnlaw._machine import require
from attnlaw.data.readers.entries import (
    SPARSE_BYTES,
    SPARSE_SHARE,
    BadFileError,
    bad_file,
    opened,
    require_room,
)

__all__ = ["Bands", "zarr_array"]

DESCRIPTIONS = ("zarr.json", ".zarray", ".zattrs", ".zgroup", ".zmetadata")
DESCRIPTION_BYTES = 2**20
PLAIN = ("bytes", "transpose", "crc32c")  # codecs that keep the size, but for a checksum
PACKED = ("blosc", "gzip", "zlib", "zstd")
MISSING = "be a chunk that is stored, or left to zarr.open_array, which fills in what is missing,"
STEP_BYTES = 2**20  # unpacked at a time, where unpacking is the only way to know the size


def zarr_array(path: Path) -> Any:
    """Return the array in a folder, to be sliced by rows, once its description is held to limits.

    Raises
    ------
    BadFileError
        Here or in a later slice: for files that are not regular, kinds and codecs that are not
        numbers packed by Blosc, gzip, zlib or Zstandard, chunks beyond the memory at hand, chunks
        that unpack to more than their size, and arrays of which chunks are missing.
    """
    zarr: Any = require("zarr", extra="corpora", purpose="A folder of Zarr")
    described = _description(path)
    chunk, packing = _checked_layout(path, described)
    try:
        array = zarr.open_array(store=_checked_store(path, chunk, packing), mode="r")
    except BadFileError:
        raise
    except Exception as error:  # of many kinds
        raise bad_file(path, "be a Zarr array", str(error)[:80]) from None
    _require_stored(path, array.shape, array.chunks, array.dtype.itemsize)
    return Bands(path, array) if array.shape else array


class Bands:
    """An array sliced by rows that keeps the last band of chunks: each chunk is unpacked once."""

    def __init__(self, path: Path, array: Any) -> None:
        self._path, self._array = path, array
        self.height = int(array.chunks[0])  # rows that are unpacked together
        self._first, self._rows = 0, np.empty((0, *array.shape[1:]), array.dtype)
        self.dtype, self.shape = array.dtype, array.shape
        band = min(self.height, max(1, array.shape[0])) * math.prod(array.shape[1:])
        require_room(path, 2 * array.dtype.itemsize * band, "a band of chunks")

    def __len__(self) -> int:
        return int(self.shape[0])

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self[:], dtype=dtype)

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        start, stop, _ = rows.indices(len(self))
        pieces = []
        while start < stop:
            if not self._first <= start < self._first + len(self._rows):
                self._first = start - start % self.height
                self._rows = self._band(self._first)
            end = min(stop, self._first + len(self._rows))
            pieces.append(self._rows[start - self._first : end - self._first])
            start = end
        return np.concatenate(pieces) if pieces else self._rows[:0]

    def _band(self, first: int) -> NDArray[Any]:
        try:
            return np.asarray(self._array[first : first + self.height])
        except BadFileError:
            raise
        except Exception as error:  # of the many codecs
            found = f"{str(error)[:80]} in rows {first} and after"
            raise bad_file(self._path, "hold chunks that can be unpacked", found) from None


def _description(path: Path) -> Mapping[str, Any]:
    """Return what zarr.json says of the array, or .zarray in the older format."""
    names = [name for name in DESCRIPTIONS[:2] if (path / name).exists()]
    if len(names) != 1:
        found = "a folder with both" if names else "a folder with neither"
        raise bad_file(path, "be a Zarr array, with zarr.json or .zarray", found)
    name = names[0]
    try:
        found = json.loads(_read(path / name, DESCRIPTION_BYTES, "a description"))
    except (ValueError, RecursionError) as error:
        if isinstance(error, BadFileError):
            raise
        raise bad_file(path / name, "describe a Zarr array in JSON", str(error)[:80]) from None
    if not isinstance(found, dict):
        raise bad_file(path / name, "describe a Zarr array", type(found).__name__)
    return found


def _checked_layout(path: Path, described: Mapping[str, Any]) -> tuple[int, str | None]:
    """Return the bytes of a chunk, and the codec that packs it; raise unless both are known."""
    try:
        if described["zarr_format"] == 2:
            kind = np.dtype(described["dtype"])
            shape, filters = described["chunks"], described.get("filters")
            codecs = [*(f["id"] for f in filters or ())]
            codecs += [described["compressor"]["id"]] if described.get("compressor") else []
        else:
            kind = np.dtype(described["data_type"])
            shape = described["chunk_grid"]["configuration"]["chunk_shape"]
            codecs = [codec["name"] for codec in described["codecs"]]
        n_bytes = math.prod(int(n) for n in shape) * kind.itemsize
    except (KeyError, TypeError, ValueError, OverflowError):
        raise bad_file(path, "describe a Zarr array of numbers", "another description") from None
    if kind.kind not in "fiu":
        raise bad_file(path, "hold token ids or real numbers", f"dtype {kind}")
    packings = [str(codec) for codec in codecs if codec not in PLAIN]
    if len(packings) > 1 or not set(packings) <= set(PACKED):
        raise bad_file(
            path,
            f"be packed by one of {', '.join(PACKED)}, or opened by zarr.open_array and given as "
            "an array",
            ", ".join(packings)[:80],
        )
    if n_bytes < 1:
        raise bad_file(path, "have chunks of at least one number", f"chunks of {shape}"[:80])
    require_room(path, 3 * n_bytes, "a chunk, packed, unpacked and copied,")
    return n_bytes, packings[0] if packings else None


def _require_stored(
    path: Path, shape: tuple[int, ...], chunks: tuple[int, ...], itemsize: int
) -> None:
    """Raise for a large array of which few chunks are stored: the rest would be read for ever."""
    if math.prod(shape) * itemsize <= SPARSE_BYTES:
        return
    n_chunks = math.prod(-(-n // size) for n, size in zip(shape, chunks, strict=True))
    n_files = sum(len(files) for _, _, files in os.walk(path))
    if SPARSE_SHARE * n_files < n_chunks:
        raise bad_file(path, "be stored in full", f"{n_files} files for {n_chunks} chunks")


def _checked_store(path: Path, chunk_bytes: int, packing: str | None) -> Any:
    """Return a store of Zarr's for a local folder that answers with checked bytes only."""
    from zarr.core.buffer import default_buffer_prototype
    from zarr.storage import LocalStore

    class CheckedStore(LocalStore):  # type: ignore[misc, unused-ignore]  # zarr may be missing
        """A local folder, read-only."""

        async def get(self, key: str, prototype: Any = None, byte_range: Any = None) -> Any:
            file = self.root / key
            if not file.exists():
                if file.name in DESCRIPTIONS:
                    return None
                raise bad_file(file, MISSING, "nothing at that place")
            prototype = prototype or default_buffer_prototype()
            if file.name in DESCRIPTIONS:
                return prototype.buffer.from_bytes(_read(file, DESCRIPTION_BYTES, "a description"))
            # What does not compress grows by less than an eighth, and by headers.
            packed = _read(file, chunk_bytes + chunk_bytes // 8 + 2**12, "a chunk")
            if (
                packing is not None
                and (size := _unpacked(packed, packing, chunk_bytes)) != chunk_bytes
            ):
                condition = f"hold a chunk of {chunk_bytes} bytes, packed by {packing}"
                raise bad_file(
                    file, condition, "bytes of another kind" if size is None else f"{size}"
                )
            return prototype.buffer.from_bytes(packed)

    return CheckedStore(path, read_only=True)


def _read(file: Path, most: int, what: str) -> bytes:
    """Return the bytes of a regular file of limited size."""
    with opened(file) as stream:
        found = stream.read(most + 1)
    if len(found) > most:
        raise bad_file(file, f"be {what} of at most {most} bytes", "more")
    return found


def _unpacked(packed: bytes, packing: str, most: int) -> int | None:
    """Return how many bytes a chunk unpacks to, `most` + 1 for more; None if that is not said."""
    if packing == "blosc":
        return _blosc_size(packed)
    if packing == "zstd":
        return _zstd_size(packed)
    unpacker = zlib.decompressobj(wbits=32 + zlib.MAX_WBITS)  # gzip or zlib, by its header
    size = 0
    while packed and size <= most:
        try:
            size += len(unpacker.decompress(packed, STEP_BYTES))
        except zlib.error:
            return None
        packed = unpacker.unconsumed_tail
        if unpacker.eof and unpacker.unused_data:  # further members would be unpacked as well
            return None
    return size


def _blosc_size(packed: bytes) -> int | None:
    """Return the size in the header of Blosc: unpacked at byte 4, blocks at 8, packed at 12."""
    if len(packed) < 16:
        return None
    size, block, stored = (int.from_bytes(packed[k : k + 4], "little") for k in (4, 8, 12))
    return size if stored == len(packed) and block <= max(size, 1) else None


def _zstd_size(packed: bytes) -> int | None:
    """Return the size that a single frame of Zstandard says it unpacks to (RFC 8878, 3.1.1).

    After the magic number a byte says how long the fields of window, dictionary and size are;
    blocks follow, each with three bytes that say whether it is the last, its kind and its length.
    """
    if len(packed) < 6 or packed[:4] != b"\x28\xb5\x2f\xfd":
        return None
    says = packed[4]
    is_single, size_bytes = bool(says & 32), (0, 2, 4, 8)[says >> 6]
    if is_single and size_bytes == 0:
        size_bytes = 1
    if size_bytes == 0:
        return None
    place = 5 + (not is_single) + (0, 1, 2, 4)[says & 3]
    size = int.from_bytes(packed[place : place + size_bytes], "little")
    size += 256 if size_bytes == 2 else 0
    place += size_bytes
    is_last = False
    while not is_last:
        block = int.from_bytes(packed[place : place + 3], "little")
        is_last, kind, length = bool(block & 1), block >> 1 & 3, block >> 3
        place += 3 + (1 if kind == 1 else length)  # a block of kind 1 repeats one byte
        if kind == 3 or place > len(packed):
            return None
    place += 4 * bool(says & 4)  # checksum
    return size if place == len(packed) else None
