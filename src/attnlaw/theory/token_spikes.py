"""The spike of pooled sequences whose tokens differ in frequency and in importance.

Letters: p, g, c frequency, importance and class of a token; r = V p g² its row; δ = d/V, γ = d/N;
snr = α/κ; s the parameter in which everything is a sum over tokens. With G = 1/s the normalised
trace of the resolvent of the table's noise,

    y(s) = mean r/(s − δr) ,   x(s) = s (1 + y) ,   ℓ = κ x ,   λ = κ x φ(y) ,   φ = 1 + γy

(φ from `NoiseScales` when tokens differ in importance). Derived in
docs/theory/vocabulary.md, "The outlier".
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Floats
from attnlaw.laws.outliers import TINY
from attnlaw.theory.token_noise import NoiseScales, TokenSums

__all__ = ["TokenSpike", "VocabularySpikes", "sign_change"]

COARSE, FINE = 9, 40
"""Steps of a bisection between logarithms, and of false position after it."""

SAMPLES = 48
"""Points at which a gap between the eigenvalues of two frequent tokens is searched."""


@dataclass(frozen=True, kw_only=True)
class TokenSpike:
    """An outlier of the sample: its parameter and what follows from it, eigenvalues over κ."""

    s: Floats  # parameter of the outlier; that of the edge where there is none
    eigenvalue: Floats  # λ/κ
    squared_overlap: Floats  # ζ
    is_detectable: NDArray[np.bool_]
    edge: Floats  # λ₊/κ
    shared: Floats  # Σ ζ over all outliers outside the bulk, this one among them


class Coupling(NamedTuple):
    """How the signal couples to the table: an outlier is where 1 = (‖μ‖²/s) A(s)."""

    A: Floats
    slope: Floats  # A'(s)
    margin: Floats  # above 0 right of every pole of A
    kernel: Floats  # (…, 3): components of the outlier along m, u and z̄ beside 1/k along μ


@dataclass(frozen=True)
class VocabularySpikes:
    """Outliers of sequences from one vocabulary, pooled one way; ratios and norms are arrays.

    Parameters
    ----------
    sums : TokenSums
        The vocabulary.
    scales : NoiseScales
        Noise scales of the sequences.
    snr : float
        α/κ of the pooling.
    token : bool
        Real tokens from a table, or the idealised covariance κ YᵀY + α ḡ² μμᵀ.
    """

    sums: TokenSums
    scales: NoiseScales
    snr: float
    token: bool = True

    def edge(self, delta: Floats, gamma: Floats) -> Floats:
        """Return s at the right edge of the bulk, where λ is least; γ = 0: of the population."""
        top = delta * self.sums.top
        largest = float(self.scales.atoms.max())
        ratio = delta + gamma * largest
        scale = np.maximum(ratio + np.sqrt(ratio), 1e-30) * self.sums.top

        def falling(gap: Floats) -> Floats:
            return -(top + gap) * self.bulk(top + gap, delta, gamma)[1]

        return np.asarray(top + sign_change(falling, 1e-14 * scale, 4 * scale))

    def bulk(self, s: Floats, delta: Floats, gamma: Floats) -> tuple[Floats, Floats]:
        """Return λ/κ at the parameter s, and the derivative of log λ."""
        y, slope = self.sums.y(s, delta)
        phi, phi_slope = self.scales.factor(y, gamma)
        growth = 1 / s + slope / (1 + y) + phi_slope * slope / phi
        return np.asarray(s * (1 + y) * phi), np.asarray(growth)

    def outer_spike(self, norm: Floats, delta: Floats, gamma: Floats) -> TokenSpike:
        """Return the outlier right of the whole bulk, elementwise; γ = 0: of the population."""
        norm, delta, gamma = (
            np.array(x, dtype=np.float64) for x in np.broadcast_arrays(norm, delta, gamma)
        )
        pairs, where = np.unique(
            np.stack([delta.ravel(), gamma.ravel()]), axis=1, return_inverse=True
        )
        where = where.reshape(norm.shape)
        s_edge = self.edge(pairs[0], pairs[1])
        low = np.maximum(s_edge, self._last_pole(pairs[0], pairs[1], s_edge))[where]
        s_edge = s_edge[where]
        s = self._outer_root(norm, delta, gamma, low)
        seen = s > s_edge * (1 + 1e-12)  # `sign_change` starts a little right of it
        edge, _ = self.bulk(s_edge, delta, gamma)
        value, zeta = self.overlap(np.maximum(s, s_edge), delta, gamma)
        zeta = np.where(seen & (norm > 0), zeta, 0.0)
        return TokenSpike(
            s=s,
            eigenvalue=np.where(seen, value, edge),
            squared_overlap=zeta,
            is_detectable=seen,
            edge=edge,
            shared=zeta.copy(),
        )

    def spike(self, norm: Floats, delta: Floats, gamma: Floats) -> TokenSpike:
        """Return the outlier that is most aligned with the signal, elementwise."""
        spike = self.outer_spike(norm, delta, gamma)
        norm, delta, gamma = (x.ravel() for x in np.broadcast_arrays(norm, delta, gamma))
        for value in np.unique(delta):
            cells = np.flatnonzero(delta == value)
            self._search_gaps(spike, norm[cells], float(value), gamma[cells], cells)
        return spike

    def threshold(self, delta: Floats, gamma: Floats) -> Floats:
        """Return the signal norm beyond which an outlier passes the edge: ‖μ‖² = s/A(s) there."""
        delta, gamma = np.broadcast_arrays(delta, gamma)
        s = self.edge(delta, gamma)
        A, _, margin, _ = self.coupling(s, delta, gamma)
        before_pole = (margin > 0) & (A > 0)  # else an outlier shows even without any signal
        return np.asarray(np.sqrt(np.where(before_pole, s / np.where(A > 0, A, 1.0), 0.0)))

    def norm_for(self, zeta: Floats, delta: Floats, gamma: Floats) -> Floats:
        """Return the least signal norm with this ζ, along ‖μ‖² = s/A(s); ζ grows with s."""
        zeta, delta, gamma = np.broadcast_arrays(zeta, delta, gamma)
        edge = self.edge(delta, gamma)
        low = np.maximum(edge, self._last_pole(delta, gamma, edge))

        def missing(gap: Floats) -> Floats:
            return zeta - self.overlap(low + gap, delta, gamma)[1]

        gap = sign_change(missing, 1e-12 * low, 1e6 * low / (1 - zeta))
        A = self.coupling(low + gap, delta, gamma).A
        found = missing(gap) < 1e-6
        return np.asarray(np.where(found, np.sqrt((low + gap) / np.maximum(A, TINY)), np.inf))

    def largest_share(self, s: Floats, delta: Floats) -> Floats:
        """Return the largest share of one token in mean r/(s − δr)², the noise around s."""
        distance = s[..., None] - delta[..., None] * self.sums.rows
        parts = self.sums.masses[:, 0] / distance**2
        single = parts / self.sums.counts
        return np.asarray(single.max(axis=-1) / parts.sum(axis=-1))

    def mean_eigenvalue(self, gain: float, delta: Floats, gamma: Floats) -> Floats:
        """Return the eigenvalue along the table's mean, the edge where it stays in the bulk.

        It lies where (Σw)²/κ − 1, the `gain`, times Σ p δr/(s − δr) is one.
        """
        delta, gamma = np.broadcast_arrays(delta, gamma)
        low = self.edge(delta, gamma)

        def before(gap: Floats) -> Floats:
            return gain * delta * self.sums.at(low + gap, delta)[0][..., 1] - 1

        s = low + sign_change(before, 1e-15 * low, (1 + abs(gain)) * 10 * low)
        return self.bulk(np.asarray(s), delta, gamma)[0]

    def overlap(self, s: Floats, delta: Floats, gamma: Floats) -> tuple[Floats, Floats]:
        """Return λ/κ and ζ = x (log λ)'/(1 − s A'/A) at an outlier's parameter."""
        value, growth = self.bulk(s, delta, gamma)
        A, slope, _, _ = self.coupling(s, delta, gamma)
        y, _ = self.sums.y(s, delta)
        share = 1 - s * slope / np.where(A > 0, A, 1.0)
        return value, np.asarray(s * (1 + y) * growth / share)

    def eigenvector_overlap(
        self, first: Floats, second: Floats, norm: Floats, delta: Floats, gamma: Floats
    ) -> Floats:
        """Return ⟨v, w⟩‖μ‖²/(⟨v, μ⟩⟨w, μ⟩) of the population's and the sample's outliers.

        `first` is the population's parameter, `second` the sample's. With kernel vectors c of
        I − ΘK the quotient is ‖μ‖² c₁ᵀ(K₁ − K₂)c₂/(x₂ − x₁), where k = ‖μ‖²/s.
        """
        step = np.where(np.abs(second - first) < 1e-6 * first, 1e-6 * first, 0.0)
        second = second + step  # a derivative where both parameters agree
        parts = []
        for s, ratio in ((first, np.zeros_like(gamma)), (second, gamma)):
            kernel = self.coupling(s, delta, ratio).kernel
            y, _ = self.sums.y(s, delta)
            parts.append((s, s * (1 + y), kernel, delta[..., None] * self.sums.at(s, delta)[0]))
        (s1, x1, c1, K1), (s2, x2, c2, K2) = parts
        k1, k2, k3, q1, q2 = np.moveaxis((K1 - K2)[..., 1:], -1, 0)
        a1, u1, e1 = np.moveaxis(c1, -1, 0)
        a2, u2, e2 = np.moveaxis(c2, -1, 0)
        form = k1 * (a1 * a2 + e1 * e2) + k2 * (a1 * u2 + a2 * u1) + k3 * u1 * u2
        form = form + q1 * (a1 * e2 + a2 * e1) + q2 * (e1 * u2 + e2 * u1)
        signal = s1 * s2 * (1 / s1 - 1 / s2)  # along μ: ‖μ‖⁴ c₁c₂ (1/s₁ − 1/s₂)/‖μ‖²
        return np.asarray((signal + norm**2 * form) / (x2 - x1))

    def coupling(self, s: Floats, delta: Floats, gamma: Floats) -> Coupling:
        """Return A(s), its derivative, and where poles and eigenvectors are.

        docs/theory/vocabulary.md, "The outlier": A = Θ_μμ + θᵀ(K⁻¹ − Θ)⁻¹θ and
        A' = kᵀK'k + (∂A/∂snr) snr', k = (I − ΘK)⁻¹θ. In the sample α counts for snr (1+γy)/φ.
        """
        gbar, tilt = self.sums.mean, self.sums.tilt
        sums, slopes = self.sums.at(s, delta)
        snr, snr_slope = self._seen_snr(sums[..., 0], slopes[..., 0], gamma)
        if not self.token:
            full = gbar**2 * snr
            kernel = np.zeros((*full.shape, 3))
            return Coupling(full, gbar**2 * snr_slope, np.ones_like(full), kernel)
        k1, k2, k3, q1, q2 = np.moveaxis(delta[..., None] * sums[..., 1:], -1, 0)
        d1, d2, d3, e1, e2 = np.moveaxis(delta[..., None] * slopes[..., 1:], -1, 0)
        q = snr - 1
        determinant = (1 - q * k1) * (1 + k1) + q * q1**2
        divisor = np.where(np.abs(determinant) < 1e-100, 1e-100, determinant)
        v1, v2 = q * (gbar + k2), -(tilt + q2)
        xa = ((1 + k1) * v1 + q * q1 * v2) / divisor
        xe = ((1 - q * k1) * v2 - q1 * v1) / divisor
        along_m = gbar + k1 * xa + k2 + q1 * xe
        A = self.sums.square - gbar**2 - tilt**2 + k3 + k2 * xa + q2 * xe
        A = A + gbar**2 * snr + q * gbar * (along_m - gbar) - tilt * (q1 * xa + q2 + k1 * xe)
        slope = d1 * (xa**2 + xe**2) + d3 + 2 * (d2 * xa + e1 * xa * xe + e2 * xe)
        kernel = np.stack([xa, np.ones_like(xa), xe], axis=-1)
        return Coupling(A, slope + along_m**2 * snr_slope, determinant, kernel)

    def _seen_snr(self, y: Floats, slope: Floats, gamma: Floats) -> tuple[Floats, Floats]:
        """Return the snr that the sample shows, and its derivative; see `seen_signal`."""
        if self.scales.is_single or not gamma.any():
            return np.full(y.shape, self.snr), np.zeros(y.shape)
        ratio, ratio_slope = self.scales.seen_signal(y, gamma)
        return self.snr * ratio, self.snr * slope * ratio_slope

    def _last_pole(self, delta: Floats, gamma: Floats, low: Floats) -> Floats:
        """Return the largest pole of A, or `low` where there is none beyond it."""

        def before(gap: Floats) -> Floats:
            return -self.coupling(low + gap, delta, gamma).margin

        reach = 10 * (1 + self.snr)
        return np.asarray(low + sign_change(before, 1e-15 * low, reach * low))

    def _outer_root(self, norm: Floats, delta: Floats, gamma: Floats, low: Floats) -> Floats:
        """Return the largest s with s = ‖μ‖² A(s), or `low` where it is not beyond that."""

        def before(gap: Floats) -> Floats:
            s = low + gap
            A, _, margin, _ = self.coupling(s, delta, gamma)
            strength = norm**2 * A
            some = (margin > 0) & (strength > TINY)
            inside = 1 - s / np.where(some, strength, 1.0)
            return np.where(some, inside, np.where(margin > 0, -1.0, 1.0))

        A = self.coupling(2 * low, delta, np.zeros_like(gamma)).A
        high = np.maximum(low, norm**2 * np.abs(A)) * 2
        return np.asarray(low + sign_change(before, 1e-15 * low, high))

    # ---- tokens frequent enough for an eigenvalue of their own ----------------------------------

    def _gaps(self, delta: float) -> list[Floats]:
        """Return points s in each gap of the population's bulk between frequent tokens."""
        rows = delta * self.sums.rows[: self.sums.n_heavy]
        high, low = rows[:-1, None], rows[1:, None]
        for n in (8, SAMPLES):  # first a coarse look, which most vocabularies do not pass
            angles = np.cos(np.linspace(0, np.pi, n + 2)[1:-1])
            s = (high + low) / 2 - (high - low) / 2 * angles
            y, slope = self.sums.y(s, np.full(s.shape, delta))
            is_open = (1 + y + s * slope > 0) & (y > -1)  # x'(s) > 0 and x > 0
            keep = is_open.any(axis=1)
            high, low, s, is_open = high[keep], low[keep], s[keep], is_open[keep]
        return [points[inside] for points, inside in zip(s, is_open, strict=True)]

    def _search_gaps(
        self,
        spike: TokenSpike,
        norm: Floats,
        delta: float,
        gamma: Floats,
        cells: NDArray[np.intp],
    ) -> None:
        """Replace outliers, in place, where one in a gap is more aligned with the signal.

        A(s) and ζ(s) do not depend on the signal: they are tabulated in every gap, and the best
        root of s = ‖μ‖²A(s) between two points of the table is then found to full precision.
        """
        ratios, where = np.unique(gamma, return_inverse=True)
        best, low, high = np.zeros(len(cells)), np.zeros(len(cells)), np.zeros(len(cells))
        for s in self._gaps(delta):
            grid, ratio = np.broadcast_arrays(s, ratios[:, None])
            full = np.full(grid.shape, delta)
            A = self.coupling(grid, full, ratio).A
            overlaps = np.maximum(self.overlap(grid, full, ratio)[1], 0.0)  # 0 inside the bulk
            sign = s - norm[:, None] ** 2 * A[where]
            row, left = np.nonzero((sign[:, :-1] < 0) & (sign[:, 1:] > 0))
            ends = A[where[row], left], A[where[row], left + 1]
            share = _crossing(s[left], s[left + 1], *ends, norm[row] ** 2)
            before, after = overlaps[where[row], left], overlaps[where[row], left + 1]
            after = np.where(ends[1] > 0, after, before)  # ζ has no meaning where A < 0
            zeta = (1 - share) * before + share * after
            spike.shared.flat[cells] += np.bincount(row, zeta, minlength=len(cells))
            order = np.argsort(zeta)  # of several in one cell the largest is written last
            k = order[zeta[order] > best[row[order]]]
            best[row[k]], low[row[k]], high[row[k]] = zeta[k], s[left[k]], s[left[k] + 1]
        tried = np.flatnonzero(best > 0.9 * spike.squared_overlap.flat[cells])
        if not tried.size:
            return
        full, ratio, cell = np.full(tried.shape, delta), gamma[tried], cells[tried]

        def before_root(s: Floats) -> Floats:
            return norm[tried] ** 2 * self.coupling(s, full, ratio).A - s

        s = sign_change(before_root, low[tried], high[tried], coarse=0)
        value, zeta = self.overlap(s, full, ratio)
        better = zeta > spike.squared_overlap.flat[cell]
        found = {"s": s, "eigenvalue": value, "squared_overlap": zeta}
        for name, values in found.items():
            getattr(spike, name).flat[cell[better]] = values[better]
        spike.is_detectable.flat[cell[better]] = True


