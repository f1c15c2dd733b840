"""Estimators of pooling weights and components from sequences and pooled embeddings.

The functions need only NumPy and SciPy; the corresponding scikit-learn objects are imported when
they are first used.

- Poolings: `pooling` applies one, `pooling_weights` learns one from the sequences alone by
  `alternation`. `attention_pooling` is the scikit-learn object, `fitted_pooling` what it saves,
  and `sentence_module` makes it a module of sentence-transformers.
- Components: `components` detects signal (`outliers` tests eigenvalues, by `edge_test`),
  `reliability` measures stability at this sample size; `rows` describes pooled embeddings as a
  sample. `principal_components` is the scikit-learn object for both.
"""

from typing import TYPE_CHECKING, Any

from attnlaw._machine import require
from attnlaw.estimators.components import Artefact, ComponentAnalysis, signal_components
from attnlaw.estimators.outliers import OutlierTest, outlier_test
from attnlaw.estimators.pooling import pool_sequences
from attnlaw.estimators.pooling_weights import PoolingWeights, learn_pooling_weights
from attnlaw.estimators.reliability import ReliableComponents, reliable_components

if TYPE_CHECKING:
    from attnlaw.estimators.attention_pooling import AttentionPooling
    from attnlaw.estimators.principal_components import SignalComponents

__all__ = [
    "Artefact",
    "AttentionPooling",
    "ComponentAnalysis",
    "OutlierTest",
    "PoolingWeights",
    "ReliableComponents",
    "SignalComponents",
    "learn_pooling_weights",
    "outlier_test",
    "pool_sequences",
    "reliable_components",
    "signal_components",
]

SKLEARN_OBJECTS = {
    "AttentionPooling": "attention_pooling",
    "SignalComponents": "principal_components",
}


def __getattr__(name: str) -> Any:
    """Import a scikit-learn object when it is first asked for."""
    from importlib import import_module

    if name not in SKLEARN_OBJECTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    require("sklearn", extra="estimators", purpose=name)
    return getattr(import_module(f"{__name__}.{SKLEARN_OBJECTS[name]}"), name)
