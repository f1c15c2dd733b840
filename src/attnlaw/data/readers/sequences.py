"""Sequences with their table, labels and lengths, from one file or several."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnlaw.data.readers.entries import Array, Entry, bad_file, check_finite
from attnlaw.data.readers.tables import list_arrays, read_array, read_table

__all__ = ["SequenceData", "read_sequences"]

_SEQUENCES = ("sequences", "tokens", "token_ids", "input_ids", "ids", "embeddings")


@dataclass(frozen=True, kw_only=True, eq=False)
class SequenceData:
    """Sequences as `advise_pooling` takes them."""

    sequences: Array  # (N, L, d) embeddings, or (N, L) rows of the table
    table: NDArray[np.floating] | None
    labels: Array | None
    lengths: Array | None
    mask: NDArray[np.bool_] | None


def read_sequences(
    path: str | Path,
    *,
    tensor: str | None = None,
    table: str | Path | None = None,
    labels: str | Path | None = None,
    lengths: str | Path | None = None,
) -> SequenceData:
    """Return sequences from a file, with what belongs to them from the same file or others.

    Parameters
    ----------
    path : str or Path
        A .npy, .npz or .safetensors file with embeddings (N, L, d) or token ids (N, L). Arrays
        called labels, lengths, mask and table in the same file are taken along.
    tensor : str, optional
        Name of the array of sequences; by default one called sequences, tokens, ids or
        embeddings, or the only one of a fitting shape.
    table : str or Path, optional
        File of the token table, as for `read_table`; needed for token ids.
    labels : str or Path, optional
        .npy file, or text with one label a line.
    lengths : str or Path, optional
        .npy file with the number of tokens of each sequence.
    """
    path = Path(path)
    entries = list_arrays(path)
    entry = _choose(path, entries, tensor)
    sequences = entry.read()
    if sequences.dtype == np.float16:
        sequences = sequences.astype(np.float32)
    check_finite_rows = sequences.ndim == 3 and "mask" not in entries and "lengths" not in entries
    if check_finite_rows and lengths is None:
        check_finite(path, sequences)
    vectors: NDArray[np.floating] | None = None
    if table is not None:
        vectors = read_table(table).vectors
    elif "table" in entries:
        vectors = read_table(path, "table").vectors
    if sequences.ndim == 2 and vectors is None:
        raise bad_file(path, "be given with a table when it holds token ids", entry.description)
    if vectors is not None and sequences.ndim == 3:
        raise bad_file(path, "hold token ids (N, L) beside a table", entry.description)
    if vectors is not None and vectors.dtype == np.float16:
        vectors = vectors.astype(np.float32)
    mask = _beside(entries, "mask")
    return SequenceData(
        sequences=sequences,
        table=vectors,
        labels=_labels(Path(labels)) if labels is not None else _beside(entries, "labels"),
        lengths=(
            read_array(lengths, ndim=1) if lengths is not None else _beside(entries, "lengths")
        ),
        mask=None if mask is None else mask.astype(bool),
    )


def _choose(path: Path, entries: Mapping[str, Entry], name: str | None) -> Entry:
    """Return the array of sequences: by its name, or the only one that fits."""
    if name is not None and name not in entries:
        found = ", ".join(entry.description for entry in list(entries.values())[:6])
        raise bad_file(path, f"hold an array called {name!r}", found or "no array at all")
    names = [name] if name is not None else [n for n in _SEQUENCES if n in entries]
    others = [e.name for e in entries.values() if e.name not in ("table", "mask")]
    fitting = [entries[n] for n in names or others if len(entries[n].shape) in (2, 3)]
    if len(fitting) != 1 and not (names and fitting):
        found = ", ".join(entry.description for entry in list(entries.values())[:6])
        raise bad_file(path, "hold one array of shape (N, L, d) or (N, L)", found)
    entry = fitting[0]
    if 0 in entry.shape:
        raise bad_file(path, "hold at least one number", entry.description)
    return entry


def _beside(entries: Mapping[str, Entry], name: str) -> Any:
    return entries[name].read() if name in entries else None


def _labels(path: Path) -> Array:
    """Read labels as numbers from an array file, or as words from lines of text."""
    if path.suffix in (".npy", ".npz", ".safetensors"):
        return read_array(path, ndim=1)
    if not path.is_file():
        raise ValueError(f"No such file of labels: {path}")
    if path.stat().st_size > 2**30:
        raise bad_file(path, "be at most 1 GiB of labels", f"{path.stat().st_size} bytes")
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise bad_file(path, "be text with one label a line", "something else") from None
    return np.array([line.strip()[:100] for line in lines])
