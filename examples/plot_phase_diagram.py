"""
The phase diagram of pooling
============================

How well the signal is found, over its strength and the size of the vocabulary, for two
poolings. Each panel is one call: everything broadcasts. Left of the white line
nothing is found, left of the dashed one not even in infinitely many sequences.
"""

import matplotlib.pyplot as plt
import numpy as np

import attnlaw as al
from attnlaw.plotting import style

norms = np.linspace(0.0, 2.0, 400)
ratios = np.linspace(0.005, 1.5, 400)[:, None]
correlation = al.prefix_correlation(length=20, prefix=5)

with style.sheet():
    figure, panels = plt.subplots(1, 2, figsize=(7.6, 3.4), sharey=True)
    for axes, name in zip(panels, ("mean", "optimal"), strict=True):
        weights = al.mean_weights(20) if name == "mean" else al.optimal_weights(correlation)
        model = al.PooledSequences(
            vocab_ratio=ratios,
            sample_ratio=0.4,
            signal_norm=norms,
            correlation=correlation,
            weights=weights,
        )
        overlap = al.predict(model).squared_overlap
        image = axes.pcolormesh(norms, ratios[:, 0], overlap, vmin=0, vmax=1, rasterized=True)
        found = al.thresholds(model)
        line = np.broadcast_to(found.sample_signal, ratios.shape)
        axes.plot(line, ratios, color="white", linewidth=1.2)
        line = np.broadcast_to(found.population_signal, ratios.shape)
        axes.plot(line, ratios, color="white", linewidth=1.2, linestyle="--")
        axes.set_title(f"{name} weights, SNR {model.snr:.0f}")
        axes.set_xlabel(r"signal norm $\|\mu\|$")
        axes.set_xlim(0, 2)
    panels[0].set_ylabel(r"vocabulary ratio $d/V$")
    figure.colorbar(image, ax=panels, label="squared overlap with the signal")
