"""One array of a file, described before anything of it is read, within limits of memory.

A file is opened only if it is a regular one whose bytes are on the disk (`opened`): a pipe, a
device or a sparse file would be read for ever. Before anything is unpacked, what it takes is held
against the memory at hand (`require_room`), or against less, where a server asks for that
(`limited_memory`).
"""

import math
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import unusable_part
from attnlaw._machine import available_memory

__all__ = [
    "JSON_BYTES",
    "MOST_AXES",
    "Array",
    "BadFileError",
    "Entry",
    "bad_file",
    "check_finite",
    "choose_entry",
    "limited_memory",
    "opened",
    "require_line_room",
    "require_room",
    "require_row_room",
    "require_text_room",
]

Array = NDArray[np.generic]

JSON_BYTES = 32
"""Memory that a byte of JSON takes at worst, as Python objects: [[],[],…] takes 25."""

VALUE_BYTES, SQUARE_BYTES = 32, 56
"""Memory that an analysis takes: a value, and an entry of the matrices over the last axis.

Measured on tables (14 and 52), sequences (30) and attention maps (3).
"""

TEXT_BYTES = 3  # of memory for a byte of a file of lines, in lines of common length
ROW_BYTES = 200  # of memory for a row of it as objects, besides its letters

LINE_BYTES, LONG_LINE = 2**26, 2**20
"""The longest line that is read, and one that is long enough to ask what its parts take."""

MOST_AXES = 32  # of an array, in every version of NumPy
MOST_LETTERS = 500  # of a name of an array, and of each half of a sentence about a file

SPARSE_BYTES, SPARSE_SHARE = 2**28, 8
"""From that size on a file is sparse if less than one byte in eight is on the disk.

File systems that compress need less room, too, but not by so much for numbers.
"""

_LIMIT: ContextVar[float | None] = ContextVar("memory for the analysis of a file", default=None)

TOKEN_TABLES = (
    "token_embd.weight",  # GGUF
    "wte.weight",  # GPT-2
    "embed_tokens.weight",  # Llama, Mistral, Qwen, Gemma
    "word_embeddings.weight",  # BERT, BLOOM
    "tok_embeddings.weight",  # ModernBERT
    "embed_in.weight",  # GPT-NeoX
    "shared.weight",  # T5
    "embedding.weight",
    "embeddings.weight",
)
"""How the names of token tables end, in the models one meets."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """An array in a file: what its header says, and how to read it."""

    name: str
    shape: tuple[int, ...]
    dtype: str  # as the file names it, such as BF16 or Q8_0
    n_bytes: int = 0  # memory that `read` takes; 0 when it is memory-mapped
    load: Callable[[], Array] = field(repr=False, compare=False)
    path: Path = field(repr=False, compare=False)

    def __post_init__(self) -> None:
        if len(self.name) > MOST_LETTERS:
            condition = f"name its arrays in at most {MOST_LETTERS} letters"
            raise bad_file(self.path, condition, f"a name of {len(self.name)}")
        if len(self.shape) > MOST_AXES or math.prod(n for n in self.shape if n) > 2**58:
            condition = f"have a possible shape for {self.name!r}"  # NumPy has no other
            raise bad_file(self.path, condition, str(self.shape)[:80])

    def read(self) -> Array:
        """Return the array, if it fits in memory together with what an analysis copies of it."""
        n_values = math.prod(self.shape)
        analysis = VALUE_BYTES * n_values + SQUARE_BYTES * (self.shape or (1,))[-1] ** 2
        if _LIMIT.get() is not None:
            require_room(self.path, self.n_bytes + analysis, f"the analysis of {self.description}")
        elif self.n_bytes:  # a map is read piece by piece
            needed = self.n_bytes + VALUE_BYTES * n_values // 2
            require_room(self.path, needed, f"unpacking {self.description}")
        return self.load()

    @property
    def description(self) -> str:
        """Name, shape and type in a few words."""
        return f"{self.name} ({'×'.join(map(str, self.shape)) or 'scalar'} {self.dtype})"


class BadFileError(ValueError):
    """A file that cannot be read, and why, in one sentence."""


def bad_file(path: Path, condition: str, found: str) -> BadFileError:
    """Return (not raise) the library's one error sentence, for a file."""
    place = str(path).replace("\n", "\\n").replace("\r", "\\r")  # of a file that others named
    return BadFileError(f"{place} must {_clipped(condition)}, got {_clipped(found)}.")


def _clipped(text: str) -> str:
    """Return text that may quote a file in one line of limited length."""
    text = " ".join(text[: 2 * MOST_LETTERS].split())
    return text if len(text) <= MOST_LETTERS else text[:MOST_LETTERS] + "…"


@contextmanager
def limited_memory(n_bytes: float) -> Iterator[None]:
    """Hold what is read in a block, and what an analysis copies of it, to so many bytes."""
    token = _LIMIT.set(n_bytes)
    try:
        yield
    finally:
        _LIMIT.reset(token)


