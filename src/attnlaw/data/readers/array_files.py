"""Arrays from .npy, .npz and .safetensors files, without ever unpickling.

Plain arrays are memory-mapped; BF16 and the 8-bit floats of .safetensors become float32. That
format is a little-endian length, a JSON header of that length, and the arrays. It is read here
rather than with the package of that name, because that one copies and its NumPy side knows no
BF16. Tests hold the two against each other.
"""

import json
import math
import warnings
import zipfile
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
from numpy.lib import format as npy

from attnlaw.data.readers.entries import MAX_BYTES, Array, BadFileError, Entry, bad_file

__all__ = ["npy_entries", "npz_entries", "safetensors_entries"]

MAX_HEADER = 100_000_000  # as in the format's reference implementation

_PLAIN = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2",
    "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?",
}  # fmt: skip
_CODED = {"BF16": "<u2", "F8_E4M3": "u1", "F8_E5M2": "u1"}


def npy_entries(path: Path) -> dict[str, Entry]:
    """Describe the one array of a .npy file; reading it maps the file into memory."""
    with path.open("rb") as stream:
        shape, fortran, dtype = _header(path, stream)
        offset = stream.tell()
    n_bytes, available = _size(shape, dtype), path.stat().st_size - offset
    if n_bytes > available:
        raise bad_file(path, f"hold {n_bytes} bytes of data", f"{available}: it is truncated")

    def read() -> Array:
        if n_bytes == 0:
            return np.empty(shape, dtype)
        order: Literal["F", "C"] = "F" if fortran else "C"
        return np.memmap(path, dtype=dtype, mode="r", offset=offset, shape=shape, order=order)

    return {path.stem: Entry(name=path.stem, shape=shape, dtype=str(dtype), read=read)}


def npz_entries(path: Path) -> dict[str, Entry]:
    """Describe the arrays of a .npz file; sizes come from the headers, not from unpacking."""
    entries = {}
    try:
        with zipfile.ZipFile(path) as archive:
            members = [m for m in archive.infolist() if not m.is_dir()]
            if any(m.filename.endswith(".pkl") for m in members):
                raise bad_file(
                    path, "hold plain arrays (convert it to .safetensors)", "a PyTorch pickle"
                )
            for member in members:
                if member.filename.endswith(".npy"):
                    with archive.open(member) as stream:
                        header = _header(path, stream)
                    name = member.filename.removesuffix(".npy")
                    entries[name] = _npz_entry(path, member, name, *header)
    except BadFileError:
        raise
    except Exception as error:  # damaged archives raise all kinds, from zlib to struct
        raise bad_file(path, "be a complete .npz archive", _reason(error)) from None
    if not entries:
        raise bad_file(path, "hold .npy arrays", "a zip archive without any")
    return entries


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

    def read() -> Array:
        if n_bytes > MAX_BYTES:
            raise bad_file(path, f"unpack to at most {MAX_BYTES} bytes", str(n_bytes))
        try:
            with zipfile.ZipFile(path) as archive, archive.open(member) as stream:
                _header(path, stream)
                data = stream.read(n_bytes)  # never more than the header promised
        except BadFileError:
            raise
        except Exception as error:
            raise bad_file(path, "be a complete .npz archive", _reason(error)) from None
        if len(data) < n_bytes:
            raise bad_file(path, f"hold {n_bytes} bytes for {name!r}", str(len(data)))
        array = np.frombuffer(data, dtype)
        return array.reshape(shape, order="F" if fortran else "C")

    return Entry(name=name, shape=shape, dtype=str(dtype), n_bytes=n_bytes, read=read)


def _header(path: Path, stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[np.generic]]:
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
    if dtype.kind not in "fiub":
        raise bad_file(path, "hold real numbers", f"dtype {dtype}")
    if any(n < 0 for n in shape) or _size(shape, dtype) > 2**62:
        raise bad_file(path, "have a possible shape", str(shape)[:80])
    return shape, fortran, dtype


def _size(shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> int:
    return math.prod(shape) * dtype.itemsize


def _reason(error: Exception) -> str:
    return str(error)[:80] or type(error).__name__


def safetensors_entries(path: Path) -> dict[str, Entry]:
    """Describe the arrays of a .safetensors file by its header alone."""
    size = path.stat().st_size
    with path.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if size < 8 or length > min(size - 8, MAX_HEADER):
            raise bad_file(
                path,
                "be a complete .safetensors file",
                f"{size} bytes that announce a header of {length}",
            )
        try:
            header = json.loads(stream.read(length))
        except (ValueError, RecursionError):
            raise bad_file(path, "begin with a .safetensors header", "a damaged one") from None
    if not isinstance(header, dict):
        raise bad_file(path, "begin with a .safetensors header", "one without names")
    start = 8 + length
    return {
        name: _safetensors_entry(path, name, info, start, size - start)
        for name, info in header.items()
        if name != "__metadata__"
    }


def _safetensors_entry(path: Path, name: str, info: Any, start: int, available: int) -> Entry:
    try:
        dtype, shape = str(info["dtype"]), tuple(info["shape"])
        begin, end = info["data_offsets"]
        sound = all(type(n) is int and 0 <= n < 2**62 for n in (*shape, begin, end))
    except (KeyError, TypeError, ValueError):
        sound = False
    if not sound:
        raise bad_file(path, f"describe {name!r} soundly", "a damaged header")
    stored = np.dtype((_PLAIN | _CODED).get(dtype, "V1"))
    n_values = math.prod(shape)
    if stored.kind != "V" and end - begin != n_values * stored.itemsize:
        raise bad_file(
            path, f"hold {n_values * stored.itemsize} bytes for {name!r}", str(end - begin)
        )
    if end > available:
        raise bad_file(path, f"hold {end} bytes of data", f"{available}: it is truncated")
    n_bytes = 4 * n_values if dtype in _CODED else 0

    def read() -> Array:
        if stored.kind == "V":
            known = ", ".join(_PLAIN | _CODED)
            raise bad_file(path, f"hold {name!r} as one of {known}", dtype)
        if n_bytes > MAX_BYTES:
            raise bad_file(path, f"unpack to at most {MAX_BYTES} bytes", str(n_bytes))
        if n_values == 0:
            return np.empty(shape, "f4" if dtype in _CODED else stored)
        data = np.memmap(path, stored, mode="r", offset=start + begin, shape=shape)
        return _decoded(data, dtype) if dtype in _CODED else data

    return Entry(name=name, shape=shape, dtype=dtype, n_bytes=n_bytes, read=read)


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
