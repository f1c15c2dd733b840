"""What is studied: frozen descriptions that validate themselves once."""

from attnlaw.models.attention import SelfAttention
from attnlaw.models.base import Model, PooledModel, Sampling, Sizes
from attnlaw.models.classes import PooledClasses
from attnlaw.models.mixtures import SequenceMixture
from attnlaw.models.multi_head import MultiHeadPooling
from attnlaw.models.query_attention import QueryAttention, Scoring
from attnlaw.models.sequences import PooledSequences
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
