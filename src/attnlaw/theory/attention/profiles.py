"""Variance profiles of attention: norms of queries and keys, energies at finite n, and inputs.

Inputs that are not orthonormal (open in P2) have XXᵀ = T with any spectrum. With Q = XW_Q and
K = XW_K the linear part of the scores is √θ₂ T^{1/2} G₁G₂ᵀ T^{1/2}/√d_k. In T's eigenbasis it is a
variance profile with one block, α_i = γ_i = √θ₂ λ_i and ρ = n/d_k; all other degrees are
unchanged. If these are noise, there are two equations,

    R_i = −1/(w + √θ₂ λ_i p/(1 − ρp²) + (θ₁−θ₂) g) ,   p = mean √θ₂ λ R ,   g = mean R ,

and T = I gives back the law of orthonormal inputs. At finite n and d_k they have a profile of
their own, in the basis of tokens, which is free from T. Derived in
docs/theory/correlated-inputs.md, "Equations", and docs/theory/correlated-inputs.md, "Finite heads
over such inputs".
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Floats, warn_regime
from attnlaw.laws import FreeProfile, VarianceProfile
from attnlaw.models import SelfAttention
from attnlaw.theory.attention.energies import energies
from attnlaw.theory.attention.kernel import Kernel, Mode, gauss_rule
from attnlaw.theory.attention.rows import finite_rows

__all__ = [
    "AttentionProfile",
    "by_input_spectrum",
    "first_inputs_profile",
    "first_profile",
    "norms_profile",
    "powers_profile",
    "projections",
    "tokens_inputs_profile",
    "tokens_profile",
    "tokens_term_energy",
]

_STRUCTURE = 0.75  # n/N_k from which a block is structure and none of it noise
_RESOLVED = 0.004  # n/N_k below which the dimension of a block makes no difference
_NODES = 96  # quantiles of an input spectrum
_MOST_SQUARES = 0.03


class AttentionProfile(NamedTuple):
    """The profile of √n A_⊥, and the additional rank-one term of the key norms."""

    profile: VarianceProfile
    term_rows: Floats  # squared factors of the term on kinds of rows
    term_columns: Floats  # and of columns
    term_energy: float  # its share of the mean squared singular value


def projections(model: SelfAttention) -> tuple[float, ...]:
    """Ratios n/(number of columns) of the value and output matrices: factors ⊠ MP."""
    n = model.n_tokens
    ratios = []
    if model.value_dimension is not None:
        heads = model.n_heads if model.combination == "concatenate" else 1
        ratios.append(n / (heads * model.value_dimension))
    if model.output_dimension is not None:
        ratios.append(n / model.output_dimension)
    return tuple(ratios)


def first_profile(model: SelfAttention) -> AttentionProfile:
    """Take the limit n, d_k → ∞: one block of ratio φ, noise, and a term of strength β⁴φ/2."""
    square, h = model.inverse_temperature**2, model.n_heads
    is_mean = model.combination == "mean"
    one, share = np.ones(1), 1 / h if is_mean else 1.0
    profile = VarianceProfile(
        row_weights=one,
        column_weights=one,
        row_variances=np.array([[square], [np.expm1(square) - square]]) * share,
        column_variances=np.ones((2, 1)),
        ratios=np.array([model.token_ratio * share, 0.0]),
        repeats=1 if is_mean else h,
        factors=projections(model),
    )
    energy = square**2 / (2 * model.head_dimension) * share
    return AttentionProfile(profile, one, energy * one, energy)


def powers_profile(model: SelfAttention) -> VarianceProfile:
    """Blocks of variance β^{2k}/k! and C(d_k+k−1, k) dimensions; rows and columns are equal."""
    square, d, h = model.inverse_temperature**2, model.head_dimension, model.n_heads
    is_mean = model.combination == "mean"
    share = 1 / h if is_mean else 1.0
    energies, ratios = [square], [model.token_ratio * share]
    rest = float(np.expm1(square) - square)
    k = 1
    while ratios[-1] > 1e-3 and rest > 1e-12 * square:
        k += 1
        energies.append(energies[-1] * square / k)
        ratios.append(ratios[-1] * k / (d + k - 1))
        rest -= energies[-1]
    energies.append(max(rest, 1e-15 * square))
    return VarianceProfile(
        row_weights=np.ones(1),
        column_weights=np.ones(1),
        row_variances=np.array(energies)[:, None] * share,
        column_variances=np.ones((len(energies), 1)),
        ratios=np.array([*ratios, 0.0]),
        repeats=1 if is_mean else h,
        factors=projections(model),
    )


def norms_profile(model: SelfAttention) -> AttentionProfile:
    """Modes with their exact dimensions, and the spread of query and key norms.

    Degrees with more than 250 n dimensions are noise, whose variance depends on the norms.
    """
    kernel = Kernel(model)
    modes, rest = kernel.modes(_RESOLVED)
    w = kernel.weights
    a, c = rest @ w, w @ rest
    alpha, gamma = _variances(modes)
    profile = VarianceProfile(
        row_weights=w,
        column_weights=w,
        row_variances=kernel.of_rows(np.vstack([alpha, a / (w @ a)])),
        column_variances=kernel.of_columns(np.vstack([gamma, c])),
        ratios=np.array([*(mode.ratio for mode in modes), 0.0]),
        repeats=1 if kernel.is_mean else kernel.h,
        factors=projections(model),
    )
    return AttentionProfile(profile, *kernel.key_norm_term())


def tokens_profile(model: SelfAttention) -> AttentionProfile:
    """Include also the energies of single rows and columns at n tokens.

    Modes of at most n/0.75 dimensions are structure. Higher modes are noise, with an energy that
    fluctuates from row to row, even where their finite dimension still matters. The mean energy of
    a row is exact, given the query's norm (`rows`).
    """
    kernel = Kernel(model)
    modes, rest = kernel.modes(_RESOLVED)
    w, h = kernel.weights, 1 if kernel.is_mean else kernel.h
    felt = np.array([mode.degree > 1 and mode.ratio < _STRUCTURE for mode in modes], dtype=bool)
    drawn = energies(kernel, [mode for mode, f in zip(modes, felt, strict=True) if not f])
    rows, columns = _balanced(_Side.of(w, drawn.rows), _Side.of(w, drawn.columns), h)
    n = np.array([float(kernel.n)])
    blocks, noise, term = (part[..., 0, :] for part in finite_rows(kernel, modes, rest @ w, n))
    alpha = kernel.of_rows(np.vstack([blocks, noise]))[:, rows.kind]
    gamma = _variances(modes)[1]
    columns_noise = _noise_of_columns(columns, blocks[felt] @ w, gamma[felt])
    gamma = kernel.of_columns(np.vstack([gamma, columns_noise / (w @ columns_noise)]))
    gamma = gamma[:, columns.kind]
    fluctuates = np.append(felt, True)[:, None]
    profile = VarianceProfile(
        row_weights=rows.weights,
        column_weights=columns.weights,
        row_variances=alpha * np.where(fluctuates, rows.factor, 1.0),
        column_variances=gamma * np.where(fluctuates, columns.factor, 1.0),
        ratios=np.array([*(mode.ratio for mode in modes), 0.0]),
        row_means=alpha * np.where(fluctuates, rows.tilt, 1.0),
        column_means=gamma * np.where(fluctuates, columns.tilt, 1.0),
        repeats=h,
        factors=projections(model),
    )
    term_rows, term_columns, _ = kernel.key_norm_term()
    energy = float(term @ w) / (kernel.h_keys if kernel.is_mean else 1)
    return AttentionProfile(profile, term_rows[rows.kind], term_columns[columns.kind], energy)


def tokens_term_energy(model: SelfAttention) -> float:
    """Share of the key-norm term in the mean squared singular value, at n tokens."""
    kernel = Kernel(model)
    modes, rest = kernel.modes(_RESOLVED)
    _, _, term = finite_rows(kernel, modes, rest @ kernel.weights, np.array([1.0 * kernel.n]))
    return float(term[0] @ kernel.weights) / (kernel.h_keys if kernel.is_mean else 1)


def _noise_of_columns(columns: "_Side", strengths: Floats, gamma: Floats) -> Floats:
    """Energy of the columns at each norm, less that of blocks which fluctuate with the noise."""
    noise = columns.means - strengths @ gamma
    return np.asarray(np.maximum(noise, 0.01 * columns.means))


def _variances(modes: list[Mode]) -> tuple[Floats, Floats]:
    """α and γ of the modes on the nodes (modes × nodes)."""
    alpha = np.array([mode.strength * mode.left**2 for mode in modes])
    gamma = np.array([mode.strength * mode.right**2 for mode in modes])
    return alpha, gamma


class _Side(NamedTuple):
    """Rows or columns at finite n: their norm, and the factor by which their energy differs."""

    kind: NDArray[np.intp]  # index of the norm
    weights: Floats
    factor: Floats  # ξ: energy over its mean at that norm
    energy: Floats
    tilt: Floats  # ξ^θ over its mean at that norm

    @staticmethod
    def of(weights: Floats, rules: list[tuple[Floats, Floats]]) -> "_Side":
        kind = np.repeat(np.arange(len(rules)), [a.size for a, _ in rules])
        energy = np.concatenate([a for a, _ in rules])
        share = np.concatenate([w for _, w in rules])
        mean = np.bincount(kind, energy * share)[kind]
        return _Side(kind, weights[kind] * share, energy / mean, energy, np.ones_like(energy))

    @property
    def means(self) -> Floats:
        """Mean energy at each norm."""
        total = np.bincount(self.kind, self.weights)
        return np.asarray(np.bincount(self.kind, self.weights * self.energy) / total)

    def _tilt(self, theta: float) -> Floats:
        raised = self.factor**theta
        total = np.bincount(self.kind, self.weights)
        return np.asarray(
            raised / (np.bincount(self.kind, self.weights * raised) / total)[self.kind]
        )

    def message(self, values: Floats, theta: float = 0.0) -> float:
        """Mean of `values`, with rows weighted as in the messages that they send."""
        weights = self.weights * (self.energy / self.factor) * self._tilt(theta)
        return float(weights @ values / weights.sum())

    def tilted(self, values: Floats, target: float) -> "_Side":
        """Choose θ so that the message of `values`, which fall with the energy, is `target`."""
        low, high = -8.0, 8.0
        if not self.message(values, high) < target < self.message(values, low):
            return self  # energies that hardly vary leave nothing to choose
        from scipy.optimize import brentq

        theta = brentq(lambda t: self.message(values, t) - target, low, high)
        return self._replace(tilt=self._tilt(float(theta)))


def _balanced(rows: _Side, columns: _Side, h: int) -> tuple[_Side, _Side]:
    """Weight messages so that rows and columns agree on the mass near zero.

    For noise alone, as w → 0, the rows need mean 1/a and the columns need h mean ρ/(1 + cρ) to be
    the same number, where ρ is such that h mean cρ/(1 + cρ) = 1; both are 1/a and 1/c if h = 1.
    Each side is moved to their geometric mean.
    """
    from scipy.optimize import brentq

    if not (rows.energy.min() > 0 and columns.energy.min() > 0):  # lost in rounding
        return rows, columns
    by_rows = 1 / rows.energy
    by_columns = 1 / columns.energy
    if h > 1:
        c, w = columns.energy, columns.weights
        log_rho = brentq(lambda t: h * float(w @ (1 / (1 + np.exp(-t) / c))) - 1, -50.0, 50.0)
        by_columns = h / (np.exp(-log_rho) + c)
    target = np.sqrt(rows.message(by_rows) * columns.message(by_columns))
    return rows.tilted(by_rows, target), columns.tilted(by_columns, target)


def by_input_spectrum(model: SelfAttention) -> SelfAttention:
    """Replace given inputs by the spectrum of XXᵀ, which is all that enters the law.

    Degrees k ≥ 2 of the scores have correlations T_ii'ᵏ between tokens, which the law replaces by
    the identity: a `RegimeWarning` gives the mean of Σ_{i'≠i} T_ii'⁴ where it is above 0.03.
    """
    if model.inputs is None:
        return model
    X = model.inputs
    T = X @ X.T
    lengths = np.sqrt(np.maximum(np.diag(T), 1e-300))
    squares = float(np.sum((T / lengths / lengths[:, None]) ** 4) / len(T)) - 1
    if squares > _MOST_SQUARES:
        warn_regime(
            f"inputs are correlated beyond their spectrum: the cosines of a token with all others "
            f"have fourth powers that sum to {squares:.3g}, and the law assumes that they are "
            f"below {_MOST_SQUARES:g}; simulate_spectrum draws such heads.",
        )
    return replace(model, inputs=None, input_spectrum=np.maximum(np.linalg.eigvalsh(T), 0.0))


def first_inputs_profile(model: SelfAttention) -> VarianceProfile:
    """Return the profile of attention over inputs with a spectrum, for n and d_k infinite."""
    spectrum, weights = _nodes(model)
    square = model.inverse_temperature**2  # θ₂
    noise = np.expm1(square) - square  # θ₁ − θ₂
    is_mean = model.combination == "mean"
    share = 1 / model.n_heads if is_mean else 1.0
    ones = np.ones_like(spectrum)
    return VarianceProfile(
        row_weights=weights,
        column_weights=weights,
        row_variances=np.vstack([square**0.5 * spectrum, noise * ones]) * share,
        column_variances=np.vstack([square**0.5 * spectrum, ones]),
        ratios=np.array([model.token_ratio * share, 0.0]),
        repeats=1 if is_mean else model.n_heads,
        factors=projections(model),
    )


def tokens_inputs_profile(model: SelfAttention) -> FreeProfile:
    """Return the same for finite heads: the linear part in T's eigenbasis, the rest in tokens'."""
    spectrum, weights = _nodes(model)
    tokens = tokens_profile(model).profile
    linear = VarianceProfile(
        row_weights=weights,
        column_weights=weights,
        row_variances=float(tokens.row_variances[0] @ tokens.row_weights) * spectrum[None],
        column_variances=float(tokens.column_variances[0] @ tokens.column_weights)
        * spectrum[None],
        ratios=tokens.ratios[:1],
        repeats=tokens.repeats,
    )
    assert tokens.row_means is not None
    assert tokens.column_means is not None
    rest = replace(
        tokens,
        row_variances=tokens.row_variances[1:],
        column_variances=tokens.column_variances[1:],
        row_means=tokens.row_means[1:],
        column_means=tokens.column_means[1:],
        ratios=tokens.ratios[1:],
        factors=(),
    )
    return FreeProfile(linear, rest, tokens.factors)


def _nodes(model: SelfAttention) -> tuple[Floats, Floats]:
    """Distinct eigenvalues with their shares, or Gauss's rule for many of them."""
    assert model.input_spectrum is not None
    values, counts = np.unique(model.input_spectrum, return_counts=True)
    if values.size <= _NODES:
        return values, counts / counts.sum()
    return gauss_rule(values, counts.astype(float), _NODES)
