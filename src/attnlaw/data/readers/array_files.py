"""Arrays from .npy, .npz and .safetensors files, without ever unpickling.

Plain arrays are memory-mapped; BF16 and the 8-bit floats of .safetensors become float32. That
format is a little-endian length, a JSON header of that length, and the arrays, end to end. It is
read here rather than with the package of that name, because that one copies and its NumPy side
knows no BF16; but where the package is installed, a file that it refuses is refused. Tests hold
the rules here against those of the package.
"""

import json
import math
import os
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal, cast

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from attnlaw.data.readers.entries import (
    JSON_BYTES,
    MOST_AXES,
    Array,
    BadFileError,
    Entry,
    bad_file,
    opened,
    require_room,
)

__all__ = ["npy_entries", "npz_entries", "safetensors_entries", "stored_arrays"]

NUMBERS = "fiub"  # kinds of NumPy's types
MAX_HEADER = 25_000_000  # bytes; headers of 100,000 arrays have half of that
MAX_DIRECTORY = 2 * 2**20  # bytes that list the members of an archive, about 100 each

_PLAIN = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2",
    "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?",
}  # fmt: skip
_CODED = {"BF16": "<u2", "F8_E4M3": "u1", "F8_E5M2": "u1"}
_UNREAD_BITS = {
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "C64": 64,
}  # fmt: skip
_BITS = {name: 8 * np.dtype(code).itemsize for name, code in (_PLAIN | _CODED).items()}
_BITS |= _UNREAD_BITS


def npy_entries(path: Path) -> dict[str, Entry]:
    """Describe the one array of a .npy file; reading it maps the file into memory."""
    with opened(path) as stream:
        shape, fortran, dtype = _header(path, stream)
        offset = stream.tell()
        available = os.fstat(stream.fileno()).st_size - offset
    n_bytes = _size(shape, dtype)
    if n_bytes > available:
        raise bad_file(path, f"hold {n_bytes} bytes of data", f"{available}: it is truncated")

    def load() -> Array:
        if n_bytes == 0:
            return np.empty(shape, dtype)
        order: Literal["F", "C"] = "F" if fortran else "C"
        return np.memmap(path, dtype=dtype, mode="r", offset=offset, shape=shape, order=order)

    entry = Entry(name=path.stem, shape=shape, dtype=str(dtype), load=load, path=path)
    return {path.stem: entry}


def npz_entries(path: Path) -> dict[str, Entry]:
    """Describe the arrays of a .npz file; sizes come from the headers, not from unpacking."""
    entries = _members(path, NUMBERS)
    if not entries:
        raise bad_file(path, "hold .npy arrays", "a zip archive without any")
    return entries


def _members(path: Path, kinds: str) -> dict[str, Entry]:
    entries = {}
    try:
        with _archive(path) as archive:
            members = [m for m in archive.infolist() if not m.is_dir()]
            if any(m.filename.endswith(".pkl") for m in members):
                raise bad_file(
                    path, "hold plain arrays (convert it to .safetensors)", "a PyTorch pickle"
                )
            for member in members:
                with archive.open(member) as stream:  # compares its name in the two places
                    if not member.filename.endswith(".npy"):
                        continue
                    header = _header(path, stream, kinds)
                    name = member.filename.removesuffix(".npy")
                    if name in entries:
                        raise bad_file(path, "hold arrays of different names", f"two {name!r}")
                    entries[name] = _npz_entry(path, member, name, *header)
    except BadFileError:
        raise
    except Exception as error:  # damaged archives raise all kinds, from zlib to struct
        raise bad_file(path, "be a complete .npz archive", _reason(error)) from None
    return entries


