"""From a model to a prediction: closed forms, and never a random number."""

from attnlaw.theory.bulk import bulk_edge, bulk_law, edge_parameter
from attnlaw.theory.classification import predict_accuracy
from attnlaw.theory.planning import Plan, plan
from attnlaw.theory.spikes import predict, squared_overlap
from attnlaw.theory.thresholds import Thresholds, thresholds
from attnlaw.theory.validity import Validity, validity

__all__ = [
    "Plan",
    "Thresholds",
    "Validity",
    "bulk_edge",
    "bulk_law",
    "edge_parameter",
    "plan",
    "predict",
    "predict_accuracy",
    "squared_overlap",
    "thresholds",
    "validity",
]
