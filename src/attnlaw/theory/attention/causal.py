"""Causal heads at any size: variance profiles whose rows have i entries, i = 1 … n.

Blocks are the harmonics of `kernel`, each with its first mode. A row with i entries has

- the exact energy i E ΣA² − 1 of a softmax over i scores, given the query's norm (`rows`),
- of which a block of degree k keeps the share c_k²(i)/c_k²(∞), with c_k²(i) the mean squared
  coefficient of such a row in p_k(x), interpolated between two exact means (`rows`),
- and the remainder is noise, with an energy that fluctuates from row to row like that of a sum of
  i entries (`energies`); columns likewise, with the effective number of their rows.

Derived in docs/theory/causal-heads.md, "Heads of finite size"; mean patterns in
docs/theory/causal-heads.md, "Mean patterns".
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from attnlaw._checks import Floats
from attnlaw._machine import require_memory
from attnlaw.laws.causal_profile import CausalProfile, token_bins
from attnlaw.models import SelfAttention
from attnlaw.theory.attention.energies import Entries, Sums, doubled_sums
from attnlaw.theory.attention.kernel import Kernel, Mode
from attnlaw.theory.attention.rows import (
    causal_row_energies,
    decayed_row_energies,
    finite_rows,
    mean_energies,
    row_energies,
)

__all__ = ["CausalHead", "causal_energies", "causal_head"]

_RESOLVED = 0.05  # n/N_k below which a block is noise
_STRUCTURE = 0.75  # n/N_k from which the energy of a block does not fluctuate
_STRATA = np.array([0.4, 0.35, 0.19, 0.05, 0.01])  # of rows by their energy
_SCORES = 301
_REACHES = 8  # of a pattern, that are kept of a long sequence
_IN_REACH = 6  # bins in the reach of a pattern
_SINK_NODES = 5


class CausalHead(NamedTuple):
    """The profile of a causal head, and the additional energy of the key norms."""

    profile: CausalProfile
    term_energy: float


class _Tokens(NamedTuple):
    """Tokens in bins, with the effective sizes of their rows and columns."""

    bins: Floats  # number of tokens
    counts: Floats  # that a bin stands for
    lengths: Floats  # effective number of entries of a row, (Σπ)²/Σπ²
    seen: Floats  # effective number of rows of a column
    are_alike: bool  # whether the entries of a row are


class _Energies(NamedTuple):
    """Energies of the rows of each bin, by query norm (bins × norms)."""

    blocks: Floats  # of each block
    noise: Floats  # in no block
    term: Floats  # of the key norms

    def times(self, ratio: Floats) -> "_Energies":
        return _Energies(*(part * ratio for part in self))


def causal_head(model: SelfAttention) -> CausalHead:
    """Return the profile of a causal head, or of several side by side or their mean.

    A mean pattern enters by the effective number of entries of each row, and by M in the
    equations. Without one, entries of a row sum to 1, so that row i is orthogonal to its own mean:
    in the basis of Helmert's contrasts Y is a causal matrix whose row i has i − 1 entries, and its
    first row and column are empty. Over a sink, a row is the softmax over the other tokens times
    the share that the sink leaves: its energy is smaller by the square of that share.
    """
    shift = 0 if model.has_pattern else 1  # entries of a row that the others determine
    n_empty = 1 if model.sink else shift
    kernel = _kernel(replace(model, n_tokens=model.n_tokens - 1) if model.sink else model)
    tokens = _tokens(model, model.n_tokens - n_empty)
    lengths = tokens.lengths + shift
    found, rest = kernel.modes(_RESOLVED)
    modes: list[Mode] = []
    for mode in found:
        if mode.degree in _degrees(modes):
            rest = rest + mode.strength**2 * np.outer(mode.left**2, mode.right**2)
        else:
            modes.append(mode)
    means = None
    if not model.alibi_slope:
        means = _means_of_bins(kernel, model.window, tokens.bins, shift)
    energies = _Energies(*finite_rows(kernel, modes, rest @ kernel.weights, lengths, means))
    if not tokens.are_alike:
        energies = energies.times(_decay_ratio(kernel, model, tokens.bins, lengths))
    left, left_weights = _left_by_sink(kernel, model.sink)
    if model.sink:
        left_mean = left @ left_weights
        ratio = np.broadcast_to(left_mean, energies.noise.shape)
        if means is not None:
            sunk = _means_of_bins(kernel, model.window, tokens.bins, shift, sink=model.sink)
            ratio = _sink_ratio(
                kernel, model.sink, lengths, sunk / np.maximum(means, 1e-300), ratio
            )
        energies, left = energies.times(ratio), left / left_mean[:, None]
    live = tokens.counts * (lengths > 1)  # a row with a single entry has no energy at all
    profile = CausalProfile(
        bins=tokens.bins,
        **_variances(kernel, modes, rest, energies, tokens, live, (left, left_weights)),
        latent_dimensions=np.array([*(kernel.n / mode.ratio for mode in modes), np.inf]),
        repeats=1 if kernel.is_mean else kernel.h,
        slope=model.alibi_slope,
        window=np.inf if model.window is None else float(model.window),
        counts=tokens.counts,
        n_empty=n_empty,
    )
    share = kernel.h_keys if kernel.is_mean else 1  # heads that share keys share their norms
    mean_term = tokens.counts @ energies.term @ kernel.weights / (tokens.counts.sum() + n_empty)
    return CausalHead(profile, float(mean_term) / share)


def _decay_ratio(kernel: Kernel, model: SelfAttention, bins: Floats, lengths: Floats) -> Floats:
    """Exact energy of rows whose entries decay, over that of as many equal ones (bins × norms)."""
    w = kernel.weights
    longest = min(int(bins.sum()), model.window or int(bins.sum()))
    rows_at, over_norms = (
        _in_bins(rows, bins) for rows in decayed_row_energies(kernel, model.alibi_slope, longest)
    )
    scale = over_norms / np.maximum(rows_at @ w, 1e-300)
    seen = row_energies(kernel, lengths)
    scale *= seen @ w / np.maximum(mean_energies(kernel, lengths), 1e-300)
    some = (lengths > 1 + 1e-9)[:, None] & (seen > 1e-250)  # a single entry has no energy
    ratio = np.where(some, rows_at / np.where(some, seen, 1.0), 1.0)
    return np.asarray(ratio * np.where(some.any(axis=1), scale, 1.0)[:, None])


def _sink_ratio(
    kernel: Kernel, sink: float, lengths: Floats, over_means: Floats, otherwise: Floats
) -> Floats:
    """Exact energy of rows over a sink, over that of rows without one (bins × norms).

    `over_means` is the same ratio of exact means over all norms, to which each row is scaled;
    rows without energy have the ratio `otherwise`.
    """
    w = kernel.weights
    own, plain = (row_energies(kernel, lengths, sink=q) for q in (sink, 0.0))
    scale = over_means * (plain @ w) / np.maximum(own @ w, 1e-300)
    exact = own / np.maximum(plain, 1e-300) * scale[:, None]
    return np.where(plain > 0, exact, otherwise)


def _variances(
    kernel: Kernel,
    modes: list[Mode],
    rest: Floats,
    energies: _Energies,
    tokens: _Tokens,
    live: Floats,
    left_by_sink: tuple[Floats, Floats],
) -> dict[str, Floats]:
    """Variances of the kinds of rows and columns: a query norm, a stratum, a share of the sink."""
    w, (left, left_weights) = kernel.weights, left_by_sink
    felt = np.array([mode.degree > 1 and mode.ratio < _STRUCTURE for mode in modes] + [True])
    entries = Entries(kernel, [m for m, f in zip(modes, felt, strict=False) if not f], _SCORES)
    rows, columns = _balanced(*_fluctuations(kernel, entries, tokens), live, w)
    alpha = kernel.of_rows(np.concatenate([energies.blocks, energies.noise[None]]))
    gamma = np.array([mode.strength * mode.right**2 for mode in modes] + [_relative(w @ rest, w)])
    shape = (len(gamma), tokens.bins.size, w.size)
    gamma = np.broadcast_to(kernel.of_columns(gamma)[:, None], shape)
    rows = 1 + (rows - 1) / kernel.h**0.5
    columns = 1 + (columns - 1) / (kernel.h_keys if kernel.is_mean else 1) ** 0.5
    kinds = (w[:, None] * _STRATA).ravel()

    def spread(variances: Floats, factors: Floats) -> Floats:
        fluctuates = np.where(felt[:, None, None, None], factors, 1.0)
        return np.asarray(variances[..., None] * fluctuates)

    def by_kinds(variances: Floats) -> Floats:
        return variances.reshape(*variances.shape[:2], -1)

    def over_sink(variances: Floats) -> Floats:
        return by_kinds(variances[..., None] * left[:, None])

    ones = np.ones_like(rows)
    return {
        "row_weights": (kinds[:, None] * left_weights).ravel(),
        "column_weights": kinds,
        "row_variances": over_sink(spread(alpha, rows)),
        "column_variances": by_kinds(spread(gamma, columns)),
        "row_means": over_sink(spread(alpha, ones)),
        "column_means": by_kinds(spread(gamma, ones)),
    }


def _tokens(model: SelfAttention, n: int) -> _Tokens:
    """Bins of tokens: by position only, or fine enough to resolve a pattern.

    A pattern that is short beside the sequence repeats the same rows: of a long sequence the first
    and last parts are kept, and the bins between represent the rest.
    """
    if not model.alibi_slope and (model.window is None or model.window >= n):
        require_memory(64.0 * n, "n_tokens", n, "sums over rows")
        bins = token_bins(n)
        lengths = np.cumsum(bins) - bins + (bins + 1) / 2
        i = np.arange(1.0, n + 1)
        ends = (1 / i)[::-1].cumsum()[::-1], (1 / i**2)[::-1].cumsum()[::-1]
        return _Tokens(bins, bins, lengths, np.interp(lengths, i, ends[0] ** 2 / ends[1]), True)
    narrow = model.window is not None and model.window < n
    window = float(model.window) if model.window is not None else np.inf
    reach = min(window, 2 / model.alibi_slope if model.alibi_slope else np.inf)
    kept = min(n, max(int(_REACHES * reach), 40))
    bins = token_bins(kept, most=max(1, round(reach / _IN_REACH)))
    counts = bins.copy()
    place = (np.cumsum(bins) - 0.5 * bins) / kept
    middle = np.abs(place - 0.5) <= 0.15
    if kept < n:
        counts[middle] *= 1 + (n - kept) / bins[middle].sum()
    one = np.ones((1, bins.size, 1))
    shape = CausalProfile(
        bins=bins,
        row_weights=np.ones(1),
        column_weights=np.ones(1),
        row_variances=one,
        column_variances=one,
        row_means=one,
        column_means=one,
        latent_dimensions=np.array([np.inf]),
        slope=model.alibi_slope,
        window=window if narrow else np.inf,
    )
    half = replace(shape, slope=0.5 * model.alibi_slope)  # sums of π and of π²
    lengths = half.sizes**2 / shape.sizes
    squares = shape.pair_means(2) / shape.sizes[:, None]
    seen = (bins @ squares) ** 2 / (bins @ squares**2)
    return _Tokens(bins, counts, lengths, np.maximum(seen, 1.0), not model.alibi_slope)


def _means_of_bins(
    kernel: Kernel, window: int | None, bins: Floats, shift: int, *, sink: float = 0.0
) -> Floats:
    """Exact energy of a row, the mean of those in each bin: of min(i + shift, window) entries."""
    longest = min(int(bins.sum()), window or int(bins.sum()))
    return _in_bins(causal_row_energies(kernel, longest + shift, sink=sink)[shift:], bins)


def _in_bins(rows: Floats, bins: Floats) -> Floats:
    """Mean over the rows of each bin; rows beyond the last take its value."""
    i = np.minimum(np.arange(int(bins.sum())), len(rows) - 1)
    starts = (np.cumsum(bins) - bins).astype(np.intp)
    return np.asarray((np.add.reduceat(rows[i], starts).T / bins).T)


def _left_by_sink(kernel: Kernel, sink: float) -> tuple[Floats, Floats]:
    """Squared share that a sink leaves of a row, for each query norm (norms × nodes).

    1/(1 + q/(1−q) e^{βrx}/E e^{βrx}) with x the sink's score and q its share at β = 0, where the
    other tokens are taken by their mean.
    """
    if sink == 0:
        return np.ones((kernel.norms.size, 1)), np.ones(1)
    from scipy.special import expit, logit

    x, weights = np.polynomial.hermite_e.hermegauss(_SINK_NODES)
    bias = (
        np.outer(kernel.beta * kernel.norms, x) - np.log(kernel.normaliser(kernel.norms))[:, None]
    )
    squares = expit(-(logit(sink) + bias)) ** 2
    weights = weights / weights.sum()
    mean = (squares @ weights)[:, None]
    return mean + (squares - mean) / kernel.h**0.5, weights


def causal_energies(model: SelfAttention, *, whole: bool = False) -> tuple[Floats, float]:
    """Exact mean energy i E ΣA² − 1 of rows 1 … n, and the share of the key-norm term in the law.

    That share is 0 where the law is `whole`.

    Examples
    --------
    >>> import attnlaw as al
    >>> head = al.SelfAttention(
    ...     n_tokens=3, head_dimension=10**6, inverse_temperature=2.0, causal=True)
    >>> causal_energies(head)[0].round(4)      # 1 entry, 2, 3
    array([0.    , 0.52  , 0.9375])
    """
    rows = causal_row_energies(_kernel(model), model.n_tokens)
    return rows, 0.0 if whole else causal_head(model).term_energy


def _kernel(model: SelfAttention) -> Kernel:
    return Kernel(model, n_nodes=5 if model.head_dimension >= 32 else 9)


def _degrees(modes: list[Mode]) -> set[int]:
    return {mode.degree for mode in modes}


def _relative(values: Floats, weights: Floats) -> Floats:
    return np.asarray(values / (values @ weights))


def _fluctuations(kernel: Kernel, entries: Entries, tokens: _Tokens) -> tuple[Floats, Floats]:
    """Energies of rows and columns over their means, in strata (B × norms × strata)."""
    n = kernel.n
    lengths, seen = tokens.lengths, tokens.seen
    noise, exponentials = entries.rows()
    sums = doubled_sums(noise, entries.weights, exponentials, n)
    rows = [_strata(_row_values(s, 2.0**p), s.masses) for p, s in enumerate(sums)]
    noise = entries.columns((np.ones(1), np.ones(1)))
    sums = doubled_sums(noise, entries.weights, np.zeros_like(noise), float(seen.max()))
    columns = [_strata(np.broadcast_to(s.values, s.masses.shape), s.masses) for s in sums]
    return _between(np.array(rows), lengths), _between(np.array(columns), seen)


def _row_values(sums: Sums, n: float) -> Floats:
    """Energies over the squared normaliser, which is replaced by its mean given the energy."""
    seen = sums.masses > 1e-14
    normaliser = np.where(seen, sums.marks / np.where(seen, sums.masses, 1.0) / n, 1.0)
    return np.asarray(np.minimum(sums.values / n / np.maximum(normaliser, 1e-300) ** 2, n))


def _strata(values: Floats, masses: Floats) -> Floats:
    """Mean of each stratum over the mean of all, for each norm (norms × strata)."""
    result = np.empty((len(values), _STRATA.size))
    cuts = np.concatenate([[0.0], np.cumsum(_STRATA)])
    cuts[-1] = 1.0
    for j, (v, m) in enumerate(zip(values, masses, strict=True)):
        order = np.argsort(v)
        share = m[order] / m.sum()
        mass = np.concatenate([[0.0], np.cumsum(share)])
        total = np.concatenate([[0.0], np.cumsum(share * v[order])])
        result[j] = np.diff(np.interp(cuts, mass, total)) / _STRATA / max(total[-1], 1e-300)
    return np.maximum(result, 1e-9)


def _between(table: Floats, counts: Floats) -> Floats:
    """Interpolate strata known at 1, 2, 4, … copies to other numbers of them."""
    place = np.clip(np.log2(np.maximum(counts, 1.0)), 0, len(table) - 1)
    left = np.minimum(place.astype(int), max(len(table) - 2, 0))
    share = (place - left)[:, None, None]
    right = np.minimum(left + 1, len(table) - 1)
    return np.asarray(table[left] * (1 - share) + table[right] * share)


def _balanced(
    rows: Floats, columns: Floats, live: Floats, weights: Floats
) -> tuple[Floats, Floats]:
    """Raise the columns' factors to a power, so that both sides agree on the mass near zero.

    For noise as w → 0, S = Σ_{j≤i} C and T = Σ_{i≥j} R/i have (ST)' = mean 1/ξ of rows less that
    of columns, and ST vanishes at both ends: the means over all bins must be equal.
    """
    from scipy.optimize import brentq

    if live.sum() == 0:
        return rows, columns

    def inverse(factors: Floats) -> float:
        return float(live @ ((1 / factors) @ _STRATA) @ weights / live.sum())

    def raised(power: float) -> Floats:
        factors = np.maximum(columns, 1e-12) ** power
        return np.asarray(factors / (factors @ _STRATA)[..., None])

    target = inverse(rows)
    if inverse(raised(3.0)) < target:
        return rows, columns
    return rows, raised(float(brentq(lambda power: inverse(raised(power)) - target, 0.0, 3.0)))
