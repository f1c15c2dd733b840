"""Rows of a softmax at a finite number of entries: their exact mean energy and coefficients.

A row has i independent scores, A_j = g_j/Σ g with g = e^{βx}. Since 1/Σg = ∫ e^{−tΣg} dt, means of
functions of a row are integrals over one variable: with φ(t) = E e^{−tg},

    i E Σ_j A_j²       = i² ∫ t E[g² e^{−tg}] φ(t)^{i−1} dt ,
    E[i A_1 p(x_1)]    = i  ∫   E[g p(x) e^{−tg}] φ(t)^{i−1} dt .

For i → ∞ they tend to E g²/(E g)² and E[g p(x)]/E g, if these exist.
"""

import numpy as np

from attnlaw._checks import Floats

__all__ = ["row_means"]

_STEP = 0.22  # of log t: the trapezoidal rule has about ten digits


def row_means(
    log_entries: Floats, weights: Floats, functions: Floats, lengths: Floats
) -> tuple[Floats, Floats]:
    """Mean energy of a row of a softmax less one, and its mean coefficients.

    Parameters
    ----------
    log_entries : array of shape (m,)
        log g: inverse temperature times the score, on a grid of scores.
    weights : array of shape (m,)
        Probabilities of the scores.
    functions : array of shape (k, m)
        Functions p of the score.
    lengths : array of shape (b,)
        Numbers i ≥ 1 of entries; they need not be whole.

    Returns
    -------
    energies : array of shape (b,)
        i E Σ A² − 1.
    coefficients : array of shape (k, b)
        E[i A p(x)].

    Examples
    --------
    A single entry is 1, and many give the log-normal limit e^{β²} − 1:

    >>> x = np.linspace(-8, 8, 401)
    >>> w = np.exp(-x**2 / 2) / np.exp(-x**2 / 2).sum()
    >>> energy, mean = row_means(0.5 * x, w, x[None], np.array([1.0, 1e7]))
    >>> energy.round(5)
    array([0.     , 0.28403])
    >>> bool(abs(mean[0, 1] - 0.5) < 1e-6)      # E[g x]/E g = β
    True
    """
    shift = log_entries.max()
    logs = log_entries - shift  # g ≤ 1
    i = np.asarray(lengths, dtype=float)[:, None]
    # φ^{i−1} e^{−tg} falls off above t = 40/g and, for i > 1, above t = 40/(i E g) or so
    high = -logs[weights > 1e-14].min() + 4.0
    low = -np.log(i.max()) - 30.0
    log_t = np.arange(low, high + _STEP, _STEP)
    t = np.exp(log_t)
    with np.errstate(under="ignore", over="ignore"):
        g = np.exp(logs)
        decay = np.exp(-np.outer(t, g))
        log_phi = np.log(np.maximum(decay @ weights, 1e-300))
        rest = np.exp((i - 1) * log_phi) * (_STEP * t)  # (b, t)
        energies = i[:, 0] ** 2 * (rest @ (t * (decay @ (weights * g * g)))) - 1
        coefficients = (i * rest) @ (decay @ (weights * g * functions).T)
    return np.maximum(energies, 0.0), np.asarray(coefficients.T)
