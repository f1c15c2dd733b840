"""The plain reference: tables, sequences drawn from them, pooled embeddings, covariances.

The model is that of docs/theory/pooled-covariance.md, "The model".
The signal points along the first coordinate, μ = ‖μ‖ e₁. Nothing is lost by that: the noise of
the table is isotropic, so turning μ and the noise together changes no eigenvalue and no overlap.
It keeps the signal apart from the noise: pooled sequences are X = X₀ + ‖μ‖ t e₁ᵀ, with the same
noise X₀ and gains t = w·s for every signal norm.

Everything is formed: the table, the tokens, the pooled sequences and their covariances, whose
eigenvalues, leading eigenvectors and overlaps are computed by dense linear algebra.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.sparse import csr_array

from attnlaw._checks import Floats, Random, random_generator
from attnlaw.models import PooledSequences, SequenceMixture, Vocabulary
from attnlaw.simulation.signs import sample_signs

__all__ = [
    "CANDIDATES",
    "ClassSplit",
    "PooledSample",
    "bulk_noise",
    "class_means",
    "covariance",
    "eigenvalues",
    "leading_eigenpairs",
    "n_candidates",
    "pool",
    "population_covariance",
    "sample_frequent_tokens",
    "sample_pooled",
    "sample_table",
    "sample_tokens",
    "split_classes",
    "split_vocabulary",
    "squared_overlap",
    "token_classes",
]

CANDIDATES = 16
"""Leading eigenpairs among which the signal's is looked for where tokens have their own."""


def sample_table(n_vocab: int, dimension: int, rng: Random = None) -> Floats:
    """Draw the noise z_v ~ N(0, I_d) of a table of tokens: an array of shape (V, d)."""
    return random_generator(rng).standard_normal((n_vocab, dimension))


