"""The head lab: attention maps beside heads whose queries and keys are random."""

from attnlaw.diagnostics.heads.findings import VERDICTS, HeadFinding, HeadsReport
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
    "holds_attention",
    "inspect_heads",
    "maps_from_queries",
    "maps_from_scores",
    "model_attention",
    "read_attention",
]