def stored_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of a .npz file that the library wrote: numbers and words.

    The archive's own checksum of each array is verified when its last byte is read.
    """
    entries = _members(path, NUMBERS + "U")
    require_room(path, 2 * sum(entry.n_bytes for entry in entries.values()), "its arrays")
    return {name: entry.load() for name, entry in entries.items()}


def _npz_entry(
    path: Path,
    member: zipfile.ZipInfo,
    name: str,
    shape: tuple[int, ...],
    fortran: bool,
    dtype: np.dtype[np.generic],
) -> Entry:
    n_bytes = _size(shape, dtype)
    if n_bytes > member.file_size:
        raise bad_file(path, f"hold {n_bytes} bytes for {name!r}", str(member.file_size))

    def load() -> Array:
        try:
            with _archive(path) as archive, archive.open(member) as stream:
                _header(path, stream, dtype.kind)
                data = stream.read(n_bytes)  # never more than the header promised
                if stream.read(1):  # nothing else, or the checksum is not looked at
                    raise bad_file(path, f"hold {n_bytes} bytes for {name!r}", "more")
        except BadFileError:
            raise
        except Exception as error:
            raise bad_file(path, "be a complete .npz archive", _reason(error)) from None
        if len(data) < n_bytes:
            raise bad_file(path, f"hold {n_bytes} bytes for {name!r}", str(len(data)))
        array = np.frombuffer(data, dtype)
        return array.reshape(shape, order="F" if fortran else "C")

    return Entry(name=name, shape=shape, dtype=str(dtype), n_bytes=n_bytes, load=load, path=path)


@contextmanager
def _archive(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open an archive whose directory is short: each member costs memory when it is listed."""
    with opened(path) as file:
        bounded = _BoundedReads(path, file)
        with zipfile.ZipFile(cast(IO[bytes], bounded)) as archive:
            bounded.is_bounded = False
            yield archive


class _BoundedReads:
    """A file that refuses long reads: `zipfile` reads the directory at once.

    What the last record says of its length is not looked at here, since a record can be written
    in which another reader would find another one.
    """

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self._path, self._file, self.is_bounded = path, file, True
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, n: int = -1) -> bytes:
        if self.is_bounded and n > MAX_DIRECTORY:
            condition = f"list its arrays in at most {MAX_DIRECTORY} bytes"
            raise bad_file(self._path, condition, str(n))
        return self._file.read(n)


def _header(
    path: Path, stream: IO[bytes], kinds: str = NUMBERS
) -> tuple[tuple[int, ...], bool, np.dtype[np.generic]]:
    """Read and check the header of one .npy array; NumPy itself limits its length."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about headers written by Python 2
            version = npy.read_magic(stream)
            if version == (1, 0):
                shape, fortran, dtype = npy.read_array_header_1_0(stream)
            elif version in ((2, 0), (3, 0)):  # 3.0 differs in the encoding of names alone
                shape, fortran, dtype = npy.read_array_header_2_0(stream)
            else:
                raise ValueError(f"version {version}")
    except Exception as error:  # NumPy evaluates the header as a Python literal
        raise bad_file(
            path, "begin with a .npy header", f"a damaged one: {_reason(error)}"
        ) from None
    if dtype.hasobject:
        raise bad_file(path, "hold numbers", "pickled Python objects, which are never loaded")
    if dtype.kind not in kinds:
        raise bad_file(path, "hold real numbers", f"dtype {dtype}")
    if any(type(n) is not int or n < 0 for n in shape) or _size(shape, dtype) > 2**62:
        raise bad_file(path, "have a possible shape", str(shape)[:80])
    return shape, fortran, dtype


def _size(shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> int:
    return math.prod(shape) * dtype.itemsize


def _reason(error: Exception) -> str:
    return str(error)[:80] or type(error).__name__


def safetensors_entries(path: Path) -> dict[str, Entry]:
    """Describe the arrays of a .safetensors file by its header alone."""
    with opened(path) as stream:
        size = os.fstat(stream.fileno()).st_size
        length = int.from_bytes(stream.read(8), "little")
        if size < 8 or length > size - 8:
            raise bad_file(
                path,
                "be a complete .safetensors file",
                f"{size} bytes that announce a header of {length}",
            )
        if length > MAX_HEADER:
            raise bad_file(path, f"have a header of at most {MAX_HEADER} bytes", str(length))
        require_room(path, JSON_BYTES * length, "its header")
        try:
            header = json.loads(
                stream.read(length).decode("utf-8"),  # and not UTF-16, which json takes as well
                object_pairs_hook=_without_duplicates,
                parse_constant=_refuse,
                parse_int=_natural,
            )
        except (ValueError, RecursionError) as error:
            found = f"a damaged one: {_reason(error)}"
            raise bad_file(path, "begin with a .safetensors header", found) from None
    if not isinstance(header, dict):
        raise bad_file(path, "begin with a .safetensors header", "one without names")
    notes = header.pop("__metadata__", None)
    if not (
        notes is None
        or (isinstance(notes, dict) and all(isinstance(note, str) for note in notes.values()))
    ):
        raise bad_file(path, "have metadata of text alone", "something else")
    start = 8 + length
    described = {name: _description(path, name, info) for name, info in header.items()}
    _check_offsets(path, described, size - start)
    unknown = next((parts[0] for parts in described.values() if parts[0] not in _BITS), None)
    if not _passes_reference(path) and unknown is not None:  # a newer one may support the type
        raise bad_file(path, "hold arrays in a type of the format", unknown)
    return {
        name: _safetensors_entry(path, name, *parts, start) for name, parts in described.items()
    }


def _passes_reference(path: Path) -> bool:
    """Whether the format's reference reader has read the header; False if it is not installed."""
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError:
        return False
    try:
        with safe_open(str(path), "np"):
            return True
    except SafetensorError as error:
        raise bad_file(path, "be sound by the reference reader", _reason(error)) from None
    except OSError as error:
        raise bad_file(path, "be a file that can be read", _reason(error)) from None


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a name occurs twice")
    "".join(members).encode("utf-8")  # half of a surrogate pair is no text
    return members


