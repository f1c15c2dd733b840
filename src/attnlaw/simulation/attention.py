"""Attention drawn at random: a head, the matrices that the theory compares, singular values.

    X → Q = XW_Q, K = XW_K → S_ij = ⟨q_i, k_j⟩/√d_k → A = softmax(βS + log π) by rows → centred A

with X orthonormal, of a given spectrum, or given; RoPE rotates q_i and k_j by their positions;
π is the mean pattern of the model: the mask, ALiBi, a window, a sink. Each step is a function
of its own, so that a head with other weights can take the same way.
"""

from collections.abc import Callable
from functools import partial, reduce
from math import ceil, factorial, log

import numpy as np

from attnlaw._checks import Floats, Random, choice, count, invalid_argument, random_generator
from attnlaw._machine import require_memory
from attnlaw.models import SelfAttention
from attnlaw.models.base import answers
from attnlaw.results import AttentionSpectrum
from attnlaw.simulation.verbs import Progress, run_trials, simulate, simulate_spectrum, stacked

__all__ = [
    "MATRICES",
    "attention_matrix",
    "attention_scores",
    "centred_attention",
    "rotate_by_position",
    "sample_attention",
    "sample_inputs",
    "sample_queries_and_keys",
    "squared_singular_values",
]


def sample_inputs(model: SelfAttention, rng: np.random.Generator) -> Floats | None:
    """Return inputs X (n × m), given or drawn with the model's spectrum; None if orthonormal."""
    spectrum = model.input_spectrum
    if spectrum is None:
        return model.inputs
    n = model.n_tokens
    place = np.minimum(((np.arange(n) + 0.5) / n * spectrum.size).astype(int), spectrum.size - 1)
    Q, R = np.linalg.qr(rng.standard_normal((n, n)))
    return np.asarray(Q * np.sign(np.diag(R)) * np.sqrt(spectrum[place]))


def sample_queries_and_keys(
    model: SelfAttention, rng: np.random.Generator, inputs: Floats | None = None
) -> tuple[Floats, Floats]:
    """Draw the queries and keys of one head (n × d_k each).

    Orthonormal inputs give standard Gaussian ones; others, XW_Q and XW_K with Gaussian W.
    """
    n, d = model.n_tokens, model.head_dimension
    if inputs is None:
        Q, K = rng.standard_normal((n, d)), rng.standard_normal((n, d))
    else:
        m = inputs.shape[1]
        Q, K = inputs @ rng.standard_normal((m, d)), inputs @ rng.standard_normal((m, d))
    if model.qk_norm:
        for vectors in (Q, K):
            vectors *= d**0.5 / np.linalg.norm(vectors, axis=1, keepdims=True)
    return Q, K


