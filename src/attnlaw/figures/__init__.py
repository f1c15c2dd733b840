"""The figures of the papers, and ours: one module each, with compute(), draw() and check()."""

from importlib import import_module
from typing import cast

from attnlaw._checks import invalid_argument
from attnlaw.figures.figure import Check, FigureModule, Table, Tables

__all__ = ["FIGURES", "Check", "FigureModule", "Table", "Tables", "load_figure"]

FIGURES = (
    "model",
    "phase_diagram",
    "bulk",
    "alignment",
    "critical_signal",
    "accuracy",
    "embedding_table",
    "causal_limit",
    "convergence",
    "token_weights",
    "query_attention",
    "attention_bulk",
    "attention_breakdown",
    "attention_inputs",
    "attention_heads",
)
"""Names of all figures, in the order of the report."""


def load_figure(name: str) -> FigureModule:
    """Import the module of a figure by its name."""
    if name not in FIGURES:
        raise invalid_argument("figure", "one of " + ", ".join(FIGURES), name)
    return cast(FigureModule, import_module(f"attnlaw.figures.{name}"))
