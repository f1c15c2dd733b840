"""Arrays, embedding tables and tokenizers from users' files, safely."""

from attnlaw.diagnostics.files.entries import Entry
from attnlaw.diagnostics.files.sequences import SequenceData, read_sequences
from attnlaw.diagnostics.files.tables import EmbeddingTable, list_arrays, read_array, read_table
from attnlaw.diagnostics.files.vocabularies import encode_texts, read_tokenizer

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
