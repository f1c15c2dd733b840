"""
For practitioners: which pooling, and how much data
===================================================

You pool frozen token embeddings into one vector for each text and train something small on top.
In ten minutes: learn weights without labels and find out whether they are worth it, keep the
components that are real, weigh frequent words down by a formula, and plan the size of a sample.

The data here are drawn, so that we know the answer; everything takes your own arrays in the
same way (``attnlaw pool sequences.npy`` from a shell).
"""

# %%
# Sequences with something hidden in them
# ---------------------------------------
# 1,500 texts of 20 tokens, from a table of 600 tokens in 100 dimensions. Half of the tokens lean
# to one side of a hidden direction, half to the other; the first five tokens of a text agree.

import matplotlib.pyplot as plt
import numpy as np

import attnlaw as al
from attnlaw.simulation import sample_signs, sample_table, sample_tokens

rng = np.random.default_rng(0)
table = sample_table(600, 100, rng)
table[:300, 0] += 1
table[300:, 0] -= 1
signs = sample_signs(al.prefix_correlation(length=20, prefix=5), 1500, rng)
sequences = table[sample_tokens(signs, 600, rng)]
print(sequences.shape)

# %%
# Learn the weights, without labels
# ---------------------------------
# Positions that move together carry signal. What is gained over the mean is measured on
# sequences that the weights have not seen, with an interval: believe it only when that lies
# above zero.

learned = al.learn_pooling_weights(sequences, rng=0)
low, high = learned.snr_gain_interval
print(f"SNR {learned.snr:.2f} in place of {learned.mean_snr:.2f}; gain {low:.2f} to {high:.2f}")
print(
    "worth it" if learned.gain_is_supported else "no better than the mean, as far as one can see"
)

al.plotting.plot_weights({"mean": al.mean_weights(20), "learned": learned.weights})

# %%
# Which components are real?
# --------------------------
# Pool, and ask which principal components noise cannot explain. Pooled tokens are not white
# noise, so that the usual edge finds signals where there are none; this one knows about the
# table.

pooled = al.pool_sequences(sequences, learned.weights)
found = al.signal_components(pooled, n_tokens=600)
print(found.test)
overlap = float((found.components[0] @ np.eye(100)[0]) ** 2)
predicted = found.test.squared_overlaps[0]
print(f"{found.test.n_signals} real; predicted to hold {predicted:.2f} of its direction")
print(f"with the hidden direction itself: {overlap:.2f}")

# %%
# Frequent words
# --------------
# Words follow Zipf's law, and the mean of a text is ruled by a few of them. Smooth inverse
# frequency, :math:`1/(p+a)`, is the cure that practice found; theory gives the :math:`a`.

model = al.PooledSequences(
    vocab_ratio=0.015,
    sample_ratio=0.1,
    signal_norm=3.0,
    correlation=al.prefix_correlation(length=20, prefix=5),
    weights="mean",
    vocabulary=al.Vocabulary.zipf(20_000),
)
best = al.optimal_importance(model)
print(f"overlap {best.squared_overlap:.3f} with a = {best.smoothing:.1e}", end=", ")
print(f"{best.uniform_overlap:.3f} when all words count alike")

# %%
# How much data?
# --------------
# With the signal-to-noise ratio that was found, a plan says how many texts a wanted quality takes,
# and what no number of texts can reach.

study = al.PooledSequences(
    vocab_ratio=100 / 600,
    sample_ratio=100 / 1500,
    signal_norm=1.0,
    correlation=learned.correlation,
    weights=learned.weights,
)
for wanted in (0.8, 0.85):
    needs = al.plan(study, squared_overlap=wanted)
    texts = needs.n_samples(dimension=100)
    print(wanted, f"{texts:.0f} texts" if np.isfinite(texts) else needs.obstacles[0])

counts = np.geomspace(200, 20_000, 60)
curve = al.PooledSequences(**study.to_dict() | {"sample_ratio": 100 / counts})
figure, ax = plt.subplots()
ax.semilogx(counts, al.predict(curve).squared_overlap)
ax.axhline(float(al.plan(study, squared_overlap=0.8).ceiling), ls="--", color="0.4")
ax.set_xlabel("number of texts")
ax.set_ylabel("squared overlap with the signal")
plt.show()

# %%
# Next: :doc:`/how-to/choose-pooling-weights`, :doc:`/how-to/is-this-outlier-real`, and, with
# labels, ``attnlaw pool sequences.npy --labels labels.txt``, which ranks poolings by accuracy on
# texts held out.
