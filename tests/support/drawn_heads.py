"""Attention heads drawn by hand, sharing no code with the library."""

import numpy as np


def softmax(scores, causal=False):
    if causal:
        scores = np.where(np.tri(scores.shape[-1], dtype=bool), scores, -np.inf)
    A = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return A / A.sum(axis=-1, keepdims=True)


def queries_and_keys(n_heads, n, d, rng):
    return rng.standard_normal((2, n_heads, n, d))


def scores(Q, K, beta=1.0):
    beta = np.broadcast_to(beta, len(Q))
    return beta[:, None, None] * (Q @ K.transpose(0, 2, 1)) / Q.shape[-1] ** 0.5
