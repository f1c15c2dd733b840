"""Simulation: a model, a size and an `rng` give an observation. No closed form is used here.

Begin with `pooled`: draw a table, signs, tokens, pool them, form covariances and find their
eigenpairs. `signs` draws signs with a given correlation, `verbs` holds the questions and repeats
trials on one process or several.

One module for each model: `pooled` and `trials` (tokens that differ among them), `classes`,
`mixtures`, `multi_head`, `query_attention` and `attention`. `accuracy` fits classifiers to pooled
sequences; `learning` holds weights that come out of data.

`simulate` and `simulate_alignment` at larger sizes use the engine of `_matrix_free`, which forms
neither table nor covariance; its docstring is a map of it.
"""

from attnlaw.models.base import import_answers
from attnlaw.simulation._matrix_free.plan import prefer_compiled
from attnlaw.simulation.accuracy import ridge_coefficients
from attnlaw.simulation.attention import (
    attention_matrix,
    attention_scores,
    centred_attention,
    rotate_by_position,
    sample_attention,
    sample_queries_and_keys,
    squared_singular_values,
)
from attnlaw.simulation.classes import sample_classes
from attnlaw.simulation.learning import LearnedWeights, learn_weights, simulate_causal_weights
from attnlaw.simulation.pooled import (
    PooledSample,
    pool,
    sample_pooled,
    sample_table,
    sample_tokens,
)
from attnlaw.simulation.signs import attainable_correlation, sample_signs
from attnlaw.simulation.trials import simulate_alignment
from attnlaw.simulation.verbs import simulate, simulate_accuracy, simulate_spectrum

__all__ = [
    "LearnedWeights",
    "PooledSample",
    "attainable_correlation",
    "attention_matrix",
    "attention_scores",
    "centred_attention",
    "learn_weights",
    "pool",
    "prefer_compiled",
    "ridge_coefficients",
    "rotate_by_position",
    "sample_attention",
    "sample_classes",
    "sample_pooled",
    "sample_queries_and_keys",
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
