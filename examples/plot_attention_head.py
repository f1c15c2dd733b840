"""
An attention head that has learned nothing
==========================================

The singular values of the softmax of random scores, at the width of real heads. The limit law
of infinitely wide heads misses them; the law that knows the width and the number of tokens does
not.
"""

import matplotlib.pyplot as plt
import numpy as np

import attnlaw as al
from attnlaw.plotting import style

head = al.SelfAttention(n_tokens=1000, head_dimension=64, inverse_temperature=1.0)
values = np.sqrt(al.simulation.simulate_spectrum(head, n_trials=2, rng=0).ravel())

# %%
# A law of squared singular values has the density 2 s ρ(s²) in s.

s = np.linspace(0.01, 3.4, 600)
with style.sheet():
    figure, axes = plt.subplots(figsize=(6.6, 3.4))
    bins = np.linspace(0, 3.4, 90)
    share = np.histogram(values, bins)[0] / len(values) / np.diff(bins)
    axes.stairs(share, bins, fill=True, color=style.OBSERVED, label="two heads, 1,000 tokens")
    for order, look, name in (
        ("first", {"color": style.EDGE, "linestyle": "--"}, "limit of wide heads"),
        ("tokens", {"color": style.PREDICTED}, "width 64, 1,000 tokens"),
    ):
        law = al.law(head, order)
        distance = al.ks_distance(values**2, law)
        axes.plot(s, 2 * s * law.density(s**2), label=f"{name}: off by {distance:.3f}", **look)
    axes.set_xlabel(r"singular value of $\sqrt{n}\,A_\perp$")
    axes.set_ylabel("density")
    axes.legend()
