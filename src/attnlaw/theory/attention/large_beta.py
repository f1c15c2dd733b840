"""Heads at large inverse temperature: limits of other laws, rows with single large entries.

`warn_outside_regime` warns where a law does not hold, with the number that shows it; mostly that
is where a few entries dominate a row. `cavity_law` holds there: it treats these individually.

A row is a softmax over n independent scores, given the query's norm r. Its K largest entries are
those of the largest order statistics of n scores, exactly; the sums of all others are replaced by
their means given the K-th. A key whose score is x (for a query of norm 1) has a norm s with
d_k s² = x² + χ²_{d_k−1}, and its column is that of its norm. Uniform attention is a matrix of rank
one and changes no law, nor does c_i 1ᵀ for any c, and c_i is the mean of the small entries, which
leaves the least energy. Derived in docs/theory/large-beta.md, "Fluctuating resolvents".

Row i of a causal head has i entries, and those fall on the first i columns. There c_i over j ≤ i
is a matrix of high rank, so that the remainder of uniform attention, m_i = √i (1/i − c_i), is kept
(docs/theory/large-beta.md, "Causal heads").
"""

from dataclasses import replace
from functools import lru_cache
from math import isqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, erfcx, gammainc, gammaincinv, log_ndtr, ndtr, ndtri

from attnlaw._checks import Floats, warn_regime
from attnlaw.laws import CavityLaw, HeavyRows
from attnlaw.models import SelfAttention
from attnlaw.theory.attention.kernel import Kernel
from attnlaw.theory.attention.rows import (
    WIDEST_OVER_SINK,
    causal_row_energies,
    mean_energies,
)

__all__ = [
    "cavity_law",
    "normaliser_variance",
    "row_energy_variance",
    "warn_outside_regime",
    "weyl_points",
]

_ROWS = 512
_ENTRIES = 24
_LEAST_ENTRIES = 6  # of each of several heads
_FOR_MEAN = 8  # sweeps from which the energy that a sink leaves is estimated
_LEAST_ROWS = 128  # a power of two, like the number of rows
_SWEEPS = 40
_CAUSAL_ROWS = 768  # at most, of a causal head; with fewer tokens each has its row
_CAUSAL_TOTAL = 12_000  # rows of all sweeps that are counted
_MANY, _FEW = 2.0, 4.5  # inverse temperatures below and above which a row has many, few entries
_TABULATED = 12  # dimensions from which distributions of norms are interpolated
_STRATA = 16  # neighbouring columns, that differ in the norms of their keys

_MOST_NORMALISER = 0.1
_MOST_ENERGY = 1.0
_MOST_CAUSAL_BETA = 1.7
_LEAST_SEEN = 40.0  # tokens, of a head with a mean pattern
_LEAST_DIMENSION = 10  # from which laws of order "norms" and "tokens" hold to a few percent
_MOST_COLUMNS = 0.06  # variance of columns' energies, above which the largest values are too large
_MOST_IN_BIN = 0.6  # tokens of a bin, for each dimension, of a cool head with a window
_COOL = 0.5


def warn_outside_regime(model: SelfAttention, order: str, tokens: float = 1.0) -> None:
    """Warn outside the regime of a law of this order, or a mixture with `tokens` of its share."""
    n, beta = model.n_tokens, model.inverse_temperature
    if order in ("norms", "tokens", "mixed") and 3 <= model.head_dimension < _LEAST_DIMENSION:
        warn_regime(
            f"head_dimension {model.head_dimension} is below {_LEAST_DIMENSION}: singular values "
            "fall over many orders of magnitude, and their distribution is off by about 0.05 at "
            "width 8 and 0.4 at width 4 (500 tokens).",
        )
    if model.causal:
        if order == "tokens" and beta > _MOST_CAUSAL_BETA:
            warn_regime(
                f"inverse_temperature {beta:g} is above {_MOST_CAUSAL_BETA:g}: single entries "
                'dominate rows of a causal head, and a law of order "tokens" is off by about '
                '0.05 at 2 and 0.2 at 4; order "cavity" is for heads without window or slope.',
            )
        elif order in ("tokens", "mixed"):
            _warn_of_narrow_head(model, tokens)
        seen = _effective_length(model)
        if model.has_pattern and seen < min(_LEAST_SEEN, model.n_tokens):
            warn_regime(
                f"a row of this head sees {seen:.3g} tokens in effect, below {_LEAST_SEEN:g}: its "
                "law is off by about 0.02 at 32 tokens and 0.04 at 8.",
            )
        return
    if order in ("cavity", "mixed"):
        return
    variance = normaliser_variance(model)
    energy = row_energy_variance(model)
    if variance > _MOST_NORMALISER:
        warn_regime(
            f"inverse_temperature {beta:g} is near or above √(log n) = {np.log(n) ** 0.5:.3g}: a "
            f"row's normaliser has relative variance {variance:.3g}, and the law assumes that it "
            f"is below {_MOST_NORMALISER:g}.",
        )
    elif order != "tokens" and energy > _MOST_ENERGY:
        warn_regime(
            f"the energy of a row at {n} tokens has relative variance {energy:.3g}, and a law of "
            f'order "{order}" assumes that it is small; order "tokens" does not.',
        )


