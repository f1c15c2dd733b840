"""Simulation: a model, a size and an `rng` give an observation. No closed form is used here."""

from attnlaw.simulation.sequences import (
    PooledSample,
    pool,
    sample_pooled,
    sample_table,
    sample_tokens,
)
from attnlaw.simulation.signs import attainable_correlation, sample_signs
from attnlaw.simulation.trials import observe, observe_spectrum

__all__ = [
    "PooledSample",
    "attainable_correlation",
    "observe",
    "observe_spectrum",
    "pool",
    "sample_pooled",
    "sample_signs",
    "sample_table",
    "sample_tokens",
]
