"""The exact spectral laws of attention: theory and simulation, side by side.

Begin with a model, predict what theory says of it, and observe what happens:

>>> import attnlaw as al
>>> model = al.PooledSequences(
...     vocab_ratio=0.5, sample_ratio=0.4, signal_norm=1.5,
...     correlation=al.prefix_correlation(length=20, prefix=5),
...     weights=al.causal_weights(20),
... )
"""

from typing import TYPE_CHECKING, Any

from attnlaw._validation import RegimeWarning
from attnlaw.correlations import (
    autoregressive_correlation,
    prefix_correlation,
    spiked_correlation,
)
from attnlaw.covariance import (
    CovarianceAccumulator,
    PooledCovariance,
    pooled_covariance,
    token_covariance,
)
from attnlaw.estimators import (
    Artefact,
    ComponentAnalysis,
    OutlierTest,
    PoolingWeights,
    learn_pooling_weights,
    outlier_test,
    pool_sequences,
    signal_components,
)
from attnlaw.laws import Discrete, MarchenkoPastur, Semicircle
from attnlaw.models import PooledSequences
from attnlaw.results import Accuracy, Spike
from attnlaw.simulation import (
    LearnedWeights,
    learn_weights,
    observe,
    observe_accuracy,
    observe_causal_weights,
    observe_spectrum,
)
from attnlaw.theory import (
    Plan,
    Thresholds,
    Validity,
    bulk_edge,
    bulk_law,
    edge_parameter,
    plan,
    predict,
    predict_accuracy,
    squared_overlap,
    thresholds,
    validity,
)
from attnlaw.weights import (
    causal_weights,
    last_token_weights,
    mean_weights,
    optimal_direction,
    optimal_weights,
    softmax_causal_weights,
)

if TYPE_CHECKING:
    from attnlaw.estimators import AttentionPooling, SignalComponents

__version__ = "0.1.0"

__all__ = [
    "Accuracy",
    "Artefact",
    "AttentionPooling",
    "ComponentAnalysis",
    "CovarianceAccumulator",
    "Discrete",
    "LearnedWeights",
    "MarchenkoPastur",
    "OutlierTest",
    "Plan",
    "PooledCovariance",
    "PooledSequences",
    "PoolingWeights",
    "RegimeWarning",
    "Semicircle",
    "SignalComponents",
    "Spike",
    "Thresholds",
    "Validity",
    "autoregressive_correlation",
    "bulk_edge",
    "bulk_law",
    "causal_weights",
    "edge_parameter",
    "last_token_weights",
    "learn_pooling_weights",
    "learn_weights",
    "mean_weights",
    "observe",
    "observe_accuracy",
    "observe_causal_weights",
    "observe_spectrum",
    "optimal_direction",
    "optimal_weights",
    "outlier_test",
    "plan",
    "pool_sequences",
    "pooled_covariance",
    "predict",
    "predict_accuracy",
    "prefix_correlation",
    "signal_components",
    "softmax_causal_weights",
    "spiked_correlation",
    "squared_overlap",
    "thresholds",
    "token_covariance",
    "validity",
]


def __getattr__(name: str) -> Any:
    """Look up the scikit-learn objects, which are imported when they are first asked for."""
    from attnlaw import estimators

    if name in estimators.SKLEARN_OBJECTS:
        return getattr(estimators, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
