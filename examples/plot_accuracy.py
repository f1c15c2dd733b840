"""
Accuracy before any training
============================

Test accuracy of ridge classification on pooled sequences, in closed form, against the number of
training sequences. The formula knows nothing but the model; the markers are classifiers that
were fitted.
"""

import matplotlib.pyplot as plt
import numpy as np

import attnlaw as al
from attnlaw.plotting import style

correlation = al.prefix_correlation(length=20, prefix=5)
poolings = {
    "mean": al.mean_weights(20),
    "causal": al.causal_weights(20),
    "optimal": al.optimal_weights(correlation),
}
per_dimension = np.geomspace(0.3, 30, 120)


def model(n_per_dimension, weights):
    return al.PooledSequences(
        vocab_ratio=0.4,
        sample_ratio=1 / n_per_dimension,
        signal_norm=0.5,
        correlation=correlation,
        weights=weights,
    )


with style.sheet():
    figure, axes = plt.subplots(figsize=(6.4, 3.6))
    for name, weights in poolings.items():
        color = style.WEIGHTINGS[name]
        curve = al.predict_accuracy(model(per_dimension, weights), 0.05).accuracy
        axes.plot(per_dimension, curve, color=color, label=name)
        for n in (0.5, 2.0, 8.0):
            seen = al.simulate_accuracy(model(n, weights), 120, 8, rng=0, ridge=0.05).accuracy
            error = 2 * seen.std() / 8**0.5
            axes.errorbar(n, seen.mean(), error, fmt=style.WEIGHTING_MARKERS[name], color=color)
    axes.set_xscale("log")
    axes.set_xlabel("training sequences per dimension, $N/d$")
    axes.set_ylabel("test accuracy")
    axes.legend(loc="lower right")
