"""
Laws with several intervals
===========================

A population with two variances, seen through ever fewer samples: the two intervals of the
spectrum widen until they merge. ``@`` is the free multiplicative convolution; edges are exact.
"""

import matplotlib.pyplot as plt
import numpy as np

import attnlaw as al
from attnlaw.plotting import style

with style.sheet():
    figure, panels = plt.subplots(3, 1, figsize=(6.4, 5.6), sharex=True)
    for axes, ratio in zip(panels, (0.05, 0.2, 0.6), strict=True):
        law = al.Discrete([1, 10]) @ al.MarchenkoPastur(ratio)
        x = np.linspace(0.01, 28, 1500)
        axes.plot(x, law.density(x), color=style.PREDICTED)
        for edge in law.edges:
            axes.axvline(edge, color=style.EDGE, linestyle=":", linewidth=1)
        axes.set_ylabel("density")
        axes.set_ylim(0, 1.1)
        intervals = "interval" if len(law.support) == 1 else "intervals"
        axes.set_title(f"d/N = {ratio}: {len(law.support)} {intervals}")
    panels[-1].set_xlabel("eigenvalue")
