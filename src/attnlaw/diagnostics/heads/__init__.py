"""Attention heads: comparison with untrained heads, decomposition, and effect on the output.

``maps`` holds and reads attention maps; ``models`` finds the attention layers of a local model,
records them and calls them again with other weights; ``decomposition`` splits a map into common
row, positions, repetition and content; ``findings`` tests the parts against a null and gives each
head a verdict in words; ``effect`` estimates and measures the effect of a head on the output;
``inspection`` combines these for a model (`inspect_model`), ``gaussian_null`` for maps without one
(`inspect_heads`).
"""

from attnlaw.diagnostics.heads.effect import HeadEffects, ablate_heads, head_effects, with_ablation
from attnlaw.diagnostics.heads.findings import (
    VERDICTS,
    HeadFinding,
    HeadParts,
    HeadsReport,
    SpectralFinding,
    head_histogram,
)
from attnlaw.diagnostics.heads.gaussian_null import inspect_heads
from attnlaw.diagnostics.heads.inspection import inspect_model, load_model, model_attention
from attnlaw.diagnostics.heads.maps import (
    AttentionMaps,
    attention_maps,
    holds_attention,
    maps_from_queries,
    maps_from_scores,
    read_attention,
)
from attnlaw.diagnostics.heads.models import LocalModel, wrap_model

__all__ = [
    "VERDICTS",
    "AttentionMaps",
    "HeadEffects",
    "HeadFinding",
    "HeadParts",
    "HeadsReport",
    "LocalModel",
    "SpectralFinding",
    "ablate_heads",
    "attention_maps",
    "head_effects",
    "head_histogram",
    "holds_attention",
    "inspect_heads",
    "inspect_model",
    "load_model",
    "maps_from_queries",
    "maps_from_scores",
    "model_attention",
    "read_attention",
    "with_ablation",
    "wrap_model",
]
