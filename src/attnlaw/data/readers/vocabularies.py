"""The words behind the rows of a table, vectors of words, and tokenizers for texts."""

import json
import os
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import count
from attnlaw._machine import require
from attnlaw.data.readers.entries import (
    JSON_BYTES,
    LINE_BYTES,
    ROW_BYTES,
    BadFileError,
    bad_file,
    opened,
    require_line_room,
    require_room,
    require_row_room,
    require_text_room,
)
from attnlaw.data.readers.gguf_files import gguf_fields

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = [
    "encode_texts",
    "gguf_tokens",
    "json_file",
    "read_tokenizer",
    "readable",
    "vocabulary_tokens",
    "word_vectors",
]

MAX_JSON = 100_000_000  # bytes; the largest tokenizers have a third of that
MOST_TOKENS = 2**22  # of a vocabulary; the largest have a quarter of a million
_CONTROL = 3  # token_type of <|endoftext|> and its like in GGUF


def json_file(path: Path) -> Any:
    """Return what a JSON file holds."""
    text = _bounded_text(path)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise bad_file(path, "be JSON", f"a damaged file: {str(error)[:80]}") from None


def _bounded_text(path: Path) -> bytes:
    """Read a file that is short, and that leaves room for what its parts take as objects."""
    with opened(path) as stream:
        size = os.fstat(stream.fileno()).st_size
        if size > MAX_JSON:
            raise bad_file(path, f"be at most {MAX_JSON} bytes", str(size))
        require_room(path, JSON_BYTES * size, "its parts")
        return stream.read(MAX_JSON)


def vocabulary_tokens(path: Path) -> tuple[str, ...]:
    """Return the tokens by id, from tokenizer.json, vocab.json or vocab.txt."""
    if not path.is_file():
        raise bad_file(path, "exist", "no such file")
    if path.suffix == ".txt":
        text = _bounded_text(path).decode("utf-8", "replace")
        if text.count("\n") > MOST_TOKENS:
            raise bad_file(path, f"hold at most {MOST_TOKENS} tokens", "more")
        return tuple(readable(line) for line in text.removesuffix("\n").split("\n"))
    content = json_file(path)
    if not isinstance(content, dict):
        raise bad_file(path, "be a vocabulary", f"a {type(content).__name__}")
    model = content.get("model", content)
    vocab = model.get("vocab", model) if isinstance(model, dict) else model
    added = content.get("added_tokens", [])
    try:
        if isinstance(vocab, list):  # Unigram: pairs of token and score
            by_id = {i: str(pair[0]) for i, pair in enumerate(vocab)}
        else:
            by_id = {_whole(i): str(token) for token, i in vocab.items()}
        by_id |= {_whole(token["id"]): str(token["content"]) for token in added}
    except (TypeError, ValueError, KeyError, IndexError, AttributeError):
        raise bad_file(path, "be a vocabulary of tokens and ids", "something else") from None
    if not by_id or min(by_id) < 0 or max(by_id) > 4 * len(by_id) + 1000:
        raise bad_file(path, "be a vocabulary of tokens and ids", f"{len(by_id)} scattered ids")
    return tuple(readable(by_id.get(i, "")) for i in range(max(by_id) + 1))


def _whole(i: Any) -> int:
    """Return an id, which JSON may also give as a fraction, infinity, a truth value or a text."""
    if type(i) is not int:
        raise TypeError(type(i).__name__)
    return i


def gguf_tokens(path: Path) -> tuple[str, ...] | None:
    """Return the tokens of a GGUF file by id; None when it holds no vocabulary."""
    tokens = gguf_fields(path).get("tokenizer.ggml.tokens")
    if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
        return None
    return tuple(map(readable, tokens))


def read_tokenizer(path: str | Path) -> "Tokenizer":
    """Return the tokenizer of a Hugging Face folder, a tokenizer.json, or a GGUF file.

    From GGUF the tokenizer is rebuilt from the fields: byte-pair encoding with the splitting
    of GPT-2 or of SmolLM. Other splittings are refused, since they would cut differently.
    """
    require("tokenizers", extra="data", purpose="Tokenizing")
    from tokenizers import Tokenizer

    path = Path(path)
    if path.is_dir():
        path = path / "tokenizer.json"
    if not path.is_file():
        raise bad_file(path, "exist", "no such file")
    if path.suffix == ".json":
        try:
            tokenizer = Tokenizer.from_buffer(_bounded_text(path))
        except BadFileError:
            raise
        except Exception as error:  # the package raises bare Exception
            raise bad_file(path, "be a tokenizer", str(error)[:80]) from None
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return tokenizer
    return _byte_pair_tokenizer(path, gguf_fields(path))


def encode_texts(texts: Iterable[str], tokenizer: "Tokenizer", length: int) -> NDArray[np.int32]:
    """Return the first tokens of each text, without special ones, as rows of a table.

    Parameters
    ----------
    texts : iterable of str
    tokenizer : Tokenizer
        From `read_tokenizer`.
    length : int
        Tokens kept of each text.

    Returns
    -------
    array of shape (n, length)
        Token ids; −1 after the end of a text.
    """
    L = count("length", length)
    found = tokenizer.encode_batch(list(texts), add_special_tokens=False)
    tokens = np.full((len(found), L), -1, dtype=np.int32)
    for row, encoding in zip(tokens, found, strict=True):
        ids = encoding.ids[:L]
        row[: len(ids)] = ids
    return tokens


