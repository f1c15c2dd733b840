"""One call from a path to an array, to an embedding table with its words, or to sequences."""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from attnlaw.data.readers.array_files import npy_entries, npz_entries, safetensors_entries
from attnlaw.data.readers.entries import (
    Array,
    Entry,
    bad_file,
    check_finite,
    choose_entry,
    opened,
    require_room,
)
from attnlaw.data.readers.gguf_files import gguf_entries
from attnlaw.data.readers.lists import label_words
from attnlaw.data.readers.vocabularies import (
    gguf_tokens,
    json_file,
    vocabulary_tokens,
    word_vectors,
)

__all__ = [
    "EmbeddingTable",
    "SequenceData",
    "list_arrays",
    "read_array",
    "read_sequences",
    "read_table",
    "read_word_vectors",
]

_PICKLES = (".pt", ".pth", ".bin", ".ckpt", ".pkl", ".pickle")
_VOCABULARIES = ("tokenizer.json", "vocab.json", "vocab.txt")
_SEQUENCES = ("sequences", "tokens", "token_ids", "input_ids", "ids", "embeddings")


@dataclass(frozen=True, kw_only=True, eq=False)
class EmbeddingTable:
    """A table of token embeddings, one row a token."""

    vectors: NDArray[np.floating]  # (V, d), memory-mapped where the file allows it
    tokens: tuple[str, ...] | None  # the word of each row, when known
    source: str  # where it was read from
    name: str  # of the array in the file


def list_arrays(path: str | Path) -> dict[str, Entry]:
    """Return the arrays in a file or folder by name, without reading them.

    Parameters
    ----------
    path : str or Path
        A .npy, .npz, .safetensors or .gguf file, or a local Hugging Face folder. What the
        file is, is told from its first bytes.

    Returns
    -------
    dict of Entry
        Name, shape and dtype of each, and a function that reads it.
    """
    path = Path(path)
    if path.is_dir():
        return _folder_entries(path)
    if not path.exists():
        raise ValueError(f"No such file or folder: {path}")
    return _reader(path)(path)


def read_array(path: str | Path, tensor: str | None = None, *, ndim: int = 2) -> Array:
    """Return one array of a file: by name, or the only one with `ndim` axes.

    Memory-mapped where the format allows it; sizes are checked before memory is taken, and
    nothing is ever unpickled.

    Parameters
    ----------
    path : str or Path
        As for `list_arrays`.
    tensor : str, optional
        Name of the array. Without it, the only array with `ndim` axes is meant, or the token
        table by its usual names.
    ndim : int
        How many axes it must have.

    Raises
    ------
    ValueError
        With one sentence that says what the file must be and what it is.
    """
    path = Path(path)
    return _read_entry(path, choose_entry(path, list_arrays(path), tensor, ndim), ndim)


def read_table(
    path: str | Path, tensor: str | None = None, *, vocabulary: str | Path | None = None
) -> EmbeddingTable:
    """Return an embedding table, with its words where the file or its folder holds them.

    Parameters
    ----------
    path : str or Path
        As for `list_arrays`. Words come from the GGUF fields, or from tokenizer.json,
        vocab.json or vocab.txt in the same folder when their number fits.
    tensor : str, optional
        Name of the array in the file.
    vocabulary : str or Path, optional
        Another file that holds the words: tokenizer.json, vocab.json or vocab.txt.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "table.npy"
    ...     np.save(file, np.eye(5, 3, dtype=np.float32))
    ...     table = read_table(file)
    >>> table.vectors.shape, table.tokens
    ((5, 3), None)
    """
    path = Path(path)
    entry = choose_entry(path, list_arrays(path), tensor, 2)
    array = _read_entry(path, entry, 2)
    if array.dtype.kind != "f":
        raise bad_file(path, f"hold {entry.name!r} as floating-point numbers", entry.dtype)
    tokens = _tokens(path) if vocabulary is None else vocabulary_tokens(Path(vocabulary))
    fits = tokens is not None and 0 <= len(array) - len(tokens) <= 1024  # some tables are padded
    if vocabulary is not None and not fits:
        found = f"{len(tokens or ())} words for {len(array)} rows"
        raise bad_file(Path(vocabulary), "hold the words of the table", found)
    if fits and tokens is not None:
        tokens += ("",) * (len(array) - len(tokens))
    vectors = cast(NDArray[np.floating], array)
    return EmbeddingTable(
        vectors=vectors, tokens=tokens if fits else None, source=str(path), name=entry.name
    )


