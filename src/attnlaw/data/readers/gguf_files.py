"""Arrays and fields of GGUF files; quantised tables are dequantised by the `gguf` package.

The header is parsed here with every length checked against the file, for two reasons: a
damaged or hostile file must not take memory or time, and a vocabulary of 50,000 tokens is
read in a tenth of a second rather than in four.
"""

import math
import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from attnlaw._machine import require
from attnlaw.data.readers.entries import Array, Entry, bad_file, opened, require_room

__all__ = ["gguf_entries", "gguf_fields"]

_NUMBERS = {
    0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"
}  # fmt: skip
_STRING, _ARRAY = 8, 9
_OBJECT = 120  # bytes of a Python object in a list or a dictionary, besides its text
_MAX_FIELDS = 2**29  # bytes of memory for all fields; vocabularies of 250,000 tokens take a fifth
_PLAIN = {0: "<f4", 1: "<f2", 24: "i1", 25: "<i2", 26: "<i4", 27: "<i8", 28: "<f8"}


@dataclass
class _Cursor:
    """A place in the file's bytes that never leaves them, and the memory of what it has read."""

    path: Path
    data: memoryview
    at: int = 0
    n_bytes: int = 0
    allowed: int = 2**20

    def take(self, n: int) -> memoryview:
        if n > len(self.data) - self.at:
            raise bad_file(self.path, "be a complete .gguf file", f"{len(self.data)} bytes")
        self.at += n
        return self.data[self.at - n : self.at]

    def spend(self, n_bytes: int) -> None:
        self.n_bytes += n_bytes
        if self.n_bytes > self.allowed:
            if self.n_bytes > _MAX_FIELDS:
                condition = f"have fields that take at most {_MAX_FIELDS} bytes of memory"
                raise bad_file(self.path, condition, "more")
            self.allowed = min(4 * self.n_bytes, _MAX_FIELDS)  # and the system is asked again
            require_room(self.path, self.allowed, "its fields")

    def number(self, code: str) -> Any:
        return struct.unpack("<" + code, self.take(struct.calcsize("<" + code)))[0]

    def string(self) -> str:
        text = self.take(self.number("Q"))
        self.spend(_OBJECT + 4 * len(text))  # a letter beyond the first plane takes four
        return bytes(text).decode("utf-8", "replace")

    def value(self, kind: int, depth: int = 0) -> Any:
        self.spend(_OBJECT)
        if kind in _NUMBERS:
            return self.number(_NUMBERS[kind])
        if kind == _STRING:
            return self.string()
        if kind != _ARRAY or depth > 2:
            raise bad_file(self.path, "have fields of a known type", f"type {kind}")
        inner, n = self.number("I"), self.number("Q")
        if inner in _NUMBERS:
            self.spend(3 * _OBJECT)  # of an array, beside what it holds
            code = "<" + _NUMBERS[inner]
            return np.frombuffer(self.take(n * struct.calcsize(code)), code)
        if n > (len(self.data) - self.at) // 8:  # each element takes at least its length
            raise bad_file(self.path, "be a complete .gguf file", f"{len(self.data)} bytes")
        return [self.value(inner, depth + 1) for _ in range(n)]


def gguf_fields(path: Path) -> dict[str, Any]:
    """Return the key-value fields of a GGUF file, such as its vocabulary."""
    return _parse(path)[0]


def gguf_entries(path: Path) -> dict[str, Entry]:
    """Describe the arrays of a GGUF file by its header alone."""
    return _parse(path)[1]