def token_classes(n_vocab: int) -> NDArray[np.int8]:
    """Return the class c_v = ±1 of each token: the first half +1, the second half −1.

    Examples
    --------
    >>> token_classes(4)
    array([ 1,  1, -1, -1], dtype=int8)
    """
    return np.repeat(np.array([1, -1], dtype=np.int8), n_vocab // 2)


def sample_tokens(signs: NDArray[np.int8], n_vocab: int, rng: Random = None) -> NDArray[np.int32]:
    """Draw a token for every sign, uniformly among the V/2 tokens of that class.

    Examples
    --------
    With two tokens the sign decides:

    >>> sample_tokens(np.array([[1, -1, 1]], dtype=np.int8), 2, rng=0)
    array([[0, 1, 0]], dtype=int32)
    """
    half = n_vocab // 2
    tokens = random_generator(rng).integers(half, size=signs.shape, dtype=np.int32)
    return tokens + np.int32(half) * (signs < 0)


def pool(embeddings: Floats, tokens: NDArray[np.int32], weights: Floats) -> Floats:
    """Pool sequences of tokens: x_i = Σ_l w_l e_{token(i,l)}.

    Parameters
    ----------
    embeddings : array of shape (V, d) or (V,)
        The tokens' vectors, or one number for each.
    tokens : array of int, shape (N, length)
        Rows of the table at each position.
    weights : array of shape (length,)
        Pooling weights w.

    Returns
    -------
    array of shape (N, d) or (N,)

    Examples
    --------
    >>> pool(np.array([1.0, 10.0]), np.array([[0, 1], [1, 1]]), np.array([0.5, 0.25]))
    array([3. , 7.5])
    """
    used = weights != 0
    n, length = len(tokens), int(used.sum())
    row_starts = np.arange(0, (n + 1) * length, length)
    M = csr_array(
        (np.tile(weights[used], n), tokens[:, used].ravel(), row_starts),
        shape=(n, len(embeddings)),
    )
    return np.asarray(M @ embeddings)


class ClassSplit(NamedTuple):
    """A table's noise, split by class: z_v = mean + c_v difference + within_v."""

    within: Floats  # Z_⊥ (V, d): the noise around the mean of the token's class
    mean: Floats  # z̄ (d,)
    difference: Floats  # m (d,): half the difference of the two classes' means


def class_means(table: Floats) -> tuple[Floats, Floats]:
    """Return the mean z̄ of a table's noise, and half the difference m of its classes' means."""
    plus, minus = (half.mean(axis=0) for half in np.split(table, 2))
    return (plus + minus) / 2, (plus - minus) / 2


def split_classes(table: Floats) -> ClassSplit:
    """Split the noise of a table into class means and what is left around them."""
    mean, difference = class_means(table)
    within = table - mean
    plus, minus = np.split(within, 2)  # views
    plus -= difference
    minus += difference
    return ClassSplit(within, mean, difference)


def split_vocabulary(rows: Floats, vocabulary: Vocabulary) -> ClassSplit:
    """Split rows of a table as text sees them, by the frequency-weighted means of the classes."""
    p, c = vocabulary.frequencies, vocabulary.signs
    mean, difference = p @ rows, (p * c) @ rows
    return ClassSplit(rows - mean - np.outer(c, difference), mean, difference)


@dataclass(frozen=True, kw_only=True)
class PooledSample:
    """One draw of a model at a finite size: X = noise + ‖μ‖ gains e₁ᵀ."""

    signs: NDArray[np.int8]  # s (N, L)
    gains: Floats  # t = w·s (N,); with a vocabulary Σ_l w_l g_v c_v
    noise: Floats  # X₀ (N, d): the pooled noise of the tokens
    table: Floats  # Z (V, d): noise of the table (times importance); (0, d) for infinitely many
    tokens: NDArray[np.int32]  # (N, L); (0, 0) when the noise is not drawn token by token

    def pooled(self, signal_norm: float) -> Floats:
        """Return the pooled sequences X at a signal norm, not centred: shape (N, d)."""
        X = self.noise.copy()
        X[:, 0] += signal_norm * self.gains
        return X


def sample_pooled(model: PooledSequences, dimension: int, rng: Random = None) -> PooledSample:
    """Draw a table, sequences from it, and pool them.

    Parameters
    ----------
    model : PooledSequences
        What is drawn; its signal norm is not used, see `PooledSample.pooled`.
    dimension : int
        d; the model's ratios give V and N, see `PooledSequences.sizes`.
    rng : Generator, int or None
        Source of randomness.

    Notes
    -----
    The model of docs/theory/pooled-covariance.md, "The model".

    With M the N×V matrix that has w_l at (i, token(i,l)), g standard Gaussian:

        token       X₀ = M Z
        gaussian    X₀ = √κ g Z / √V
        V = ∞       X₀ = √κ g        (every token is fresh; both sampling models agree)

    With a vocabulary the rows of Z carry the tokens' importance, Z_v = g_v z_v, the gains are
    t_i = Σ_l w_l g_v c_v, and the idealised noise is √κ g diag(√p) Z.

    Examples
    --------
    >>> import attnlaw as al
    >>> model = al.PooledSequences(
    ...     vocab_ratio=0.5, sample_ratio=0.25, signal_norm=1.0,
    ...     correlation=al.prefix_correlation(4, 2), weights=al.mean_weights(4))
    >>> sample_pooled(model, 10, rng=0).pooled(1.0).shape
    (40, 10)
    """
    if model.vocabulary is not None and model.tokens_differ:
        return _sample_vocabulary(model, model.vocabulary, dimension, rng)
    rng = random_generator(rng)
    d, V, N = model.sizes(dimension)
    w, kappa = model.weights, model.noise_gain
    Z = sample_table(V, d, rng)
    signs = sample_signs(model.correlation, N, rng)
    tokens = np.empty((0, 0), dtype=np.int32)
    if V == 0:
        noise = np.sqrt(kappa) * rng.standard_normal((N, d))
    elif model.sampling == "gaussian":
        noise = np.sqrt(kappa / V) * (rng.standard_normal((N, V)) @ Z)
    else:
        tokens = sample_tokens(signs, V, rng)
        noise = pool(Z, tokens, w)
    return PooledSample(signs=signs, gains=signs @ w, noise=noise, table=Z, tokens=tokens)


def sample_frequent_tokens(
    signs: NDArray[np.int8], vocabulary: Vocabulary, rng: Random = None
) -> NDArray[np.int32]:
    """Draw a token for every sign, by its frequency among the tokens of that class.

    Examples
    --------
    >>> from attnlaw.models import Vocabulary
    >>> two = Vocabulary(frequencies=[1.0, 1.0], classes=[1, -1])
    >>> sample_frequent_tokens(np.array([[1, -1, 1]], dtype=np.int8), two, rng=0)
    array([[0, 1, 0]], dtype=int32)
    """
    rng = random_generator(rng)
    tokens = np.empty(signs.shape, dtype=np.int32)
    for sign in (1, -1):
        members = np.flatnonzero(vocabulary.signs == sign)
        upper = np.cumsum(vocabulary.frequencies[members])
        here = signs == sign
        drawn = np.searchsorted(upper, upper[-1] * rng.random(int(here.sum())), side="right")
        tokens[here] = members[drawn]
    return tokens


def _sample_vocabulary(
    model: PooledSequences, vocabulary: Vocabulary, dimension: int, rng: Random
) -> PooledSample:
    """Draw from tokens that differ in frequency and importance; see `sample_pooled`."""
    rng = random_generator(rng)
    d, V, N = model.sizes(dimension)
    p, g, w = vocabulary.frequencies, vocabulary.weights, model.weights
    Z = g[:, None] * sample_table(V, d, rng)
    signs = sample_signs(model.correlation, N, rng)
    if model.sampling == "gaussian":
        scale = np.sqrt(model.noise_gain * p)
        noise = rng.standard_normal((N, V)) @ (scale[:, None] * Z)
        gains, tokens = (p @ g) * (signs @ w), np.empty((0, 0), dtype=np.int32)
    else:
        tokens = sample_frequent_tokens(signs, vocabulary, rng)
        noise, gains = pool(Z, tokens, w), pool(g * vocabulary.signs, tokens, w)
    return PooledSample(signs=signs, gains=gains, noise=noise, table=Z, tokens=tokens)


def covariance(pooled: Floats, *, centred: bool) -> Floats:
    """Return S = XᵀX/N, after subtracting the sample mean if `centred`.

    Examples
    --------
    >>> covariance(np.array([[1.0, 0.0], [3.0, 0.0]]), centred=True)
    array([[1., 0.],
           [0., 0.]])
    """
    X = pooled - pooled.mean(axis=0) if centred else pooled
    return np.asarray(X.T @ X / len(X))


def population_covariance(
    model: PooledSequences | SequenceMixture, table: Floats, signal_norm: float
) -> Floats:
    """Return the covariance that pooled sequences from this very table have.

    Parameters
    ----------
    model : PooledSequences or SequenceMixture
        Its sampling, centring, weights and correlation.
    table : array of shape (V, d)
        The noise Z of the table (times importance); V = 0 stands for an infinite vocabulary.
    signal_norm : float
        ‖μ‖, along the first coordinate.

    Returns
    -------
    array of shape (d, d)
        E[x xᵀ | table], without E[x | table] E[x | table]ᵀ if the model is centred.

    Notes
    -----
    No limit is taken: docs/theory/pooled-covariance.md, "Derivation".

    With the class split z_v = z̄ + c_v m + (Z_⊥)_v:

        token       C = κ Z_⊥ᵀZ_⊥/V + α (μ+m)(μ+m)ᵀ + (Σw)² z̄ z̄ᵀ     (last term if not centred)
        gaussian    C = κ ZᵀZ/V + α μμᵀ
        V = ∞       C = κ I + α μμᵀ

    With a vocabulary, of rows E_v = g_v (c_v μ + z_v) whose classes have the means M₀ ± M₁ under
    the frequencies p and E_⊥ the rows around them:

        token       C = κ E_⊥ᵀ diag(p) E_⊥ + α M₁M₁ᵀ + (Σw)² M₀M₀ᵀ    (last term if not centred)
        gaussian    C = κ Zᵀ diag(p) Z + α (Σpg)² μμᵀ
    """
    if model.vocabulary is not None and model.tokens_differ:
        return _vocabulary_covariance(model, model.vocabulary, table, signal_norm)
    V, d = table.shape
    alpha, kappa = model.signal_gain, model.noise_gain
    mu = signal_norm * np.eye(d)[0]
    if V == 0:
        return kappa * np.eye(d) + alpha * np.outer(mu, mu)
    if model.sampling == "gaussian":
        return np.asarray(kappa * (table.T @ table) / V + alpha * np.outer(mu, mu))
    within, mean, difference = split_classes(table)
    C = kappa * (within.T @ within) / V + alpha * np.outer(mu + difference, mu + difference)
    if isinstance(model, PooledSequences) and not model.centred:
        C += model.weights.sum() ** 2 * np.outer(mean, mean)
    return np.asarray(C)


def _vocabulary_covariance(
    model: PooledSequences | SequenceMixture, words: Vocabulary, table: Floats, signal_norm: float
) -> Floats:
    p, g, kappa, alpha = words.frequencies, words.weights, model.noise_gain, model.signal_gain
    if model.sampling == "gaussian":
        C = kappa * (table.T * p) @ table
        C[0, 0] += alpha * (signal_norm * float(p @ g)) ** 2
        return np.asarray(C)
    rows = table.copy()
    rows[:, 0] += signal_norm * g * words.signs
    within, mean, difference = split_vocabulary(rows, words)
    C = kappa * (within.T * p) @ within + alpha * np.outer(difference, difference)
    if isinstance(model, PooledSequences) and not model.centred:
        C += float(model.weights.sum()) ** 2 * np.outer(mean, mean)
    return np.asarray(C)


def bulk_noise(model: PooledSequences, sample: PooledSample) -> Floats:
    """Return the pooled noise without any spike: class-centred tokens.

    Notes
    -----
    M Z_⊥ = X₀ − (Σw) 1 z̄ᵀ − t mᵀ: its population covariance is κ Z_⊥ᵀZ_⊥/V, the bulk and
    nothing else. Noise that is not drawn token by token has no spike to begin with.
    """
    if not sample.tokens.size:
        return sample.noise
    if model.vocabulary is not None and model.tokens_differ:
        within = split_vocabulary(sample.table, model.vocabulary).within
        return pool(within, sample.tokens, model.weights)
    mean, difference = class_means(sample.table)
    X = sample.noise - model.weights.sum() * mean
    X -= np.outer(sample.gains, difference)
    return np.asarray(X)


def n_candidates(vocabulary: Vocabulary, dimension: int) -> int:
    """Return how many leading eigenpairs are looked at: one where no token stands out.

    Tokens can stand out when the largest of their variances p g² differ by half.
    """
    rows = np.sort(vocabulary.frequencies * vocabulary.weights**2)[::-1]
    stands_out = rows[0] > 1.5 * rows[min(CANDIDATES, len(rows)) - 1]
    return min(CANDIDATES if stands_out else 1, dimension)


def eigenvalues(matrix: Floats) -> Floats:
    """Return all eigenvalues of a symmetric matrix, in ascending order."""
    return np.asarray(eigh(matrix, eigvals_only=True, check_finite=False))


def leading_eigenpairs(matrix: Floats, n_pairs: int = 1) -> tuple[Floats, Floats]:
    """Return the largest eigenvalues and their unit eigenvectors (rows), largest first.

    Examples
    --------
    >>> values, vectors = leading_eigenpairs(np.diag([1.0, 3.0, 2.0]), 2)
    >>> values, np.abs(vectors[0])
    (array([3., 2.]), array([0., 1., 0.]))
    """
    d = len(matrix)
    values, vectors = eigh(matrix, subset_by_index=[d - n_pairs, d - 1], check_finite=False)
    return values[::-1], vectors.T[::-1]


def squared_overlap(first: Floats, second: Floats) -> Floats:
    """Return (a·b)²/(‖a‖²‖b‖²) of vectors along the last axis.

    Examples
    --------
    >>> float(squared_overlap(np.array([1.0, 0.0]), np.array([2.0, 2.0])))
    0.5
    """
    dot = np.sum(first * second, axis=-1)
    return np.asarray(dot**2 / (np.sum(first**2, axis=-1) * np.sum(second**2, axis=-1)))
