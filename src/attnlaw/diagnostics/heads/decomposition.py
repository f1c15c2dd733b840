"""Decomposition of a head's attention: common row, positions, repeated tokens, content.

Nested log-linear models of a map A, with i the token that attends and j the one attended to:

    A_ij ∝ 1,   c_j or p(i − j),   c_j p(i − j),   c_j p(i − j) r(i, j)

each fitted to A by least Kullback–Leibler divergence. The divergences of A from the fits decrease
from log(allowed) − entropy to the part that no fit explains, and their differences are the parts.
Under a causal mask a common row that grows with j resembles a preference for the last tokens, and
a function that grows with the distance a sink; so the part of each is the mean of what it adds
when it comes first and when it comes second.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Floats

__all__ = ["PARTS", "Parts", "Places", "decompose"]

PARTS = ("common", "positional", "repetition", "content")

Integers = NDArray[np.intp]
_EXACT = 8  # distances with a parameter of their own; beyond, half an octave shares one
_SWEEPS, _TOLERANCE = 60, 1e-3  # iterative scaling; of log parameters, weighted by attention
_RANGE = 1e-10  # least factor of a column, over the largest
_TINY = 1e-300
_CHUNK = 32  # maps at a time: their sums stay in the cache


class Parts(NamedTuple):
    """Parts of maps in nats a row, and where they attend; arrays over the maps."""

    common: Floats  # a row that all tokens share, on top of uniform
    positional: Floats  # a function of the distance i − j, on top of it
    repetition: Floats  # the same token, or the one that followed a copy
    content: Floats  # all else
    entropy: Floats  # of a row, mean
    spread: Floats  # β: standard deviation of log A within rows
    first: Floats  # share of attention that goes to the first token
    same: Floats  # to the token itself
    previous: Floats
    next: Floats
    most: Floats  # to the token that gets most
    most_attended: Floats  # which one that is
    duplicate: Floats  # to earlier or later copies of the token
    induction: Floats  # to tokens that follow a copy


@dataclass(frozen=True, kw_only=True, eq=False)
class Places:
    """Which entries of a map share a parameter: distances in bins, pairs of repeated tokens."""

    n_tokens: int
    nearest: int  # smallest distance i − j that the mask allows
    farthest: int
    edges: Integers  # bins of distances, (bins, 2), both ends included
    rows: Integers  # pairs (i, j) of repeated tokens
    columns: Integers
    bins: Integers  # bin of the distance of each pair
    classes: Integers  # 0 the same token, 1 follows a copy, 2 both

    @classmethod
    def of(
        cls,
        n_tokens: int,
        *,
        causal: bool,
        ids: Sequence[int] | NDArray[np.generic] | None = None,
        window: int | None = None,
    ) -> "Places":
        """Describe maps of n tokens, with a mask of later tokens or without.

        Parameters
        ----------
        n_tokens : int
            n.
        causal : bool
            Whether later tokens are masked.
        ids : sequence of int, optional
            The tokens; without them repetition is not modelled.
        window : int, optional
            Tokens at this distance and beyond are masked.

        Examples
        --------
        >>> places = Places.of(6, causal=True, ids=[1, 2, 3, 1, 2, 4])
        >>> np.stack([places.rows, places.columns, places.classes])
        array([[3, 3, 4, 4],
               [0, 1, 1, 2],
               [0, 1, 0, 1]])
        """
        n = n_tokens
        reach = n - 1 if window is None else min(n - 1, window - 1)
        near = 0 if causal else -reach
        edges = [(d, d) for d in range(min(_EXACT, reach) + 1)]
        ends = [int(np.ceil(_EXACT * 2 ** (k / 2))) for k in range(2 * int(np.log2(n)) + 2)]
        for low, high in pairwise(ends):
            if low + 1 <= reach:
                edges.append((low + 1, min(high, reach)))
        if not causal:
            edges = [(-b, -a) for a, b in edges[:0:-1]] + edges
        array = np.array(edges, dtype=np.intp)
        rows, columns, classes = _repetitions(n, near, reach, ids)
        bins = np.searchsorted(array[:, 1], rows - columns)
        return cls(
            n_tokens=n, nearest=near, farthest=reach, edges=array,
            rows=rows, columns=columns, bins=bins, classes=classes,
        )  # fmt: skip

    @property
    def allowed(self) -> Floats:
        """Number of tokens that each row may attend to."""
        i = np.arange(self.n_tokens)
        last = np.minimum(i - self.nearest, self.n_tokens - 1)
        return np.asarray(last - np.maximum(i - self.farthest, 0) + 1.0)

    @property
    def mask(self) -> NDArray[np.bool_]:
        """Which entries are allowed."""
        i = np.arange(self.n_tokens)
        distance = i[:, None] - i
        return (distance >= self.nearest) & (distance <= self.farthest)


def decompose(maps: NDArray[np.floating], places: Places) -> Parts:
    """Split log(allowed) − entropy of each map into its four parts.

    Parameters
    ----------
    maps : array of shape (maps, n, n)
        Rows sum to one.
    places : Places
        Mask, distances and repeated tokens.

    Returns
    -------
    Parts
        common + positional + repetition + content = mean of log(allowed) − entropy, exactly.

    Notes
    -----
    The best fit B of each family has row, column, bin and class sums of A, so iterative scaling
    (u_i for rows) finds it, and KL(A‖B) = Σ A log A − Σ_i log u_i − Σ_j A_{·j} log c_j
    − Σ_b A_b log p_b − Σ_k A_k log r_k needs these sums alone. Bins are intervals of distances,
    hence sums of u or c over them differences of cumulative sums. c stays within ten orders of
    magnitude: a steep ALiBi would otherwise need factors out of range.

    Examples
    --------
    A head that looks back by one token is positional, and a sink a common row.

    >>> back, sink = np.eye(64, k=-1), np.zeros((64, 64))
    >>> back[0, 0] = sink[:, 0] = 1
    >>> parts = decompose(np.array([back, sink]), Places.of(64, causal=True))
    >>> (parts.positional / (parts.common + parts.positional)).round(1)
    array([0.7, 0.3])
    >>> bool(np.abs(parts.content).max() < 0.01)
    True
    """
    A, n = np.asarray(maps), places.n_tokens
    if len(A) > _CHUNK:
        chunks = [decompose(A[k : k + _CHUNK], places) for k in range(0, len(A), _CHUNK)]
        return Parts(*map(np.concatenate, zip(*chunks, strict=True)))
    seen = _Margins.of(A, places)
    allowed = places.allowed
    energy = float(np.log(allowed).sum()) - seen.entropy
    c = seen.columns / np.maximum(seen.columns.mean(axis=1, keepdims=True), _TINY)
    one_bin = np.array([[places.nearest, places.farthest]], dtype=np.intp)
    ones = np.ones((len(A), len(places.edges)))
    total = seen._replace(bins=seen.bins.sum(axis=1, keepdims=True))
    fit = _scale(_Fit(c, ones[:, :1], np.ones((len(A), 3))), total, places, one_bin)
    row = fit.divergence(total)
    distance = _scale_bins(seen, places)
    fit = _scale(replace(fit, p=ones), seen, places, places.edges)
    both = rest = fit.divergence(seen)
    if len(places.rows):
        rest = _scale(fit, seen, places, places.edges, repeated=True).divergence(seen)
    diagonals = seen.diagonals
    later = np.s_[:, 1:, 0] if places.nearest >= 0 else np.s_[:, :, 0]
    return Parts(
        common=((energy - row) + (distance - both)) / (2 * n),
        positional=((energy - distance) + (row - both)) / (2 * n),
        repetition=(both - rest) / n,
        content=rest / n,
        entropy=seen.entropy / n,
        spread=seen.spread,
        first=A[later].mean(axis=1, dtype=np.float64),
        same=diagonals[:, 0] / n,
        previous=diagonals[:, 1] / (n - 1),
        next=diagonals[:, 2] / (n - 1),
        most=seen.columns.max(axis=1) / n,
        most_attended=seen.columns.argmax(axis=1).astype(float),
        duplicate=(seen.classes[:, 0] + seen.classes[:, 2]) / n,
        induction=(seen.classes[:, 1] + seen.classes[:, 2]) / n,
    )


class _Margins(NamedTuple):
    """Sums of maps that the fits share: over columns, bins of distances, classes of pairs."""

    entropy: Floats  # Σ −A log A
    spread: Floats  # of log A within rows
    columns: Floats
    bins: Floats
    classes: Floats
    diagonals: Floats  # of distance 0, 1 and −1

    @property
    def scale(self) -> Floats:
        """Size of log parameters: that of log A, at most 1."""
        return np.minimum(self.spread, 1.0)

    @classmethod
    def of(cls, A: NDArray[np.floating], places: Places) -> "_Margins":
        n = places.n_tokens
        logs = np.log(np.maximum(A, A.dtype.type(1e-30)))
        entropy = -np.einsum("bij,bij->b", A, logs, dtype=np.float64)
        logs *= places.mask.astype(A.dtype)
        rows = logs.sum(axis=2, dtype=np.float64)
        squares = np.einsum("bij,bij->b", logs, logs, dtype=np.float64)
        squares -= np.sum(rows**2 / places.allowed, axis=1)
        sums = _diagonal_sums(A)  # of distance 1 − n … n − 1
        total = np.concatenate([np.zeros((len(A), 1)), np.cumsum(sums, axis=1)], axis=1)
        low, high = places.edges.T + (n - 1)
        pairs = A[:, places.rows, places.columns].astype(np.float64)
        classes = np.stack([pairs[:, places.classes == k].sum(axis=1) for k in range(3)], axis=1)
        return cls(
            entropy=entropy,
            spread=np.sqrt(np.maximum(squares, 0.0) / max(places.allowed.sum() - n, 1.0)),
            columns=A.sum(axis=1, dtype=np.float64),
            bins=np.maximum(total[:, high + 1] - total[:, low], 0.0),
            classes=classes,
            diagonals=sums[:, [n - 1, n, n - 2]],
        )


@dataclass(frozen=True, eq=False)
class _Fit:
    """Factors of a log-linear model; u = 1 ⁄ row sums of the others' product."""

    c: Floats  # (maps, n)
    p: Floats  # (maps, bins)
    r: Floats  # (maps, 3)
    u: Floats | None = None

    def divergence(self, seen: _Margins) -> Floats:
        """KL(A‖B), summed over rows."""
        assert self.u is not None
        likelihood = np.log(np.maximum(self.u, _TINY)).sum(axis=1)
        margins = (seen.columns, seen.bins, seen.classes)
        for factor, margin in zip((self.c, self.p, self.r), margins, strict=True):
            likelihood += np.sum(margin * np.log(np.maximum(factor, _TINY)), axis=1)
        return np.asarray(np.maximum(-seen.entropy - likelihood, 0.0))


