"""What users' own tables, sequences and attention maps say about signal and noise."""

from attnlaw.diagnostics.files import (
    EmbeddingTable,
    list_arrays,
    read_array,
    read_table,
    read_tokenizer,
)

__all__ = ["EmbeddingTable", "list_arrays", "read_array", "read_table", "read_tokenizer"]
