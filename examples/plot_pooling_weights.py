"""
Three poolings of the same sequences
====================================

Five of twenty positions carry the signal. The mean ignores that; causal attention leans towards
the beginning without knowing why; the optimum knows. Lines are theory, markers are simulations.
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

# %%
# One call simulates all three on the same draws.

norms, spots = np.linspace(0.01, 2, 200), np.linspace(0.2, 2, 7)


def model(signal_norm, weights):
    return al.PooledSequences(
        vocab_ratio=0.2,
        sample_ratio=0.4,
        signal_norm=signal_norm,
        correlation=correlation,
        weights=weights,
    )


seen = al.simulation.simulate_alignment(
    model(spots, poolings["mean"]), 400, n_trials=8, rng=0, weights=list(poolings.values())
).squared_overlap

with style.sheet():
    figure, (left, right) = plt.subplots(1, 2, figsize=(7.6, 3.2), width_ratios=[1, 1.3])
    for k, (name, weights) in enumerate(poolings.items()):
        look = {"color": style.WEIGHTINGS[name], "marker": style.WEIGHTING_MARKERS[name]}
        left.plot(np.arange(1, 21), weights, label=name, **look)
        curve = al.predict(model(norms, weights)).squared_overlap
        right.plot(norms, curve, color=style.WEIGHTINGS[name])
        mean, error = seen[:, k].mean(axis=0), seen[:, k].std(axis=0) / 8**0.5
        right.errorbar(spots, mean, 2 * error, linestyle="none", **look)
    left.set(xlabel="position", ylabel="weight", xticks=[1, 5, 10, 15, 20])
    left.legend()
    right.set(xlabel=r"signal norm $\|\mu\|$", ylabel="squared overlap with the signal")
