"""What users' own data say about signal and noise: one function for each kind of data.

============  =====================================================================
``tables/``   `inspect_table`: the spectrum of an embedding table, its outliers
``pooling/``  `advise_pooling`: which pooling of given sequences keeps their signal
``heads/``    `inspect_heads`: attention maps beside heads that have learned nothing
============  =====================================================================

Each returns a report with numbers, notes and a verdict in words, which `attnlaw.plotting` draws.
The readers of files are those of `attnlaw.data.readers`.
"""

from attnlaw.data.readers import (
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
    head_histogram,
    holds_attention,
    inspect_heads,
    maps_from_queries,
    maps_from_scores,
    model_attention,
    read_attention,
)
from attnlaw.diagnostics.pooling.advice import advise_pooling
from attnlaw.diagnostics.pooling.candidates import PoolingAdvice, PoolingCandidate
from attnlaw.diagnostics.pooling.learning_curve import LearningCurve, predict_learning_curve
from attnlaw.diagnostics.tables.inspection import (
    TableOutlier,
    TableReport,
    inspect_table,
    noise_law,
)
from attnlaw.diagnostics.tables.noise import population_spectrum
from attnlaw.diagnostics.tables.subsets import SubsetCheck, check_subsets

__all__ = [
    "AttentionMaps",
    "EmbeddingTable",
    "HeadFinding",
    "HeadsReport",
    "LearningCurve",
    "PoolingAdvice",
    "PoolingCandidate",
    "SubsetCheck",
    "TableOutlier",
    "TableReport",
    "advise_pooling",
    "attention_maps",
    "check_subsets",
    "encode_texts",
    "head_histogram",
    "holds_attention",
    "inspect_heads",
    "inspect_table",
    "list_arrays",
    "maps_from_queries",
    "maps_from_scores",
    "model_attention",
    "noise_law",
    "population_spectrum",
    "predict_learning_curve",
    "read_array",
    "read_attention",
    "read_sequences",
    "read_table",
    "read_tokenizer",
]
