"""
A ceiling that no amount of data lifts
======================================

In the papers' idealised model, more sequences always find the signal in the end. With tokens
from a finite table they do not: the two classes of the table differ by noise, too, and the
leading eigenvector finds signal and noise together. The ceiling is set by the vocabulary.
"""

import matplotlib.pyplot as plt
import numpy as np

import attnlaw as al
from attnlaw.plotting import style

correlation = al.prefix_correlation(length=20, prefix=5)
ratios = np.geomspace(0.01, 10, 200)


def model(sample_ratio, sampling):
    return al.PooledSequences(
        vocab_ratio=0.5,
        sample_ratio=sample_ratio,
        signal_norm=1.0,
        correlation=correlation,
        weights=al.causal_weights(20),
        sampling=sampling,
    )


# %%
# Each sampling model is simulated as well as predicted.

with style.sheet():
    figure, axes = plt.subplots(figsize=(6.4, 3.6))
    for sampling, color, label in (
        ("token", style.PREDICTED, "tokens of a table"),
        ("gaussian", style.OUTLIER, "idealised"),
    ):
        predicted = al.predict(model(ratios, sampling)).squared_overlap
        axes.plot(1 / ratios, predicted, color=color, label=label)
        for seed, ratio in enumerate((4.0, 1.0, 0.25, 0.0625)):
            seen = al.simulate(model(ratio, sampling), 300, n_trials=10, rng=seed).squared_overlap
            axes.errorbar(1 / ratio, seen.mean(), 2 * seen.std() / 10**0.5, fmt="o", color=color)
    axes.axhline(1 / 1.5, color=style.EDGE, linestyle="--", linewidth=1)
    axes.annotate(r"ceiling $\|\mu\|^2/(\|\mu\|^2 + d/V)$", (0.11, 0.69), color=style.EDGE)
    axes.set_xscale("log")
    axes.set_xlabel("sequences per dimension, $N/d$")
    axes.set_ylabel("squared overlap with the signal")
    axes.legend()
