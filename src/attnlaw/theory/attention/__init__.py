"""The attention matrix: laws of its singular values, and what follows from them.

`prediction` answers `predict`, and `law` chooses the law by its order of precision. In closed form
it is made of the modes of the head's `kernel`; at finite size of variance `profiles`, with the
exact mean energies of single entries (`rows`) and of rows and columns (`energies`), or `causal`
ones with a mask; at `large_beta` of rows with single large entries.
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
