"""Files of users, described before they are read and never executed.

``entries`` describes one array of a file and holds the limits of memory; ``array_files`` (.npy,
.npz, .safetensors), ``gguf_files`` and ``zarr_folders`` find arrays; ``tables`` (sequences, too)
and ``vocabularies`` say what they mean; ``texts`` reads texts and runs a local model on them.
``lists`` reads corpora row by row, and ``columnar_files`` checks .arrow and .parquet files first.
"""

from attnlaw.data.readers.entries import Entry, limited_memory
from attnlaw.data.readers.tables import (
    EmbeddingTable,
    SequenceData,
    list_arrays,
    read_array,
    read_sequences,
    read_table,
    read_word_vectors,
)
from attnlaw.data.readers.texts import (
    EmbeddedTexts,
    TextColumns,
    embed_texts,
    holds_texts,
    read_texts,
)
from attnlaw.data.readers.vocabularies import encode_texts, read_tokenizer

__all__ = [
    "EmbeddedTexts",
    "EmbeddingTable",
    "Entry",
    "SequenceData",
    "TextColumns",
    "embed_texts",
    "encode_texts",
    "holds_texts",
    "limited_memory",
    "list_arrays",
    "read_array",
    "read_sequences",
    "read_table",
    "read_texts",
    "read_tokenizer",
    "read_word_vectors",
]
