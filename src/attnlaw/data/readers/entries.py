"""One array of a file, described before anything of it is read."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "MAX_BYTES",
    "Array",
    "BadFileError",
    "Entry",
    "bad_file",
    "check_finite",
    "choose_entry",
]

Array = NDArray[np.generic]

MAX_BYTES = 8 * 2**30
"""Memory that reading one array may take; arrays that are memory-mapped are not counted."""

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
    read: Callable[[], Array] = field(repr=False, compare=False)

    @property
    def description(self) -> str:
        """Name, shape and type in a few words."""
        return f"{self.name} ({'×'.join(map(str, self.shape)) or 'scalar'} {self.dtype})"


class BadFileError(ValueError):
    """A file that cannot be read, and why, in one sentence."""


def bad_file(path: Path, condition: str, found: str) -> BadFileError:
    """Return (not raise) the library's one error sentence, for a file."""
    return BadFileError(f"{path} must {condition}, got {' '.join(found.split())}.")


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
        raise bad_file(path, f"hold an array with {ndim} axes", _listing(entries.values()))
    raise bad_file(path, "be given with the name of one of its arrays", _listing(fitting))


def check_finite(path: Path, array: Array) -> None:
    """Raise unless every number is finite; reads block by block, so a map stays a map."""
    if array.dtype.kind != "f" or array.size == 0:
        return
    rows = array.reshape(len(array), -1)
    step = max(1, 2**22 // rows.shape[1])
    for start in range(0, len(rows), step):
        # A sum is finite only if every term is, short of overflow, which the next line settles.
        block = rows[start : start + step]
        with np.errstate(over="ignore", invalid="ignore"):
            suspicious = not np.isfinite(np.sum(block, dtype=np.float64))
        if suspicious and not (finite := np.isfinite(block)).all():
            i, j = np.argwhere(~finite)[0]
            raise bad_file(path, "hold finite numbers", f"{block[i, j]} in row {start + i}")


def _listing(entries: Iterable[Entry]) -> str:
    """Name up to six arrays."""
    names = [entry.description for entry in entries]
    more = f" and {len(names) - 6} more" if len(names) > 6 else ""
    return (", ".join(names[:6]) + more) or "no array at all"