def _byte_pair_tokenizer(path: Path, fields: Mapping[str, Any]) -> "Tokenizer":
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    key = "tokenizer.ggml."
    model, splitting = fields.get(key + "model"), fields.get(key + "pre", "gpt-2")
    if model != "gpt2" or splitting not in ("gpt-2", "smollm"):
        raise bad_file(
            path, "have a tokenizer split as GPT-2 or SmolLM do", f"{model!r} with {splitting!r}"
        )
    tokens = fields.get(key + "tokens", [])
    try:
        kinds = np.asarray(fields.get(key + "token_type", [])).tolist()
        merges = [tuple(merge.split(" ")) for merge in fields.get(key + "merges", [])]
        pairs = models.BPE({token: i for i, token in enumerate(tokens)}, merges)
    except Exception as error:  # the package raises bare Exception
        raise bad_file(path, "hold sound merges", str(error)[:80]) from None
    tokenizer = Tokenizer(pairs)
    bytes_of_words = pre_tokenizers.ByteLevel(add_prefix_space=False)
    digits = pre_tokenizers.Digits(individual_digits=True)
    steps = [digits, bytes_of_words] if splitting == "smollm" else [bytes_of_words]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps)
    tokenizer.decoder = decoders.ByteLevel()
    control = [t for t, kind in zip(tokens, kinds, strict=False) if kind == _CONTROL]
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in control])
    return tokenizer


def readable(token: str) -> str:
    """Undo the spelling of bytes as letters (Ġ for a space) and of spaces as ▁.

    Examples
    --------
    >>> readable("Ġlaw"), readable("▁law"), readable("##law")
    (' law', ' law', '##law')
    """
    if token and all(letter in _byte_of_letter() for letter in token):
        spelled = bytes(_byte_of_letter()[letter] for letter in token)
        if any(letter > "~" for letter in token):
            try:
                return spelled.decode("utf-8")
            except UnicodeDecodeError:
                return token
    return token.replace("▁", " ")


@cache
def _byte_of_letter() -> dict[str, int]:
    """Map the letters of byte-level vocabularies to bytes: printable ones stand for themselves."""
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAC + 1), *range(0xAE, 0xFF + 1)]
    others = [b for b in range(256) if b not in set(printable)]
    return {chr(b): b for b in printable} | {chr(256 + i): b for i, b in enumerate(others)}


def word_vectors(path: Path) -> tuple[list[str], NDArray[np.float32]]:
    """Return words and vectors as GloVe and word2vec write them; see `read_word_vectors`."""
    return (_binary_vectors if path.suffix == ".bin" else _text_vectors)(path)


def _text_vectors(path: Path) -> tuple[list[str], NDArray[np.float32]]:
    words: list[str] = []
    numbers, d = bytearray(), 0
    announced = None
    require_text_room(path)
    with path.open("rb") as stream:
        while line := stream.readline(LINE_BYTES):
            require_line_room(path, line, JSON_BYTES)
            if not words and announced is None and re.fullmatch(rb"\d{1,18} \d{1,18}\s*", line):
                announced = tuple(map(int, line.split()))
                continue
            word, _, rest = line.rstrip().partition(b" ")
            try:
                with np.errstate(over="ignore"):  # infinite, which is refused below
                    row = np.array(rest.split(), dtype=np.float32)
            except ValueError:
                row = np.empty(0, np.float32)
            if len(row) == 0 or len(row) != (d or len(row)) or b"_" in rest:
                where = f"{len(row)} in line {len(words) + 1}"
                raise bad_file(path, "hold a word and equally many numbers a line", where)
            words.append(word.decode("utf-8", "replace"))
            numbers += row.tobytes()
            d = len(row)
            require_row_room(path, len(words))
    if not words:
        raise bad_file(path, "hold word vectors", "an empty file")
    if announced not in (None, (len(words), d)):
        V, n = announced or (0, 0)
        found = f"{len(words)} of {d} numbers"
        raise bad_file(path, f"hold the {V} words of {n} numbers that it announces", found)
    return words, np.frombuffer(numbers, np.float32).reshape(-1, d)


def _binary_vectors(path: Path) -> tuple[list[str], NDArray[np.float32]]:
    with opened(path) as stream:
        n_bytes = os.fstat(stream.fileno()).st_size
    data = np.memmap(path, np.uint8, mode="r").data if n_bytes else memoryview(b"")
    head = bytes(data[:64]).partition(b"\n")[0]
    if not re.fullmatch(rb"\d+ \d+", head):
        raise bad_file(path, "begin with the counts of words and numbers", repr(head[:40]))
    V, d = map(int, head.split())
    if V * (4 * d + 2) > len(data) or 0 in (V, d):
        raise bad_file(path, f"hold {V} words of {d} numbers", f"{len(data)} bytes")
    require_room(path, 4 * V * d + ROW_BYTES * V, "its vectors")
    words, vectors, at = [], np.empty((V, d), np.float32), len(head) + 1
    for i in range(V):
        name, space, _ = bytes(data[at : at + 1000]).partition(b" ")
        at += len(name) + 1
        if not space or at + 4 * d > len(data):
            raise bad_file(path, f"hold {V} words of {d} numbers", f"{i} of them")
        words.append(name.lstrip(b"\n").decode("utf-8", "replace"))
        vectors[i] = np.frombuffer(data[at : at + 4 * d], "<f4")
        at += 4 * d
    if bytes(data[at : at + 64]).strip():
        raise bad_file(path, f"hold {V} words of {d} numbers", "more")
    return words, vectors
