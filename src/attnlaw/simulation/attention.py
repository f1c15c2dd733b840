"""Attention drawn at random: the matrices that the theory compares, and their singular values."""

from collections.abc import Callable
from functools import partial
from math import ceil, factorial, log

import numpy as np
from numpy.typing import ArrayLike

from attnlaw._checks import Floats, Random, choice, count, invalid_argument, real_array
from attnlaw._dispatch import answers
from attnlaw.models import SelfAttention
from attnlaw.results import AttentionSpectrum
from attnlaw.simulation._matrix_free.plan import check_memory
from attnlaw.simulation.verbs import simulate, simulate_spectrum
from attnlaw.simulation.workers import Progress, run_trials

__all__ = [
    "MATRICES",
    "attention_matrix",
    "sample_queries_and_keys",
    "squared_singular_values",
    "uniform_attention",
]


def sample_queries_and_keys(
    model: SelfAttention, rng: np.random.Generator, inputs: Floats | None = None
) -> tuple[Floats, Floats]:
    """Draw the queries and keys of one head (n × d_k each).

    Orthonormal inputs give standard Gaussian ones. With an input spectrum, X = OΛ^{1/2} for a
    uniformly random rotation O; or X is given as `inputs`.
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


def sample_inputs(model: SelfAttention, rng: np.random.Generator) -> Floats | None:
    """Draw inputs X (n × n) with the model's spectrum of XXᵀ; None when it has none."""
    spectrum = model.input_spectrum
    if spectrum is None:
        return None
    n = model.n_tokens
    place = np.minimum(((np.arange(n) + 0.5) / n * spectrum.size).astype(int), spectrum.size - 1)
    Q, R = np.linalg.qr(rng.standard_normal((n, n)))
    return np.asarray(Q * np.sign(np.diag(R)) * np.sqrt(spectrum[place]))


def attention_matrix(
    scores: Floats, inverse_temperature: float, *, causal: bool = False
) -> Floats:
    """Softmax of β times the scores by rows, safe for any β; later tokens masked if `causal`.

    Examples
    --------
    >>> attention_matrix(np.array([[0.0, 1e6], [0.0, 0.0]]), 50.0)
    array([[0. , 1. ],
           [0.5, 0.5]])
    """
    logits = inverse_temperature * scores
    if causal:
        logits[np.triu_indices(len(logits), k=1)] = -np.inf
    logits -= logits.max(axis=-1, keepdims=True)
    np.exp(logits, out=logits)
    logits /= logits.sum(axis=-1, keepdims=True)
    return np.asarray(logits)


def uniform_attention(n_tokens: int, *, causal: bool = False) -> Floats:
    """Attention at infinite temperature: 1/n, or 1/i over the first i tokens."""
    if not causal:
        return np.full((n_tokens, n_tokens), 1 / n_tokens)
    return np.tril(np.ones((n_tokens, n_tokens))) / np.arange(1, n_tokens + 1)[:, None]


# The matrices of P2's Figure 1, from one head's scores S = QKᵀ/√d_k.


def _softmax(model: SelfAttention, scores: Floats, _: np.random.Generator) -> Floats:
    """D^{1/2}(A − uniform attention), D the number of tokens that a row sees."""
    A = attention_matrix(scores, model.inverse_temperature, causal=model.causal)
    if model.causal:
        A -= uniform_attention(model.n_tokens, causal=True)
    else:
        A -= 1 / model.n_tokens
    A *= _row_lengths(model) ** 0.5
    return A


def _row_lengths(model: SelfAttention) -> Floats:
    """Count the tokens that each row sees, as a column."""
    n = model.n_tokens
    return np.arange(1.0, n + 1)[:, None] if model.causal else np.full((1, 1), float(n))


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


