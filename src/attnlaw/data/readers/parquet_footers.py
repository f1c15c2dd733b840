"""The footer of a .parquet file, read as far as memory depends on it.

pyarrow ends the process when it is asked for a column whose statistics contradict each other. So
how many values each column of each row group holds is read here: the footer is Thrift's compact
protocol, fields of a number and a type, and structures end with a zero.
"""

import struct
from pathlib import Path
from typing import Any, NamedTuple

from attnlaw.data.readers.entries import bad_file, opened, require_room

__all__ = ["ColumnSize", "column_sizes"]

MOST_NESTED = 32
FOOTER_BYTES = 60  # of memory for a byte of the footer


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
