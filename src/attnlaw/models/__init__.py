"""What is studied: frozen descriptions that validate themselves once.

- `sequences`: pooled sequences, mixtures of several kinds, and several heads side by side.
- `classes`: pooled sequences of several classes.
- `attention`: heads that have learned nothing yet, and pooling by attention to a query.
- `vocabulary`: how often tokens occur and how much they count.
- `base`: what models share.
"""

from attnlaw.models.attention import QueryAttention, Scoring, SelfAttention
from attnlaw.models.base import Model, PooledModel, Sampling, Sizes
from attnlaw.models.classes import PooledClasses
from attnlaw.models.sequences import MultiHeadPooling, PooledSequences, SequenceMixture
from attnlaw.models.vocabulary import Vocabulary, effective_vocabulary

__all__ = [
    "Model",
    "MultiHeadPooling",
    "PooledClasses",
    "PooledModel",
    "PooledSequences",
    "QueryAttention",
    "Sampling",
    "Scoring",
    "SelfAttention",
    "SequenceMixture",
    "Sizes",
    "Vocabulary",
    "effective_vocabulary",
]
