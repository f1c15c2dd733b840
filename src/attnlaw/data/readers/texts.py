"""Texts from files, and the token embeddings of texts from a local model.

Texts come from .csv, .tsv, .jsonl and .parquet files, column by column. A model is a static table
(.gguf, .safetensors, word vectors as GloVe and word2vec write them, a folder with a tokenizer) or
a contextual encoder in a Hugging Face folder, of which any layer can be taken. Nothing is
downloaded, and nothing is unpickled.
"""

import csv
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import count
from attnlaw._machine import require
from attnlaw.data.readers.entries import (
    JSON_BYTES,
    LINE_BYTES,
    BadFileError,
    bad_file,
    opened,
    require_line_room,
    require_room,
    require_row_room,
    require_text_room,
)
from attnlaw.data.readers.lists import label_words
from attnlaw.data.readers.tables import list_arrays, read_table, read_word_vectors
from attnlaw.data.readers.vocabularies import encode_texts, json_file, read_tokenizer

__all__ = [
    "EmbeddedTexts",
    "TextColumns",
    "embed_texts",
    "holds_texts",
    "read_texts",
]

SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")
WORD_VECTORS = (".txt", ".vec", ".bin")
WORDS = ("string", "large_string", "binary", "large_binary")  # read as a dictionary
BATCH = 1000  # texts that are tokenized at a time
RUN_TOKENS = 4096  # tokens that a model runs at a time
WORD = re.compile(r"\w+|[^\w\s]")

Progress = Callable[[float], None]


@dataclass(frozen=True, kw_only=True)
class TextColumns:
    """Columns of a file of texts."""

    texts: tuple[list[str], ...]  # one list a text column
    labels: list[str] | None
    scores: NDArray[np.float64] | None


def holds_texts(path: str | Path) -> bool:
    """Return whether a file is one of texts, by its name."""
    return Path(path).suffix.lower() in SUFFIXES


def read_texts(
    path: str | Path,
    text: str | Sequence[str],
    *,
    label: str | None = None,
    score: str | None = None,
) -> TextColumns:
    """Return columns of a file of texts.

    Parameters
    ----------
    path : str or Path
        .csv, .tsv, .jsonl (one JSON object a line) or .parquet; UTF-8.
    text : str or several
        Names of the columns with texts.
    label, score : str, optional
        Names of a column with classes, and of one with numbers.
    """
    path = Path(path)
    names = [text] if isinstance(text, str) else list(text)
    if not path.is_file():
        raise ValueError(f"{path} must be a file of texts, got nothing at that place.")
    wanted = [*names, *(name for name in (label, score) if name is not None)]
    columns: dict[str, list[Any]] = {name: [] for name in wanted}
    for number, row in enumerate(_rows(path, wanted), 1):
        for name in wanted:
            if name not in row:
                found = ", ".join(map(str, row)) or "none"
                raise bad_file(path, f"have a column called {name!r}", f"{found[:120]}")
            value = row[name]
            missing = value is None or (isinstance(value, float) and np.isnan(value))
            if missing or (isinstance(value, str) and not value.strip()):
                kind = "a text" if name in names else "a value"
                raise bad_file(
                    path, f"hold {kind} in every row of {name!r}", f"none in row {number}"
                )
            columns[name].append(value if name == score else _word(path, name, value, number))
        require_row_room(path, number)
    if not columns[names[0]]:
        raise bad_file(path, "hold texts", "no row")
    numbers = None
    if score is not None:
        try:
            numbers = np.array([float(value) for value in columns[score]])
        except (TypeError, ValueError, OverflowError) as error:
            raise bad_file(path, f"hold numbers in {score!r}", str(error)[:80]) from None
        if not (finite := np.isfinite(numbers)).all():
            found = f"{numbers[~finite][0]} in row {int(np.argmin(finite)) + 1}"
            raise bad_file(path, f"hold finite numbers in {score!r}", found)
    classes = None
    if label is not None:
        classes = label_words(str(path), lambda k: f"row {k + 1}", columns[label]).tolist()
    return TextColumns(
        texts=tuple(columns[name] for name in names),
        labels=classes,
        scores=numbers,
    )


def _word(path: Path, name: str, value: Any, number: int) -> str:
    """Return a text or a label as text; bytes, lists and halves of letters are none."""
    try:
        if isinstance(value, str):
            if not value.isascii():
                value.encode()  # a surrogate that JSON spells out alone is no letter
            return value
        if isinstance(value, bool | int | float):
            return str(value)
        found = f"a {type(value).__name__}"
    except ValueError as error:
        found = str(error)[:60]
    raise bad_file(path, f"hold text in every row of {name!r}", f"{found} in row {number}")


