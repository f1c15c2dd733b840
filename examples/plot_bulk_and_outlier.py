"""
A signal leaves the bulk
========================

Eigenvalues of the covariance of pooled sequences, for three strengths of the signal. The bulk
is the same each time, and its law is known; the signal's eigenvalue leaves it, where theory
says it does.
"""

import matplotlib.pyplot as plt
import numpy as np

import attnlaw as al
from attnlaw.plotting import style

model = al.PooledSequences(
    vocab_ratio=0.5,
    sample_ratio=0.4,
    signal_norm=np.array([0.3, 1.0, 2.0]),
    correlation=al.prefix_correlation(length=20, prefix=5),
    weights=al.mean_weights(20),
)
print("critical signal norm", al.thresholds(model).sample_signal)

# %%
# Five draws of 500 eigenvalues for each norm; the norms share their noise.

spectra = np.moveaxis(
    al.simulation.simulate_spectrum(model, dimension=500, n_trials=5, rng=0), 0, 1
)
spike, law = al.predict(model), al.law(model)
x = np.linspace(*law.edges, 600)

with style.sheet():
    figure, panels = plt.subplots(3, 1, figsize=(6.8, 5.4), sharex=True)
    for axes, norm, values, place in zip(
        panels, model.signal_norm, spectra, spike.top_eigenvalue, strict=True
    ):
        axes.hist(
            values.ravel(), bins=np.linspace(0, 0.75, 110), density=True, color=style.OBSERVED
        )
        axes.plot(x, law.density(x), color=style.PREDICTED)
        tops = values.max(axis=1)
        axes.plot(
            tops,
            np.full(5, 0.7),
            "v",
            color=style.OUTLIER,
            markersize=6,
            label="largest, five draws",
        )
        axes.axvline(place, color=style.EDGE, linestyle="--", linewidth=1, label="predicted")
        axes.set_ylim(0, 16)
        axes.set_title(rf"$\|\mu\|$ = {norm}")
    panels[0].legend(loc="upper right")
    panels[1].set_ylabel("density")
    panels[2].set_xlabel("eigenvalue")
