"""Columnar files, .arrow and .parquet: their headers are read before pyarrow sees them.

In an Arrow file a packed buffer unpacks to whatever size it has, and a footer may name a batch as
often as it likes. So the headers, tables of FlatBuffers, say first how many bytes each batch
takes and where it lies (`record_batches`); pyarrow then maps the file.

In a .parquet file pyarrow ends the process when it is asked for a column whose statistics
contradict each other. So the footer, in Thrift's compact protocol, says first how many values each
column of each row group holds (`column_sizes`).
"""

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

from attnlaw._machine import require
from attnlaw.data.readers.entries import bad_file, opened, require_room

__all__ = ["ColumnSize", "column_sizes", "record_batches"]

ARROW_MAGIC = b"ARROW1"
HEADER_BYTES = 2**26  # of a message or a footer
FIRST_PACKING = b"ARROW:experimental_compression"  # how the first files said that they are packed
MOST_NESTED = 32  # structures of a footer of Parquet
FOOTER_BYTES = 60  # of memory for a byte of it


def record_batches(path: Path) -> Iterator[Any]:
    """Yield the batches of an Arrow file, in either format, as they lie on the disk."""
    arrow: Any = require("pyarrow", extra="corpora", purpose="An .arrow file")
    with opened(path) as stream:
        try:
            _check_messages(path, stream)
        except struct.error:
            raise bad_file(path, "be a complete Arrow file", "headers cut short") from None
    try:
        with arrow.memory_map(str(path)) as source:
            try:
                reader = arrow.ipc.open_file(source)
            except arrow.ArrowInvalid:
                source.seek(0)
                yield from arrow.ipc.open_stream(source)
                return
            for k in range(reader.num_record_batches):
                yield reader.get_batch(k)
    except (arrow.ArrowException, OSError) as error:
        raise bad_file(path, "be a complete Arrow file", str(error)[:120]) from None


class _Message(NamedTuple):
    """What the header of a message says."""

    is_dictionary: bool
    unpacked: int  # bytes of its buffers, if they are packed
    body: int  # where they begin
    after: int  # where they end


def _check_messages(path: Path, stream: IO[bytes]) -> None:
    """Raise unless memory holds each batch, and all dictionaries, and no batch is there twice."""
    size = stream.seek(0, os.SEEK_END)
    used = dictionaries = 0
    for place, message in _messages(stream, size):
        if message.is_dictionary:  # all of them are kept
            dictionaries += message.unpacked
        needed = dictionaries + (0 if message.is_dictionary else message.unpacked)
        require_room(path, 2 * needed, "a batch of its rows")
        used += message.after - place
        if used > size:
            found = f"batches of {used} bytes or more in a file of {size}"
            raise bad_file(path, "hold each batch of its rows once", found)


def _messages(stream: IO[bytes], size: int) -> Iterator[tuple[int, _Message]]:
    """Yield the place of each message of an Arrow file, and what its header says.

    The file format is the magic word, messages, a footer that says where they are (its tables of
    dictionaries and batches are fields 2 and 3), the footer's length and the magic word again; the
    stream format is messages one after the other.
    """
    stream.seek(0)
    if stream.read(6) != ARROW_MAGIC:
        place = 0
        while place < size:
            message = _message(stream, place)
            if message is None:
                return
            yield place, message
            place = message.after
        return
    (length,) = struct.unpack("<i", _bytes(stream, size - 10, 4))
    footer = _Table.root(_bytes(stream, size - 10 - length, length))
    for field in (2, 3):
        start, n = footer.vector(field)
        for k in range(n):  # of a place, the length of the header, four bytes, that of the body
            place, header, body = struct.unpack_from("<qi4xq", footer.data, start + 24 * k)
            message = _message(stream, place)
            if message is None or (message.body, message.after) != (
                place + header,
                place + header + body,
            ):
                raise struct.error("a footer that contradicts a header")
            yield place, message


def _message(stream: IO[bytes], place: int) -> _Message | None:
    """Return what the header at a place says, None at the end of a stream.

    A header is a table with the length of the body in field 3; batches have their buffers in
    field 2 and how they are packed in field 3. A packed buffer begins with its unpacked length.
    """
    (length,), header = struct.unpack("<i", _bytes(stream, place, 4)), place + 4
    if length == -1:  # the mark of all versions but the first
        (length,), header = struct.unpack("<i", _bytes(stream, header, 4)), header + 4
    if length == 0:
        return None
    body = header + length
    message = _Table.root(_bytes(stream, header, length))
    (kind,) = message.scalar("<B", 1) or (0,)
    (body_length,) = message.scalar("<q", 3) or (0,)
    after = body + max(body_length, 0)
    if kind not in (2, 3):  # dictionaries hold a batch in field 1
        return _Message(False, 0, body, after)
    batch = message.table(2) if kind == 3 else message.table(2).table(1)
    if not batch.place_of(3) and FIRST_PACKING not in message.data:
        return _Message(kind == 2, 0, body, after)  # mapped as it is
    start, n = batch.vector(2)
    total = 0
    for k in range(n):
        offset, stored = struct.unpack_from("<qq", batch.data, start + 16 * k)
        if stored >= 8:
            total += max(0, *struct.unpack("<q", _bytes(stream, body + offset, 8)))
    return _Message(kind == 2, total, body, after)


