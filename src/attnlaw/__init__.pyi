# The public names, and where each of them lives; `__init__.py` imports them from here on demand.
# They are bound with `as`, without which editors do not complete `al.`.
from . import correlations as correlations
from . import data as data
from . import diagnostics as diagnostics
from . import estimators as estimators
from . import figures as figures
from . import laws as laws
from . import models as models
from . import plotting as plotting
from . import results as results
from . import simulation as simulation
from . import sweeps as sweeps
from . import theory as theory
from . import weights as weights
from ._checks import RegimeWarning as RegimeWarning
from .comparison import compare as compare
from .correlations import autoregressive_correlation as autoregressive_correlation
from .correlations import prefix_correlation as prefix_correlation
from .correlations import spiked_correlation as spiked_correlation
from .data.covariance import pooled_covariance as pooled_covariance
from .data.covariance import token_covariance as token_covariance
from .estimators import AttentionPooling as AttentionPooling
from .estimators import SignalComponents as SignalComponents
from .estimators import learn_pooling_weights as learn_pooling_weights
from .estimators import outlier_test as outlier_test
from .estimators import pool_sequences as pool_sequences
from .estimators import reliable_components as reliable_components
from .estimators import signal_components as signal_components
from .laws import Discrete as Discrete
from .laws import MarchenkoPastur as MarchenkoPastur
from .laws import Semicircle as Semicircle
from .laws import ks_distance as ks_distance
from .models import MultiHeadPooling as MultiHeadPooling
from .models import PooledClasses as PooledClasses
from .models import PooledSequences as PooledSequences
from .models import QueryAttention as QueryAttention
from .models import SelfAttention as SelfAttention
from .models import SequenceMixture as SequenceMixture
from .models import Vocabulary as Vocabulary
from .models import effective_vocabulary as effective_vocabulary
from .simulation import simulate as simulate
from .simulation import simulate_accuracy as simulate_accuracy
from .theory import law as law
from .theory import optimal_importance as optimal_importance
from .theory import plan as plan
from .theory import predict as predict
from .theory import predict_accuracy as predict_accuracy
from .theory import squared_overlap as squared_overlap
from .theory import thresholds as thresholds
from .theory import validity as validity
from .weights import causal_weights as causal_weights
from .weights import last_token_weights as last_token_weights
from .weights import mean_weights as mean_weights
from .weights import optimal_direction as optimal_direction
from .weights import optimal_weights as optimal_weights

__all__ = [
    "AttentionPooling",
    "Discrete",
    "MarchenkoPastur",
    "MultiHeadPooling",
    "PooledClasses",
    "PooledSequences",
    "QueryAttention",
    "RegimeWarning",
    "SelfAttention",
    "Semicircle",
    "SequenceMixture",
    "SignalComponents",
    "Vocabulary",
    "autoregressive_correlation",
    "causal_weights",
    "compare",
    "correlations",
    "data",
    "diagnostics",
    "effective_vocabulary",
    "estimators",
    "figures",
    "ks_distance",
    "last_token_weights",
    "law",
    "laws",
    "learn_pooling_weights",
    "mean_weights",
    "models",
    "optimal_direction",
    "optimal_importance",
    "optimal_weights",
    "outlier_test",
    "plan",
    "plotting",
    "pool_sequences",
    "pooled_covariance",
    "predict",
    "predict_accuracy",
    "prefix_correlation",
    "reliable_components",
    "results",
    "signal_components",
    "simulate",
    "simulate_accuracy",
    "simulation",
    "spiked_correlation",
    "squared_overlap",
    "sweeps",
    "theory",
    "thresholds",
    "token_covariance",
    "validity",
    "weights",
]

__version__: str
