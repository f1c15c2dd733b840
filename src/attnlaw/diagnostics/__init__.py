"""Signal and noise in users' own data: one function for each kind of data.

=====================  =====================================================================
``table_inspection``   `inspect_table`: outliers of an embedding table, and their tokens
``table_noise``        the noise behind its bulk, and the held-out check of its law
``pooling/``           `advise_pooling`: the best pooling of given texts for a given purpose
``heads/``             `inspect_model`, `inspect_heads`: attention heads beside untrained ones
=====================  =====================================================================

Each returns a report with numbers, notes and a verdict in words, which `attnlaw.plotting` draws.
The readers of files are those of `attnlaw.data.readers`.
"""

from attnlaw.data.readers import (
    EmbeddedTexts,
    EmbeddingTable,
    TextColumns,
    embed_texts,
    encode_texts,
    holds_texts,
    list_arrays,
    read_array,
    read_sequences,
    read_table,
    read_texts,
    read_tokenizer,
    read_word_vectors,
)
from attnlaw.diagnostics.heads import (
    AttentionMaps,
    HeadEffects,
    HeadFinding,
    HeadParts,
    HeadsReport,
    LocalModel,
    SpectralFinding,
    ablate_heads,
    attention_maps,
    head_histogram,
    holds_attention,
    inspect_heads,
    inspect_model,
    load_model,
    maps_from_queries,
    maps_from_scores,
    model_attention,
    read_attention,
    with_ablation,
)
from attnlaw.diagnostics.pooling.advice import PoolingAdvice, advise_pooling
from attnlaw.diagnostics.pooling.learning_curve import LearningCurve, predict_learning_curve
from attnlaw.diagnostics.pooling.moments import TokenStatistics
from attnlaw.diagnostics.pooling.poolings import PositionComparison, PositionPooling
from attnlaw.diagnostics.pooling.positions import compare_positions
from attnlaw.diagnostics.pooling.search import PoolingPipeline, Trial
from attnlaw.diagnostics.table_inspection import (
    TableOutlier,
    TableReport,
    inspect_table,
    noise_law,
)
from attnlaw.diagnostics.table_noise import SubsetCheck, check_subsets, population_spectrum

__all__ = [
    "AttentionMaps",
    "EmbeddedTexts",
    "EmbeddingTable",
    "HeadEffects",
    "HeadFinding",
    "HeadParts",
    "HeadsReport",
    "LearningCurve",
    "LocalModel",
    "PoolingAdvice",
    "PoolingPipeline",
    "PositionComparison",
    "PositionPooling",
    "SpectralFinding",
    "SubsetCheck",
    "TableOutlier",
    "TableReport",
    "TextColumns",
    "TokenStatistics",
    "Trial",
    "ablate_heads",
    "advise_pooling",
    "attention_maps",
    "check_subsets",
    "compare_positions",
    "embed_texts",
    "encode_texts",
    "head_histogram",
    "holds_attention",
    "holds_texts",
    "inspect_heads",
    "inspect_model",
    "inspect_table",
    "list_arrays",
    "load_model",
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
    "read_texts",
    "read_tokenizer",
    "read_word_vectors",
    "with_ablation",
]
