"""One observation from the leading eigenpairs of the sample, its bulk and the population."""

from collections.abc import Mapping

import numpy as np

from attnlaw._checks import Floats
from attnlaw.models import PooledSequences
from attnlaw.results import Spike, exceeds_edge
from attnlaw.simulation._matrix_free.secular import Eigenpairs

__all__ = [
    "assign_spikes",
    "isotropic_population",
    "most_aligned",
    "observed_spike",
    "sweep_norms",
]


def sweep_norms(model: PooledSequences) -> Floats:
    """Return the model's signal norms in one row, and a 0 for the edge of the bulk."""
    return np.append(np.ravel(model.signal_norm), 0.0)


def observed_spike(
    model: PooledSequences,
    dimension: int,
    pairs: Mapping[str, Eigenpairs],
    spikes: Floats | None = None,
) -> Spike:
    """Return what was found, fields as in `attnlaw.simulate`.

    Parameters
    ----------
    model : PooledSequences
        What was drawn.
    dimension : int
        d.
    pairs : mapping
        Leading eigenpairs at `sweep_norms` of the "sample", the "population" and, where the
        sample without signal still has spikes (real tokens), of the "bulk".
    spikes : array of shape (2, n) or None
        Class difference m and mean z̄ of the table's noise, where both give a spike.
    """
    sample, population = pairs["sample"], pairs["population"]
    edge = pairs.get("bulk", sample).values[0, -1]
    if spikes is not None:
        sample = assign_spikes(sample, spikes, sweep_norms(model))
        population = assign_spikes(population, spikes, sweep_norms(model))
    v, c = sample.vectors[0], population.vectors[0]
    shared = min(v.shape[1], c.shape[1])  # a missing coordinate is zero
    top, edges = sample.values[0], np.full(sample.values[0].shape, edge)
    fields = {
        "top_eigenvalue": top,
        "squared_overlap": v[:, 0] ** 2,
        "bulk_edge": edges,
        "population_eigenvalue": population.values[0],
        "population_overlap": c[:, 0] ** 2,
        "sample_overlap": np.einsum("ni,ni->n", v[:, :shared], c[:, :shared]) ** 2,
        "mean_eigenvalue": edges if spikes is None else sample.values[1],
        "is_detectable": exceeds_edge(top, edge, dimension),
    }
    shape = np.shape(model.signal_norm)
    return Spike(**{name: field[:-1].reshape(shape) for name, field in fields.items()})


def assign_spikes(pairs: Eigenpairs, spikes: Floats, norms: Floats) -> Eigenpairs:
    """Put two leading eigenpairs in order: first the signal's μ + m, then the mean's z̄.

    Of the two orders the one with the larger sum of squared overlaps is taken.
    """
    values, vectors = pairs
    directions = np.repeat(spikes[:, None], len(norms), axis=1)
    directions[0, :, 0] += norms
    directions /= np.linalg.norm(directions, axis=-1, keepdims=True)
    dots = (
        np.einsum(
            "pni,sni->psn", vectors[..., : spikes.shape[1]], directions[..., : vectors.shape[-1]]
        )
        ** 2
    )
    swap = dots[0, 1] + dots[1, 0] > dots[0, 0] + dots[1, 1]
    return Eigenpairs(
        np.where(swap, values[::-1], values), np.where(swap[:, None], vectors[::-1], vectors)
    )


def most_aligned(pairs: Eigenpairs) -> Eigenpairs:
    """Put first, for every norm, the eigenpair that overlaps most with the signal."""
    values, vectors = pairs
    best = np.argmax(vectors[..., 0] ** 2, axis=0)
    norms = np.arange(values.shape[1])
    return Eigenpairs(values[best, norms][None], vectors[best, norms][None])


def isotropic_population(model: PooledSequences, norms: Floats, other: Floats) -> Eigenpairs:
    """Return the leading eigenpair of C = κ I + α μμᵀ, the population of infinitely many tokens.

    Without signal every direction is one; then it is `other`, a unit vector orthogonal to u.
    """
    values = model.noise_gain + model.signal_gain * norms**2
    vectors = np.where((norms > 0)[:, None], np.eye(1, len(other)), other)
    return Eigenpairs(values[None], vectors[None])
