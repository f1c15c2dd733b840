"""Observations of a draw whose table and covariance are never formed.

Derived in docs/theory/simulation.md, "A table that is never drawn".
"""

import numpy as np
from numpy.typing import DTypeLike, NDArray

from attnlaw._checks import Floats
from attnlaw.models import PooledSequences
from attnlaw.results import Spike
from attnlaw.simulation._matrix_free.gram import compiled_kernels
from attnlaw.simulation._matrix_free.krylov import KrylovRun, ProductRun, find_spikes
from attnlaw.simulation._matrix_free.lazy_gaussian import RevealedMatrix, fitted
from attnlaw.simulation._matrix_free.noise import (
    FreshNoise,
    GaussianNoise,
    Noise,
    TokenNoise,
    sample_and_population,
)
from attnlaw.simulation.spikes import isotropic_population, observed_spike, sweep_norms

__all__ = ["begin_run", "matrix_free_trial"]

Vectors = NDArray[np.floating]


def matrix_free_trial(
    model: PooledSequences,
    dimension: int,
    rng: np.random.Generator,
    *,
    dtype: DTypeLike = np.float32,
    tolerance: float | None = None,
) -> Spike:
    """Measure one draw of the model; see `attnlaw.simulate` for the fields.

    Parameters
    ----------
    model, dimension, rng
        What is drawn, at which size, from which randomness.
    dtype : float32 or float64
        Precision of vectors as long as the vocabulary. Single precision leaves errors of about
        1e-6, far below the differences between trials.
    tolerance : float or None
        See `find_spikes`: eigenvalues and overlaps with the signal err by about this,
        `sample_overlap` by about its root. None stands for 0.0025/d: the root is then a
        twentieth of d^(−1/2), by which trials differ.

    Notes
    -----
    The tokens are drawn, the table is not: `RevealedMatrix` draws its products with the vectors
    that block Lanczos comes to, for the covariances of the sample, of its bulk and of the
    population together, from one and the same table. The joint law of all fields is that of
    the reference; only the random numbers differ.
    """
    if model.tokens_differ:
        from attnlaw.simulation._matrix_free.vocabulary_noise import vocabulary_matrix_free_trial

        return vocabulary_matrix_free_trial(
            model, dimension, rng, dtype=dtype, tolerance=tolerance
        )
    norms, V = sweep_norms(model), model.sizes(dimension).n_vocab
    weights = model.weights[None]
    noise: Noise
    if V == 0:
        noise, names = FreshNoise(model, dimension, rng, weights), ["sample"]
    elif model.sampling == "gaussian":
        noise = GaussianNoise(model, dimension, rng, weights, with_population=True)
        names = ["sample", "population"]
    else:
        matrices = sample_and_population(model, V)
        noise = TokenNoise(model, dimension, rng, weights, matrices, dtype)
        names = ["sample", "population", "bulk"]
    has_two_spikes = isinstance(noise, TokenNoise) and not model.centred

    run, spikes = begin_run(noise, dimension, rng, with_spikes=has_two_spikes)
    tolerance = 0.0025 / dimension if tolerance is None else tolerance
    found = find_spikes(run, norms, tolerance=tolerance, n_pairs=1 + has_two_spikes)
    pairs = dict(zip(names, found, strict=True))
    if V == 0:
        other = _random_direction(pairs["sample"].vectors.shape[-1], dimension, rng)
        pairs["population"] = isotropic_population(model, norms, other)
    return observed_spike(model, dimension, pairs, spikes)


def begin_run(
    noise: Noise, dimension: int, rng: np.random.Generator, *, with_spikes: bool = False
) -> tuple[KrylovRun, Floats | None]:
    """Begin the Krylov spaces of all covariances of a draw, the table revealed as they grow.

    Parameters
    ----------
    noise : Noise
        Everything but the table.
    dimension : int
        d.
    rng : Generator
        Source of randomness.
    with_spikes : bool
        Start also from the class difference m and the mean z̄ of a table of tokens.

    Returns
    -------
    run : KrylovRun
        Compiled for tables of tokens, where numba is installed.
    spikes : array of shape (2, n) or None
        Coordinates of m and z̄, if they were asked for.
    """
    if isinstance(noise, TokenNoise):
        n_columns = len(noise.matrices) * (4 if with_spikes else 2)
        if compiled_kernels() and n_columns <= 16:
            from attnlaw.simulation._matrix_free.token_run import TokenRun

            compiled = TokenRun(noise, dimension, rng, with_spikes=with_spikes)
            return compiled, compiled.spikes
    alone = isinstance(noise, TokenNoise) and len(noise.matrices) == 1 and not with_spikes
    table = RevealedMatrix(noise.rows, dimension, rng, chained=alone)
    spikes = None
    if with_spikes and isinstance(noise, TokenNoise):
        spikes = table.transpose_multiply(noise.directions / noise.rows.size).T
    return revealed_run(noise, table, spikes), spikes


def revealed_run(noise: Noise, table: RevealedMatrix, spikes: Floats | None) -> ProductRun:
    """Begin Krylov spaces in which every product asks the table what is not yet known of it."""
    n = len(noise.gains)

    def ask(vectors: Vectors, n: int) -> Floats:
        return np.stack(np.split(table.transpose_multiply(vectors), n, axis=1))

    def products(vectors: Floats, which: list[int]) -> Floats:
        images = table.multiply(np.concatenate(list(vectors), axis=1))
        columns = np.repeat(which, vectors.shape[2]).tolist()
        return ask(noise.multiply(images, columns), len(which))

    image = table.multiply(np.eye(1))  # g, of the signal's direction
    first = noise.multiply(np.repeat(image, n, axis=1), range(n))
    both = np.stack([first, fitted(noise.couplings, len(first))], axis=2)  # Kg and k
    columns = ask(both.reshape(len(first), 2 * n), n)
    if spikes is not None:
        further = np.zeros((*columns.shape[:2], len(spikes)))
        further[:, : spikes.shape[1]] = spikes.T
        columns = np.concatenate([columns, further], axis=2)
    return ProductRun(columns, noise.gains, products)


def _random_direction(n_known: int, dimension: int, rng: np.random.Generator) -> Floats:
    """Draw a unit vector orthogonal to the signal: its coordinates along what is known."""
    other = np.zeros(n_known)
    other[1:] = rng.standard_normal(n_known - 1)
    unknown = rng.chisquare(dimension - n_known) if dimension > n_known else 0.0
    return np.asarray(other / np.sqrt(other @ other + unknown))