def _parse(path: Path) -> tuple[dict[str, Any], dict[str, Entry]]:
    with opened(path) as stream:
        size = os.fstat(stream.fileno()).st_size
    if size < 24:
        raise bad_file(path, "be a complete .gguf file", f"{size} bytes")
    cursor = _Cursor(path, np.memmap(path, np.uint8, mode="r").data)
    if bytes(cursor.take(4)) != b"GGUF":
        raise bad_file(path, "begin with GGUF", "something else")
    version = cursor.number("I")
    if version not in (2, 3):
        raise bad_file(path, "be GGUF version 2 or 3, little-endian", f"version {version}")
    n_tensors, n_fields = cursor.number("Q"), cursor.number("Q")
    if n_tensors + n_fields > size // 12:  # each takes more than twelve bytes
        raise bad_file(path, "be a complete .gguf file", f"{n_tensors + n_fields} entries")
    fields: dict[str, Any] = {}
    for _ in range(n_fields):
        key = cursor.string()
        if key in fields:
            raise bad_file(path, "hold fields of different names", f"two {key!r}")
        fields[key] = cursor.value(cursor.number("I"))
    headers = []
    for _ in range(n_tensors):
        name, n_axes = cursor.string(), cursor.number("I")
        if n_axes > 8:
            raise bad_file(path, "hold arrays of at most 8 axes", str(n_axes))
        cursor.spend(20 * _OBJECT)
        shape = tuple(cursor.number("Q") for _ in range(n_axes))[::-1]  # fastest axis first
        headers.append((name, shape, cursor.number("I"), cursor.number("Q")))
    if len({header[0] for header in headers}) < len(headers):
        raise bad_file(path, "hold arrays of different names", "one that occurs twice")
    alignment = fields.get("general.alignment", 32)
    if type(alignment) is not int or alignment not in [2**k for k in range(21)]:
        raise bad_file(path, "have an alignment up to 2**20, a power of two", repr(alignment)[:80])
    start = -(-cursor.at // alignment) * alignment
    _check_places(path, headers, alignment)
    return fields, {header[0]: _entry(path, *header, start, size) for header in headers}


def _check_places(
    path: Path, headers: list[tuple[str, tuple[int, ...], int, int]], alignment: int
) -> None:
    """Check that arrays begin where they may, and that none begins in another."""
    reached = 0
    for name, shape, kind, offset in sorted(headers, key=lambda header: header[3]):
        if offset % alignment:
            raise bad_file(path, f"hold {name!r} at a multiple of {alignment} bytes", str(offset))
        if offset < reached:
            raise bad_file(path, f"hold {name!r} from byte {reached} of its data on", str(offset))
        _, block, block_bytes = _quantisation(kind)
        stored_bytes = math.prod(shape) // block * block_bytes if block else 0
        reached = max(reached, offset + stored_bytes)


def _entry(
    path: Path, name: str, shape: tuple[int, ...], kind: int, offset: int, start: int, size: int
) -> Entry:
    n_values = math.prod(shape)
    type_name, block, block_bytes = _quantisation(kind)
    last = shape[-1] if shape else 1
    if n_values > 2**62 or (block and last % block):
        raise bad_file(path, f"have a possible shape for {name!r}", str(shape)[:80])
    stored_bytes = n_values // block * block_bytes if block else 0
    begin = start + offset
    if begin + stored_bytes > size:
        raise bad_file(path, f"hold {begin + stored_bytes} bytes", f"{size}: it is truncated")
    n_bytes = 0 if kind in _PLAIN else 4 * n_values

    def load() -> Array:
        if not block:
            raise bad_file(path, f"hold {name!r} in a known quantisation", f"type {kind}")
        if n_values == 0:
            return np.empty(shape, np.float32)
        if kind in _PLAIN:
            return np.memmap(path, _PLAIN[kind], mode="r", offset=begin, shape=shape)
        rows = (*shape[:-1], last // block * block_bytes)
        stored = np.memmap(path, np.uint8, mode="r", offset=begin, shape=rows)
        return _dequantised(path, name, stored, kind).reshape(shape)

    return Entry(name=name, shape=shape, dtype=type_name, n_bytes=n_bytes, load=load, path=path)


def _quantisation(kind: int) -> tuple[str, int, int]:
    """Name, values and bytes of one block of a quantisation; no values when it is unknown."""
    if kind in _PLAIN:
        dtype = np.dtype(_PLAIN[kind])
        return str(dtype), 1, dtype.itemsize
    gguf = _gguf_package()
    try:
        quantisation = gguf.GGMLQuantizationType(kind)
        values, n_bytes = gguf.GGML_QUANT_SIZES[quantisation]
    except (ValueError, KeyError):
        return f"type {kind}", 0, 0
    return quantisation.name, values, n_bytes


def _dequantised(path: Path, name: str, stored: Array, kind: int) -> Array:
    gguf = _gguf_package()
    try:
        with np.errstate(all="ignore"):  # damaged scales give NaN, found by `check_finite`
            return np.asarray(gguf.quants.dequantize(stored, gguf.GGMLQuantizationType(kind)))
    except NotImplementedError:
        raise bad_file(path, f"hold {name!r} in a known quantisation", f"type {kind}") from None


def _gguf_package() -> Any:
    return require("gguf", extra="data", purpose="A quantised .gguf file")
