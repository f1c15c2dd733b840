"""Causal random matrices with a variance profile, and their squared singular values.

Row i of an n × n matrix has the entries j ≤ i, a sum of blocks k with N_k latent dimensions,

    Y_ij = M_ij Σ_k √(α_k(i) γ_k(j)) (G_k H_kᵀ)_ij/√N_k ,     M_ij = 1/√i for j ≤ i ,

G_k and H_k standard Gaussian; N_k = ∞ is independent noise. With a mean pattern π it is M_ij =
π_ij/√Σ_j π_ij²: e^{−m(i−j)}/√ℓ_i for a slope m, and zero for j ≤ i − W with a window. With R_i and
C_j as in `profile`, the equations are those of `causal_equations`.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from attnlaw._checks import Complexes, Floats, count, frozen
from attnlaw.laws._engine.flux import moment_inside, solved_flux
from attnlaw.laws.causal_equations import CausalEquations, WindowEquations, pair_means
from attnlaw.laws.law import Atom, NumericalLaw

if TYPE_CHECKING:
    from scipy.interpolate import PchipInterpolator

__all__ = ["CausalProfile", "CausalProfileLaw", "token_bins"]

_GROWTH = 0.16  # tokens of a bin, as a share of those before it
_MOST = 0.02  # and at most, as a share of all
_WEAK = 2e-4, 2e-3  # energy of a block, and in each dimension, over that of the noise
_BY_BLOCK = (
    "row_variances",
    "column_variances",
    "row_means",
    "column_means",
    "latent_dimensions",
)


def token_bins(n_tokens: int, most: float = np.inf) -> Floats:
    """Count the tokens of each bin: a sixth of those before it, at most a fiftieth of all.

    And at most `most`.

    The solution is a power of i near zero, and at a small singular value s it falls like
    e^{−x log(1/s²)} in x = i/n.

    Examples
    --------
    >>> [token_bins(10**k).size for k in (1, 3, 6)]
    [10, 71, 117]
    """
    sizes: list[int] = []
    before = 0
    most = min(most, _MOST * n_tokens)
    while before < n_tokens:
        size = max(1, round(min(_GROWTH * before, most)))
        sizes.append(min(size, n_tokens - before))
        before += sizes[-1]
    return np.array(sizes, dtype=np.float64)


@dataclass(frozen=True, kw_only=True, eq=False)
class CausalProfile:
    """A causal random matrix by the variances of its entries, in B bins of tokens.

    Parameters
    ----------
    bins : array of shape (B,)
        Number of tokens in each bin; they sum to n.
    row_weights, column_weights : arrays of shape (I,) and (J,)
        Share of each kind of rows (columns) in a bin; both sum to one.
    row_variances, column_variances : arrays of shape (K, B, I) and (K, B, J)
        α_k and γ_k.
    row_means, column_means : arrays of shape (K, B, I) and (K, B, J)
        α'_k and γ'_k, by which R and C are averaged (`VarianceProfile`).
    latent_dimensions : array of shape (K,)
        N_k, infinite for noise.
    repeats : int
        h, the number of such matrices side by side.
    slope : float
        m ≥ 0 of e^{−m(i−j)} in M.
    window : float
        W, the largest number of entries in a row.
    counts : array of shape (B,), optional
        Number of tokens that each bin stands for, if it is not the number in it.
    n_empty : int
        Number of additional tokens without entries.
    """

    bins: Floats  # m
    row_weights: Floats
    column_weights: Floats
    row_variances: Floats  # α
    column_variances: Floats  # γ
    row_means: Floats  # α'
    column_means: Floats  # γ'
    latent_dimensions: Floats  # N
    repeats: int = 1  # h
    slope: float = 0.0  # m
    window: float = np.inf  # W
    counts: Floats | None = None
    n_empty: int = 0

    @property
    def has_pattern(self) -> bool:
        """Whether M is other than 1/√i for j ≤ i."""
        return self.slope > 0 or self.window < self.bins.sum()

    @cached_property
    def places(self) -> Floats:
        """Mean place i of the tokens in each bin."""
        return np.asarray(np.cumsum(self.bins) - self.bins + (self.bins + 1) / 2)

    def decayed(self, lengths: Floats) -> Floats:
        """Sum of e^{−2ml} over lags l = 0 … length − 1."""
        if self.slope * lengths.max() < 1e-9:
            return lengths
        return np.asarray(np.expm1(-2 * self.slope * lengths) / np.expm1(-2 * self.slope))

    @cached_property
    def sizes(self) -> Floats:
        """Mean ℓ_i of the rows in each bin, M_ij² = e^{−2m(i−j)}/ℓ_i; their length if m = 0."""
        return self.decayed(np.minimum(self.places, self.window))

    @cached_property
    def shares(self) -> tuple[Floats, float]:
        """Share of the rows in each bin, and of those without entries."""
        counts = self.bins if self.counts is None else self.counts
        total = counts.sum() + self.n_empty
        return counts / total, self.n_empty / total

    @cached_property
    def energies(self) -> Floats:
        """Share of each block in the first moment of the law of YYᵀ."""
        rows = self.row_variances @ self.row_weights  # (K, B)
        columns = self.column_variances @ self.column_weights
        seen = self.seen(columns.T).T
        return np.asarray(self.repeats * (rows * seen / self.sizes) @ self.shares[0])

    @property
    def mean(self) -> float:
        """First moment of the law of YYᵀ."""
        return float(self.energies.sum())

    @property
    def noise(self) -> float:
        """Share of blocks with more dimensions than there are tokens in it."""
        return float(self.energies[self.latent_dimensions > self.bins.sum()].sum())

    @property
    def simplified(self) -> "CausalProfile":
        """The same profile with weak blocks joined to the noise, at the same row energies.

        A block is weak if it has almost no energy, and less in each dimension than noise has in
        any: it is then far from having a singular value of its own.
        """
        noise, e = ~np.isfinite(self.latent_dimensions), self.energies
        weak = ~noise & (e < _WEAK[0] * e[noise].sum())
        weak &= self.bins.sum() * e < _WEAK[1] * e[noise].sum() * self.latent_dimensions
        if noise.sum() != 1 or not weak.any():
            return self
        seen = self.seen((self.column_variances @ self.column_weights).T).T  # (K, B)
        factors = (seen[weak] / seen[noise])[..., None]
        kept = {name: getattr(self, name).copy() for name in _BY_BLOCK}
        for name in ("row_variances", "row_means"):
            kept[name][noise] += (factors * kept[name][weak]).sum(axis=0)
        return replace(self, **{name: values[~weak] for name, values in kept.items()})

    @property
    def largest(self) -> float:
        """Largest singular value that a block has by itself over very many tokens, in √mean.

        2/j √(n/N) with the first zero j = 2.405 of J₀, without a pattern.
        """
        strengths = self.energies / self.latent_dimensions
        return 2 / 2.405 * float(np.sqrt(self.bins.sum() * strengths.max() / self.mean))

    def pair_means(self, power: int) -> Floats:
        """Mean of (√ℓ_i M_ij)^power over the pairs of tokens of two bins (B × B)."""
        lags = np.arange(self.bins.sum())
        values = np.exp(-power * self.slope * lags) * (lags < self.window)
        return pair_means(values, self.bins)

    def seen(self, columns: Floats) -> Floats:
        """Σ_j ℓ_i M_ij² x_j in the rows of each bin, for x given by bins (B × …)."""
        if self.window < self.bins.sum():
            return self.pair_means(2) @ (self.bins * columns.T).T
        before, after = (self.bins + 1) / 2, (self.bins - 1) / 2
        first, rest = self.decayed(before), self.decayed(after)
        kept, kept_after = np.exp(-2 * self.slope * np.array([before, after]))
        result, total = np.empty_like(columns), np.zeros_like(columns[0])
        for b in range(self.bins.size):
            result[b] = kept[b] * total + first[b] * columns[b]
            total = kept_after[b] * result[b] + rest[b] * columns[b]
        return result


class _Table(NamedTuple):
    """Density and mass in t = log s, and the masses below and above the table."""

    flux: "PchipInterpolator"  # dF/dt
    mass: "PchipInterpolator"  # ∫ flux from the first point
    low: float  # t of the first point
    high: float  # and of the last
    below: float  # cdf at the first point
    rate: float  # c of 1/(F − atom) = const − 2ct below the first point
    radius: float  # of a circle around all singular values


class CausalProfileLaw(NumericalLaw):
    """The law of YYᵀ, for a causal random matrix Y given by its variance profile.

    The density is solved from the equations of the profile on some fifty singular values, evenly
    spaced in the logarithm and closer near the largest; where those come in groups, as over very
    many tokens, on a hundred or two more. Below 3e-3 of the root mean square the cdf goes on as
    1/(const − c log x), like that of `CausalLaw`.

    Examples
    --------
    Noise alone, with many tokens, is the law in closed form:

    >>> from attnlaw.laws import CausalLaw
    >>> from attnlaw.laws.causal_profile import token_bins
    >>> bins = token_bins(10**6)
    >>> ones = np.ones((1, bins.size, 1))
    >>> law = CausalProfileLaw(CausalProfile(
    ...     bins=bins, row_weights=np.ones(1), column_weights=np.ones(1), row_variances=ones,
    ...     column_variances=ones, row_means=ones, column_means=ones,
    ...     latent_dimensions=np.array([np.inf])))
    >>> x = np.array([1e-4, 0.01, 0.3, 1.0, 4.0])
    >>> bool(np.abs(law.cdf(x) - CausalLaw().cdf(x)).max() < 1e-3)
    True
    """

    profile: CausalProfile

    def __init__(self, profile: CausalProfile, scale: float = 1.0) -> None:
        self.__dict__.update(profile=profile, scale=float(scale))

    @cached_property
    def _equations(self) -> CausalEquations:
        narrow = self.profile.window < self.profile.bins.sum()
        return (WindowEquations if narrow else CausalEquations)(self.profile.simplified)

    @cached_property
    def _unit(self) -> float:
        """Singular value that the equations call 1."""
        return float(np.sqrt(self.scale * self._equations.unit))

    @cached_property
    def _table(self) -> _Table:  # type: ignore[override]
        from scipy.interpolate import PchipInterpolator

        t, flux, radius = solved_flux(
            self._equations,
            has_pattern=self.profile.has_pattern,
            largest=self.profile.largest,
        )
        mass = PchipInterpolator(t, flux).antiderivative()
        atom = self._zero
        total = float(mass(t[-1]))
        most = (1 - atom) * (1 - 1e-6)
        share = min(1.0, most / total)
        below = 1 - total * share
        rate = float(np.clip(0.5 * flux[0] * share / (below - atom) ** 2, 0.2, 5.0))
        return _Table(
            PchipInterpolator(t, flux * share),
            PchipInterpolator(t, flux * share).antiderivative(),
            float(t[0]),
            float(t[-1]),
            below,
            rate,
            radius,
        )

    @cached_property
    def _zero(self) -> float:
        """Share of rows that vanish, such as the first, which has a single entry."""
        empty = self.profile.row_variances.sum(axis=0) == 0
        shares, without = self.profile.shares
        return float(shares @ (empty @ self.profile.row_weights)) + without

    # What the base class needs.

    @cached_property
    def atom(self) -> Atom:
        """The atom at zero, of rows that vanish."""
        mass = np.array([self._zero] if self._zero > 0 else [])
        return Atom(frozen(np.zeros(mass.size)), frozen(mass))

    def _intervals(self) -> Floats:
        return np.array([[0.0, (np.exp(self._table.high) * self._unit) ** 2]])

    @cached_property
    def _interval_masses(self) -> Floats:
        return np.array([1 - self._zero])

    def _inside(self, x: Floats) -> tuple[Floats, Floats]:
        table, atom = self._table, self._zero
        t = 0.5 * np.log(x) - np.log(self._unit)
        inner = np.maximum(t, table.low)
        cdf = table.below + table.mass(inner)
        flux = table.flux(inner)
        gap = 1 / (1 / (table.below - atom) + 2 * table.rate * (inner - t))
        tail = t < table.low
        cdf = np.where(tail, atom + gap, cdf)
        flux = np.where(tail, 2 * table.rate * gap**2, flux)
        with np.errstate(over="ignore"):
            return np.asarray(flux / (2 * x)), np.clip(cdf, 0.0, 1.0)

    def _density_inside(self, x: Floats) -> Floats:
        return self._inside(x)[0]

    def _cdf_inside(self, x: Floats) -> Floats:
        return self._inside(x)[1]

    def _quantiles(self, q: Floats) -> Floats:
        """Use the closed form below the table, bisection in log x inside it."""
        table, atom = self._table, self._zero
        gap = np.maximum(q - atom, 1e-300)
        tail = table.low - (1 / gap - 1 / (table.below - atom)) / (2 * table.rate)
        low, high = np.full(q.size, table.low), np.full(q.size, table.high)
        for _ in range(50):
            middle = 0.5 * (low + high)
            left = table.below + table.mass(middle) < q
            low, high = np.where(left, middle, low), np.where(left, high, middle)
        t = np.where(q <= table.below, tail, high)
        with np.errstate(under="ignore"):
            x = (np.exp(np.maximum(t, -370.0)) * self._unit) ** 2
        return np.asarray(np.where(q <= atom, 0.0, np.maximum(x, 5e-324)))

    def _cauchy(self, z: Complexes) -> Complexes:
        root = np.sqrt(z) / self._unit
        w = np.where(root.imag < 0, -root, root).astype(np.complex128)
        w = w.real + 1j * np.maximum(w.imag, 1e-12)
        # m = R̄/w at w², in units
        m = self._equations.mean_rows(self._equations.solve(w), w) / w
        return np.asarray(-m / self._unit**2)

    def moment(self, k: int) -> float:
        """Moment ∫ xᵏ ν(dx), from the equations on a circle around the support."""
        k = count("k", k, at_least=0)
        if k < 2:
            return float(self.scale * self.profile.mean) if k else 1.0
        inside = moment_inside(self._equations, self._table.radius, k)
        return inside * self._unit ** (2 * k)

    def _rescaled(self, factor: float) -> "CausalProfileLaw":
        law = CausalProfileLaw(self.profile, self.scale * factor)
        if "_table" in self.__dict__:  # in units, and so the same
            law.__dict__["_table"] = self._table
        return law

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CausalProfileLaw):
            return NotImplemented
        return self.profile is other.profile and self.scale == other.scale

    def __hash__(self) -> int:
        return hash((id(self.profile), self.scale))

    def __repr__(self) -> str:
        bins, blocks = self.profile.bins.size, len(self.profile.latent_dimensions)
        head = "" if self.scale == 1 else f"{self.scale:g} * "
        return f"{head}CausalProfileLaw({bins} bins, {blocks} blocks)"
