"""A whole sweep over signal norms from one draw: the reference's numbers, much sooner."""

from typing import NamedTuple

import numpy as np

from attnlaw._checks import Floats
from attnlaw.models import PooledSequences
from attnlaw.models.vocabulary import tokens_alike
from attnlaw.results import Spike
from attnlaw.simulation._matrix_free.krylov import ProductRun, find_spikes
from attnlaw.simulation.pooled import class_means, sample_pooled, split_classes
from attnlaw.simulation.spectrum import bulk_noise
from attnlaw.simulation.spikes import isotropic_population, observed_spike, sweep_norms

__all__ = ["rank_two_trial"]

TOLERANCE = 1e-22


def rank_two_trial(model: PooledSequences, dimension: int, rng: np.random.Generator) -> Spike:
    """Measure one draw of the model; see `attnlaw.simulate` for the fields.

    Notes
    -----
    The draw is that of the reference, number by number. The covariances of the sample and of the
    population are both (F + ‖μ‖ τ uᵀ)ᵀ (F + ‖μ‖ τ uᵀ), so that

        S(μ) = S₀ + ‖μ‖ (u bᵀ + b uᵀ) + ‖μ‖² a u uᵀ ,   S₀ = FᵀF , b = Fᵀτ , a = τᵀτ

    (docs/theory/simulation.md, "One draw for all signal norms"). None is formed: block Lanczos
    multiplies by F, and the secular equation gives all norms from one Krylov space.
    """
    tokens_alike(model, "a rank-two trial")
    sample = sample_pooled(model, dimension, rng)
    norms = sweep_norms(model)
    spikes, extra = None, np.empty((0, dimension))
    factors = {"sample": _sample_factor(model, sample.noise, sample.gains)}
    if len(sample.table):
        factors["population"] = _population_factor(model, sample.table)
    if sample.tokens.size:
        factors["bulk"] = _sample_factor(model, bulk_noise(model, sample), 0 * sample.gains)
        if not model.centred:
            spikes = extra = np.stack(class_means(sample.table)[::-1])

    names = list(factors)
    columns = [np.stack([F.T @ F[:, 0], F.T @ tau, *extra], -1) for F, tau in factors.values()]
    gains = np.array([tau @ tau for _, tau in factors.values()])

    def products(vectors: Floats, which: list[int]) -> Floats:
        chosen = [factors[names[i]].F for i in which]
        return np.stack([F.T @ (F @ Y) for F, Y in zip(chosen, vectors, strict=True)])

    run = ProductRun(np.stack(columns), gains, products)
    found = find_spikes(run, norms, tolerance=TOLERANCE, n_pairs=1 + len(extra) // 2)
    pairs = dict(zip(names, found, strict=True))
    if not len(sample.table):
        pairs["population"] = isotropic_population(model, norms, np.eye(dimension)[-1])
    return observed_spike(model, dimension, pairs, spikes)


class _Factor(NamedTuple):
    """A covariance (F + ‖μ‖ τ uᵀ)ᵀ (F + ‖μ‖ τ uᵀ), the signal u along the first coordinate."""

    F: Floats  # (n, d)
    tau: Floats  # τ (n,)


def _sample_factor(model: PooledSequences, noise: Floats, gains: Floats) -> _Factor:
    if model.centred:
        noise, gains = noise - noise.mean(axis=0), gains - gains.mean()
    return _Factor(noise / np.sqrt(len(noise)), gains / np.sqrt(len(noise)))


def _population_factor(model: PooledSequences, table: Floats) -> _Factor:
    """Return the population's covariance as in `spectrum.population_covariance`."""
    V, d = table.shape
    alpha, kappa = model.signal_gain, model.noise_gain
    if model.sampling == "gaussian":
        noise, spikes = table, [np.zeros(d)]
    else:
        noise, mean, difference = split_classes(table)
        spikes = [np.sqrt(alpha) * difference]
        spikes += [] if model.centred else [model.weights.sum() * mean]
    F = np.vstack([*spikes, np.sqrt(kappa / V) * noise])
    return _Factor(F, np.sqrt(alpha) * np.eye(1, len(F))[0])
