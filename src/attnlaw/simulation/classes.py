"""Sequences from several classes: drawn token by token, and measured without closed forms."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnlaw._checks import Floats, Random, count, invalid_argument, random_generator, real_array
from attnlaw.correlations import check_correlation
from attnlaw.models import PooledClasses, Vocabulary
from attnlaw.results import ClassSpikes, exceeds_edge
from attnlaw.simulation.pooled import covariance, leading_eigenpairs, pool, squared_overlap
from attnlaw.simulation.verbs import repeats, simulate

__all__ = ["ClassSample", "sample_class_sequences", "sample_classes"]

ROUNDING = 1e-10


@dataclass(frozen=True, kw_only=True)
class ClassSample:
    """One draw of a model at a finite size."""

    pooled: Floats  # X (N, d), not centred
    bulk: Floats  # (N, d): the same without class means, signal or noise
    means: Floats  # M (K, d), placed among the noise's principal directions
    covariance: Floats  # C (d, d): of sequences from this table, centred


def sample_class_sequences(
    model: PooledClasses, dimension: int, rng: Random = None
) -> ClassSample:
    """Draw a table, sequences of classes, tokens for them, and pool.

    Notes
    -----
    Derived in docs/theory/classes.md, "The covariance, exactly".

    y_i are the class weights Σ_l w_l 1{class k at l}, T = diag(π) − ππᵀ:

        token       X = pooled e_v ,             C = κ Z_⊥ᵀZ_⊥/V + α (M+m)ᵀ T (M+m)
        gaussian    X = y M + √κ g Z/√V ,        C = κ ZᵀZ/V + α Mᵀ T M
        V = ∞       X = y M + √κ g Σ^(1/2) ,     C = κ Σ + α Mᵀ T M

    with m the means of the table's noise in each class and Z_⊥ what is left around them.
    """
    rng = random_generator(rng)
    if model.vocabulary is not None and model.tokens_differ:
        return _sample_vocabulary(model, model.vocabulary, dimension, rng)
    d, V, N = model.sizes(dimension)
    w, pi, kappa, K = model.weights, model.shares, model.noise_gain, model.n_classes
    spread, means = principal_directions(model, d)
    Z = rng.standard_normal((V, d)) * spread
    classes = sample_classes(model.correlation, pi, N, rng)
    gains = np.stack([(classes == k) @ w for k in range(K)], axis=1)  # y (N, K)
    between = np.diag(pi) - np.outer(pi, pi)
    if V == 0 or model.sampling == "gaussian":
        if V == 0:
            bulk = np.sqrt(kappa) * rng.standard_normal((N, d)) * spread
            C = kappa * np.diag(spread**2)
        else:
            bulk = np.sqrt(kappa / V) * (rng.standard_normal((N, V)) @ Z)
            C = kappa * Z.T @ Z / V
        seen_means = means
    else:
        sizes = model.class_sizes(V)
        first = np.cumsum(sizes) - sizes
        tokens = first[classes] + rng.integers(sizes[classes])
        within = Z.copy()
        noise_means = np.empty((K, d))
        for k in range(K):
            rows = slice(first[k], first[k] + sizes[k])
            noise_means[k] = Z[rows].mean(axis=0)
            within[rows] -= noise_means[k]
        bulk = pool(within, tokens.astype(np.int32), w)
        frequency = np.repeat(pi / sizes, sizes)  # of a token: 1/V where π V is whole
        C = kappa * (within.T * frequency) @ within
        seen_means = means + noise_means
    C += model.signal_gain * seen_means.T @ between @ seen_means
    return ClassSample(pooled=bulk + gains @ seen_means, bulk=bulk, means=means, covariance=C)


def _sample_vocabulary(
    model: PooledClasses, words: Vocabulary, dimension: int, rng: np.random.Generator
) -> ClassSample:
    """Draw classes of tokens that differ in frequency and importance.

    With rows E_v = g_v (M_k + z_v) and their means B_k in each class, B̄ in all,

        C = κ (Σ p E_vE_vᵀ − B̄B̄ᵀ) + (α − κ) Σ π_k (B_k − B̄)(B_k − B̄)ᵀ .
    """
    d, V, N = model.sizes(dimension)
    pi, K, kappa = model.shares, model.n_classes, model.noise_gain
    p, g, own = model.token_frequencies, words.weights, model.token_classes
    spread, means = principal_directions(model, d)
    Z = g[:, None] * rng.standard_normal((V, d)) * spread
    E = Z + g[:, None] * means[own]
    classes = sample_classes(model.correlation, pi, N, rng)
    tokens = np.empty(classes.shape, dtype=np.int32)
    within, B = Z.copy(), np.empty((K, d))
    for k in range(K):
        members, here = np.flatnonzero(own == k), classes == k
        upper = np.cumsum(p[members])
        drawn = np.searchsorted(upper, upper[-1] * rng.random(int(here.sum())), side="right")
        tokens[here] = members[drawn]
        share = p[members] / upper[-1]
        within[members] -= share @ Z[members]
        B[k] = share @ E[members]
    centred = B - pi @ B
    C = kappa * ((E.T * p) @ E - np.outer(pi @ B, pi @ B))
    C += (model.signal_gain - kappa) * (centred.T * pi) @ centred
    return ClassSample(
        pooled=pool(E, tokens, model.weights),
        bulk=pool(within, tokens, model.weights),
        means=means,
        covariance=C,
    )


def sample_classes(
    correlation: ArrayLike, class_shares: ArrayLike, n: int, rng: Random = None
) -> NDArray[np.intp]:
    """Draw sequences of classes in which positions copy each other.

    Parameters
    ----------
    correlation : array of shape (length, length)
        R, with entries from 0 to 1.
    class_shares : array of shape (n_classes,)
        π, summing to one: the probability of each class at every position.
    n : int
        Number of independent sequences.
    rng : Generator, int or None
        Source of randomness.

    Returns
    -------
    array of int, shape (n, length)
        With P(k at l, k' at l') = R_ll' π_k [k=k'] + (1 − R_ll') π_k π_k'.

    Raises
    ------
    ValueError
        When neither of the two ways below attains R.

    Notes
    -----
    Positions with R_ll' = 1 show one class. In each group of linked positions either R_ll' =
    f_l f_l', and every position copies a hidden class with probability f_l (`prefix_correlation`,
    `spiked_correlation` of one sign); or R_ll' is the product of R between the neighbours from l
    to l', and every position copies the one before (`autoregressive_correlation`).

    Examples
    --------
    >>> from attnlaw import prefix_correlation
    >>> classes = sample_classes(prefix_correlation(5, prefix=3), [0.2, 0.3, 0.5], 4, rng=0)
    >>> bool((classes[:, 0] == classes[:, 2]).all()), classes.shape
    (True, (4, 5))
    """
    R, rng = check_correlation(correlation), random_generator(rng)
    pi, n = real_array("class_shares", class_shares, ndim=1), count("n", n, at_least=0)
    classes = rng.choice(len(pi), size=(n, len(R)), p=pi)
    leaders = np.argmax(R > 1 - ROUNDING, axis=1)
    leaders = leaders[leaders]
    for group in _linked(R, np.unique(leaders)):
        here = R[np.ix_(group, group)]
        factor = _factor(here)
        if factor is not None:
            hidden = rng.choice(len(pi), size=(n, 1), p=pi)
            copies = rng.random((n, len(group))) < factor
            classes[:, group] = np.where(copies, hidden, classes[:, group])
        elif _is_chain(here):
            for before, after in pairwise(group):
                copies = rng.random(n) < R[before, after]
                classes[:, after] = np.where(copies, classes[:, before], classes[:, after])
        else:
            raise ValueError(
                "correlation must be one that copying can have, a product f_l f_l' or a product "
                "of neighbours in each group of linked positions, got a matrix that is neither."
            )
    return classes[:, leaders]


def _linked(R: Floats, positions: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    """Return groups of two or more positions that are linked by correlations."""
    from scipy.sparse.csgraph import connected_components

    n, label = connected_components(R[np.ix_(positions, positions)] > ROUNDING)
    groups = [positions[label == k] for k in range(n)]
    return [group for group in groups if len(group) > 1]


def _factor(R: Floats) -> Floats | None:
    """Return f with 0 ≤ f ≤ 1 and R = f fᵀ off the diagonal, or None when there is none."""
    if len(R) == 2:
        return np.full(2, np.sqrt(R[0, 1]))
    off = R - np.diag(np.diag(R))
    i, j = np.unravel_index(np.argmax(off), R.shape)
    k = int(np.argmax(off[i] * off[j]))
    if off[i, k] * off[j, k] == 0:
        return None
    own = float(np.sqrt(off[i, j] * off[i, k] / off[j, k]))
    f: Floats = off[i] / own
    f[i] = own
    product = np.outer(f, f)
    np.fill_diagonal(product, 0)
    fits = np.abs(product - off).max() < ROUNDING and f.max() <= 1 + ROUNDING
    return f if fits else None


def _is_chain(R: Floats) -> bool:
    """Return whether R_ll' is the product of R between neighbours, in the order of positions."""
    links = np.diag(R, 1)
    return all(
        np.abs(R[i, i + 1 :] - np.cumprod(links[i:])).max() < ROUNDING for i in range(len(links))
    )


