"""
How large is large?
===================

Theory speaks of infinite dimension. A sweep over dimensions shows how fast finite ones get
there: the spread between trials shrinks like d to the power -1/2, and the bias much faster.
"""

import tempfile

import matplotlib.pyplot as plt

from attnlaw.plotting import style
from attnlaw.sweeps import Sweep, run_sweep

# %%
# A list makes an axis, a single value does not. The store would let the sweep go on after a kill;
# here it is thrown away, for the results are all we want.

sweep = Sweep(
    dimension=[25, 50, 100, 200],
    vocab_ratio=0.5,
    sample_ratio=0.4,
    signal_norm=1.5,
    weights=["mean", "causal", "optimal"],
    correlation={"kind": "prefix", "length": 20, "prefix": 5},
    n_trials=100,
)
with tempfile.TemporaryDirectory() as folder:
    data = run_sweep(sweep, folder + "/store")
print(data.observed_squared_overlap.sizes)

# %%
# Observations and predictions carry the same labels, so that they meet by name.

observed, predicted = data.observed_squared_overlap, data.predicted_squared_overlap
mean, spread = observed.mean("trial"), observed.std("trial", ddof=1)
d = data.dimension

with style.sheet():
    figure, (left, right) = plt.subplots(1, 2, figsize=(7.2, 3.2), layout="constrained")
    for name in data.weights.values:
        look = {"color": style.WEIGHTINGS[name], "marker": style.WEIGHTING_MARKERS[name]}
        error = 2 * spread.sel(weights=name) / data.sizes["trial"] ** 0.5
        left.axhline(float(predicted.sel(weights=name)), color=style.WEIGHTINGS[name])
        left.errorbar(d, mean.sel(weights=name), error, linestyle="none", label=name, **look)
        right.loglog(d, spread.sel(weights=name), linestyle="none", **look)
    level = float((spread.sel(weights="causal") * d**0.5).mean())
    right.loglog(
        d, level / d**0.5, color=style.EDGE, linestyle="--", linewidth=1, label=r"$d^{-1/2}$"
    )
    for axes in (left, right):
        axes.set_xscale("log")
        axes.set_xticks(d, [str(x) for x in d.values])
        axes.minorticks_off()
        axes.set_xlabel("dimension $d$")
    right.set_yticks([0.02, 0.03, 0.05, 0.08], ["0.02", "0.03", "0.05", "0.08"])
    left.set_ylabel("squared overlap: mean over trials")
    right.set_ylabel("squared overlap: spread between trials")
    left.legend(title="lines: theory")
    right.legend()
