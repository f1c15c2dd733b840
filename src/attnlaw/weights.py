"""Pooling weights: how much of each position goes into the pooled embedding."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnlaw._checks import choice, count, invalid_argument, real, real_array
from attnlaw._machine import require_memory
from attnlaw.correlations import check_correlation

__all__ = [
    "BY_CORRELATION",
    "BY_LENGTH",
    "NAMES",
    "by_name",
    "causal_weights",
    "last_token_weights",
    "mean_weights",
    "optimal_direction",
    "optimal_weights",
    "softmax_causal_weights",
]


def _checked_length(length: int, at_least: int = 1) -> int:
    L = count("length", length, at_least=at_least)
    require_memory(32 * L, "length", length, "weights")
    return L


def mean_weights(length: int) -> NDArray[np.float64]:
    """Weigh every position alike: w_l = 1/L.

    Examples
    --------
    >>> mean_weights(4)
    array([0.25, 0.25, 0.25, 0.25])
    """
    L = _checked_length(length)
    return np.full(L, 1 / L)


def last_token_weights(length: int) -> NDArray[np.float64]:
    """Keep only the last position, as decoder models often do.

    Examples
    --------
    >>> last_token_weights(3)
    array([0., 0., 1.])
    """
    w = np.zeros(_checked_length(length))
    w[-1] = 1
    return w


def causal_weights(length: int) -> NDArray[np.float64]:
    """Weigh positions as causal self-attention does when the dimension is large.

    Parameters
    ----------
    length : int
        Sequence length L, at least 2.

    Returns
    -------
    array of shape (length,)
        w_1 = (1 + H_{L−1})/L and w_j = (H_{L−1} − H_{j−1})/L for j ≥ 2, with the harmonic
        numbers H; they sum to 1 and w_L = 0.

    Notes
    -----
    P1 Lemma 1 and docs/theory/weights.md, "Causal self-attention": each row of the causal softmax
    (no self-attention except in row 1) becomes uniform as d → ∞, and the weights are its column
    means. See `softmax_causal_weights` for the same at a finite dimension.

    Examples
    --------
    >>> causal_weights(2)
    array([1., 0.])
    """
    L = _checked_length(length, at_least=2)
    H = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, L))])  # H_0 … H_{L−1}
    w = (H[-1] - H) / L
    w[0] = (1 + H[-1]) / L
    return np.asarray(w)


def softmax_causal_weights(
    embeddings: ArrayLike, inverse_temperature: float = 1.0
) -> NDArray[np.float64]:
    """Column means of an actual causal softmax over the tokens of a sequence.

    Parameters
    ----------
    embeddings : array of shape (..., length, dimension)
        The tokens e_1 … e_L of one sequence, or of several along leading axes.
    inverse_temperature : float
        Factor τ of the scores.

    Returns
    -------
    array of shape (..., length)
        w_j = (1/L) Σ_i A_ij with A = softmax over j < i of (τ/d) e_i·e_j, and A_11 = 1.

    Notes
    -----
    P1 Lemma 1: converges to `causal_weights` at rate d^(−1/2) (docs/theory/weights.md, "Causal
    self-attention").

    Examples
    --------
    At τ = 0 every row is uniform, which is the limit itself:

    >>> tokens = np.arange(12.0).reshape(4, 3)
    >>> np.allclose(softmax_causal_weights(tokens, 0.0), causal_weights(4))
    True
    """
    E = real_array("embeddings", embeddings)
    if E.ndim < 2 or E.shape[-2] < 2 or E.shape[-1] == 0:
        raise invalid_argument("embeddings", "of shape (..., length ≥ 2, dimension ≥ 1)", E)
    tau = real("inverse_temperature", inverse_temperature)
    L, d = E.shape[-2:]
    scores = tau / d * (E @ np.swapaxes(E, -1, -2))
    earlier = np.tril(np.ones((L, L), dtype=bool), k=-1)
    earlier[0, 0] = True
    scores = np.where(earlier, scores, -np.inf)
    scores -= scores.max(axis=-1, keepdims=True)
    A = np.exp(scores)
    A /= A.sum(axis=-1, keepdims=True)
    return np.asarray(A.mean(axis=-2))


def optimal_direction(correlation: ArrayLike) -> NDArray[np.float64]:
    """Return the unit top eigenvector of R: the largest SNR, free in sign and scale.

    Where the top eigenspace has several dimensions and is not orthogonal to 1, the direction
    in it closest to uniform is taken, so that `optimal_weights` is a multiple of it
    (docs/theory/weights.md, "Optimal weights").

    Examples
    --------
    >>> from attnlaw import spiked_correlation
    >>> optimal_direction(spiked_correlation(3.0, [1, -1])).round(3)
    array([ 0.707, -0.707])
    """
    v, top = _top_eigenspace(correlation)
    if np.linalg.norm(v) < 1e-8 * np.sqrt(len(v)):
        v = top[:, -1]
        v = v * np.sign(v[np.argmax(np.abs(v) > 1e-12)])
    return v / np.linalg.norm(v)


def optimal_weights(correlation: ArrayLike) -> NDArray[np.float64]:
    """Weights that sum to one and keep the most signal: max of wᵀRw / wᵀw.

    Parameters
    ----------
    correlation : array of shape (length, length)
        Positional correlation R.

    Returns
    -------
    array of shape (length,)
        w* = P1 / (1ᵀP1), P the projector on the top eigenspace of R; its SNR is λ_max(R).

    Raises
    ------
    ValueError
        When the top eigenspace is orthogonal to 1, no weights that sum to one attain the
        maximum; `optimal_direction` then gives the unnormalised eigenvector.

    Notes
    -----
    P1 Theorem 5; docs/theory/weights.md, "Optimal weights".

    Examples
    --------
    Within a prefix model, the prefix alone is kept:

    >>> from attnlaw import prefix_correlation
    >>> optimal_weights(prefix_correlation(4, prefix=2)).round(12)
    array([0.5, 0.5, 0. , 0. ])
    """
    P1, _ = _top_eigenspace(correlation)
    mass = P1.sum()
    if mass < 1e-12 * len(P1):
        raise ValueError(
            "correlation must be a matrix whose top eigenspace is not orthogonal to the vector "
            f"of ones, got a projection of {mass:.3g}; no weights that sum to one attain the "
            "optimum, use optimal_direction(correlation) for the unnormalised eigenvector."
        )
    return np.asarray(P1 / mass)


BY_LENGTH: dict[str, Callable[[int], NDArray[np.float64]]] = {
    "mean": mean_weights,
    "causal": causal_weights,
    "last": last_token_weights,
}
BY_CORRELATION: dict[str, Callable[[ArrayLike], NDArray[np.float64]]] = {
    "optimal": optimal_weights,
    "direction": optimal_direction,
}


NAMES = {
    "mean": "every position alike",
    "causal": "causal self-attention in high dimension",
    "last": "the last position alone",
    "optimal": "the largest SNR among weights that sum to one",
    "direction": "the largest SNR among all weights",
}
"""What each name stands for."""


def by_name(
    name: str, length: int, correlation: ArrayLike | None = None, *, argument: str = "weights"
) -> NDArray[np.float64]:
    """Return the weights of a name.

    Parameters
    ----------
    name : str
        "mean", "causal" or "last"; where a correlation is known also "optimal"
        (`optimal_weights`) or "direction" (`optimal_direction`).
    length : int
        Sequence length L.
    correlation : array of shape (length, length), optional
        Positional correlation R.
    argument : str
        What an error calls the name.

    Examples
    --------
    >>> by_name("mean", 2)
    array([0.5, 0.5])
    >>> by_name("harmonic", 2)
    Traceback (most recent call last):
    ValueError: weights must be one of 'mean', 'causal', 'last', got 'harmonic'.
    """
    others = () if correlation is None else tuple(BY_CORRELATION)
    choice(argument, name, (*BY_LENGTH, *others))
    if name in BY_LENGTH:
        return BY_LENGTH[name](length)
    assert correlation is not None  # else the name is no choice
    return BY_CORRELATION[name](correlation)


def _top_eigenspace(correlation: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return P1 and an orthonormal basis of R's top eigenspace."""
    R = check_correlation(correlation)
    values, vectors = np.linalg.eigh(R)
    top = vectors[:, values > values[-1] - 1e-10 * len(R)]
    return top @ top.sum(axis=0), top
