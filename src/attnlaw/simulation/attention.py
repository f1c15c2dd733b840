"""Attention drawn at random: the matrices that the theory compares, and their singular values."""

from collections.abc import Callable
from functools import partial
from math import ceil, factorial, log

import numpy as np

from attnlaw._checks import Floats, Random, choice, count, invalid_argument
from attnlaw._dispatch import answers
from attnlaw.models import SelfAttention
from attnlaw.results import AttentionSpectrum
from attnlaw.simulation._matrix_free.plan import check_memory
from attnlaw.simulation.softmax import (
    attention_scores,
    centred_attention,
    sample_attention,
    sample_inputs,
    sample_queries_and_keys,
)
from attnlaw.simulation.verbs import Progress, run_trials, simulate, simulate_spectrum

__all__ = ["MATRICES", "squared_singular_values"]


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
    product = _layer(model, make, rng, X)
    for _ in range(model.depth - 1):
        product = product @ _layer(model, make, rng, X)
    return product


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
    dimension : None
        Heads have a size of their own.
    n_trials : int
        Number of independent draws.
    rng : Generator, int or None
        Draw k has its own stream, the same for any `n_trials` and `n_jobs`.
    matrix : "softmax", "kernel", "polynomial" or "linear"
        Centred attention itself (`SelfAttention`), or what P2 compares with √n A_⊥: f(S)/√n, with
        f replaced by its Taylor polynomial, or the Gaussian equivalent √θ₂ S + √(θ₁−θ₂) W.
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
    _check_dimension(dimension)
    _check_memory(model, n_jobs)
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
    _check_dimension(dimension)
    _check_memory(model, n_jobs)
    trial = partial(_measure, model)
    draws = run_trials(trial, n_trials, rng, n_jobs=n_jobs, progress=progress)
    names = draws[0].__dataclass_fields__
    return AttentionSpectrum(**{k: np.array([getattr(d, k) for d in draws]) for k in names})


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


def _check_dimension(dimension: int | None) -> None:
    if dimension is not None:
        raise invalid_argument("dimension", "None for heads, whose size is n_tokens", dimension)


def _check_memory(model: SelfAttention, n_jobs: int) -> None:
    """Scores, their exponentials, the heads side by side and a Gram matrix."""
    n = model.n_tokens
    columns = n * (model.n_heads if model.combination == "concatenate" else 2)
    inputs = 3 * n * n if model.input_spectrum is not None else 0
    inputs += 3 * n * n if model.has_pattern else 0
    needed = 8 * (4 * n * n + 2 * n * columns + inputs + 2 * n * model.head_dimension)
    check_memory(count("n_jobs", n_jobs) * float(needed), n, "n_tokens")