def require_room(path: Path, needed: float, purpose: str) -> None:
    """Raise before memory is taken that is not there, or that is not allowed here."""
    limit = _LIMIT.get()
    room = available_memory() if limit is None else min(limit, available_memory())
    if needed > room:
        where = "available" if limit is None else "allowed here"
        raise bad_file(
            path,
            f"leave {purpose} within the {room / 2**20:,.0f} MiB of memory {where}",
            f"a need of {needed / 2**20:,.0f} MiB",
        )


def require_text_room(path: Path) -> None:
    """Raise for a file of lines that is not stored in full, or that memory does not hold."""
    with opened(path) as stream:
        n_bytes = os.fstat(stream.fileno()).st_size
    require_room(path, TEXT_BYTES * n_bytes, "its text")


def require_row_room(path: Path, n_rows: int) -> None:
    """Raise if there is no room for as many rows again, asked at some powers of two."""
    if n_rows >= 2**16 and n_rows & (n_rows - 1) == 0:
        require_room(path, ROW_BYTES * n_rows, "its rows")


def require_line_room(path: Path, line: str | bytes, line_bytes: int) -> None:
    """Raise for a line that is too long, or of which each byte may take so many of memory."""
    if len(line) >= LINE_BYTES:
        raise bad_file(path, f"hold lines of fewer than {LINE_BYTES} bytes", "a longer one")
    if len(line) > LONG_LINE:
        require_room(path, line_bytes * len(line), "the parts of a line")


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """Open a regular file whose bytes are on the disk; others are refused without waiting.

    An empty file of which something can be read is the system's, such as one in /proc, and may
    have no end.
    """
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        handle = os.open(path, flags)
    except OSError as error:
        raise bad_file(path, "be a file that can be read", error.strerror or str(error)) from None
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        os.close(handle)
        found = {stat.S_IFIFO: "a named pipe", stat.S_IFDIR: "a folder"}
        kind = found.get(stat.S_IFMT(status.st_mode), "a device or a socket")
        raise bad_file(path, "be a regular file", kind)
    with open(handle, "rb") as stream:
        stored = 512 * getattr(status, "st_blocks", 2**62)
        if status.st_size > SPARSE_BYTES and SPARSE_SHARE * stored < status.st_size:
            found_bytes = f"{status.st_size} bytes of which {stored} are on the disk"
            raise bad_file(path, "be stored in full", found_bytes)
        try:
            if status.st_size == 0 and stream.read(1):
                raise bad_file(path, "be stored in full", "a file that the system makes up")
            yield stream
        except OSError as error:
            reason = error.strerror or str(error)
            raise bad_file(path, "be a file that can be read", reason) from None


def choose_entry(path: Path, entries: Mapping[str, Entry], name: str | None, ndim: int) -> Entry:
    """Return the entry called `name`; without a name, the one that is meant.

    That is the only array with `ndim` axes, or else the only token table by its name.
    """
    if name is not None:
        if name not in entries:
            raise bad_file(path, f"hold an array called {name!r}", _listing(entries.values()))
        return entries[name]
    fitting = [entry for entry in entries.values() if len(entry.shape) == ndim]
    if len(fitting) > 1:
        named = [
            next((e for e in fitting if e.name == suffix or e.name.endswith("." + suffix)), None)
            for suffix in TOKEN_TABLES
        ]
        fitting = [entry for entry in named if entry is not None][:1] or fitting
    if len(fitting) == 1:
        return fitting[0]
    if not fitting:
        axes = "1 axis" if ndim == 1 else f"{ndim} axes"
        raise bad_file(path, f"hold an array with {axes}", _listing(entries.values()))
    raise bad_file(path, "be given with the name of one of its arrays", _listing(fitting))


def check_finite(path: Path, array: Array) -> None:
    """Raise unless every number is finite; reads block by block, so a map stays a map."""
    if array.dtype.kind != "f" or array.size == 0:
        return
    if (found := unusable_part(array)) is not None:
        raise bad_file(path, "hold finite rows that differ", found)
    rows = array.reshape(len(array), -1)
    step = max(1, 2**22 // rows.shape[1])
    for start in range(0, len(rows), step):
        # A sum is finite only if every term is, short of overflow, which the next line settles.
        block = rows[start : start + step]
        with np.errstate(over="ignore", invalid="ignore"):
            if block.dtype.itemsize > 8:  # computed in float64, which ends at 1.8e308
                block = block.astype(np.float64)
            suspicious = not np.isfinite(np.sum(block, dtype=np.float64))
        if suspicious and not (finite := np.isfinite(block)).all():
            i, j = np.argwhere(~finite)[0]
            raise bad_file(path, "hold finite numbers", f"{block[i, j]} in row {start + i}")


def _listing(entries: Iterable[Entry]) -> str:
    """Name up to six arrays."""
    names = [entry.description for entry in entries]
    more = f" and {len(names) - 6} more" if len(names) > 6 else ""
    return (", ".join(names[:6]) + more) or "no array at all"
