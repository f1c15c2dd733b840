"""From a model to a prediction: closed forms, and never a random number."""

from attnlaw.theory.accuracy import predict_accuracy
from attnlaw.theory.attention import (
    KeyNormOutlier,
    attention_law,
    key_norm_outlier,
    predict_attention,
)
from attnlaw.theory.bulk import bulk_edge, bulk_law, edge_parameter
from attnlaw.theory.classes import ClassThresholds, class_thresholds, predict_classes
from attnlaw.theory.mixtures import predict_mixture
from attnlaw.theory.multi_head import HeadCombination, combine_heads, predict_multi_head
from attnlaw.theory.planning import Plan, plan
from attnlaw.theory.spikes import predict, squared_overlap
from attnlaw.theory.thresholds import Thresholds, thresholds
from attnlaw.theory.validity import Validity, validity

__all__ = [
    "ClassThresholds",
    "HeadCombination",
    "KeyNormOutlier",
    "Plan",
    "Thresholds",
    "Validity",
    "attention_law",
    "bulk_edge",
    "bulk_law",
    "class_thresholds",
    "combine_heads",
    "edge_parameter",
    "key_norm_outlier",
    "plan",
    "predict",
    "predict_accuracy",
    "predict_attention",
    "predict_classes",
    "predict_mixture",
    "predict_multi_head",
    "squared_overlap",
    "thresholds",
    "validity",
]
