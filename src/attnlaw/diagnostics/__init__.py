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
from attnlaw.diagnostics.heads import (
    AttentionMaps,
    HeadFinding,
    HeadsReport,
    attention_maps,
    inspect_heads,
    maps_from_queries,
    maps_from_scores,
    model_attention,
    read_attention,
)
from attnlaw.diagnostics.noise import population_spectrum
from attnlaw.diagnostics.subsets import SubsetCheck, check_subsets
from attnlaw.diagnostics.tables import TableOutlier, TableReport, inspect_table

__all__ = [
    "AttentionMaps",
    "EmbeddingTable",
    "HeadFinding",
    "HeadsReport",
    "PoolingAdvice",
    "PoolingCandidate",
    "SubsetCheck",
    "TableOutlier",
    "TableReport",
    "advise_pooling",
    "attention_maps",
    "check_subsets",
    "encode_texts",
    "inspect_heads",
    "inspect_table",
    "list_arrays",
    "maps_from_queries",
    "maps_from_scores",
    "model_attention",
    "population_spectrum",
    "read_array",
    "read_attention",
    "read_sequences",
    "read_table",
    "read_tokenizer",
]
