"""The attention matrix: laws of its singular values, and what follows from them."""

from attnlaw.theory.attention.law import attention_law, linear_energy, score_energy
from attnlaw.theory.attention.outlier import KeyNormOutlier, key_norm_outlier
from attnlaw.theory.attention.prediction import predict_attention

__all__ = [
    "KeyNormOutlier",
    "attention_law",
    "key_norm_outlier",
    "linear_energy",
    "predict_attention",
    "score_energy",
]