def _scale(
    fit: _Fit, seen: _Margins, places: Places, edges: Integers, *, repeated: bool = False
) -> _Fit:
    """Fit by iterative scaling: rows, bins, classes of pairs and columns in turn."""
    n = places.n_tokens
    pairs = _Pairs(places) if repeated else None
    c, p, r = fit.c.copy(), fit.p.copy(), fit.r.copy()
    live = np.arange(len(c))  # maps that have not converged
    for _ in range(_SWEEPS):
        C, P, R = c[live], p[live], r[live]
        windows = _windows(C, edges)
        U = 1 / np.maximum(_row_sums(windows, C, P, R, pairs), _TINY)
        expected = (windows @ U[:, :, None])[:, :, 0]
        if pairs is not None:
            expected += pairs.bin_sums(U, C, R - 1)
        new_p = seen.bins[live] / np.maximum(expected, _TINY)
        change = np.sum(_log_ratio(new_p, P) * seen.bins[live], axis=1)
        if pairs is not None:
            expected = pairs.class_sums(U, C, new_p)
            new_r = np.where(expected > 0, seen.classes[live] / np.maximum(expected, _TINY), 1.0)
            change += np.sum(_log_ratio(new_r, R) * seen.classes[live], axis=1)
            R = new_r
        V = (new_p[:, None, :] @ _windows(U, -edges[:, ::-1]))[:, 0]
        if pairs is not None:
            V += pairs.column_sums(U, new_p, R - 1)
        new_c = seen.columns[live] / np.maximum(V, _TINY)
        new_c /= np.maximum(new_c.mean(axis=1, keepdims=True), _TINY)
        np.maximum(new_c, _RANGE * new_c.max(axis=1, keepdims=True), out=new_c)
        change += np.sum(_log_ratio(new_c, C) * seen.columns[live], axis=1)
        c[live], p[live], r[live] = new_c, new_p, R
        live = live[change > _TOLERANCE * n * seen.scale[live]]
        if not live.size:
            break
    u = 1 / np.maximum(_row_sums(_windows(c, edges), c, p, r, pairs), _TINY)
    return _Fit(c, p, r, u)


