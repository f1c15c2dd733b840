"""Attention heads: maps of a trained model beside heads with random queries and keys.

``maps`` holds and checks attention maps, ``reading`` and ``models`` get them from files and from
local models, ``measures`` says what one map shows by itself, ``nulls`` what random heads of the
same size show, ``inspection`` compares the two (`inspect_heads`), ``findings`` are the results.
"""

from attnlaw.diagnostics.heads.findings import (
    VERDICTS,
    HeadFinding,
    HeadsReport,
    head_histogram,
)
from attnlaw.diagnostics.heads.inspection import inspect_heads
from attnlaw.diagnostics.heads.maps import (
    AttentionMaps,
    attention_maps,
    maps_from_queries,
    maps_from_scores,
)
from attnlaw.diagnostics.heads.models import model_attention
from attnlaw.diagnostics.heads.reading import holds_attention, read_attention

__all__ = [
    "VERDICTS",
    "AttentionMaps",
    "HeadFinding",
    "HeadsReport",
    "attention_maps",
    "head_histogram",
    "holds_attention",
    "inspect_heads",
    "maps_from_queries",
    "maps_from_scores",
    "model_attention",
    "read_attention",
]