def _warn_of_narrow_head(model: SelfAttention, tokens: float) -> None:
    n, beta = model.n_tokens, model.inverse_temperature
    if beta > _COOL and model.head_dimension >= 3:
        kernel = Kernel(model)
        weights = kernel.normaliser(kernel.norms)  # of columns, by the norm of their key
        variance = float(kernel.weights @ weights**2 / (kernel.weights @ weights) ** 2 - 1)
        variance *= tokens / (kernel.h_keys if kernel.is_mean else 1)
        if variance > _MOST_COLUMNS:
            warn_regime(
                f"weights of columns have relative variance {variance:.3g} by the norms of keys, "
                f"above {_MOST_COLUMNS:g}: the largest values of the law, bulk_edge and "
                "second_moment are too large, mostly by 10 to 70 % and up to 3 times.",
            )
    elif beta <= _COOL and model.window is not None and model.window < n:
        share = min(0.02 * n, model.window / 6) / model.head_dimension  # a bin, at most
        if share > _MOST_IN_BIN:
            warn_regime(
                f"the law of a window takes {share:.3g} tokens for each dimension as one, above "
                f"{_MOST_IN_BIN:g}: it is off by about 0.04 at 1 and 0.13 at 2.5.",
            )


def normaliser_variance(model: SelfAttention) -> float:
    """Relative variance of a row's normaliser, (E e^{β²r²} − 1)/n.

    Notes
    -----
    E e^{β²r²} = (1 − 2β²/d_k)^{−d_k/2}, which tends to e^{β²}; at about β = √(log n) one entry
    dominates the normaliser and no expansion of the softmax holds. Infinite when 2β² ≥ d_k.

    Examples
    --------
    >>> import attnlaw as al
    >>> head = al.SelfAttention(n_tokens=1000, head_dimension=10**9, inverse_temperature=1.0)
    >>> round(1000 * normaliser_variance(head), 6)      # e − 1
    1.718282
    """
    return float(_exponential_moment(model.inverse_temperature**2, model.head_dimension)) / (
        model.n_tokens
    )


def row_energy_variance(model: SelfAttention) -> float:
    """Relative variance of the energy of a row over tokens, E f⁴/(n (E f²)²), for large d_k.

    Notes
    -----
    E f⁴ = e^{6β²} − 4e^{3β²} + 6e^{β²} − 3 for f = e^{βx−β²/2} − 1. Laws of order "first",
    "powers" and "norms" replace the energy of a row by its mean.

    Examples
    --------
    >>> import attnlaw as al
    >>> head = al.SelfAttention(n_tokens=1000, head_dimension=64, inverse_temperature=1.0)
    >>> round(row_energy_variance(head), 3)
    0.114
    """
    square = model.inverse_temperature**2
    if square > 100:
        return float("inf")
    if square < 1e-4:
        return 3 / model.n_tokens if square else 0.0  # f is linear, and Gaussian
    fourth = np.exp(6 * square) - 4 * np.exp(3 * square) + 6 * np.exp(square) - 3
    return float(fourth / np.expm1(square) ** 2 / model.n_tokens)


