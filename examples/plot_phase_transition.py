"""
A phase transition, predicted and seen
======================================

The leading eigenvector of pooled embeddings knows nothing of the signal up to a critical signal
norm, and then suddenly does. Theory gives the curve; one simulated table gives the points.
"""

import matplotlib.pyplot as plt
import numpy as np

import attnlaw as al
from attnlaw.plotting import style

correlation = al.prefix_correlation(length=20, prefix=5)


def model(signal_norm):
    return al.PooledSequences(
        vocab_ratio=0.5,
        sample_ratio=0.4,
        signal_norm=signal_norm,
        correlation=correlation,
        weights=al.mean_weights(20),
    )


# %%
# One trial gives the whole curve: all signal norms share the same noise.

norms = np.linspace(0.05, 2.5, 50)
predicted = al.predict(model(norms))
seen = al.simulate(model(norms), dimension=800, rng=0)

with style.sheet():
    figure, (left, right) = plt.subplots(1, 2, figsize=(7.2, 3.2))
    left.plot(norms, predicted.top_eigenvalue, color=style.PREDICTED)
    left.plot(norms, seen.top_eigenvalue[0], "o", color=style.OUTLIER)
    left.axhline(predicted.bulk_edge[0], color=style.EDGE, linestyle="--", linewidth=1)
    left.set_ylabel("top eigenvalue")
    right.plot(norms, predicted.squared_overlap, color=style.PREDICTED, label="theory")
    right.plot(
        norms, seen.squared_overlap[0], "o", color=style.OUTLIER, label="one trial, d = 800"
    )
    right.set_ylabel("alignment with the signal")
    right.legend()
    for axes in (left, right):
        axes.axvline(al.thresholds(model(1.0)).sample_signal, color=style.EDGE, linestyle=":")
        axes.set_xlabel(r"signal norm $\|\mu\|$")
