"""P1 Fig. 6: classification accuracy of ridge on pooled sequences, with theory curves."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from attnlaw import style
from attnlaw.correlations import prefix_correlation
from attnlaw.figures.figure import Check, Tables, z_check
from attnlaw.figures.pooling import long_table, rows, summary, weighting
from attnlaw.models import PooledSequences
from attnlaw.simulation import observe_accuracy, observe_learned_weights
from attnlaw.theory import predict_accuracy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Classification accuracy (P1 Fig. 6, with theory)"
CLAIM = (
    r"P1 shows simulated test accuracy only: causal weights classify better than mean pooling, "
    r"weights learned together with the ridge regressor come close to the optimum. The curves "
    r"are attnlaw's: a closed form for the accuracy of ridge on pooled tokens."
)
SECONDS = (25.0, 200.0)

LENGTH, PREFIX, RIDGE = 20, 5, 0.05
DELTA, GAMMA = 0.4, 0.5
WEIGHTINGS = ("mean", "causal", "optimal")
