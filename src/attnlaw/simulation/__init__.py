"""Simulation: a model, a size and an `rng` give an observation. No closed form is used here.

Begin with `pooled`: draw a table, signs, tokens, and pool them. `spectrum` forms covariances and
finds their eigenpairs; `trials` repeats a trial, on one process or several, and `signs` draws
signs with a given correlation.

One module for each model: `pooled` (and `vocabulary`, for tokens that differ), `classes`,
`mixtures`, `multi_head`, `attention`. What a classifier makes of them: `accuracy`,
`class_accuracy`, `learning`; weights of a causal softmax: `causal`.

`alignment`, and `simulate` at larger sizes, use the engine of `_matrix_free`, which forms neither
table nor covariance; its docstring is a map of it.
"""

from attnlaw._dispatch import import_answers
from attnlaw.simulation._matrix_free.plan import prefer_compiled
from attnlaw.simulation.accuracy import ridge_coefficients
from attnlaw.simulation.alignment import simulate_alignment
from attnlaw.simulation.attention import (
    attention_matrix,
    squared_singular_values,
)
from attnlaw.simulation.causal import simulate_causal_weights
from attnlaw.simulation.classes import sample_classes
from attnlaw.simulation.learning import LearnedWeights, learn_weights
from attnlaw.simulation.pooled import (
    PooledSample,
    pool,
    sample_pooled,
    sample_table,
    sample_tokens,
)
from attnlaw.simulation.signs import attainable_correlation, sample_signs
from attnlaw.simulation.verbs import simulate, simulate_accuracy, simulate_spectrum

__all__ = [
    "LearnedWeights",
    "PooledSample",
    "attainable_correlation",
    "attention_matrix",
    "learn_weights",
    "pool",
    "prefer_compiled",
    "ridge_coefficients",
    "sample_classes",
    "sample_pooled",
    "sample_signs",
    "sample_table",
    "sample_tokens",
    "simulate",
    "simulate_accuracy",
    "simulate_alignment",
    "simulate_causal_weights",
    "simulate_spectrum",
    "squared_singular_values",
]

import_answers(__name__, __path__)
