"""Predictions for every model in closed form, without random numbers.

`verbs` declares the public functions; each model has a module of its own: `pooled`, `classes`,
`mixtures`, `multi_head`, `query_attention` and `attention`. `planning` inverts predictions,
`accuracy` and `class_accuracy` predict classification.

For tokens that differ in frequency and importance, `vocabulary` predicts from the noise of each
token (`token_noise`) and the spike beside it (`token_spikes`); `token_accuracy` treats
classification, `vocabulary_classes` several classes; `importance` finds the best token weights.
"""

from attnlaw.models.base import import_answers
from attnlaw.theory.attention import (
    KeyNormOutlier,
    key_norm_outlier,
    linear_energy,
    score_energy,
)
from attnlaw.theory.importance import (
    OptimalImportance,
    first_order_smoothing,
    optimal_importance,
    smoothing_overlaps,
)
from attnlaw.theory.multi_head import HeadCombination, combine_heads
from attnlaw.theory.pooled import bulk_edge, edge_parameter, spike_parameter, squared_overlap
from attnlaw.theory.query_attention import (
    best_inverse_temperature,
    exponential_gain,
    learned_query_overlap,
    posterior_gain,
    random_attention_gains,
)
from attnlaw.theory.verbs import law, plan, predict, predict_accuracy, thresholds, validity

__all__ = [
    "HeadCombination",
    "KeyNormOutlier",
    "OptimalImportance",
    "best_inverse_temperature",
    "bulk_edge",
    "combine_heads",
    "edge_parameter",
    "exponential_gain",
    "first_order_smoothing",
    "key_norm_outlier",
    "law",
    "learned_query_overlap",
    "linear_energy",
    "optimal_importance",
    "plan",
    "posterior_gain",
    "predict",
    "predict_accuracy",
    "random_attention_gains",
    "score_energy",
    "smoothing_overlaps",
    "spike_parameter",
    "squared_overlap",
    "thresholds",
    "validity",
]

import_answers(__name__, __path__)