def _read_entry(path: Path, entry: Entry, ndim: int) -> Array:
    if len(entry.shape) != ndim:
        raise bad_file(path, f"hold an array with {ndim} axes", entry.description)
    if 0 in entry.shape:
        raise bad_file(path, "hold at least one number", entry.description)
    array = entry.read()
    if array.dtype.kind not in "fiu":
        raise bad_file(path, f"hold {entry.name!r} as real numbers", entry.dtype)
    check_finite(path, array)
    return array


def _reader(path: Path) -> Callable[[Path], dict[str, Entry]]:
    """Return the reader of the format, recognised by the first bytes and not by the name."""
    with opened(path) as stream:
        start = stream.read(9)
    if not start:
        raise bad_file(path, "hold data", "an empty file")
    if start.startswith(b"\x93NUMPY"):
        return npy_entries
    if start.startswith(b"PK\x03\x04"):
        return npz_entries
    if start.startswith(b"GGUF"):
        return gguf_entries
    if path.suffix == ".safetensors" or start[8:] == b"{":
        return safetensors_entries
    if path.suffix in _PICKLES or start[:1] == b"\x80":
        condition = "be a plain array file (convert it to .safetensors)"
        raise bad_file(path, condition, "a pickle, which may run code")
    raise bad_file(
        path, "be a .npy, .npz, .safetensors or .gguf file", f"one that begins {start!r}"
    )


def _folder_entries(folder: Path) -> dict[str, Entry]:
    """Describe the arrays of a Hugging Face folder: one .safetensors file, or its shards."""
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        content = json_file(index)
        shards = content.get("weight_map") if isinstance(content, dict) else None
        names = set(map(str, shards.values())) if isinstance(shards, dict) else {""}
        if any(name in ("", "..") or name != Path(name).name for name in names):
            raise bad_file(index, "map arrays to files of its own folder", "something else")
        files = [folder / name for name in sorted(names)]
        missing = [file.name for file in files if not file.is_file()]
        if missing:
            raise bad_file(folder, f"hold its {len(files)} shards", f"no {', '.join(missing[:3])}")
    else:
        files = sorted(folder.glob("*.safetensors")) or sorted(folder.glob("*.gguf"))
        if len(files) > 1 and folder / "model.safetensors" in files:
            files = [folder / "model.safetensors"]
    if not files:
        pickled = [file.name for file in folder.iterdir() if file.suffix in _PICKLES]
        found = f"only the pickle {pickled[0]}, which may run code" if pickled else "none"
        raise bad_file(folder, "hold a .safetensors file", found)
    entries: dict[str, Entry] = {}
    for file in files:
        for name, entry in _reader(file)(file).items():
            if name in entries:
                both = f"one in {entries[name].path.name} and {file.name}; give one of the files"
                raise bad_file(folder, f"hold only one array called {name!r}", both)
            entries[name] = entry
    return entries


def _tokens(path: Path) -> tuple[str, ...] | None:
    """Return the words of a table from the file itself or from its neighbours."""
    if path.is_file() and _reader(path) is gguf_entries:
        return gguf_tokens(path)
    folder = path if path.is_dir() else path.parent
    for name in _VOCABULARIES:
        if (folder / name).is_file():
            return vocabulary_tokens(folder / name)
    ggufs = list(folder.glob("*.gguf")) if path.is_dir() else []
    return gguf_tokens(ggufs[0]) if len(ggufs) == 1 else None


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
    if not path.exists():
        raise ValueError(f"No such file of labels: {path}")
    with opened(path) as stream:
        size = os.fstat(stream.fileno()).st_size
        require_room(path, 100 * size, "its labels")  # an empty line becomes an object
        text = stream.read(size)
    try:
        lines = re.split("\r\n|\r|\n", text.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise bad_file(path, "be text with one label a line", "something else") from None
    words = [line.strip() or None for line in (lines if lines[-1] else lines[:-1])]
    return label_words(str(path), lambda k: f"line {k + 1}", words)


def read_word_vectors(path: str | Path) -> EmbeddingTable:
    r"""Return word vectors as GloVe and word2vec write them, as text or in binary.

    Text has a word and its numbers on each line, after an optional line with the counts; binary
    has that line, and then for each word its letters, a space and numbers in float32.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "glove.txt"
    ...     _ = file.write_text("law 1 0\nspectrum 0 1\n")
    ...     table = read_word_vectors(file)
    >>> table.tokens, table.vectors.shape
    (('law', 'spectrum'), (2, 2))
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"{path} must be a file of word vectors, got nothing at that place.")
    words, vectors = word_vectors(path)
    if not np.isfinite(vectors).all():
        raise bad_file(path, "hold finite numbers", "others")
    return EmbeddingTable(
        vectors=vectors, tokens=tuple(words), source=str(path), name="word vectors"
    )