def _rows(path: Path, wanted: list[str]) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file, one after the other."""
    kind = path.suffix.lower()
    if kind == ".parquet":
        parquet = require("pyarrow.parquet", extra="text", purpose="A .parquet file")
        try:
            with opened(path):  # and not a pipe
                pass
            schema = parquet.read_schema(path)
            for name in wanted:
                _check_column(path, name, schema.names)
            words = [name for name in wanted if str(schema.field(name).type) in WORDS]
            file = parquet.ParquetFile(path, read_dictionary=words)
            for batch in file.iter_batches(columns=wanted):
                columns = [_values(batch.column(name)) for name in wanted]
                yield from (
                    dict(zip(wanted, row, strict=True)) for row in zip(*columns, strict=True)
                )
        except BadFileError:
            raise
        except (OSError, ValueError) as error:
            raise bad_file(path, "be a .parquet file", str(error)[:80]) from None
        return
    if kind not in SUFFIXES:
        raise bad_file(path, f"be one of {', '.join(SUFFIXES)}", f"a {kind or 'nameless'} file")
    require_text_room(path)
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            if kind in (".csv", ".tsv"):
                yield from _separated(path, stream, "," if kind == ".csv" else "\t", wanted)
                return
            for number, line in enumerate(iter(partial(stream.readline, LINE_BYTES), ""), 1):
                require_line_room(path, line, JSON_BYTES)
                if not line.strip():
                    continue
                row = json.loads(line)
                if not isinstance(row, dict):
                    raise bad_file(path, "hold one JSON object a line", f"none in line {number}")
                yield row
    except BadFileError:
        raise
    except (ValueError, csv.Error, RecursionError) as error:  # of UTF-8, JSON and its numbers
        raise bad_file(path, f"be a sound {kind} file", str(error)[:80]) from None


def _separated(
    path: Path, stream: TextIO, mark: str, wanted: list[str]
) -> Iterator[dict[str, Any]]:
    """Yield the wanted columns of lines of fields, all of which are there, and none besides."""
    lines = iter(partial(stream.readline, LINE_BYTES), "")
    rows = csv.reader(_short(path, lines), delimiter=mark, strict=True)
    names = next((row for row in rows if row), [])
    for name in wanted if names else ():
        _check_column(path, name, names)
    places = [names.index(name) for name in wanted if names]
    number = 0
    for row in rows:
        number += bool(row)  # an empty line is none
        if len(row) > len(names) and any(row[len(names) :]):
            found = f"{len(row)} in row {number}"
            raise bad_file(path, f"hold {len(names)} fields a line, as the first does", found)
        if row:
            fields = (row[k] if k < len(row) else None for k in places)
            yield dict(zip(wanted, fields, strict=True))


def _short(path: Path, lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        require_line_room(path, line, JSON_BYTES)
        yield line


def _check_column(path: Path, name: str, names: list[str]) -> None:
    if names.count(name) != 1:
        which = "a column" if name not in names else "only one column"
        raise bad_file(path, f"have {which} called {name!r}", ", ".join(names)[:120])


def _values(column: Any) -> list[Any]:
    """Return a column of a batch; a text that is stored once is one object, however often used."""
    if not hasattr(column, "dictionary"):
        return list(column.to_pylist())
    words = column.dictionary.to_pylist()
    return [None if k is None else words[k] for k in column.indices.to_pylist()]


@dataclass(frozen=True, kw_only=True, eq=False)
class EmbeddedTexts:
    """Texts as `advise_pooling` takes them."""

    sequences: NDArray[Any]  # (N, L) rows of the table, −1 after the end; or (N, L, d)
    table: NDArray[np.floating] | None
    tokens: NDArray[Any]  # (N, L) ids
    mask: NDArray[np.bool_]
    kept: NDArray[np.intp]  # rows of the texts that have a token


def embed_texts(
    texts: Sequence[str],
    model: str | Path,
    *,
    tokenizer: str | Path | None = None,
    layer: int = -1,
    static: bool = False,
    length: int = 128,
    progress: Progress | None = None,
) -> EmbeddedTexts:
    """Return the tokens of texts with their embeddings, from a model on this machine.

    Parameters
    ----------
    texts : sequence of str
    model : str or Path
        A static table: .gguf, .safetensors with a tokenizer, word vectors (.txt, .vec, .bin). Or
        a Hugging Face folder: its encoder is run, unless it holds none or `static` is True.
    tokenizer : str or Path, optional
        File or folder of the tokenizer, when it is not beside the table.
    layer : int
        Of the encoder's hidden states; −1 is the last, 0 the table with positions.
    static : bool
        Use the table of a folder alone.
    length : int
        Tokens kept of each text.
    progress : callable or None
        Called with the share of the texts that are done.

    Returns
    -------
    EmbeddedTexts
        Without texts that have no token in the table.
    """
    path, L = Path(model), count("length", length)
    if not path.exists():
        raise ValueError(f"{path} must be a model, got nothing at that place.")
    report = progress or (lambda share: None)
    if path.is_dir() and not static and _is_encoder(path):
        return _contextual(list(texts), path, layer, L, report)
    if path.suffix.lower() in WORD_VECTORS:
        table = read_word_vectors(path)
        rows = {word: i for i, word in enumerate(table.tokens or ())}
        ids = np.full((len(texts), L), -1, dtype=np.int32)
        for i, text in enumerate(texts):
            found = [rows.get(word, rows.get(word.lower(), -1)) for word in WORD.findall(text)]
            known = [row for row in found if row >= 0][:L]
            ids[i, : len(known)] = known
            if i % BATCH == 0:
                report(i / len(texts))
    else:
        table = read_table(path)
        own = Path(tokenizer or _tokenizer_beside(path))
        if tokenizer is None and own.is_dir() and not (own / "tokenizer.json").is_file():
            raise bad_file(path, "have a tokenizer.json beside it, or a tokenizer given", "none")
        words = read_tokenizer(own)
        parts = []
        for start in range(0, len(texts), BATCH):
            parts.append(encode_texts(texts[start : start + BATCH], words, L))
            report(start / len(texts))
        ids = np.concatenate(parts)
        if ids.max() >= len(table.vectors):
            outside = f"token {ids.max()} of {len(table.vectors)} rows"
            raise bad_file(path, "hold a row for every token of the tokenizer", outside)
    (kept,) = np.nonzero((ids >= 0).any(axis=1))
    if len(kept) == 0:
        raise bad_file(path, "know a token of the texts", "none")
    ids = ids[kept][:, : int((ids >= 0).sum(axis=1).max())]
    vectors = table.vectors
    vectors = vectors if vectors.dtype != np.float16 else vectors.astype(np.float32)
    return EmbeddedTexts(sequences=ids, table=vectors, tokens=ids, mask=ids >= 0, kept=kept)


def _tokenizer_beside(path: Path) -> Path:
    if path.is_dir():
        ggufs = sorted(path.glob("*.gguf"))
        return path if (path / "tokenizer.json").is_file() or not ggufs else ggufs[0]
    return path if path.suffix == ".gguf" else path.parent


def _is_encoder(folder: Path) -> bool:
    config = folder / "config.json"
    content = json_file(config) if config.is_file() else {}
    return isinstance(content, dict) and "architectures" in content


def _contextual(
    texts: list[str], folder: Path, layer: int, length: int, report: Progress
) -> EmbeddedTexts:
    """Run an encoder on the texts, with its special tokens, and keep one layer."""
    list_arrays(folder)  # one sentence about a folder without weights, before anything is imported
    torch: Any = require("torch", extra="hf", purpose="Running a model")
    transformers: Any = require("transformers", extra="hf", purpose="Running a model")
    import warnings
    from contextlib import redirect_stderr

    with warnings.catch_warnings(), redirect_stderr(StringIO()):
        warnings.simplefilter("ignore")
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
            model = transformers.AutoModel.from_pretrained(
                folder, local_files_only=True, use_safetensors=True, dtype=torch.float32
            ).eval()
        except ImportError:
            raise
        except Exception as error:  # transformers raises all kinds
            reason = str(error).strip().split("\n")[0][:200] or type(error).__name__
            raise bad_file(folder, "be a model that transformers can load", reason) from None
        n_layers = int(model.config.num_hidden_layers)
        if not -n_layers - 1 <= layer <= n_layers:
            raise ValueError(f"layer must be from {-n_layers - 1} to {n_layers}, got {layer}.")
        limit = min(length, getattr(model.config, "max_position_embeddings", None) or length)
        rows = tokenizer(texts, truncation=True, max_length=limit)["input_ids"]
        L, d, N = max(map(len, rows)), int(model.config.hidden_size), len(texts)
        require_room(folder, 8 * N * L * d, f"the {N} × {L} tokens of the texts")
        embeddings = np.zeros((N, L, d), dtype=np.float32)
        ids = np.full((N, L), -1, dtype=np.int64)
        order = np.argsort([len(row) for row in rows], kind="stable")[::-1]
        done = 0
        while done < N:
            longest = len(rows[order[done]])
            some = order[done : done + max(1, RUN_TOKENS // longest)]
            batch = tokenizer.pad({"input_ids": [rows[i] for i in some]}, return_tensors="pt")
            with torch.no_grad():
                output = model(**batch, output_hidden_states=layer != -1)
            states = output.last_hidden_state if layer == -1 else output.hidden_states[layer]
            for i, state in zip(some, states.numpy(), strict=True):
                n = len(rows[i])
                embeddings[i, :n], ids[i, :n] = state[:n], rows[i]
            done += len(some)
            report(done / N)
    mask = ids >= 0
    return EmbeddedTexts(
        sequences=embeddings, table=None, tokens=ids, mask=mask, kept=np.arange(N)
    )
