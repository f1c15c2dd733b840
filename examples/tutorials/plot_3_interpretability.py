"""
For interpretability: what a head does beyond chance
====================================================

You have attention maps and want to know which heads do something. In ten minutes: what a head
looks like before it has learned anything, causal or not, and which of your heads differ from
that, by how much and in which way.

The maps here are drawn, with two heads that we give something to do; yours come from
``read_attention("maps.npy")`` or, with the extra ``hf``, from a model on disk.
"""

# %%
# A head that has learned nothing
# -------------------------------
# Random queries and keys make attention that is not uniform, and its singular values have a law.
# It depends on the number of tokens, the width of the head and the temperature, and it is known
# in theory for masked heads, too.

import matplotlib.pyplot as plt
import numpy as np

import attnlaw as al
from attnlaw.diagnostics import inspect_heads, maps_from_queries

figure, axes = plt.subplots(1, 2, figsize=(9.0, 3.4), layout="constrained")
for ax, causal in zip(axes, (False, True), strict=True):
    head = al.SelfAttention(
        n_tokens=200, head_dimension=64, inverse_temperature=1.0, causal=causal
    )
    squared = al.simulation.simulate_spectrum(head, n_trials=2, rng=0)
    al.plotting.plot_spectrum(squared, al.law(head), ax=ax, logarithmic=True)
    ax.set_title("causal" if causal else "all tokens see each other")
    ax.set_xlabel("squared singular value")

# %%
# Norms and ranks follow without a simulation:

print(al.predict(al.SelfAttention(n_tokens=300, head_dimension=64, inverse_temperature=1.0)))

# %%
# Eight heads, two of which do something
# --------------------------------------
# In layer 0, head 1 looks at the token before; in layer 1, head 2 sends everybody to the first.

rng = np.random.default_rng(0)
queries, keys = rng.standard_normal((2, 2, 4, 64, 16))
keys[0, 1, :-1] += 1.5 * queries[0, 1, 1:]
keys[1, 2, 0] = queries[1, 2].mean(axis=0) * 100
report = inspect_heads(maps_from_queries(queries, keys))
print(report.verdict)
for finding in (report[0, 1], report[1, 2], report[0, 0]):
    print(f"{finding.name}: {finding.verdict}, p = {finding.p_value:.1g}")
    print(f"    {finding.sentence}")

# %%
# The map of all heads shows where to look, and one head beside its law shows why.

al.plotting.draw_heads(report)

# %%

al.plotting.plot_head(report[0, 1])

# %%
# Random heads stay random
# ------------------------
# Verdicts are tests: of heads that are random they call few anything else. Here are eight of them.

queries, keys = np.random.default_rng(1).standard_normal((2, 2, 4, 64, 16))
random_report = inspect_heads(maps_from_queries(queries, keys))
print([finding.verdict for finding in random_report.heads])
plt.show()

# %%
# Next: :doc:`/how-to/read-an-attention-head` for the heads of a real model, each beside untrained
# counterparts on the same text, how much it matters, and how far to trust all that; and
# :doc:`/theory/causal-heads` for the law of masked heads.
