"""Covariance of pooled sequences, one block at a time: N is limited by disk, not by memory."""

from attnlaw.data.covariance.accumulator import CovarianceAccumulator, PooledCovariance
from attnlaw.data.covariance.corpus import pooled_covariance, token_covariance

__all__ = [
    "CovarianceAccumulator",
    "PooledCovariance",
    "pooled_covariance",
    "token_covariance",
]