def rotate_by_position(vectors: Floats, base: float = 10_000.0) -> Floats:
    """Rotate row i of an n × d array by the angles i base^{−2k/d} in the planes (k, k + d/2).

    Rotary position embedding (RoPE): ⟨rotated q_i, rotated k_j⟩ depends on i − j alone.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> q, k = rng.standard_normal((2, 8))
    >>> Q, K = (rotate_by_position(np.tile(v, (5, 1))) for v in (q, k))
    >>> bool(np.isclose(Q[4] @ K[1], Q[3] @ K[0]))
    True
    """
    n, d = vectors.shape
    if d % 2:
        raise invalid_argument("vectors", "of even dimension", vectors)
    angles = np.arange(n)[:, None] * base ** (-2 * np.arange(d // 2) / d)
    cos, sin = np.cos(angles), np.sin(angles)
    first, second = vectors[:, : d // 2], vectors[:, d // 2 :]
    return np.concatenate([first * cos - second * sin, first * sin + second * cos], axis=1)


def attention_scores(queries: Floats, keys: Floats, rotary_base: float | None = None) -> Floats:
    """Scores QKᵀ/√d_k, of queries and keys rotated by position if there is a `rotary_base`."""
    if rotary_base is not None:
        queries = rotate_by_position(queries, rotary_base)
        keys = rotate_by_position(keys, rotary_base)
    scores = queries @ keys.T
    scores /= queries.shape[1] ** 0.5
    return np.asarray(scores)


def attention_matrix(
    scores: Floats,
    inverse_temperature: float,
    *,
    causal: bool = False,
    pattern: Floats | None = None,
) -> Floats:
    """Softmax of β times the scores by rows, safe for any β; later tokens masked if `causal`.

    With a `pattern` π ≥ 0 (n × n, some entry of each row above 0) it is the softmax of β times
    the scores plus log π.

    Examples
    --------
    >>> attention_matrix(np.array([[0.0, 1e6], [0.0, 0.0]]), 50.0)
    array([[0. , 1. ],
           [0.5, 0.5]])
    >>> attention_matrix(np.zeros((2, 2)), 1.0, pattern=np.array([[1.0, 0.0], [1.0, 3.0]]))
    array([[1.  , 0.  ],
           [0.25, 0.75]])
    """
    logits = inverse_temperature * scores
    if pattern is not None:
        with np.errstate(divide="ignore"):
            logits += np.log(pattern)
    if causal:
        logits[np.triu_indices(len(logits), k=1)] = -np.inf
    logits -= logits.max(axis=-1, keepdims=True)
    np.exp(logits, out=logits)
    logits /= logits.sum(axis=-1, keepdims=True)
    return np.asarray(logits)


def sample_attention(
    model: SelfAttention, rng: Random = None, scores: Floats | None = None
) -> Floats:
    """Draw one head A (n × n): of random queries and keys over the model's inputs.

    Parameters
    ----------
    model : SelfAttention
        Its inputs, mask, mean pattern, RoPE and QK-norm; a single head of it, without values.
    rng : Generator, int or None
        Source of randomness.
    scores : array of shape (n, n), optional
        Scores of a head that is drawn otherwise (`attention_scores`).

    Examples
    --------
    A null for the maps of a model over the inputs X of one of its layers:

    >>> import attnlaw as al
    >>> X = np.random.default_rng(0).standard_normal((6, 100))
    >>> head = al.SelfAttention(n_tokens=6, head_dimension=16, inverse_temperature=1.0,
    ...     causal=True, inputs=X, rotary_base=10_000)
    >>> A = al.simulation.sample_attention(head, rng=1)
    >>> A.shape, bool(np.allclose(A.sum(axis=1), 1)), float(A[0, 0])
    ((6, 6), True, 1.0)
    """
    if scores is None:
        rng = random_generator(rng)
        Q, K = sample_queries_and_keys(model, rng, sample_inputs(model, rng))
        scores = attention_scores(Q, K, model.rotary_base)
    beta, pattern = model.inverse_temperature, model.mean_pattern() if model.has_pattern else None
    return attention_matrix(scores, beta, causal=model.causal, pattern=pattern)


def centred_attention(model: SelfAttention, attention: Floats) -> Floats:
    """Return A less what it is at β = 0, rows scaled to one size (see `SelfAttention`).

    √n (A − 1/n); causal √i (A_ij − 1/i); √ℓ_i (A_ij − π_ij) with ℓ_i = 1/Σ_j π_ij² for a mean
    pattern; and with a sink, whose column is 0, √ℓ_i (A_ij − (1 − A_i1) π_ij).
    """
    n = model.n_tokens
    if not model.has_pattern:
        sizes = np.arange(1.0, n + 1)[:, None] if model.causal else np.full((1, 1), float(n))
        Y = attention - 1 / sizes
        Y *= sizes**0.5
        return np.asarray(np.tril(Y) if model.causal else Y)
    pattern, A, others = model.mean_pattern(), attention, np.ones((n, 1))
    if model.sink:
        others = 1 - attention[:, :1]
        A = np.where(np.arange(n) > 0, attention, 0.0)
        pattern[:, 0] = 0.0
        pattern /= 1 - model.sink
    sizes = np.sum(pattern**2, axis=1, keepdims=True)  # 1/ℓ, 0 where nothing but the sink is seen
    return np.asarray((A - others * pattern) / np.where(sizes > 0, sizes, 1.0) ** 0.5)


# The matrices of P2's Figure 1, from one head's scores S = QKᵀ/√d_k.


def _softmax(model: SelfAttention, scores: Floats, _: np.random.Generator) -> Floats:
    """Attention less what it is at β = 0, rows scaled to one size."""
    return centred_attention(model, sample_attention(model, scores=scores))


def _both(model: SelfAttention, scores: Floats, _: np.random.Generator) -> Floats:
    """Centred attention and attention itself (2 × n × n)."""
    A = sample_attention(model, scores=scores)
    return np.stack([centred_attention(model, A), A])


def _kernel(model: SelfAttention, scores: Floats, _: np.random.Generator) -> Floats:
    """Y^f = f(S)/√n, f(x) = e^{βx−β²/2} − 1."""
    beta = model.inverse_temperature
    return np.asarray(np.expm1(beta * scores - 0.5 * beta**2) / model.n_tokens**0.5)


def _polynomial(model: SelfAttention, scores: Floats, _: np.random.Generator) -> Floats:
    """Y^Q: f replaced by its Taylor polynomial of degree ⌈2 log n/log log n⌉, centred."""
    beta, n = model.inverse_temperature, model.n_tokens
    degree = ceil(2 * log(n) / max(log(log(n)), 0.5)) if n > 2 else 2
    values = np.zeros_like(scores)
    for k in range(degree, 0, -1):
        values = scores * (values + beta**k / factorial(k))
    values *= np.exp(-0.5 * beta**2)
    even = range(2, degree + 1, 2)
    mean = sum(beta**k / (2 ** (k // 2) * factorial(k // 2)) for k in even)  # E xᵏ/k!
    values -= np.exp(-0.5 * beta**2) * mean
    return np.asarray(values / n**0.5)


def _linear(model: SelfAttention, scores: Floats, rng: np.random.Generator) -> Floats:
    """Y_lin = (√θ₂ S + √(θ₁−θ₂) W)/√n, θ₁ = e^{β²} − 1, θ₂ = β²."""
    square = model.inverse_temperature**2
    noise = rng.standard_normal(scores.shape)
    noise *= (np.expm1(square) - square) ** 0.5
    noise += square**0.5 * scores
    return np.asarray(noise / model.n_tokens**0.5)


Matrix = Callable[[SelfAttention, Floats, np.random.Generator], Floats]
MATRICES: dict[str, Matrix] = {
    "softmax": _softmax,
    "kernel": _kernel,
    "polynomial": _polynomial,
    "linear": _linear,
}


def squared_singular_values(matrix: Floats) -> Floats:
    """Squared singular values in ascending order, as many as the matrix has rows.

    By the eigenvalues of the smaller Gram matrix, which takes a third of the time of a singular
    value decomposition; values below 1e-15 of the largest are rounding error.

    Examples
    --------
    >>> squared_singular_values(np.array([[3.0], [4.0]])).round(12)
    array([ 0., 25.])
    """
    n, m = matrix.shape
    gram = matrix @ matrix.T if n <= m else matrix.T @ matrix
    values = np.maximum(np.linalg.eigvalsh(gram), 0.0)
    return np.concatenate([np.zeros(max(n - m, 0)), values])


def _combined(model: SelfAttention, make: Matrix, rng: np.random.Generator) -> Floats:
    """Draw all layers over the same inputs, and multiply them."""
    X = sample_inputs(model, rng)
    return reduce(np.matmul, (_layer(model, make, rng, X) for _ in range(model.depth)))


def _layer(
    model: SelfAttention, make: Matrix, rng: np.random.Generator, X: Floats | None
) -> Floats:
    """Draw all heads and combine them, values and output included."""
    n, h = model.n_tokens, model.n_heads
    is_mean = model.combination == "mean"
    heads: list[Floats] = []
    for head in range(h):
        Q, own = sample_queries_and_keys(model, rng, X)
        if head % (h // model.n_key_heads) == 0:  # the first of those that share keys
            K = own
        Y = make(model, attention_scores(Q, K, model.rotary_base), rng)
        if is_mean:
            heads = [sum(heads, Y / h)]
            continue
        if model.value_dimension is not None:
            Y = Y @ _gaussian(n, model.value_dimension, rng)
        heads.append(Y / h**0.5)
    combined = np.concatenate(heads, axis=-1)
    if is_mean and model.value_dimension is not None:
        combined = combined @ _gaussian(n, model.value_dimension, rng)
    if model.output_dimension is not None:
        combined = combined @ _gaussian(combined.shape[-1], model.output_dimension, rng)
    return combined


def _gaussian(n: int, columns: int, rng: np.random.Generator) -> Floats:
    return np.asarray(rng.standard_normal((n, columns)) / columns**0.5)


@answers(simulate_spectrum)
def spectrum_of_attention(
    model: SelfAttention,
    dimension: int | None = None,
    n_trials: int = 1,
    rng: Random = None,
    *,
    matrix: str = "softmax",
    n_jobs: int = 1,
    progress: Progress | None = None,
) -> Floats:
    """Draw attention several times and return all squared singular values.

    Parameters
    ----------
    model : SelfAttention
        What is drawn.
    dimension, n_trials, rng, n_jobs, progress
        As in `simulate`; no dimension, heads have a size of their own.
    matrix : "softmax", "kernel", "polynomial" or "linear"
        Centred attention itself (`SelfAttention`), or what P2 compares with √n A_⊥: f(S)/√n, with
        f replaced by its Taylor polynomial, or the Gaussian equivalent √θ₂ S + √(θ₁−θ₂) W.

    Returns
    -------
    array of shape (n_trials, n_tokens)
        In ascending order; zeros where the rank is less than n_tokens.
    """
    choice("matrix", matrix, tuple(MATRICES))
    _check_sizes(model, dimension, n_jobs)
    trial = partial(_spectrum, model, matrix)
    return np.stack(run_trials(trial, n_trials, rng, n_jobs=n_jobs, progress=progress))


@answers(simulate)
def simulate_attention(
    model: SelfAttention,
    dimension: int | None = None,
    n_trials: int = 1,
    rng: Random = None,
    *,
    n_jobs: int = 1,
    progress: Progress | None = None,
) -> AttentionSpectrum:
    """Draw attention several times and measure what `predict` predicts.

    Parameters
    ----------
    model, dimension, n_trials, rng, n_jobs, progress
        As in `simulate_spectrum`; a model without values.

    Returns
    -------
    AttentionSpectrum
        Every field an array of shape (n_trials,).

    Examples
    --------
    >>> import attnlaw as al
    >>> head = al.SelfAttention(n_tokens=200, head_dimension=200, inverse_temperature=0.5)
    >>> seen = al.simulate(head, n_trials=2, rng=0)
    >>> seen.top_singular_value.round(2)
    array([1., 1.])
    """
    if model.value_dimension is not None:
        raise invalid_argument(
            "value_dimension", "None to simulate A itself", model.value_dimension
        )
    if model.depth > 1:
        raise invalid_argument("depth", "1 to simulate A itself", model.depth)
    _check_sizes(model, dimension, n_jobs)
    trial = partial(_measure, model)
    return stacked(run_trials(trial, n_trials, rng, n_jobs=n_jobs, progress=progress))


def _spectrum(model: SelfAttention, matrix: str, rng: np.random.Generator) -> Floats:
    product = _combined(model, MATRICES[matrix], rng)
    if model.depth > 1:  # values reach down beyond the precision of a Gram matrix
        return np.asarray(np.linalg.svd(product, compute_uv=False)[::-1] ** 2)
    return squared_singular_values(product)


def _measure(model: SelfAttention, rng: np.random.Generator) -> AttentionSpectrum:
    Y, A = _combined(model, _both, rng)
    values = np.linalg.eigvalsh(Y @ Y.T)
    leading = np.linalg.eigvalsh(A @ A.T)[::-1]
    norm = float(np.sum(A**2))
    return AttentionSpectrum(
        mean_square=float(values.mean()),
        second_moment=float((values**2).mean()),
        bulk_edge=float(values[-1]),
        top_singular_value=float(leading[0] ** 0.5),
        second_singular_value=float(max(leading[1], 0.0) ** 0.5),
        squared_frobenius_norm=norm,
        stable_rank=norm / float(leading[0]),
    )


def _check_sizes(model: SelfAttention, dimension: int | None, n_jobs: int) -> None:
    """Refuse a dimension, and what does not fit: scores, exponentials, heads, a Gram matrix."""
    if dimension is not None:
        raise invalid_argument("dimension", "None for heads, whose size is n_tokens", dimension)
    n = model.n_tokens
    columns = n * (model.n_heads if model.combination == "concatenate" else 2)
    squares = 4 + 3 * (model.input_spectrum is not None) + 3 * model.has_pattern
    needed = 8 * (squares * n * n + 2 * n * columns + 2 * n * model.head_dimension)
    require_memory(count("n_jobs", n_jobs) * float(needed), "n_tokens", n, "matrices")
