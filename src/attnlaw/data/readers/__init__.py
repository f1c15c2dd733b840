"""Files of users, described before they are read and never executed.

``entries`` describes one array of a file and holds the limits of memory, ``array_files`` (.npy,
.npz, .safetensors) and ``gguf_files`` find arrays, ``tables`` (sequences, too) and
``vocabularies`` say what they mean.
"""

from attnlaw.data.readers.entries import Entry, limited_memory
from attnlaw.data.readers.tables import (
    EmbeddingTable,
    SequenceData,
    list_arrays,
    read_array,
    read_sequences,
    read_table,
)
from attnlaw.data.readers.vocabularies import encode_texts, read_tokenizer

__all__ = [
    "EmbeddingTable",
    "Entry",
    "SequenceData",
    "encode_texts",
    "limited_memory",
    "list_arrays",
    "read_array",
    "read_sequences",
    "read_table",
    "read_tokenizer",
]
