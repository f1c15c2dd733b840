"""One trial without covariances: what the engine measures in one draw of a model.

rank_two_trial       the draws of the direct simulation, all signal norms from one Krylov space
matrix_free_trial    the same measurements of a draw whose table is never formed either
alignment_trial      top eigenvalue and overlap only, for several pooling weights of one draw

Derived in docs/theory/simulation.md, "One draw for all signal norms" and "A table that is never
drawn".
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Floats, invalid_argument
from attnlaw.models import PooledSequences, Vocabulary
from attnlaw.models.vocabulary import tokens_alike
from attnlaw.results import Spike, exceeds_edge
from attnlaw.simulation._matrix_free import plan
from attnlaw.simulation._matrix_free.krylov import KrylovRun, ProductRun, find_spikes
from attnlaw.simulation._matrix_free.lazy_gaussian import LazyGaussian, StreamedGaussian, fitted
from attnlaw.simulation._matrix_free.noise import (
    SAMPLE,
    FreshNoise,
    GaussianNoise,
    Noise,
    TokenMatrix,
    TokenNoise,
    VocabularyNoise,
    sample_and_population,
)
from attnlaw.simulation._matrix_free.secular import Eigenpairs
from attnlaw.simulation.pooled import (
    bulk_noise,
    class_means,
    n_candidates,
    sample_pooled,
    split_classes,
)

__all__ = ["alignment_trial", "begin_run", "matrix_free_trial", "product_run", "rank_two_trial"]

Vectors = NDArray[np.floating]

RANK_TWO_TOLERANCE = 1e-22


def rank_two_trial(model: PooledSequences, dimension: int, rng: np.random.Generator) -> Spike:
    """Measure one draw of the model; see `attnlaw.simulate` for the fields.

    Notes
    -----
    The draw is that of the direct simulation, number by number. The covariances of the sample and
    of the population are both (F + ‖μ‖ τ uᵀ)ᵀ (F + ‖μ‖ τ uᵀ), so that

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
    found = find_spikes(run, norms, tolerance=RANK_TWO_TOLERANCE, n_pairs=1 + len(extra) // 2)
    pairs = dict(zip(names, found, strict=True))
    if not len(sample.table):
        pairs["population"] = isotropic_population(model, norms, np.eye(dimension)[-1])
    return measured_spike(model, dimension, pairs, spikes)


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


def matrix_free_trial(
    model: PooledSequences,
    dimension: int,
    rng: np.random.Generator,
    *,
    tolerance: float | None = None,
    compiled: bool | None = None,
) -> Spike:
    """Measure one draw of the model; see `attnlaw.simulate` for the fields.

    Parameters
    ----------
    model, dimension, rng
        What is drawn, at which size, from which randomness.
    tolerance : float or None
        See `find_spikes`: eigenvalues and overlaps with the signal err by about this,
        `sample_overlap` by about its root. None stands for 0.0025/d: the root is then a
        twentieth of d^(−1/2), by which trials differ.
    compiled : bool or None
        Use compiled loops for real tokens; None: if numba is installed.

    Notes
    -----
    The tokens are drawn, the table is not: `LazyGaussian` draws its products with the vectors
    that block Lanczos needs, for the covariances of the sample, of its bulk and of the
    population together, from one and the same table. The joint law of all fields is that of
    the direct simulation; it uses different random draws. Vectors as long as the vocabulary are
    in single precision: errors of about 1e-6 are far below the differences between trials.

    Where tokens differ, the most aligned with the signal of the `n_candidates` leading eigenpairs
    is taken. Where some stand out these crowd at the edge of the bulk, and Lanczos takes more
    steps.
    """
    norms, V = sweep_norms(model), model.sizes(dimension).n_vocab
    weights, words = model.weights[None], _differing_tokens(model)
    noise: Noise
    if words is not None:
        noise = VocabularyNoise(model, words, dimension, rng)
        names = ["sample", "population", "bulk"]
    elif V == 0:
        noise, names = FreshNoise(model, dimension, rng, weights), ["sample"]
    elif model.sampling == "gaussian":
        noise = GaussianNoise(model, dimension, rng, weights, with_population=True)
        names = ["sample", "population"]
    else:
        matrices = sample_and_population(model, V)
        noise = TokenNoise(model, dimension, rng, weights, matrices, compiled=compiled)
        names = ["sample", "population", "bulk"]
    has_two_spikes = isinstance(noise, TokenNoise) and not model.centred

    run, spikes = begin_run(noise, dimension, rng, with_spikes=has_two_spikes)
    tolerance = 0.0025 / dimension if tolerance is None else tolerance
    n_pairs = 1 + has_two_spikes if words is None else n_candidates(words, dimension)
    found = find_spikes(run, norms, tolerance=tolerance, n_pairs=n_pairs)
    pairs = dict(zip(names, found, strict=True))
    if words is not None:
        pairs |= {name: most_aligned(pairs[name]) for name in ("sample", "population")}
    if V == 0:
        other = _random_direction(pairs["sample"].vectors.shape[-1], dimension, rng)
        pairs["population"] = isotropic_population(model, norms, other)
    return measured_spike(model, dimension, pairs, spikes)


def alignment_trial(
    model: PooledSequences,
    dimension: int,
    weights: Floats,
    tolerance: float | None,
    rng: np.random.Generator,
    *,
    compiled: bool | None = None,
) -> tuple[Floats, Floats]:
    """Return top eigenvalue and squared overlap in one draw: (n_weights, … as the norms)."""
    norms = np.ravel(model.signal_norm).astype(np.float64)
    run, spikes = _begin_alignment(model, dimension, weights, rng, compiled)
    tolerance = 0.01 / np.sqrt(dimension) if tolerance is None else tolerance
    n_pairs = 1 if spikes is None else 2
    if (words := _differing_tokens(model)) is not None:
        n_pairs = n_candidates(words, dimension)
    found = find_spikes(run, norms, tolerance=tolerance, n_pairs=n_pairs)
    if spikes is not None:
        found = [assign_spikes(pairs, spikes, norms) for pairs in found]
    elif n_pairs > 1:
        found = [most_aligned(pairs) for pairs in found]
    shape = (len(weights), *np.shape(model.signal_norm))
    values = np.stack([pairs.values[0] for pairs in found])
    overlaps = np.stack([pairs.vectors[0, :, 0] ** 2 for pairs in found])
    return values.reshape(shape), overlaps.reshape(shape)


def _begin_alignment(
    model: PooledSequences,
    dimension: int,
    weights: Floats,
    rng: np.random.Generator,
    compiled: bool | None,
) -> tuple[KrylovRun, Floats | None]:
    """Begin the Krylov spaces of all weights; also the table's spikes, where there are two."""
    if model.sizes(dimension).n_vocab == 0:
        return begin_run(FreshNoise(model, dimension, rng, weights), dimension, rng)
    if (words := _differing_tokens(model)) is not None:
        kinds = [SAMPLE] * len(weights)
        drawn = VocabularyNoise(model, words, dimension, rng, kinds=kinds, weights=weights)
        return begin_run(drawn, dimension, rng)
    if model.sampling == "token":
        matrices = [TokenMatrix(weights=i) for i in range(len(weights))]
        noise = TokenNoise(model, dimension, rng, weights, matrices, compiled=compiled)
        return begin_run(noise, dimension, rng, with_spikes=not model.centred)
    if (plan.has_numba() if compiled is None else compiled) and plan.is_stored(dimension):
        from attnlaw.simulation._matrix_free.compiled_runs import GaussianRun

        return GaussianRun(model, dimension, rng, weights), None
    return begin_run(GaussianNoise(model, dimension, rng, weights), dimension, rng)


def begin_run(
    noise: Noise, dimension: int, rng: np.random.Generator, *, with_spikes: bool = False
) -> tuple[KrylovRun, Floats | None]:
    """Begin the Krylov spaces of all covariances of a draw; the table is drawn as they grow.

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
        Compiled where the products with the tokens are.
    spikes : array of shape (2, n) or None
        Coordinates of m and z̄, if they were wanted.
    """
    spikes = None
    if not isinstance(noise, TokenNoise):
        return product_run(noise, LazyGaussian(noise.rows, dimension, rng), spikes), spikes
    n_matrices, block = len(noise.matrices), 4 if with_spikes else 2
    if noise.is_compiled and n_matrices * block <= plan.MOST_COLUMNS:
        from attnlaw.simulation._matrix_free.compiled_runs import TokenRun

        compiled = TokenRun(noise, dimension, rng, with_spikes=with_spikes)
        return compiled, compiled.spikes
    is_chain = n_matrices == 1 and not with_spikes
    table = StreamedGaussian(noise.rows, dimension, rng, chained=is_chain)
    if with_spikes:
        spikes = table.transpose_multiply(noise.directions / noise.rows.size).T
    return product_run(noise, table, spikes), spikes


def product_run(noise: Noise, table: LazyGaussian, spikes: Floats | None) -> ProductRun:
    """Begin Krylov spaces in which every product queries the table."""
    n = len(noise.gains)

    def query(vectors: Vectors, n: int) -> Floats:
        return np.stack(np.split(table.transpose_multiply(vectors), n, axis=1))

    def products(vectors: Floats, which: list[int]) -> Floats:
        images = table.multiply(np.concatenate(list(vectors), axis=1))
        columns = np.repeat(which, vectors.shape[2]).tolist()
        return query(noise.multiply(images, columns), len(which))

    image = table.multiply(np.eye(1))  # g, of the signal's direction
    first = noise.multiply(np.repeat(image, n, axis=1), range(n))
    both = np.stack([first, fitted(noise.couplings, len(first))], axis=2)  # Kg and k
    columns = query(both.reshape(len(first), 2 * n), n)
    if spikes is not None:
        further = np.zeros((*columns.shape[:2], len(spikes)))
        further[:, : spikes.shape[1]] = spikes.T
        columns = np.concatenate([columns, further], axis=2)
    return ProductRun(columns, noise.gains, products)


def _differing_tokens(model: PooledSequences) -> Vocabulary | None:
    """Return the vocabulary of tokens that differ, of a model for which the engine can draw it."""
    if not model.tokens_differ:
        return None
    if model.sampling != "token" or not model.centred:
        given = f"sampling={model.sampling!r}, centred={model.centred}"
        condition = "of centred tokens to be drawn without a table (method='reference' draws any)"
        raise invalid_argument("model", condition, given)
    return model.vocabulary


def sweep_norms(model: PooledSequences) -> Floats:
    """Return the model's signal norms in one row, and a 0 for the edge of the bulk."""
    return np.append(np.ravel(model.signal_norm), 0.0)


def measured_spike(
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


def _random_direction(n_known: int, dimension: int, rng: np.random.Generator) -> Floats:
    """Draw a unit vector orthogonal to the signal: its coordinates along what is known."""
    other = np.zeros(n_known)
    other[1:] = rng.standard_normal(n_known - 1)
    unknown = rng.chisquare(dimension - n_known) if dimension > n_known else 0.0
    return np.asarray(other / np.sqrt(other @ other + unknown))