def _bytes(stream: IO[bytes], place: int, n: int) -> bytes:
    """Return n bytes from a place on, fewer at the end of the file."""
    if not 0 <= place <= os.fstat(stream.fileno()).st_size or not 0 <= n <= HEADER_BYTES:
        raise struct.error("beyond the file")
    stream.seek(place)
    return stream.read(n)


class _Table(NamedTuple):
    """A table of FlatBuffers: at its place the way back to the list of where its fields are."""

    data: bytes
    place: int

    @classmethod
    def root(cls, data: bytes) -> "_Table":
        return cls(data, *struct.unpack_from("<I", data))

    def place_of(self, field: int) -> int:
        """Return where a field is, 0 if it is left out."""
        (back,) = struct.unpack_from("<i", self.data, self.place)
        (size,) = struct.unpack_from("<H", self.data, self.place - back)
        if 4 + 2 * field >= size:
            return 0
        (offset,) = struct.unpack_from("<H", self.data, self.place - back + 4 + 2 * field)
        return self.place + offset if offset else 0

    def scalar(self, kind: str, field: int) -> tuple[int, ...]:
        place = self.place_of(field)
        return struct.unpack_from(kind, self.data, place) if place else ()

    def table(self, field: int) -> "_Table":
        place = self.place_of(field)
        return _Table(self.data, place + struct.unpack_from("<I", self.data, place)[0])

    def vector(self, field: int) -> tuple[int, int]:
        """Return where the entries of a vector begin, and their number."""
        if not (place := self.place_of(field)):
            return 0, 0
        place += struct.unpack_from("<I", self.data, place)[0]
        return place + 4, struct.unpack_from("<I", self.data, place)[0]


class ColumnSize(NamedTuple):
    """A column of a row group."""

    name: str
    n_values: int
    n_bytes: int  # encoded, before it is packed


def column_sizes(path: Path) -> list[list[ColumnSize]]:
    """Return the columns of each row group."""
    with opened(path) as stream:
        size = stream.seek(0, 2)
        stream.seek(max(0, size - 8))
        length = int.from_bytes(stream.read(4), "little")
        require_room(path, FOOTER_BYTES * min(length, size), "its footer")
        stream.seek(max(0, size - 8 - length))
        data = stream.read(length)
    try:
        footer = _Thrift(data).structure()
        groups = [[column[3] for column in group[1]] for group in footer[4]]
        return [
            [ColumnSize(b".".join(c[3]).decode(), int(c[5]), int(c[6])) for c in group]
            for group in groups
        ]
    except UnicodeDecodeError as error:
        raise bad_file(path, "name its columns in UTF-8", str(error)) from None
    except (LookupError, TypeError, ValueError, struct.error):
        raise bad_file(path, "be a complete .parquet file", "a damaged footer") from None


class _Thrift:
    """A reader of the compact protocol: structures become mappings from numbers of fields."""

    def __init__(self, data: bytes) -> None:
        self.data, self.place = data, 0

    def structure(self, depth: int = 0) -> dict[int, Any]:
        if depth > MOST_NESTED:
            raise ValueError("nested too deep")
        found: dict[int, Any] = {}
        field = 0
        while head := self._byte():
            field = field + (head >> 4) if head >> 4 else self._whole()
            found[field] = self._value(head & 15, depth)
        return found

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (1, 2):  # a truth value, in the type itself
            return kind == 1
        if kind == 3:
            return self._byte()
        if kind in (4, 5, 6):
            return self._whole()
        if kind == 7:
            return struct.unpack("<d", self._bytes(8))[0]
        if kind == 8:
            return self._bytes(self._number())
        if kind in (9, 10):
            head = self._byte()
            n = head >> 4 if head >> 4 < 15 else self._number()
            if n > len(self.data):
                raise ValueError("more entries than bytes")
            inner = head & 15
            take = self._byte if inner in (1, 2) else None
            return [take() if take else self._value(inner, depth + 1) for _ in range(n)]
        if kind == 12:
            return self.structure(depth + 1)
        raise ValueError("a type that footers do not have")

    def _byte(self) -> int:
        self.place += 1
        return self.data[self.place - 1]

    def _bytes(self, n: int) -> bytes:
        self.place += n
        if self.place > len(self.data):
            raise ValueError("cut short")
        return self.data[self.place - n : self.place]

    def _number(self) -> int:
        total = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            total |= (byte & 127) << shift
            if byte < 128:
                return total
        raise ValueError("a number without end")

    def _whole(self) -> int:
        n = self._number()
        return n >> 1 ^ -(n & 1)
