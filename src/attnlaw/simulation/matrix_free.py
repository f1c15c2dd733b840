"""Observations of a draw whose table and covariance are never formed (theory.md §9)."""

import numpy as np
from numpy.typing import DTypeLike, NDArray

from attnlaw.models import PooledSequences
from attnlaw.results import Spike
from attnlaw.simulation.krylov import find_spikes
from attnlaw.simulation.noise import FreshNoise, TokenNoise, draw_noise
from attnlaw.simulation.revealed import RevealedMatrix, fitted
from attnlaw.simulation.spikes import isotropic_population, observed_spike, sweep_norms

__all__ = ["matrix_free_trial"]

Floats = NDArray[np.float64]
Vectors = NDArray[np.floating]

TOLERANCE = 1e-7


def matrix_free_trial(
    model: PooledSequences,
    dimension: int,
    rng: np.random.Generator,
    *,
    dtype: DTypeLike = np.float32,
    tolerance: float = TOLERANCE,
) -> Spike:
    """Measure one draw of the model; see `attnlaw.observe` for the fields.

    Parameters
    ----------
    model, dimension, rng
        What is drawn, at which size, from which randomness.
    dtype : float32 or float64
        Precision of vectors as long as the vocabulary. Single precision leaves errors of about
        1e-6, far below the differences between trials.
    tolerance : float
        See `find_spikes`: eigenvalues and overlaps with the signal err by less than this,
        `sample_overlap` by less than about its root.

    Notes
    -----
    The tokens are drawn, the table is not: `RevealedMatrix` draws its products with the vectors
    that block Lanczos comes to, for the covariances of the sample, of its bulk and of the
    population together, from one and the same table. The joint law of all fields is that of
    the reference; only the random numbers differ.
    """
    norms = sweep_norms(model)
    noise = draw_noise(model, dimension, rng, dtype)
    table = RevealedMatrix(noise.rows, dimension, rng)  # its first direction is the signal's
    spikes, extra = None, np.empty((0, table.n_known))
    if isinstance(noise, TokenNoise) and not model.centred:
        spikes = extra = table.transpose_multiply(noise.directions / noise.rows.size).T  # m, z̄

    names = list(noise.signals)
    g = table.multiply(np.eye(1))
    starts = noise.multiply(dict.fromkeys(names, g))
    columns = _ask(table, [_beside(starts[n], noise.signals[n].coupling) for n in names])
    columns = np.stack([_beside(block, extra.T) for block in columns])

    def products(vectors: Floats, which: list[int]) -> Floats:
        chosen = [names[i] for i in which]
        images = table.multiply(np.concatenate(list(vectors), axis=1))
        blocks = np.split(images, len(vectors), axis=1)
        answers = noise.multiply(dict(zip(chosen, blocks, strict=True)))
        return _ask(table, [answers[name] for name in chosen])

    found = find_spikes(
        columns,
        np.array([noise.signals[name].gain for name in names]),
        norms,
        products,
        tolerance=tolerance,
        n_pairs=1 + len(extra) // 2,
    )
    pairs = dict(zip(names, found, strict=True))
    if isinstance(noise, FreshNoise):
        other = _random_direction(table.n_known, dimension, rng)
        pairs["population"] = isotropic_population(model, norms, other)
    return observed_spike(model, dimension, pairs, spikes)


def _ask(table: RevealedMatrix, blocks: list[Vectors]) -> Floats:
    """Return the coordinates of Zᵀ times the columns of every block, all drawn at once."""
    rows = table.transpose_multiply(_beside(*blocks))
    return np.stack(np.split(rows, len(blocks), axis=1))


def _beside(*blocks: Vectors) -> Vectors:
    """Return all columns in one array, with zeros below the shorter ones."""
    size = max(map(len, blocks))
    return np.concatenate([fitted(block, size) for block in blocks], axis=1)


def _random_direction(n_known: int, dimension: int, rng: np.random.Generator) -> Floats:
    """Draw a unit vector orthogonal to the signal: its coordinates along what is known."""
    other = np.zeros(n_known)
    other[1:] = rng.standard_normal(n_known - 1)
    unknown = rng.chisquare(dimension - n_known) if dimension > n_known else 0.0
    return other / np.sqrt(other @ other + unknown)
