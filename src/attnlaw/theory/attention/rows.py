"""Rows of a softmax with finitely many entries: their exact mean energy and coefficients.

A row has i independent scores, A_j = g_j/Σ g with g = e^{βx}. Since 1/Σg = ∫ e^{−tΣg} dt, means of
functions of a row are integrals over one variable: with φ(t) = E e^{−tg},

    i E Σ_j A_j²                    = i² ∫ t E[g² e^{−tg}] φ(t)^{i−1} dt ,
    E[i A_1 p(x_1)]                 = i ∫ E[g p(x) e^{−tg}] φ(t)^{i−1} dt ,
    i(i−1) E[A_1 A_2 p(x_1) p(x_2)] = i(i−1) ∫ t E[g p(x) e^{−tg}]² φ(t)^{i−2} dt .

The squared coefficient c² of a row in the function p is between the square of the second, times
E[1/S²]/E[1/S]² of the normaliser S of the other entries and i/(i−1), since a row is centred, and
the third, in which both entries weigh on the normaliser: their geometric mean is taken, and for
rows without heavy entries, whose normaliser has a relative variance well below 0.006, the first.
For i → ∞ the energy and c² tend to E g²/(E g)² and (E[g p(x)]/E g)², if these exist.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Floats
from attnlaw.theory.attention.kernel import (
    Kernel,
    Mode,
    harmonic_dimension,
    norm_rule,
    zonal_polynomials,
)

__all__ = [
    "WIDEST_OVER_SINK",
    "causal_row_energies",
    "decayed_energies",
    "decayed_row_energies",
    "finite_rows",
    "mean_energies",
    "row_energies",
    "row_means",
]

_SCORES = 301

_WIDE = 6.0  # spread of scores from which integrals are taken over u = tg
WIDEST_OVER_SINK = 17.0  # spread b of scores, as which wider ones count: e^{19b} is a float
_FROZEN = 18.0  # spread of scores above which coefficients of blocks do not change
_NORMS = 8  # nodes for the norm of a query, more in few dimensions
_SHORT = 24  # rows with a number of entries of their own
_GROWTH = 0.08  # of the number of entries, between rows that splines connect
_LIGHT = 0.006  # relative variance of the normaliser below which no entry weighs on it
_LEAST_NOISE = 1e-15  # share of it in the energy of a row
_LAGS = 150  # entries, or groups of entries, of a decaying row
_STEP = 0.3  # of log t: the trapezoidal rule has about 14 digits


def row_means(
    log_entries: Floats, weights: Floats, functions: Floats, lengths: Floats
) -> tuple[Floats, Floats]:
    """Mean energy of a row of a softmax less one, and its mean squared coefficients.

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
    squares : array of shape (k, b)
        c².

    Examples
    --------
    A single entry is 1, and many give the log-normal limit e^{β²} − 1:

    >>> x = np.linspace(-8, 8, 401)
    >>> w = np.exp(-x**2 / 2) / np.exp(-x**2 / 2).sum()
    >>> energy, square = row_means(0.5 * x, w, x[None], np.array([1.0, 1e7]))
    >>> energy.round(5)
    array([0.     , 0.28403])
    >>> bool(abs(square[0, 1] - 0.25) < 1e-6)      # (E[g x]/E g)² = β²
    True
    """
    shift = log_entries.max()
    logs = log_entries - shift  # g ≤ 1
    i = np.asarray(lengths, dtype=float)[:, None]
    # φ^{i−1} e^{−tg} falls off above t = 40/g and, for i > 1, above t = 40/(i E g) or so
    high = min(-logs[weights > 1e-14].min() + 4.0, 340.0)
    low = -np.log(i.max()) - 30.0
    log_t = np.arange(low, high + _STEP, _STEP)
    t = np.exp(log_t)
    with np.errstate(under="ignore", over="ignore"):
        g = np.exp(logs)
        decay = np.exp(-np.outer(t, g))
        log_phi = np.log(np.maximum(decay @ weights, 1e-300))
        rest = np.exp((i - 1) * log_phi) * (_STEP * t)  # (b, t)
        energies = i[:, 0] ** 2 * (rest @ (t * (decay @ (weights * g * g)))) - 1
        projected = decay @ (weights * g * functions).T  # (t, k)
        two = np.exp(np.maximum(i - 2, 0) * log_phi) * (_STEP * t * t)
        pairs = (i * (i - 1) * two) @ projected**2
        spread = (rest @ t) / np.maximum(rest.sum(axis=1), 1e-300) ** 2
        single = ((i * rest) @ projected) ** 2 * spread[:, None] * (i / np.maximum(i - 1, 1))
        q = 0.5 + 0.5 * _lightness(logs, weights, i)
        squares = single**q * pairs ** (1 - q)
    return np.maximum(energies, 0.0), np.asarray(squares.T)


def _lightness(log_entries: Floats, weights: Floats, lengths: Floats) -> Floats:
    """Return 1 where no entry of a row affects its normaliser, 0 where single ones do."""
    g = np.exp(log_entries - log_entries.max())
    variance = ((weights @ g**2) / (weights @ g) ** 2 - 1) / lengths  # of the normaliser
    return np.asarray(1 / (1 + (variance / _LIGHT) ** 2))


def row_energies(
    kernel: Kernel, lengths: Floats, norms: Floats | None = None, *, sink: float = 0.0
) -> Floats:
    """Exact i E ΣA² − 1 of rows with i entries, for each query norm (lengths × norms).

    Over a `sink`, see `_energies_over_sink`: exact for spreads up to WIDEST_OVER_SINK.
    """
    x, weights = kernel.scores(_SCORES, cut=False)
    none = np.zeros((0, x.size))
    spreads = kernel.row_beta * (kernel.norms if norms is None else norms)
    if not sink:
        rows = [_spread_row(kernel, b, x, weights, none, lengths)[0] for b in spreads]
        return np.stack(rows, axis=1)
    finest = float(min(max(spreads.max(initial=0) / _WIDE, 1.0), 3.0))
    x, weights = kernel.scores(int(_SCORES * finest), cut=False)
    spreads = np.minimum(spreads, WIDEST_OVER_SINK)
    return np.stack([_energies_over_sink(b * x, weights, lengths, sink) for b in spreads], axis=1)


def _energies_over_sink(
    log_entries: Floats, weights: Floats, lengths: Floats, sink: float
) -> Floats:
    """Exact i E Σ_j (A_j − (1 − A_0)/i)² of i entries beside a sink, of share q where β = 0.

    The sink's exponential is g_0 i q/(1−q), so that with φ_0(t) = E e^{−tg_0 i q/(1−q)}

        i(i−1) ∫ t φ_0 φ^i [ψ_2/φ − (ψ_1/φ)²] dt ,     ψ_k = E[g^k e^{−tg}] .

    Examples
    --------
    A sink that takes half of rows with many equal entries leaves a quarter of their energy:

    >>> x = np.linspace(-8, 8, 401)
    >>> w = np.exp(-x**2 / 2) / np.exp(-x**2 / 2).sum()
    >>> both = [_energies_over_sink(0.01 * x, w, np.array([1e4]), q) for q in (1e-9, 0.5)]
    >>> bool(abs(both[1][0] / both[0][0] - 0.25) < 1e-3)
    True
    """
    logs = log_entries - log_entries.max()
    i = np.asarray(lengths, dtype=float)[:, None]
    log_t = np.arange(-np.log(i.max()) - 30.0, -logs[weights > 1e-14].min() + 4.0, _STEP)
    t, g = np.exp(log_t), np.exp(logs)

    def tilted(power: int, t: Floats) -> Floats:
        return np.asarray(np.exp(-np.multiply.outer(t, g)) @ (weights * g**power))

    with np.errstate(under="ignore"):
        phi = np.maximum(tilted(0, t), 1e-300)
        spread = np.maximum(tilted(2, t) / phi - (tilted(1, t) / phi) ** 2, 0.0)
        taken = tilted(0, t * i * sink / (1 - sink))
        rest = taken * np.exp(i * np.log(phi))
    return np.asarray(i[:, 0] * (i[:, 0] - 1) * (rest @ (_STEP * t * t * spread)))


def mean_energies(kernel: Kernel, lengths: Floats, *, sink: float = 0.0) -> Floats:
    """Exact i E ΣA² − 1 of rows with i entries, over all query norms; also over a `sink`.

    Norms are not cut where n of them end, so that this is the mean over draws.

    Examples
    --------
    Many entries and dimensions have e^{β²} − 1, here e − 1:

    >>> import attnlaw as al
    >>> kernel = Kernel(
    ...     al.SelfAttention(n_tokens=50, head_dimension=10**8, inverse_temperature=1.0))
    >>> mean_energies(kernel, np.array([1.0, 1e8])).round(5)
    array([0.     , 1.71828])
    """
    norms, weights = _all_norms(kernel)
    return np.asarray(row_energies(kernel, lengths, norms, sink=sink) @ weights)


def causal_row_energies(kernel: Kernel, longest: int, *, sink: float = 0.0) -> Floats:
    """`mean_energies` of rows with 1, 2, …, `longest` entries, by splines in log i."""
    return _at_every_length(lambda i: mean_energies(kernel, i, sink=sink), longest)


def decayed_row_energies(kernel: Kernel, slope: float, longest: int) -> tuple[Floats, Floats]:
    """`decayed_energies` of rows with 1, …, `longest` entries, and their mean over all norms."""
    norms, weights = _all_norms(kernel)
    nodes = np.concatenate([kernel.norms, norms])
    rows = _at_every_length(lambda i: decayed_energies(kernel, slope, i, nodes), longest)
    return rows[:, : kernel.norms.size], rows[:, kernel.norms.size :] @ weights


def _all_norms(kernel: Kernel) -> tuple[Floats, Floats]:
    """Nodes and weights of query norms that are not cut where n of them end."""
    if kernel.equal_norms:
        return np.ones(1), np.ones(1)
    n_nodes = _NORMS * (1 if kernel.d >= 48 else 2 if kernel.d >= 16 else 5)
    return norm_rule(kernel.norm_dimension, n_nodes)


def _at_every_length(energies: Callable[[Floats], Floats], longest: int) -> Floats:
    """Energies of rows with 1, 2, …, `longest` entries, by splines in log i."""
    from scipy.interpolate import CubicSpline

    i = np.arange(1.0, longest + 1)
    if longest <= _SHORT:
        return energies(i)
    n_long = int(np.ceil(np.log(longest / _SHORT) / _GROWTH)) + 3
    lengths = np.unique(np.r_[i[:_SHORT], np.geomspace(_SHORT, longest, n_long).round()])
    return np.asarray(CubicSpline(np.log(lengths), energies(lengths))(np.log(i)))


def _spread_row(
    kernel: Kernel, spread: float, x: Floats, weights: Floats, functions: Floats, lengths: Floats
) -> tuple[Floats, Floats]:
    """Return `row_means` for any spread b of the scores; coefficients are those of b ≤ 18."""
    if spread <= _WIDE:
        return row_means(spread * x, weights, functions, lengths)
    energies = _wide_row_energies(kernel, spread, lengths)
    if not len(functions):
        return energies, np.zeros((0, np.size(lengths)))
    return energies, row_means(min(spread, _FROZEN) * x, weights, functions, lengths)[1]


def _wide_row_energies(kernel: Kernel, spread: float, lengths: Floats) -> Floats:
    """Exact i E ΣA² − 1 for scores of spread b ≥ 6.

    With t = e^{−by} and u = tg = e^{b(x−y)} the integrals of this module are over smooth functions
    for every b, up to the single 1 of b → ∞:

        i E ΣA² = i² ∫∫ p(y + (log u)/b) u e^{−u} du φ(y)^{i−1} dy ,
        φ(y)    = ∫ F(y + (log u)/b) e^{−u} du ,

    with p and F the density and the distribution function of a score.
    """
    v = np.arange(-36.0, 4.2, 0.2)
    y = np.arange(-9.5, 9.5 + 20 / spread, 0.03)
    x = y[:, None] + v / spread
    kernel_one = 0.2 * np.exp(v - np.exp(v))
    phi = kernel.score_cdf(x) @ kernel_one
    two = kernel.score_density(x) @ (kernel_one * np.exp(v))
    i = np.asarray(lengths, dtype=float)[:, None]
    with np.errstate(under="ignore"):
        powers = np.exp((i - 1) * np.log(np.clip(phi, 1e-300, 1.0)))
    # a density that ends at a jump, that of equal norms in three dimensions, costs some digits
    return np.asarray(np.clip(0.03 * i[:, 0] ** 2 * (powers @ two) - 1, 0.0, i[:, 0] - 1))


def decayed_energies(
    kernel: Kernel, slope: float, lengths: Floats, norms: Floats | None = None
) -> Floats:
    """Exact Σ_j E(A_j − π_j)²/Σ_j π_j² of rows with π_j ∝ e^{−mj}, j < i (lengths × norms).

    With v_j = e^{−mj}, φ(t) = E e^{−tg}, ψ_1 = −φ' and ψ_2 = φ'',

        E Σ A_j²     = ∫ t Φ Σ v_j² ψ_2(v_j t)/φ(v_j t) dt ,     Φ(t) = Π_j φ(v_j t) ,
        Σ π_j E A_j  = ∫ Φ Σ v_j² ψ_1(v_j t)/φ(v_j t) dt/Σ v_j ,

    in which entries further away than 30/m, or next to each other, are not distinguished.

    Examples
    --------
    >>> import attnlaw as al
    >>> kernel = Kernel(al.SelfAttention(n_tokens=50, head_dimension=64, inverse_temperature=0.8))
    >>> lengths = np.array([1.0, 7.0, 50.0])
    >>> flat = decayed_energies(kernel, 1e-9, lengths)
    >>> bool(np.abs(flat - row_energies(kernel, lengths)).max() < 1e-5)
    True
    """
    lengths = np.asarray(lengths)
    norms = kernel.norms if norms is None else norms
    short = lengths <= 2 * _LAGS
    if short.any() and not short.all():  # which need every entry by itself
        result = np.empty((lengths.size, norms.size))
        for part in (short, ~short):
            result[part] = decayed_energies(kernel, slope, lengths[part], norms)
        return result
    x, weights = kernel.scores(_SCORES, cut=False)
    step = max(1, round(min(0.04 / slope, lengths.max() / _LAGS)))
    if short.all():
        step = 1
    lags = np.arange(0, min(int(lengths.max()), int(30 / slope) + 1), step)
    v = np.exp(-slope * (lags + 0.5 * (step - 1)))
    last = np.clip(np.round(lengths / step).astype(int), 1, lags.size) - 1
    spreads = np.minimum(kernel.row_beta * norms, _FROZEN)
    energies = [_decayed_energy(b * x, weights, v, step, last) for b in spreads]
    return np.maximum(np.stack(energies, axis=1), 0.0)


def _decayed_energy(
    log_entries: Floats, weights: Floats, v: Floats, step: int, last: NDArray[np.intp]
) -> Floats:
    """Return `decayed_energies` of one query; rows end at `last`, v_j is of `step` entries."""
    from scipy.interpolate import CubicSpline

    total, squares = step * np.cumsum(v)[last], step * np.cumsum(v * v)[last]
    logs = log_entries - log_entries.max()
    g = np.exp(logs)
    fine = 0.1  # step of log t
    log_t = np.arange(-np.log(total.max()) - 34.0, min(-logs.min() + 4.0, 340.0), fine)
    with np.errstate(under="ignore"):
        decay = np.exp(-np.outer(np.exp(log_t), g))
    phi = np.maximum(decay @ weights, 1e-300)
    table = np.stack([np.log(phi), decay @ (weights * g) / phi, decay @ (weights * g * g) / phi])
    below = np.maximum(log_t[:, None] + np.log(v), log_t[0])  # log(v_j t)
    log_phi, one, two = CubicSpline(log_t, table, axis=1)(below)  # log φ, ψ₁/φ, ψ₂/φ
    share = step * v**2
    Phi = np.exp(np.maximum(step * np.cumsum(log_phi, axis=1)[:, last], -700.0))
    t = np.exp(log_t)[:, None]
    second = (t * t * Phi * np.cumsum(share * two, axis=1)[:, last]).sum(axis=0) * fine
    first = (t * Phi * np.cumsum(share * one, axis=1)[:, last]).sum(axis=0) * fine / total
    mean_square = squares / total**2
    return np.asarray((second - 2 * first) / mean_square + 1)


def finite_rows(
    kernel: Kernel,
    modes: list[Mode],
    rest: Floats,
    lengths: Floats,
    means: Floats | None = None,
) -> tuple[Floats, Floats, Floats]:
    """α of the blocks (K × lengths × norms), of the noise, and the energy of the key-norm term.

    The energies of a row add up to the exact one given its norm, times the factor that makes their
    mean over the norms of n tokens the exact one over all norms (`mean_energies`, or given as
    `means`); a block of degree k keeps the share c_k(i)²/c_k(∞)² of its energy in a row of
    infinitely many entries, where the remainder has the energy `rest` (of each norm). A row
    without heavy entries differs from such a row by its normaliser only, a common factor
    (docs/theory/realistic-heads.md, "Step 3: the energy of single rows").
    """
    x, weights = kernel.scores(_SCORES, cut=False)
    polynomials = _polynomials(kernel, x, max((mode.degree for mode in modes), default=0))
    share = np.empty((len(polynomials), lengths.size, kernel.norms.size))  # c_k(i)²/c_k(∞)²
    energy, light = np.empty((2, lengths.size, kernel.norms.size))
    for j, r in enumerate(kernel.norms):
        spread = kernel.row_beta * r
        energy[:, j], squares = _spread_row(kernel, spread, x, weights, polynomials, lengths)
        limits = _limits(kernel, x, weights, polynomials, r)
        share[:, :, j] = squares / limits[:, None] ** 2
        light[:, j] = _lightness(min(spread, _FROZEN) * x, weights, lengths)
    exact = mean_energies(kernel, lengths) if means is None else means
    energy = energy * (exact / np.maximum(energy @ kernel.weights, 1e-300))[:, None]
    blocks = np.array(
        [mode.strength * mode.left**2 * share[mode.degree - 1] for mode in modes]
    ).reshape(len(modes), *energy.shape)
    strength = np.array([mode.strength * (mode.right**2 @ kernel.weights) for mode in modes])
    term = np.minimum(_term_energy(kernel) * share[0], 0.5 * energy)
    known = np.tensordot(strength, blocks, axes=1)
    least = 1e-3 * np.minimum(1.0, kernel.beta * kernel.norms) ** 2
    heavy = np.maximum(energy - term - known, least * energy)
    scaled = (energy - term) * np.maximum(rest / (known + rest + 1e-300), _LEAST_NOISE)
    noise = light * scaled + (1 - light) * heavy
    # blocks have what is left, so that the sum stays exact
    room = np.where(known > 0, (energy - term - noise) / np.where(known > 0, known, 1.0), 0.0)
    return blocks * room, noise, term


def _polynomials(kernel: Kernel, x: Floats, top: int) -> Floats:
    """Functions p_1 … p_K of the score: Hermite, or Gegenbauer when all norms are equal."""
    top = max(top, 1)
    if kernel.equal_norms:
        zonal = zonal_polynomials(top, kernel.d, x / kernel.d**0.5)
        sizes = [harmonic_dimension(kernel.d, k) ** 0.5 for k in range(top + 1)]
        return np.array([size * p for size, p in zip(sizes, zonal, strict=True)])[1:]
    hermite = [np.ones_like(x), x]
    for k in range(1, top):
        hermite.append(x * hermite[-1] - k * hermite[-2])
    return np.array(hermite[1 : top + 1])


def _limits(kernel: Kernel, x: Floats, weights: Floats, polynomials: Floats, r: float) -> Floats:
    """Coefficients c_k of a row of infinitely many entries: E[g p_k]/E g, Hermite (βr)^k."""
    if not kernel.equal_norms:
        return np.asarray((kernel.beta * r) ** np.arange(1.0, len(polynomials) + 1))
    g = np.exp(kernel.beta * (x - x.max())) * weights
    return np.asarray(polynomials @ g / g.sum())


def _term_energy(kernel: Kernel) -> Floats:
    """Energy of degree 0, due to the keys' norms, for each query norm."""
    t, w = kernel.norms, kernel.weights
    B = kernel.coefficient(0, np.outer(t, t)) / kernel.normaliser(t)[:, None]
    B = B - (B @ w)[:, None]
    return np.asarray(B**2 @ w)