def _combined(
    model: SelfAttention, matrix: str, rng: np.random.Generator, inputs: Floats | None
) -> Floats:
    """Draw all heads and combine them, values and output included."""
    n, h = model.n_tokens, model.n_heads
    X = sample_inputs(model, rng) if inputs is None else inputs
    heads = []
    is_mean = model.combination == "mean"
    total = np.zeros((n, n)) if is_mean else None
    for head in range(h):
        Q, own = sample_queries_and_keys(model, rng, X)
        if head % (h // model.n_key_heads) == 0:  # the first of those that share keys
            K = own
        scores = Q @ K.T
        scores /= model.head_dimension**0.5
        Y = MATRICES[matrix](model, scores, rng)
        if total is not None:
            total += Y / h
            continue
        if model.value_dimension is not None:
            Y = Y @ _gaussian(n, model.value_dimension, rng)
        heads.append(Y / h**0.5)
    combined = np.concatenate(heads, axis=1) if total is None else total
    if total is not None and model.value_dimension is not None:
        combined = combined @ _gaussian(n, model.value_dimension, rng)
    if model.output_dimension is not None:
        combined = combined @ _gaussian(combined.shape[1], model.output_dimension, rng)
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
    inputs: ArrayLike | None = None,
    n_jobs: int = 1,
    progress: Progress | None = None,
) -> Floats:
    """Draw attention several times and return all squared singular values.

    Parameters
    ----------
    model : SelfAttention
        What is drawn.
    dimension : None
        Heads have a size of their own.
    n_trials : int
        Number of independent draws.
    rng : Generator, int or None
        Draw k has its own stream, the same for any `n_trials` and `n_jobs`.
    matrix : "softmax", "kernel", "polynomial" or "linear"
        √n A_⊥ itself (√i (A_ij − 1/i) of a causal head), or what P2 compares with it: f(S)/√n,
        with f replaced by its Taylor polynomial, or the Gaussian equivalent √θ₂ S + √(θ₁−θ₂) W.
    inputs : array of shape (n_tokens, m), optional
        X, in place of orthonormal inputs or of a random X with the model's input spectrum.
    n_jobs : int
        Number of processes.
    progress : callable or None
        Called with the number of draws done so far.

    Returns
    -------
    array of shape (n_trials, n_tokens)
        In ascending order; zeros where the rank is less than n_tokens.

    Examples
    --------
    >>> import attnlaw as al
    >>> head = al.SelfAttention(n_tokens=50, head_dimension=20, inverse_temperature=1.0)
    >>> values = al.simulation.simulate_spectrum(head, n_trials=2, rng=0)
    >>> values.shape
    (2, 50)
    """
    choice("matrix", matrix, tuple(MATRICES))
    X = _checked(model, dimension, inputs)
    _check_memory(model, n_jobs)
    trial = partial(_spectrum, model, matrix, X)
    return np.stack(run_trials(trial, n_trials, rng, n_jobs=n_jobs, progress=progress))


@answers(simulate)
def simulate_attention(
    model: SelfAttention,
    dimension: int | None = None,
    n_trials: int = 1,
    rng: Random = None,
    *,
    inputs: ArrayLike | None = None,
    n_jobs: int = 1,
    progress: Progress | None = None,
) -> AttentionSpectrum:
    """Draw attention several times and measure what `predict` predicts.

    Parameters
    ----------
    model, dimension, n_trials, rng, inputs, n_jobs, progress
        As in `simulate_spectrum`; a model without values.

    Returns
    -------
    AttentionSpectrum
        Every field an array of shape (n_trials,).

    Notes
    -----
    A itself is A_⊥ plus uniform attention; its two leading singular values are those of
    AAᵀ, all others are only looked at through √n A_⊥.

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
    X = _checked(model, dimension, inputs)
    _check_memory(model, n_jobs)
    trial = partial(_measure, model, X)
    draws = run_trials(trial, n_trials, rng, n_jobs=n_jobs, progress=progress)
    names = draws[0].__dataclass_fields__
    return AttentionSpectrum(**{k: np.array([getattr(d, k) for d in draws]) for k in names})


def _spectrum(
    model: SelfAttention, matrix: str, inputs: Floats | None, rng: np.random.Generator
) -> Floats:
    return squared_singular_values(_combined(model, matrix, rng, inputs))


def _measure(
    model: SelfAttention, inputs: Floats | None, rng: np.random.Generator
) -> AttentionSpectrum:
    n = model.n_tokens
    Y = _combined(model, "softmax", rng, inputs)
    values = np.linalg.eigvalsh(Y @ Y.T)
    uniform = uniform_attention(n, causal=model.causal)
    if model.combination == "concatenate" and model.n_heads > 1:
        uniform = np.tile(uniform, model.n_heads) / model.n_heads**0.5
    A = Y / _row_lengths(model) ** 0.5 + uniform
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


def _checked(
    model: SelfAttention, dimension: int | None, inputs: ArrayLike | None
) -> Floats | None:
    if dimension is not None:
        raise invalid_argument("dimension", "None for heads, whose size is n_tokens", dimension)
    if inputs is None:
        return None
    X = real_array("inputs", inputs, ndim=2)
    if len(X) != model.n_tokens or not X.shape[1]:
        raise invalid_argument(
            "inputs", f"of shape ({model.n_tokens}, m), a row for each token", X
        )
    return X


def _check_memory(model: SelfAttention, n_jobs: int) -> None:
    """Scores, their exponentials, the heads side by side and a Gram matrix."""
    n = model.n_tokens
    columns = n * (model.n_heads if model.combination == "concatenate" else 2)
    inputs = 3 * n * n if model.input_spectrum is not None else 0
    needed = 8 * (4 * n * n + 2 * n * columns + inputs + 2 * n * model.head_dimension)
    check_memory(count("n_jobs", n_jobs) * float(needed), n, "n_tokens")
