"""Files of users, described before they are read and never executed.

``entries`` describes one array of a file, ``array_files`` (.npy, .npz, .safetensors) and
``gguf_files`` find them, ``tables``, ``sequences`` and ``vocabularies`` say what they mean.
"""

from attnlaw.data.readers.entries import Entry
from attnlaw.data.readers.sequences import SequenceData, read_sequences
from attnlaw.data.readers.tables import EmbeddingTable, list_arrays, read_array, read_table
from attnlaw.data.readers.vocabularies import encode_texts, read_tokenizer

__all__ = [
    "EmbeddingTable",
    "Entry",
    "SequenceData",
    "encode_texts",
    "list_arrays",
    "read_array",
    "read_sequences",
    "read_table",
    "read_tokenizer",
]
