"""
For theorists: a phase transition, derived, seen and taken apart
================================================================

You know spiked random matrices and want to see what pooling does to them. In ten minutes: the law
of the bulk as an object, the BBP transition of pooled sequences, a ceiling that the idealised
model does not have, and a check of every number by simulation.
"""

# %%
# The bulk is a free multiplicative convolution
# ---------------------------------------------
# Tokens have embeddings :math:`e_v=\pm\mu+z_v`, and :math:`N` sequences are pooled with weights
# :math:`w`. Noise is sampled twice, once when the table is made (:math:`\delta=d/V`) and once
# when sequences are drawn (:math:`\gamma=d/N`), so that its spectrum is
# :math:`\kappa\,(\mathrm{MP}_\delta\boxtimes\mathrm{MP}_\gamma)` with :math:`\kappa=w^\top w`.
# Laws are objects, and ``@`` is that convolution.

import matplotlib.pyplot as plt
import numpy as np

import attnlaw as al

by_hand = 0.05 * (al.MarchenkoPastur(0.5) @ al.MarchenkoPastur(0.4))

model = al.PooledSequences(
    vocab_ratio=0.5,
    sample_ratio=0.4,
    signal_norm=1.2,
    correlation=al.prefix_correlation(length=20, prefix=5),
    weights="mean",
)
law = al.law(model)
print(law)
assert np.allclose(law.edges, by_hand.edges)

# %%
# The outlier and its eigenvector have closed forms. ``predict`` returns them; ``thresholds``
# says from which signal on they exist, in the population and in the sample.

print(al.predict(model))
print(al.thresholds(model))

# %%
# A sample of the same size lies on the law, and its outlier where it should.

spectrum = al.simulation.simulate_spectrum(model, dimension=600, n_trials=1, rng=0)
ax = al.plotting.plot_spectrum(spectrum, law)
al.plotting.plot_outlier(al.predict(model), ax)
ax.set_title("Pooled sequences at d = 600, and their law")

# %%
# Theory and simulation never share a formula here, so that their agreement means something.
# ``compare`` puts them side by side, with standard errors and z-scores. (The edge is approached
# from below at the rate :math:`d^{-2/3}`, which is the one large z-score.)

print(al.compare(model, dimension=200, n_trials=20, rng=1))

# %%
# The transition
# --------------
# Weights enter by one number, their signal-to-noise ratio :math:`w^\top Rw/w^\top w`; its maximum
# over all weights is :math:`\lambda_{\max}(R)`. A better ratio moves the transition to weaker
# signals.

norms = np.linspace(0, 2, 120)
models = {
    name: al.PooledSequences(**model.to_dict() | {"signal_norm": norms, "weights": name})
    for name in ("mean", "causal", "optimal")
}
for name, one in models.items():
    print(f"{name:8} SNR {one.snr:.2f}")
al.plotting.plot_alignment(models).set_title("Overlap with the signal, by pooling weights")

# %%
# A ceiling
# ---------
# In the idealised model more samples find the signal in the end. Tokens from a finite table
# carry more: the sampled class means differ by noise of squared norm :math:`\delta`, which turns
# the eigenvector away from :math:`\mu`, and no sample size lifts the overlap above
# :math:`\|\mu\|^2/(\|\mu\|^2+\delta)`.

best = al.PooledSequences(**model.to_dict() | {"weights": "optimal", "signal_norm": 1.0})
needs = al.plan(best, squared_overlap=0.7)
print(needs.obstacles[0])

figure, axes = plt.subplots(1, 2, figsize=(9.0, 3.4), layout="constrained", sharey=True)
for ax, sampling in zip(axes, ("token", "gaussian"), strict=True):
    one = al.PooledSequences(**best.to_dict() | {"sampling": sampling})
    al.plotting.plot_phase_diagram(one, y={"sample_ratio": np.linspace(0.01, 2, 150)}, ax=ax)
    ax.set_title("tokens of a table" if sampling == "token" else "idealised")

# %%
# Beyond two factors
# ------------------
# The algebra goes on: discrete spectra, sums, scalings, each with exact edges. Where a law of
# yours is a convolution of these, it is one line.

three = al.Discrete([1, 10]) @ al.MarchenkoPastur(0.05) + al.Semicircle(0.1)
print(three.support.round(3))
al.plotting.plot_law(three).set_title(repr(three))
plt.show()

# %%
# Next: the derivations under :doc:`/theory/index`, and ``attnlaw explore``, which has all of this
# under sliders.
