"""Causal heads at any size: variance profiles whose rows have i entries, i = 1 … n.

Blocks are the harmonics of `kernel`, each with its first mode. A row with i entries has

- the exact energy i E ΣA² − 1 of a softmax over i scores, given the query's norm (`rows`),
- of which a block of degree k keeps the share c_k²(i)/c_k²(∞), with c_k²(i) the mean squared
  coefficient of such a row in p_k(x), interpolated between two exact means (`rows`),
- and what is in no block is noise, with an energy that fluctuates from row to row like that of a
  sum of i entries (`sums`); columns likewise, for the effective number of rows that they see.

Derived in docs/theory/causal-heads.md, "Heads of finite size".
"""

from typing import NamedTuple

import numpy as np

from attnlaw._checks import Floats
from attnlaw.laws.causal_profile import CausalProfile, token_bins
from attnlaw.models import SelfAttention
from attnlaw.theory.attention.energies import Entries
from attnlaw.theory.attention.kernel import Kernel, Mode
from attnlaw.theory.attention.rows import finite_rows, row_energies
from attnlaw.theory.attention.sums import Sums, doubled_sums

__all__ = ["CausalHead", "causal_energies", "causal_head"]

_RESOLVED = 0.05  # n/N_k below which a block is noise
_STRUCTURE = 0.75  # n/N_k from which the energy of a block does not fluctuate
_STRATA = np.array([0.4, 0.35, 0.19, 0.05, 0.01])  # of rows by their energy
_SCORES = 301


class CausalHead(NamedTuple):
    """The profile of a causal head, and the energy of the key norms that comes on top of it."""

    profile: CausalProfile
    term_energy: float


def causal_head(model: SelfAttention) -> CausalHead:
    """Return the profile of a causal head, or of several side by side or their mean."""
    kernel = _kernel(model)
    w, h = kernel.weights, kernel.h
    bins = token_bins(kernel.n)
    lengths = np.cumsum(bins) - bins + (bins + 1) / 2
    modes, rest = kernel.modes(_RESOLVED)
    modes = [mode for i, mode in enumerate(modes) if mode.degree not in _degrees(modes[:i])]
    blocks, noise, term = finite_rows(kernel, modes, lengths)
    felt = np.array([mode.degree > 1 and mode.ratio < _STRUCTURE for mode in modes] + [True])
    entries = Entries(kernel, [m for m, f in zip(modes, felt, strict=False) if not f], _SCORES)
    rows, columns = _balanced(*_fluctuations(kernel, entries, lengths), bins, w)
    alpha = kernel.of_rows(np.concatenate([blocks, noise[None]]))
    gamma = np.array([mode.strength * mode.right**2 for mode in modes] + [_relative(w @ rest, w)])
    gamma = np.broadcast_to(kernel.of_columns(gamma)[:, None], (len(gamma), bins.size, w.size))
    rows = 1 + (rows - 1) / h**0.5
    columns = 1 + (columns - 1) / (kernel.h_keys if kernel.is_mean else 1) ** 0.5
    kinds = (w[:, None] * _STRATA).ravel()

    def spread(variances: Floats, factors: Floats) -> Floats:
        fluctuates = np.where(felt[:, None, None, None], factors, 1.0)
        return np.asarray(variances[..., None] * fluctuates).reshape(*variances.shape[:2], -1)

    ones = np.ones_like(rows)
    profile = CausalProfile(
        bins=bins,
        row_weights=kinds,
        column_weights=kinds,
        row_variances=spread(alpha, rows),
        column_variances=spread(gamma, columns),
        row_means=spread(alpha, ones),
        column_means=spread(gamma, ones),
        latent_dimensions=np.array([*(kernel.n / mode.ratio for mode in modes), np.inf]),
        repeats=1 if kernel.is_mean else h,
    )
    share = kernel.h_keys if kernel.is_mean else 1  # heads that share keys share their norms
    return CausalHead(profile, float(bins @ term @ w / bins.sum()) / share)


def causal_energies(model: SelfAttention) -> tuple[Floats, float]:
    """Exact mean energy i E ΣA² − 1 of rows 1 … n, and the share of the key-norm term in the law.

    Examples
    --------
    >>> import attnlaw as al
    >>> head = al.SelfAttention(
    ...     n_tokens=3, head_dimension=10**6, inverse_temperature=2.0, causal=True)
    >>> causal_energies(head)[0].round(4)      # 1 entry, 2, 3
    array([0.    , 0.52  , 0.9375])
    """
    kernel = _kernel(model)
    lengths = np.unique(np.r_[1 : min(kernel.n, 200) + 1, np.geomspace(1, kernel.n, 200).round()])
    energies = row_energies(kernel, lengths) @ kernel.weights
    rows = np.interp(np.arange(1.0, kernel.n + 1), lengths, energies)
    return rows, causal_head(model).term_energy


def _kernel(model: SelfAttention) -> Kernel:
    return Kernel(model, n_nodes=5 if model.head_dimension >= 32 else 9)


def _degrees(modes: list[Mode]) -> set[int]:
    return {mode.degree for mode in modes}


def _relative(values: Floats, weights: Floats) -> Floats:
    return np.asarray(values / (values @ weights))


def _fluctuations(kernel: Kernel, entries: Entries, lengths: Floats) -> tuple[Floats, Floats]:
    """Energies of rows and columns over their means, in strata (B × norms × strata)."""
    n = kernel.n
    noise, exponentials = entries.rows()
    sums = doubled_sums(noise, entries.weights, exponentials, n)
    rows = [_strata(_row_values(s, 2.0**p), s.masses) for p, s in enumerate(sums)]
    i = np.arange(1.0, n + 1)
    ends = (1 / i)[::-1].cumsum()[::-1], (1 / i**2)[::-1].cumsum()[::-1]
    seen = np.interp(lengths, i, ends[0] ** 2 / ends[1])  # effective number of rows of a column
    noise = entries.columns((np.ones(1), np.ones(1)))
    sums = doubled_sums(noise, entries.weights, np.zeros_like(noise), float(seen.max()))
    columns = [_strata(np.broadcast_to(s.values, s.masses.shape), s.masses) for s in sums]
    return _between(np.array(rows), lengths), _between(np.array(columns), seen)


def _row_values(sums: Sums, n: float) -> Floats:
    """Energies over the squared normaliser, of which only the mean given the energy is known."""
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
    rows: Floats, columns: Floats, bins: Floats, weights: Floats
) -> tuple[Floats, Floats]:
    """Raise the columns' factors to a power, so that both sides agree on the mass near zero.

    For noise as w → 0, S = Σ_{j≤i} C and T = Σ_{i≥j} R/i have (ST)' = mean 1/ξ of rows less that
    of columns, and ST vanishes at both ends: the means over all bins must be equal.
    """
    from scipy.optimize import brentq

    live = bins.copy()
    live[0] = 0.0  # the first row has no energy at all

    def inverse(factors: Floats) -> float:
        return float(live @ ((1 / factors) @ _STRATA) @ weights / live.sum())

    def raised(power: float) -> Floats:
        factors = np.maximum(columns, 1e-12) ** power
        return np.asarray(factors / (factors @ _STRATA)[..., None])

    target = inverse(rows)
    if live.sum() == 0 or inverse(raised(3.0)) < target:
        return rows, columns
    return rows, raised(float(brentq(lambda power: inverse(raised(power)) - target, 0.0, 3.0)))
