"""The attention matrix: laws of its singular values, and predictions from them.

`prediction` implements `predict`, and `law` chooses the law by its order of precision. In closed
form it follows from the modes of the head's `kernel`; at finite size from variance `profiles`
(`causal` ones with a mask), with exact mean energies of single entries (`rows`) and the energies
of rows and columns (`energies`); at `large_beta` from rows with single large entries.
"""

from attnlaw.theory.attention import prediction as prediction  # answers `predict`
from attnlaw.theory.attention.law import linear_energy, score_energy
from attnlaw.theory.attention.prediction import KeyNormOutlier, key_norm_outlier

__all__ = [
    "KeyNormOutlier",
    "key_norm_outlier",
    "linear_energy",
    "score_energy",
]