def _crossing(
    low: Floats, high: Floats, at_low: Floats, at_high: Floats, square: Floats
) -> Floats:
    """Return the share of the way from low to high at which s/A(s) is about ‖μ‖².

    s/A is smooth at the poles of A; where A changes sign, A/s is interpolated instead.
    """
    above = at_high > 0
    start, end = low / at_low, high / np.where(above, at_high, 1.0)
    smooth = (square - start) / np.where(end > start, end - start, 1.0)
    steep = (1 / start - 1 / square) / (1 / start - at_high / high)
    return np.clip(np.where(above & (end > start), smooth, steep), 0.0, 1.0)


def sign_change(
    function: Callable[[Floats], Floats], low: Floats, high: Floats, coarse: int = COARSE
) -> Floats:
    """Return where a function that is positive at low > 0 changes sign, elementwise.

    Bisection between logarithms, then the Illinois variant of false position; `low` where the
    function is not positive to begin with.
    """
    left, right = np.log(low), np.log(high)
    f_left, f_right = function(low), function(high)
    none = ~(f_left > 0)
    last = middle = left
    was = ~none
    for step in range(coarse + FINE):
        middle = (left + right) / 2
        halved = 1 if step < coarse else 2
        if step >= coarse:
            with np.errstate(invalid="ignore", divide="ignore"):
                secant = (left * f_right - right * f_left) / (f_right - f_left)
            inside = np.isfinite(secant) & (secant >= left) & (secant <= right)
            middle = np.where(inside, secant, middle)
        value = function(np.exp(middle))
        positive = value > 0
        f_left = np.where(positive, value, f_left / np.where(positive == was, halved, 1))
        f_right = np.where(positive, f_right / np.where(positive == was, halved, 1), value)
        was = positive
        left, right = np.where(positive, middle, left), np.where(positive, right, middle)
        if np.all(none | (np.abs(middle - last) < 1e-14 * np.maximum(np.abs(left), 1.0))):
            break
        last = middle
    return np.where(none, low, np.exp(middle))