def _exponential_moment(square: float, dimension: int) -> float:
    """E e^{β²r²} − 1 for r² a mean of d squares of standard Gaussians."""
    if 2 * square >= dimension:
        return float("inf")
    exponent = -0.5 * dimension * np.log1p(-2 * square / dimension)
    return float(np.expm1(exponent)) if exponent < 700 else float("inf")


def _effective_length(model: SelfAttention) -> float:
    """Effective number (Σπ)²/Σπ² of tokens that the last row of a causal head sees.

    tanh(mL/2)/tanh(m/2) for a slope m and L tokens, L if there is none.
    """
    n, m = model.n_tokens, model.alibi_slope
    length = min(n, model.window or n)
    if m * length < 1e-9:
        return float(length)
    return float(np.tanh(0.5 * m * length) / np.tanh(0.5 * m))


def cavity_law(model: SelfAttention) -> CavityLaw:
    """Return the law of a head, causal or not, or of several, by the cavity method."""
    n = model.n_tokens - (1 if model.sink else 0)
    kernel = Kernel(model)
    h, is_mean = model.n_heads, model.combination == "mean"
    share = h if is_mean else 1
    if not model.causal:
        mean = float(mean_energies(kernel, np.array([float(n)]))[0])
        rows = (_ROWS if h <= 4 else _LEAST_ROWS) if is_mean else max(_ROWS // h, _LEAST_ROWS)
        lengths = np.full(rows, n)
        sweeps = [_rows_of_heads(model, lengths, sweep) for sweep in range(_SWEEPS)]
        return CavityLaw(sweeps, mean / share)
    fewer = max(h / 4, 1.0)  # rows of many heads fluctuate less
    n_rows = min(n, max(int(_CAUSAL_ROWS / fewer), _LEAST_ROWS))
    lengths = ((np.arange(n_rows) + 0.5) * (n / n_rows)).astype(np.intp) + 1
    n_sweeps = 15 + min(max(int(_CAUSAL_TOTAL / fewer) // n_rows, 12), 150)
    sweeps = [_rows_of_heads(model, lengths, sweep) for sweep in range(n_sweeps)]
    is_wide = kernel.row_beta * kernel.norms.max() > WIDEST_OVER_SINK
    sink = 0.0 if is_wide else model.sink
    mean = float(causal_row_energies(kernel, n, sink=sink).mean()) / share
    if model.sink and is_wide:  # the share that it leaves, seen on the same rows
        alone = [_rows_of_heads(replace(model, sink=0.0), lengths, t) for t in range(_FOR_MEAN)]
        energy, whole = (
            np.mean([_energies(rows, lengths) for rows in part])
            for part in (sweeps[:_FOR_MEAN], alone)
        )
        mean *= float(energy / whole) if whole > 0 else 1.0
    cancelled = float(np.clip((_FEW - model.inverse_temperature) / (_FEW - _MANY), 0.0, 1.0))
    return CavityLaw(sweeps, mean, tokens=n / n_rows, cancelled=cancelled)


def _energies(rows: HeavyRows, lengths: NDArray[np.intp]) -> Floats:
    """Energies of causal rows: heavy entries and noise on top of offsets, which sum to zero."""
    heavy = rows.squares.sum(axis=1) + rows.rest
    offsets = np.zeros_like(heavy) if rows.offsets is None else rows.offsets
    return np.asarray(heavy - rows.ratio * lengths * offsets**2)


def weyl_points(first: int, n_points: int, n_coordinates: int) -> Floats:
    """Points ({i²√2}, {i²√3}, {i²√5}, …) for n whole numbers i from the first on.

    Quadratic Weyl sequences: deterministic, evenly distributed in any number of coordinates, and,
    unlike lattices, with gaps like those of independent points (Rudnick & Sarnak 1998), as the
    Poisson numbers of entries in a column need.

    Examples
    --------
    >>> weyl_points(1, 2, 3).round(4)      # fractional parts of i²√2, i²√3, i²√5
    array([[0.4142, 0.7321, 0.2361],
           [0.6569, 0.9282, 0.9443]])
    """
    roots = np.array([isqrt(p << 128) % 2**64 for p in _primes(n_coordinates)], dtype=np.uint64)
    i = np.arange(first, first + n_points, dtype=np.uint64)
    return ((i * i)[:, None] * roots >> np.uint64(11)).astype(float) * 2.0**-53 + 2.0**-54


@lru_cache(maxsize=8)
def _primes(number: int) -> list[int]:
    primes: list[int] = []
    candidate = 2
    while len(primes) < number:
        if all(candidate % p for p in primes):
            primes.append(candidate)
        candidate += 1
    return primes


def _rows_of_heads(model: SelfAttention, lengths: NDArray[np.intp], sweep: int) -> HeavyRows:
    """Rows of one head, or of h heads side by side (over √h) or averaged (over h).

    Side by side each has its own columns, and offsets are the same for all heads. In a mean all
    have entries in the same columns, with different norms if they have their own keys.
    """
    h, P = model.n_heads, lengths.size
    if h == 1:
        return _heavy_rows(model, lengths, sweep)
    heads = [_heavy_rows(model, lengths, sweep * h + a) for a in range(h)]
    squares = np.concatenate([head.squares for head in heads], axis=1)
    rest = np.mean([head.rest for head in heads], axis=0)
    own = [head.offsets for head in heads if head.offsets is not None]
    offsets = np.mean(own, axis=0) if own else None
    if model.combination != "mean":
        columns = np.concatenate([a * P + head.columns for a, head in enumerate(heads)], axis=1)
        offset = None if offsets is None else offsets / h**0.5
        return HeavyRows(squares / h, rest, columns, offset, h)
    size = h // model.n_key_heads
    columns = np.concatenate(
        [
            head.columns if model.causal else (2 * (a // size) + 1) * head.columns % P
            for a, head in enumerate(heads)
        ],
        axis=1,
    )
    return HeavyRows(squares / h**2, rest / h, columns, offsets)


def _heavy_rows(model: SelfAttention, lengths: NDArray[np.intp], sweep: int) -> HeavyRows:
    """Rows with the given numbers of entries, of which all but one are kept if there are few."""
    P = lengths.size
    K = min(max(_ENTRIES // model.n_heads, _LEAST_ENTRIES), int(lengths.max()) - 1)
    u = weyl_points(1 + P * sweep, P, (3 if model.causal else 2) * K + 2)
    x, spread, columns = _largest_scores(model, lengths, K, u)
    i, kept = lengths[:, None], np.minimum(K, lengths - 1)
    largest = x[np.arange(P), np.maximum(kept - 1, 0)]  # of those not kept, an upper bound
    top = spread * x[:, 0]
    is_kept = np.arange(K) < kept[:, None]
    heavy = np.where(is_kept, np.exp(np.minimum(spread[:, None] * x - top[:, None], 0.0)), 0.0)
    n_light = lengths - kept
    light = _light_sums(model, spread, largest, top) * n_light
    total = heavy.sum(axis=1) + light[0]
    mean = light[0] / n_light
    squares = np.where(is_kept, i * ((heavy - mean[:, None]) / total[:, None]) ** 2, 0.0)
    variance = np.maximum(light[1] - light[0] * mean, 0.0) * (1 - 1 / n_light)
    rest = lengths * variance / total**2
    if not model.causal:
        return HeavyRows(squares, rest, columns)
    offsets = np.sqrt(lengths) * np.where(lengths > 1, 1 / lengths - mean / total, 0.0)
    if model.sink:  # whose score is one more, and which leaves its share to the others
        score = np.minimum(spread * ndtri(u[:, -1]) - top, 300.0)
        sink = model.sink / (1 - model.sink) * lengths * np.exp(score)
        left = total / (total + sink)
        return HeavyRows(squares * left[:, None] ** 2, rest * left**2, columns, offsets * left)
    return HeavyRows(squares, rest, columns, offsets)


def _largest_scores(
    model: SelfAttention, lengths: NDArray[np.intp], K: int, u: Floats
) -> tuple[Floats, Floats, NDArray[np.intp]]:
    """Return the K largest scores of each row, β times its query's norm, and the scores' columns.

    From evenly distributed points, the rows of u. The k-th order statistic of i scores has the
    upper tail v_k, 1 − v_k = Π_{j<k} (uniform)^{1/(i−j)}.
    """
    d, P = model.head_dimension, lengths.size
    even = u[:, [*range(K), -2]]
    within = (P * even) % 1 if model.causal else 0.5
    ranks = np.argsort(np.argsort(even, axis=0), axis=0)
    strata = (ranks + within) / P  # each coordinate evenly
    left = np.maximum(lengths[:, None] - np.arange(K), 1)
    tails = -np.expm1(np.cumsum(np.log(strata[:, :K]) / left, axis=1))
    if model.qk_norm:
        other = max((d - 1) / 2, 1e-9)  # half the dimensions across the query
        sine = betaincinv(other, 0.5, 2 * np.minimum(tails, 1 - tails))  # squared
        x = np.asarray(np.sign(0.5 - tails) * np.sqrt(d * (1 - sine)), dtype=float)
        spread = np.full(P, model.inverse_temperature)
        place = u[:, K : 2 * K]
    else:
        x = np.asarray(-ndtri(tails), dtype=float)
        spread = model.inverse_temperature * np.sqrt(2 * gammaincinv(d / 2, strata[:, -1]) / d)
        place = _norm_places(d, x, u[:, K : 2 * K])
    if model.causal:
        return x, spread, _columns_before(u[:, 2 * K : 3 * K], place)
    return x, spread, np.minimum((P * place).astype(np.intp), P - 1)


def _norm_places(d: int, x: Floats, u: Floats) -> Floats:
    """P(χ²_d < x² + c) for the quantiles c of χ²_{d−1} at u.

    Both functions are nearly linear in Gaussian quantiles and the root of χ², and interpolated.
    """
    if d < _TABULATED:
        squared = x**2 + 2 * gammaincinv(max((d - 1) / 2, 1e-9), u)
        return np.asarray(gammainc(d / 2, 0.5 * squared), dtype=float)
    z, across = _norm_quantiles(d - 1)
    other = np.interp(ndtri(u), z, across)
    return np.asarray(ndtr(np.interp(np.sqrt(x**2 + other**2), _norm_quantiles(d)[1], z)))


@lru_cache(maxsize=8)
def _norm_quantiles(d: int) -> tuple[Floats, Floats]:
    """Gaussian quantiles, and those of the root of χ²_d."""
    z = np.linspace(-8.5, 8.5, 2001)
    return z, np.sqrt(2 * gammaincinv(d / 2, ndtr(z)))


def _columns_before(position: Floats, place: Floats) -> NDArray[np.intp]:
    """Columns at random positions up to that of the row, of keys whose norm has the given place.

    The norms of sixteen neighbouring columns are the sixteen parts of their distribution.
    """
    row = np.arange(len(place))[:, None]
    anywhere = (position * (row + 1)).astype(np.intp)
    part = np.minimum((_STRATA * place).astype(np.intp), _STRATA - 1)
    column = anywhere // _STRATA * _STRATA + 7 * part % _STRATA
    return np.asarray(np.where(column <= row, column, anywhere))


def _light_sums(
    model: SelfAttention, spread: Floats, largest: Floats, top: Floats
) -> NDArray[np.float64]:
    """E[e^{bx}] and E[e^{2bx}] over e^{top}, e^{2 top} for scores x below the largest."""
    b = np.array([[1.0], [2.0]]) * spread
    shift = np.array([[1.0], [2.0]]) * top
    if not model.qk_norm:
        above = (b - largest) / np.sqrt(2)  # e^{b²/2} Φ(l−b) = e^{bl−l²/2} erfcx(above)/2
        tail = np.log(0.5 * erfcx(np.maximum(above, 0.0))) - 0.5 * largest**2
        far = (b * largest - shift) + tail  # in this order: b may be beyond all digits of the rest
        with np.errstate(over="ignore", invalid="ignore"):
            near = 0.5 * b**2 + log_ndtr(largest - b) - shift
            return np.asarray(np.exp(np.where(above > 0, far, near) - log_ndtr(largest)))
    x, weights = Kernel(model).scores(4001, cut=False)
    # log E[e^{b(x−l)}; x < l] at l on the grid, of which single points are left at large b
    slope = np.minimum(b[:, :1], 1e6) * x
    sums = np.logaddexp.accumulate(np.log(np.maximum(weights, 1e-300)) + slope, axis=1) - slope
    below = np.array([np.interp(largest, x, s) for s in sums])
    share = np.interp(largest, x, np.cumsum(weights))
    return np.asarray(np.exp(below + (b * largest - shift)) / np.maximum(share, 1e-300))