def principal_directions(model: PooledClasses, dimension: int) -> tuple[Floats, Floats]:
    """Return the noise's standard deviations, and the class means, in d principal directions."""
    n = model.class_means.shape[1]
    where = np.arange(dimension) * n // dimension  # the coordinate each direction belongs to
    spectrum = np.ones(n) if model.noise_spectrum is None else model.noise_spectrum
    means = np.zeros((model.n_classes, dimension))
    means[:, np.searchsorted(where, np.arange(n))] = float(model.signal_scale) * model.class_means
    return np.sqrt(spectrum[where]), means


def _memory(model: PooledClasses, dimension: int) -> float:
    d, V, N = model.sizes(dimension)
    gaussians = N * V if model.sampling == "gaussian" else 0
    return 8 * (3 * V * d + 3 * N * d + 6 * d**2 + 3 * N * len(model.weights) + gaussians)


@repeats(simulate, _memory)
def classes_trial(model: PooledClasses, dimension: int, rng: np.random.Generator) -> ClassSpikes:
    """Draw sequences of several classes and measure their leading eigenpairs.

    Notes
    -----
    By forming every matrix. S is the sample covariance, C the covariance that sequences from
    this very table have; of both the K − 1 leading eigenpairs are taken, in falling order.

    - squared_overlaps, population_overlaps: squared length of the eigenvectors' projection on
      the span of M_k − M̄
    - class_overlaps: squared length of the projection of each (M_k − M̄)/‖M_k − M̄‖ on the span
      of S's leading eigenvectors
    - bulk_edge: largest eigenvalue of the same sample with every token class-centred, signal
      and noise
    - is_detectable: λ_j > (1 + d^(−2/3)) bulk_edge, as in `simulate`

    Examples
    --------
    >>> import attnlaw as al
    >>> model = al.PooledClasses(
    ...     vocab_ratio=0.5, sample_ratio=0.25, class_means=4 * np.eye(3),
    ...     correlation=al.prefix_correlation(4, 2), weights=al.mean_weights(4))
    >>> seen = al.simulate(model, dimension=50, n_trials=3, rng=0)
    >>> seen.top_eigenvalues.shape, seen.class_overlaps.shape
    ((3, 2), (3, 3))
    """
    if np.ndim(model.signal_scale):
        words = "a single number when classes are drawn"
        raise invalid_argument("signal_scale", words, np.asarray(model.signal_scale))
    sample = sample_class_sequences(model, dimension, rng)
    J = model.n_classes - 1
    edge = leading_eigenpairs(covariance(sample.bulk, centred=True))[0][0]
    values, v = leading_eigenpairs(covariance(sample.pooled, centred=True), J)
    population, c = leading_eigenpairs(sample.covariance, J)
    centred = sample.means - model.shares @ sample.means
    lengths = np.linalg.norm(centred, axis=1)
    units = centred / np.where(lengths > 0, lengths, 1.0)[:, None]
    _, sizes, basis = np.linalg.svd(centred, full_matrices=False)
    basis = basis[sizes > 1e-12 * max(float(sizes[0]), 1e-300)]
    return ClassSpikes(
        top_eigenvalues=values,
        squared_overlaps=np.sum((v @ basis.T) ** 2, axis=1),
        bulk_edge=edge,
        population_eigenvalues=population,
        population_overlaps=np.sum((c @ basis.T) ** 2, axis=1),
        sample_overlaps=squared_overlap(v, c),
        is_detectable=exceeds_edge(values, edge, dimension),
        class_overlaps=np.sum((units @ v.T) ** 2, axis=1),
    )
