"""The attention matrix: laws of its singular values, and what follows from them."""

from attnlaw.theory.attention import prediction as prediction  # answers `predict`
from attnlaw.theory.attention.law import linear_energy, score_energy
from attnlaw.theory.attention.prediction import KeyNormOutlier, key_norm_outlier

__all__ = [
    "KeyNormOutlier",
    "key_norm_outlier",
    "linear_energy",
    "score_energy",
]