def _scale_bins(seen: _Margins, places: Places) -> Floats:
    """Fit a function of the distance alone; return the divergence. All maps share the windows."""
    windows = _windows(np.ones((1, places.n_tokens)), places.edges)[0]
    p = np.ones_like(seen.bins)
    for _ in range(_SWEEPS):
        u = 1 / np.maximum(p @ windows, _TINY)
        p, old = seen.bins / np.maximum(u @ windows.T, _TINY), p
        change = np.sum(_log_ratio(p, old) * seen.bins, axis=1) / places.n_tokens
        if (change < _TOLERANCE * seen.scale).all():
            break
    u = 1 / np.maximum(p @ windows, _TINY)
    return _Fit(np.ones_like(u), p, np.ones((len(p), 3)), u).divergence(seen)


def _row_sums(windows: Floats, c: Floats, p: Floats, r: Floats, pairs: "_Pairs | None") -> Floats:
    sums = (p[:, None, :] @ windows)[:, 0]
    return np.asarray(sums if pairs is None else sums + pairs.row_sums(c, p, r - 1))


class _Pairs:
    """Sums of u c p x over pairs of repeated tokens, which are few; x by class."""

    def __init__(self, places: Places) -> None:
        index = (places.rows, places.columns, places.bins, places.classes)
        sizes = (places.n_tokens, places.n_tokens, len(places.edges), 3)
        self._labels, self._sizes = index, sizes
        self._orders = [np.argsort(labels, kind="stable") for labels in index]
        self._groups = [
            np.unique(labels[order], return_index=True)
            for labels, order in zip(index, self._orders, strict=True)
        ]

    def row_sums(self, c: Floats, p: Floats, x: Floats) -> Floats:
        return self._sums(0, {1: c, 2: p, 3: x})

    def column_sums(self, u: Floats, p: Floats, x: Floats) -> Floats:
        return self._sums(1, {0: u, 2: p, 3: x})

    def bin_sums(self, u: Floats, c: Floats, x: Floats) -> Floats:
        return self._sums(2, {0: u, 1: c, 3: x})

    def class_sums(self, u: Floats, c: Floats, p: Floats) -> Floats:
        return self._sums(3, {0: u, 1: c, 2: p})

    def _sums(self, by: int, factors: dict[int, Floats]) -> Floats:
        """Sum products of factors, given by the label they depend on, over another label."""
        order, (present, starts) = self._orders[by], self._groups[by]
        a, b, c = (x[:, self._labels[k][order]] for k, x in factors.items())
        sums = np.add.reduceat(a * b * c, starts, axis=1)
        result = np.zeros((len(sums), self._sizes[by]))
        result[:, present] = sums
        return result