def _refuse(text: str) -> Any:
    raise ValueError(f"{text} is no JSON")


def _natural(digits: str) -> int:
    if digits.startswith("-"):
        raise ValueError("a negative number")
    return int(digits)


def _description(path: Path, name: str, info: Any) -> tuple[str, tuple[int, ...], int, int]:
    """Return type, shape and offsets of one array, each of the kind it must be."""
    try:
        dtype, shape = info["dtype"], tuple(info["shape"])
        begin, end = info["data_offsets"]
        is_sound = isinstance(dtype, str) and isinstance(info["shape"], list)
        is_sound &= len(shape) <= MOST_AXES  # the product of a million numbers takes hours
        is_sound &= all(type(n) is int and n < 2**62 for n in (*shape, begin, end))
    except (KeyError, TypeError, ValueError):
        is_sound = False
    if not is_sound:
        raise bad_file(path, f"describe {name!r} soundly", "a damaged header")
    return dtype, shape, begin, end


def _check_offsets(
    path: Path,
    described: Mapping[str, tuple[str, tuple[int, ...], int, int]],
    available: int,
) -> None:
    """Check that the arrays fill the data end to end, without holes, overlaps or a rest."""
    reached = 0
    for name, (dtype, shape, begin, end) in sorted(
        described.items(), key=lambda item: item[1][2:]
    ):
        if begin != reached or end < begin:
            raise bad_file(path, f"hold {name!r} from byte {reached} of its data on", str(begin))
        reached = end
        n_bytes, rest = divmod(math.prod(shape) * _BITS.get(dtype, 0), 8)
        if dtype in _BITS and (end - begin != n_bytes or rest):
            raise bad_file(path, f"hold {n_bytes} bytes for {name!r}", str(end - begin))
    if reached > available:
        raise bad_file(path, f"hold {reached} bytes of data", f"{available}: it is truncated")
    if reached < available:
        raise bad_file(path, f"hold {reached} bytes of data", f"{available}: some are unnamed")


def _safetensors_entry(
    path: Path, name: str, dtype: str, shape: tuple[int, ...], begin: int, end: int, start: int
) -> Entry:
    stored = (_PLAIN | _CODED).get(dtype)
    n_values = math.prod(shape)
    n_bytes = 4 * n_values if dtype in _CODED else 0

    def load() -> Array:
        if stored is None:
            known = ", ".join(_PLAIN | _CODED)
            raise bad_file(path, f"hold {name!r} as one of {known}", dtype)
        if n_values == 0:
            return np.empty(shape, "f4" if dtype in _CODED else stored)
        data = np.memmap(path, stored, mode="r", offset=start + begin, shape=shape)
        return _decoded(data, dtype) if dtype in _CODED else data

    return Entry(name=name, shape=shape, dtype=dtype, n_bytes=n_bytes, load=load, path=path)


def _decoded(codes: Array, dtype: str) -> Array:
    """Turn the bits of a short float into float32."""
    if dtype == "BF16":  # the upper half of a float32
        return (codes.astype(np.uint32) << 16).view(np.float32)
    if dtype == "F8_E5M2":  # the upper half of a float16
        return (codes.astype(np.uint16) << 8).view(np.float16).astype(np.float32)
    return np.asarray(_e4m3_values()[codes])


def _e4m3_values() -> Array:
    """All 256 values of F8_E4M3: bias 7, no infinities, NaN where every bit is set."""
    code = np.arange(256)
    exponent, mantissa = (code >> 3) & 15, code & 7
    value = np.where(
        exponent == 0, mantissa / 8 * 2.0**-6, (1 + mantissa / 8) * 2.0 ** (exponent - 7)
    )
    value[(code & 127) == 127] = np.nan
    return np.where(code >= 128, -value, value).astype(np.float32)
