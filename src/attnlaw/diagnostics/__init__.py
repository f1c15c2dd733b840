"""What users' own tables, sequences and attention maps say about signal and noise."""

from attnlaw.diagnostics.advice import advise_pooling
from attnlaw.diagnostics.candidates import PoolingAdvice, PoolingCandidate
from attnlaw.diagnostics.files import (
    EmbeddingTable,
    encode_texts,
    list_arrays,
    read_array,
    read_sequences,
    read_table,
    read_tokenizer,
)
from attnlaw.diagnostics.noise import population_spectrum
from attnlaw.diagnostics.outliers import find_outliers
from attnlaw.diagnostics.subsets import SubsetCheck, check_subsets
from attnlaw.diagnostics.tables import TableOutlier, TableReport, inspect_table

__all__ = [
    "EmbeddingTable",
    "PoolingAdvice",
    "PoolingCandidate",
    "SubsetCheck",
    "TableOutlier",
    "TableReport",
    "advise_pooling",
    "check_subsets",
    "encode_texts",
    "find_outliers",
    "inspect_table",
    "list_arrays",
    "population_spectrum",
    "read_array",
    "read_sequences",
    "read_table",
    "read_tokenizer",
]