def _windows(x: Floats, edges: Integers) -> Floats:
    """Return sums of x_j over the distances i − j of each bin: (maps, bins, n)."""
    b, n = x.shape
    total = np.zeros((b, 3 * n + 1))  # cumulative sums, constant beyond both ends
    np.cumsum(x, axis=1, out=total[:, n + 1 : 2 * n + 1])
    total[:, 2 * n + 1 :] = total[:, 2 * n : 2 * n + 1]
    sums = np.empty((b, len(edges), n))
    for k, (low, high) in enumerate(edges.tolist()):
        last, first = n + 1 - low, n - high
        np.subtract(total[:, last : last + n], total[:, first : first + n], out=sums[:, k])
    return sums


def _log_ratio(new: Floats, old: Floats) -> Floats:
    return np.asarray(np.abs(np.log(np.maximum(new, _TINY) / np.maximum(old, _TINY))))


def _diagonal_sums(A: NDArray[np.floating]) -> Floats:
    """Return sums over i − j = 1 − n, …, n − 1: shifting rows makes diagonals columns."""
    b, n, _ = A.shape
    wide = np.zeros((b, n, 2 * n), dtype=A.dtype)
    wide[:, :, :n] = A[:, :, ::-1]  # column n − 1 − j
    skewed = wide.reshape(b, 2 * n * n)[:, : n * (2 * n - 1)].reshape(b, n, 2 * n - 1)
    return np.asarray(skewed.sum(axis=1, dtype=np.float64))  # column n − 1 − j + i


def _repetitions(
    n: int, near: int, far: int, ids: Sequence[int] | NDArray[np.generic] | None
) -> tuple[Integers, Integers, Integers]:
    """Pairs of the same token and pairs where j follows a copy of i, inside the mask."""
    if ids is None:
        none = np.zeros(0, dtype=np.intp)
        return none, none, none
    t = np.asarray(ids)
    same = t[:, None] == t
    np.fill_diagonal(same, False)
    follows = np.zeros_like(same)
    follows[:, 1:] = t[:, None] == t[:-1]
    i = np.arange(n)
    follows[i[:-1], i[1:]] = False  # the next token follows the token itself
    distance = i[:, None] - i
    inside = (distance >= near) & (distance <= far) & (distance != 0)
    inside |= follows & (distance == 0)
    rows, columns = np.nonzero((same | follows) & inside)
    classes = np.where(follows[rows, columns], np.where(same[rows, columns], 2, 1), 0)
    return rows, columns, classes.astype(np.intp)
