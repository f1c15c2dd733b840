"""Arrays from NumPy's own files, .npy and .npz, without ever unpickling."""

import math
import warnings
import zipfile
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.lib import format as npy

from attnlaw.data.readers.entries import MAX_BYTES, Array, BadFileError, Entry, bad_file

__all__ = ["npy_entries", "npz_entries"]


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
        order = "F" if fortran else "C"
        return np.memmap(path, dtype=dtype, mode="r", offset=offset, shape=shape, order=order)  # type: ignore[call-overload,no-any-return]

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
                        header = _header(path, stream)  # type: ignore[arg-type]
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
                _header(path, stream)  # type: ignore[arg-type]
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


def _header(path: Path, stream: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype[np.generic]]:
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
