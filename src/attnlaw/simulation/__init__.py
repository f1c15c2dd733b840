"""Simulation: a model, a size and an `rng` give an observation. No closed form is used here."""

from attnlaw.simulation.accuracy import ridge_coefficients, simulate_accuracy
from attnlaw.simulation.alignment import simulate_alignment
from attnlaw.simulation.attention import (
    attention_matrix,
    simulate_attention,
    simulate_attention_spectrum,
    squared_singular_values,
)
from attnlaw.simulation.causal import simulate_causal_weights
from attnlaw.simulation.classes import sample_classes, simulate_classes
from attnlaw.simulation.learning import LearnedWeights, learn_weights
from attnlaw.simulation.mixtures import simulate_mixture
from attnlaw.simulation.multi_head import simulate_multi_head
from attnlaw.simulation.pooled import (
    PooledSample,
    pool,
    sample_pooled,
    sample_table,
    sample_tokens,
)
from attnlaw.simulation.signs import attainable_correlation, sample_signs
from attnlaw.simulation.trials import simulate, simulate_spectrum

__all__ = [
    "LearnedWeights",
    "PooledSample",
    "attainable_correlation",
    "attention_matrix",
    "learn_weights",
    "pool",
    "ridge_coefficients",
    "sample_classes",
    "sample_pooled",
    "sample_signs",
    "sample_table",
    "sample_tokens",
    "simulate",
    "simulate_accuracy",
    "simulate_alignment",
    "simulate_attention",
    "simulate_attention_spectrum",
    "simulate_causal_weights",
    "simulate_classes",
    "simulate_mixture",
    "simulate_multi_head",
    "simulate_spectrum",
    "squared_singular_values",
]
