"""Pooling weights that come out of data: by ridge regression, and by a causal softmax.

`learn_weights` learns them together with a ridge classifier. `simulate_causal_weights` averages
the rows of an actual causal softmax over sampled sequences: P1 Lemma 1; docs/theory/weights.md,
"Causal self-attention".
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnlaw._checks import (
    Floats,
    Random,
    count,
    invalid_argument,
    random_generator,
    real_array,
    refuse_masked,
    scalar,
)
from attnlaw.models import PooledSequences
from attnlaw.simulation._matrix_free.plan import check_memory
from attnlaw.simulation.accuracy import ridge_coefficients
from attnlaw.simulation.pooled import pool, sample_tokens
from attnlaw.simulation.signs import sample_signs
from attnlaw.weights import softmax_causal_weights

__all__ = ["LearnedWeights", "learn_weights", "ridge_loss", "simulate_causal_weights"]

LARGEST_LOGIT = 15.0  # weights stay above e^(−30), where their gradient is lost in rounding


@dataclass(frozen=True, kw_only=True)
class LearnedWeights:
    """Pooling weights on the simplex, with the ridge coefficients fitted under them."""

    weights: Floats  # w (L,): positive, sum 1
    coefficients: Floats  # b (d,)
    loss: float  # (1/N)‖y − X(w) b‖² + λ‖b‖²
    restart_losses: Floats  # where each restart ended; the smallest was kept


def learn_weights(
    sequences: ArrayLike,
    labels: ArrayLike,
    *,
    ridge: float,
    table: ArrayLike | None = None,
    n_restarts: int = 3,
    rng: Random = 0,
    max_iterations: int = 200,
) -> LearnedWeights:
    """Learn pooling weights and a linear classifier from labelled sequences.

    Parameters
    ----------
    sequences : array of shape (N, length, d), or of int and shape (N, length)
        Embedded tokens T, or rows of `table` at each position.
    labels : array of shape (N,)
        y, as a rule ±1.
    ridge : float
        λ > 0.
    table : array of shape (V, d), optional
        Embeddings, if `sequences` are tokens. That takes much less memory.
    n_restarts : int
        Number of starts: the first from mean pooling, the others random.
    rng : Generator, int or None
        Source of the random starts.
    max_iterations : int
        Most iterations of a start.

    Returns
    -------
    LearnedWeights

    Notes
    -----
    P1 Appendix J; docs/theory/weights.md, "Weights learned with a classifier".

    min over w in the simplex and b of (1/N)‖y − X(w) b‖² + λ‖b‖², X(w) = Σ_l w_l T_l. With
    w = softmax(a) and b eliminated in closed form, the gradient is that of the envelope
    theorem, b held fixed:

        ∂loss/∂w_l = −(2/N) (y − Xb)ᵀ T_l b ,   ∂loss/∂a_l = w_l (∂loss/∂w_l − Σ_k w_k ∂loss/∂w_k)

    L-BFGS-B does the rest. Nothing is centred here.

    Examples
    --------
    Only the first of two positions knows the label:

    >>> rng = np.random.default_rng(0)
    >>> y = rng.choice([-1.0, 1.0], 500)
    >>> T = rng.standard_normal((500, 2, 5))
    >>> T[:, 0, 0] += 2 * y
    >>> bool(learn_weights(T, y, ridge=0.01).weights[0] > 0.9)
    True
    """
    from scipy.optimize import minimize

    lam = scalar("ridge", ridge, above=0)
    y = real_array("labels", labels, ndim=1)
    pooled, projected, length = _views(sequences, table, len(y))
    rng = random_generator(rng)
    starts = 2 * rng.standard_normal((count("n_restarts", n_restarts), length))
    starts[0] = 0  # mean pooling

    def loss(logits: Floats) -> tuple[float, Floats]:
        return ridge_loss(logits, pooled, projected, y, lam)

    ends = [
        minimize(
            loss,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=[(-LARGEST_LOGIT, LARGEST_LOGIT)] * length,
            options={"maxiter": count("max_iterations", max_iterations)},
        )
        for start in starts
    ]
    losses = np.array([end.fun for end in ends])
    w = _softmax(ends[int(np.argmin(losses))].x)
    return LearnedWeights(
        weights=w,
        coefficients=ridge_coefficients(pooled(w), y, lam),
        loss=float(losses.min()),
        restart_losses=losses,
    )


def ridge_loss(
    logits: Floats,
    pooled: Callable[[Floats], Floats],
    projected: Callable[[Floats], Floats],
    labels: Floats,
    ridge: float,
) -> tuple[float, Floats]:
    """Return the loss at the best b, and its gradient in the logits a of w = softmax(a).

    `pooled` maps w to X(w), and `projected` maps b to the N×L array of T_il·b.
    """
    y = labels
    w = _softmax(logits)
    X = pooled(w)
    b = ridge_coefficients(X, y, ridge)
    residual = y - X @ b
    loss = np.mean(residual**2) + ridge * (b @ b)
    gradient = -2 / len(y) * (residual @ projected(b))
    return float(loss), w * (gradient - w @ gradient)


def _softmax(logits: Floats) -> Floats:
    e = np.exp(logits - logits.max())
    return np.asarray(e / e.sum())


def _views(
    sequences: ArrayLike, table: ArrayLike | None, n_labels: int
) -> tuple[Callable[[Floats], Floats], Callable[[Floats], Floats], int]:
    """Return w ↦ X(w), b ↦ (T_il·b) and the length, without a copy of the data."""
    refuse_masked("sequences", sequences)
    T = np.asarray(sequences)
    if table is None:
        if T.ndim != 3 or T.dtype.kind != "f" or 0 in T.shape:
            raise invalid_argument(
                "sequences", "floats of shape (N, length, d), or have a table", T
            )
        if not np.isfinite([T.min(), T.max()]).all():
            raise invalid_argument("sequences", "finite", T)
        _check_labels(n_labels, len(T))
        return lambda w: np.asarray(w @ T), lambda b: np.asarray(T @ b), T.shape[1]
    E = real_array("table", table, ndim=2)
    if T.ndim != 2 or T.dtype.kind not in "iu" or 0 in T.shape:
        raise invalid_argument("sequences", "whole numbers of shape (N, length) beside a table", T)
    if T.min() < 0 or T.max() >= len(E):
        span = f"values from {T.min()} to {T.max()}"
        raise invalid_argument(
            "sequences", f"tokens from 0 to {len(E) - 1}, the rows of the table", span
        )
    _check_labels(n_labels, len(T))
    return lambda w: pool(E, T, w), lambda b: np.asarray((E @ b)[T]), T.shape[1]


def _check_labels(n_labels: int, n_sequences: int) -> None:
    if n_labels != n_sequences:
        raise invalid_argument("labels", f"one for each of the {n_sequences} sequences", n_labels)


def simulate_causal_weights(
    model: PooledSequences,
    dimension: int,
    n_sequences: int = 1,
    rng: Random = None,
    *,
    inverse_temperature: float = 1.0,
) -> NDArray[np.float64]:
    """Draw sequences at a finite size and return the weights their causal softmax gives.

    Parameters
    ----------
    model : PooledSequences
        Its vocabulary ratio, signal norm and correlation; a single number each.
    dimension : int
        d.
    n_sequences : int
        Number of independent sequences, each from a table of its own.
    rng : Generator, int or None
        Source of randomness.
    inverse_temperature : float
        τ in the scores (τ/d) e_i·e_j.

    Returns
    -------
    array of shape (n_sequences, length)
        Weights w of each sequence; they tend to `causal_weights` at the rate d^(−1/2).

    Notes
    -----
    Only the tokens that occur are drawn: equal tokens share their noise, different ones have
    independent noise, as in a table of V. When the vocabulary is infinite or the sampling
    gaussian, no token occurs twice.

    Examples
    --------
    >>> import attnlaw as al
    >>> model = al.PooledSequences(
    ...     vocab_ratio=0.5, sample_ratio=1, signal_norm=1.0,
    ...     correlation=al.prefix_correlation(4, 2), weights=al.causal_weights(4))
    >>> seen = al.simulation.simulate_causal_weights(model, 10_000, rng=0)
    >>> bool(np.abs(seen - al.causal_weights(4)).max() < 3 / 10_000**0.5)
    True
    """
    n, rng = count("n_sequences", n_sequences), random_generator(rng)
    d, V, _ = model.sizes(dimension)
    L = model.length
    if model.shape:
        raise invalid_argument("signal_norm", "a single number", model.signal_norm)
    check_memory(16 * n * L * d, d)
    signs = sample_signs(model.correlation, n, rng)
    E = rng.standard_normal((n, L, d))
    if V and model.sampling == "token":
        tokens = sample_tokens(signs, V, rng)
        first = np.argmax(tokens[:, :, None] == tokens[:, None, :], axis=2)
        E = np.take_along_axis(E, first[:, :, None], axis=1)
    E[:, :, 0] += model.signal_norm * signs
    return softmax_causal_weights(E, inverse_temperature)
