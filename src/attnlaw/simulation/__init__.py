"""Simulation: a model, a size and an `rng` give an observation. No closed form is used here."""

from attnlaw.simulation.accuracy import observe_accuracy, ridge_coefficients
from attnlaw.simulation.alignment import observe_alignment
from attnlaw.simulation.attention import (
    attention_matrix,
    observe_attention,
    observe_attention_spectrum,
    squared_singular_values,
)
from attnlaw.simulation.causal import observe_causal_weights
from attnlaw.simulation.classes import observe_classes, sample_classes
from attnlaw.simulation.learning import LearnedWeights, learn_weights
from attnlaw.simulation.mixtures import observe_mixture
from attnlaw.simulation.multi_head import observe_heads
from attnlaw.simulation.pooled import (
    PooledSample,
    pool,
    sample_pooled,
    sample_table,
    sample_tokens,
)
from attnlaw.simulation.signs import attainable_correlation, sample_signs
from attnlaw.simulation.trials import observe, observe_spectrum

__all__ = [
    "LearnedWeights",
    "PooledSample",
    "attainable_correlation",
    "attention_matrix",
    "learn_weights",
    "observe",
    "observe_accuracy",
    "observe_alignment",
    "observe_attention",
    "observe_attention_spectrum",
    "observe_causal_weights",
    "observe_classes",
    "observe_heads",
    "observe_mixture",
    "observe_spectrum",
    "pool",
    "ridge_coefficients",
    "sample_classes",
    "sample_pooled",
    "sample_signs",
    "sample_table",
    "sample_tokens",
    "squared_singular_values",
]
