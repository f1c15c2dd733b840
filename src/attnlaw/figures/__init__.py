"""The figures of the papers, and ours, by theme: each a class that computes, draws and checks.

`figure` says what a figure has to do, `reproduction` runs a set of them. Pooled sequences:
`pooled_model`, `transitions`, `bulk`, `recovery`, `token_weights` and, on real data,
`embedding_table`. Heads: `attention_law` and `attention_heads`.
"""

from importlib import import_module
from typing import cast

from attnlaw._checks import invalid_argument, nearest
from attnlaw.figures.figure import Check, PaperFigure, Table, Tables

__all__ = ["FIGURES", "Check", "PaperFigure", "Table", "Tables", "load_figure"]

FIGURES = {
    "model": "pooled_model:Realisation",
    "phase_diagram": "transitions:PhaseDiagram",
    "bulk": "bulk:Bulk",
    "alignment": "recovery:Alignment",
    "critical_signal": "transitions:CriticalSignal",
    "accuracy": "recovery:Accuracy",
    "embedding_table": "embedding_table:EmbeddingTables",
    "causal_limit": "pooled_model:CausalLimit",
    "convergence": "bulk:Convergence",
    "token_weights": "token_weights:TokenWeights",
    "query_attention": "token_weights:AttentionToQuery",
    "attention_bulk": "attention_law:AttentionBulk",
    "attention_breakdown": "attention_law:AttentionBreakdown",
    "attention_inputs": "attention_heads:AttentionInputs",
    "attention_heads": "attention_heads:AttentionHeads",
}
"""All figures by name, in the order of the report, with module and class."""


def load_figure(name: str) -> PaperFigure:
    """Import a figure by its name."""
    if name not in FIGURES:
        error = invalid_argument("figure", "one of " + ", ".join(FIGURES), name)
        raise ValueError(f"{str(error)[:-1]}{nearest(name, FIGURES)}.")
    module, figure = FIGURES[name].split(":")
    return cast(PaperFigure, getattr(import_module(f"attnlaw.figures.{module}"), figure)())
