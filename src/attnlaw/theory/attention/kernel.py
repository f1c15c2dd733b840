"""A head's kernel and its singular value decomposition, mode by mode.

A query of norm r√d_k and a key of norm s√d_k have the entry

    n A_ij ≈ f(q, k) = e^{β r s √d_k u − β²r²/2} = Σ_k B_k(r, s) √N_k P_k(u) ,

u the cosine between them and B_k(r, s) = √N_k b_k(βrs√d_k) e^{−β²r²/2}. For each
degree k, B_k = Σ_l σ_kl u_kl(r) v_kl(s) with functions that are orthonormal under the distribution
of norms. So the features u_kl(r) Y_km(q/‖q‖) of a query and v_kl(s) Y_km(k/‖k‖) of a key are
orthonormal too, and f is a sum of blocks: mode (k, l) has N_k latent dimensions and the variances
α(r) = σ u², γ(s) = σ v². Degree 0 is a matrix of finite rank, which affects only outliers.

The harmonics: for unit vectors u, v in R^d and any κ, e^{κ u·v} = Σ_k b_k(κ) N_k P_k(u·v) with N_k
the number of harmonics of degree k, P_k the Gegenbauer polynomial with P_k(1) = 1 and
b_k(κ) = Γ(d/2) (κ/2)^{1−d/2} I_{d/2−1+k}(κ). Norms are represented by a few weighted points
(`gauss_rule`, `norm_rule`).
"""

from functools import lru_cache
from math import comb
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh_tridiagonal
from scipy.special import betainc, gammaincinv, gammaln, ndtr, ndtri

from attnlaw._checks import Floats, invalid_argument
from attnlaw.models import SelfAttention

__all__ = [
    "Kernel",
    "Mode",
    "gauss_rule",
    "harmonic_coefficient",
    "harmonic_dimension",
    "norm_rule",
    "zonal_polynomials",
]

MOST_BETA = 3.0
"""Inverse temperature above which harmonics overflow and rows are ruled by single entries."""

_NEGLIGIBLE = 1e-3  # energy of a mode, as a share of what is in no mode, and as one of all:
_LEAST, _MOST = 1e-13, 1e-7
_HEAVY = 0.06  # relative variance of the normaliser from which on it is at most the latter


class Mode(NamedTuple):
    """One term σ u(r) v(s) of the kernel's harmonics of one degree."""

    degree: int  # k
    strength: float  # σ
    left: Floats  # u on the nodes
    right: Floats  # v on the nodes
    ratio: float  # ρ = n/N_k


class Kernel:
    """The modes of a head's kernel, on the nodes of query and key norms.

    Modes are those of β = 3 at most; exact energies of rows are taken at `row_beta`.

    Over h heads side by side the variances of a row are averaged, as are those of a column in a
    mean of heads: their spread is then smaller by √h (`averaged`).
    """

    def __init__(self, model: SelfAttention, n_nodes: int | None = None) -> None:
        self.n, self.d, self.h = model.n_tokens, model.head_dimension, model.n_heads
        if model.inverse_temperature == 0:
            raise invalid_argument("inverse_temperature", "above 0 for this order of the law", 0.0)
        self.row_beta = float(model.inverse_temperature)
        self.beta = min(self.row_beta, MOST_BETA)
        self.is_mean = model.combination == "mean"
        self.h_keys = model.n_key_heads
        self.equal_norms = model.qk_norm
        if self.equal_norms:
            self.norms, self.weights = np.ones(1), np.ones(1)
            self.norm_dimension = np.inf
            return
        spread = 1 / self.d
        if model.input_spectrum is not None:  # ‖q_i‖² is T_ii χ²: its variance is the sum of two
            spread += (float(np.mean(model.input_spectrum**2)) - 1) / self.n
        self.norm_dimension = 1 / spread
        usual = 7 if self.d >= 16 else 12
        norms, self.weights = norm_rule(self.norm_dimension, n_nodes or usual, self.n * self.h)
        self.norms = norms / np.sqrt(self.weights @ norms**2)  # E r² = 1 though tails are cut

    def normaliser(self, r: Floats) -> Floats:
        """E e^{β r x}, the mean of a row of exponentials: e^{β²r²/2} if keys are Gaussian."""
        if self.equal_norms:
            return harmonic_coefficient(0, self.beta * self.d**0.5 * np.asarray(r), self.d)
        return np.asarray(np.exp(0.5 * self.beta**2 * r**2))

    def scores(self, n_points: int, *, cut: bool = True) -> tuple[Floats, Floats]:
        """Grid of scores x = √d_k s u of a query of unit norm, with their probabilities.

        It ends where fewer than half of all scores are expected beyond, or, not `cut`, at 8.5.
        """
        reach = -float(ndtri(0.5 / float(self.n) ** 2 / self.h)) if cut else 8.5
        if not self.equal_norms:
            x = np.linspace(-reach, reach, n_points)
            density = np.exp(-0.5 * x**2)
        else:  # x = √d_k sin φ with a density cos^{d_k−2} φ: smooth at both ends
            end = np.arcsin(min(reach / self.d**0.5, 1.0))
            angle = end * ((np.arange(n_points) + 0.5) / n_points * 2 - 1)
            x = self.d**0.5 * np.sin(angle)
            density = np.exp((self.d - 2) * np.log(np.cos(angle)))
        return x, density / density.sum()

    def score_density(self, x: Floats) -> Floats:
        """Density of a score x of a query of unit norm."""
        if not self.equal_norms:
            return np.asarray(np.exp(-0.5 * x**2) / np.sqrt(2 * np.pi))
        inside = 1 - x**2 / self.d
        factor = np.exp(gammaln(self.d / 2) - gammaln((self.d - 1) / 2))
        powers = np.where(inside > 0, inside, 1.0) ** (0.5 * (self.d - 3))
        return np.asarray(factor / np.sqrt(np.pi * self.d) * np.where(inside > 0, powers, 0.0))

    def score_cdf(self, x: Floats) -> Floats:
        """Probability of a score below x; x²/d_k is Beta(1/2, (d_k−1)/2) if norms are equal."""
        if not self.equal_norms:
            return np.asarray(ndtr(x))
        share = betainc(0.5, 0.5 * (self.d - 1), np.minimum(x**2 / self.d, 1.0))
        return np.asarray(0.5 * (1 + np.sign(x) * share))

    def companions(self, x: Floats, n_nodes: int) -> tuple[Floats, Floats]:
        """Norm of the other token given the score (scores × nodes), and the nodes' weights."""
        if self.equal_norms:
            return np.ones((x.size, 1)), np.ones(1)
        rest, shares = norm_rule(self.d - 1, n_nodes)
        return np.sqrt((x[:, None] ** 2 + (self.d - 1) * rest**2) / self.d), shares

    def coefficient(self, k: int, rs: Floats) -> Floats:
        """√N_k b_k for norms whose product is r s."""
        b = harmonic_coefficient(k, self.beta * self.d**0.5 * rs, self.d)
        return np.asarray(b * min(harmonic_dimension(self.d, k), 10**300) ** 0.5)

    def ratio(self, k: int) -> float:
        """ρ_k = n/N_k; the heads of a mean add up the latent dimensions of their keys."""
        return self.n / (harmonic_dimension(self.d, k) * (self.h_keys if self.is_mean else 1))

    def modes(self, least_ratio: float) -> tuple[list[Mode], Floats]:
        """Modes of degree ≥ 1 with ρ ≥ least_ratio, and the energy of all others (r × s)."""
        if self.d < 3:
            raise invalid_argument(
                "head_dimension", "at least 3 for this order of the law", self.d
            )
        t, w = self.norms, self.weights
        parts: list[Floats] = []
        energies = [0.0]
        while not parts or energies[-1] >= 1e-16 * sum(energies):
            k = len(parts) + 1
            parts.append(self.coefficient(k, np.outer(t, t)) / self.normaliser(t)[:, None])
            energies.append(float(w @ parts[-1] ** 2 @ w))
        ratios = [self.ratio(k + 1) for k in range(len(parts) - 1)]
        few = sum(e for e, ratio in zip(energies[1:], ratios, strict=False) if ratio < least_ratio)
        total = sum(energies)
        negligible = _MOST * total
        if np.expm1(self.beta**2) < _HEAVY * self.n:  # noise of rows is as weak as `few`
            negligible = min(max(_NEGLIGIBLE * few, _LEAST * total), negligible)
        found: list[Mode] = []
        rest = np.zeros((t.size, t.size))
        for k, (B, ratio) in enumerate(zip(parts, ratios, strict=False), 1):
            if ratio >= least_ratio:
                left, sigma, right = np.linalg.svd(np.sqrt(w)[:, None] * B * np.sqrt(w))
                for i in np.flatnonzero(sigma**2 > negligible):
                    u, v = left[:, i] / np.sqrt(w), right[i] / np.sqrt(w)
                    found.append(Mode(k, float(sigma[i]), u, v, ratio))
                    B = B - sigma[i] * np.outer(u, v)
            rest += B**2
        return found, rest

    def left(self, mode: Mode, r: Floats) -> Floats:
        """√σ u(r) at any norm: u(r) = Σ_j B(r, s_j) w_j v(s_j)/σ."""
        B = (
            self.coefficient(mode.degree, r[..., None] * self.norms)
            / self.normaliser(r)[..., None]
        )
        return np.asarray(B @ (self.weights * mode.right) / mode.strength**0.5)

    def right(self, mode: Mode, s: Floats) -> Floats:
        """√σ v(s) at any norm."""
        B = self.coefficient(mode.degree, s[..., None] * self.norms)
        weighted = self.weights * mode.left / self.normaliser(self.norms)
        return np.asarray(B @ weighted / mode.strength**0.5)

    def averaged(self, variance: Floats, n_heads: int) -> Floats:
        """Variances of rows or columns (… × nodes) that are means over heads."""
        if n_heads == 1:
            return variance
        mean = (variance @ self.weights)[..., None]
        return np.asarray(mean + (variance - mean) / n_heads**0.5)

    def of_rows(self, variance: Floats) -> Floats:
        """Variances of rows: averaged over heads, however they are combined."""
        return self.averaged(variance, self.h) / (self.h if self.is_mean else 1)

    def of_columns(self, variance: Floats) -> Floats:
        """Variances of columns: averaged only in a mean of heads, over those with own keys."""
        return self.averaged(variance, self.h_keys if self.is_mean else 1)

    def key_norm_term(self) -> tuple[Floats, Floats, float]:
        """Degree 0: α and γ of its first mode, and the energy of all of them.

        Rows of attention sum to one, so the part that does not depend on the key drops out.
        """
        t, w = self.norms, self.weights
        B = self.coefficient(0, np.outer(t, t)) / self.normaliser(t)[:, None]
        B = B - (B @ w)[:, None]
        left, sigma, right = np.linalg.svd(np.sqrt(w)[:, None] * B * np.sqrt(w))
        rows, columns = sigma[0] * left[:, 0] ** 2 / w, sigma[0] * right[0] ** 2 / w
        scale = self.h_keys if self.is_mean else 1  # heads that share keys share their norms
        energy = float((sigma**2).sum()) / scale
        return self.of_rows(rows), self.of_columns(columns), energy


def harmonic_dimension(dimension: int, degree: int) -> int:
    """Count the independent spherical harmonics of degree k in R^d, N_k.

    Notes
    -----
    N_k = C(d+k−1, k) − C(d+k−3, k−2), of which C(d+k−1, k) alone is the dimension of all
    polynomials of degree k: the rest are ‖·‖² times lower harmonics
    (docs/theory/realistic-heads.md, "Step 1: harmonics instead of powers").

    Examples
    --------
    >>> [harmonic_dimension(3, k) for k in range(4)]
    [1, 3, 5, 7]
    """
    d, k = dimension, degree
    return comb(d + k - 1, k) - (comb(d + k - 3, k - 2) if k >= 2 else 0)


def harmonic_coefficient(degree: int, kappa: Floats, dimension: int) -> Floats:
    """Coefficient b_k(κ) of e^{κ u·v}, by the power series of the Bessel function.

    Notes
    -----
    b_k(κ) = (κ/2)^k Γ(d/2)/Γ(d/2+k) Σ_j (κ²/4)^j / (j! (d/2+k)_j): all terms are positive, so
    that nothing cancels, and for κ² = O(d) a few dozen of them are enough in any dimension.

    Examples
    --------
    In three dimensions b_0(κ) = sinh(κ)/κ:

    >>> kappa = np.array([0.5, 2.0])
    >>> np.allclose(harmonic_coefficient(0, kappa, 3), np.sinh(kappa) / kappa, rtol=1e-15)
    True
    """
    k, half = degree, dimension / 2
    x = np.asarray(kappa, dtype=float) ** 2 / 4
    term = np.ones_like(x)
    total = np.ones_like(x)
    j = 0
    while (term > 1e-17 * total).any():
        j += 1
        term = term * (x / (j * (half + k + j - 1)))
        total = total + term
    with np.errstate(divide="ignore"):
        power = np.exp(k * np.log(np.asarray(kappa) / 2) + gammaln(half) - gammaln(half + k))
    return np.asarray(np.where(k == 0, 1.0, power) * total)


def zonal_polynomials(max_degree: int, dimension: int, u: Floats) -> list[Floats]:
    """Gegenbauer polynomials P_0 … P_K in u, with P_k(1) = 1.

    Examples
    --------
    In three dimensions they are Legendre's:

    >>> [float(p) for p in zonal_polynomials(2, 3, np.array(0.5))]
    [1.0, 0.5, -0.125]
    """
    d = dimension
    polynomials = [np.ones_like(u), np.asarray(u, dtype=float)]
    for k in range(1, max_degree):
        previous, last = polynomials[-2:]
        polynomials.append(((2 * k + d - 2) * u * last - k * previous) / (k + d - 2))
    return polynomials[: max_degree + 1]


def gauss_rule(points: Floats, weights: Floats, n_nodes: int) -> tuple[Floats, Floats]:
    """Nodes and weights that integrate polynomials up to degree 2n−1 as the given points do.

    Parameters
    ----------
    points, weights : arrays of shape (m,)
        A discrete distribution; the weights are scaled to sum to one.
    n_nodes : int
        Number of nodes, fewer when the points are.

    Returns
    -------
    nodes, weights : arrays of shape (at most n_nodes,)

    Notes
    -----
    Lanczos's method for the diagonal matrix of points from the vector of square-root weights;
    the nodes are eigenvalues of its tridiagonal matrix. For a function like 1/(w + x), which is
    what enters a resolvent, Gauss's rule is a Padé approximant and converges geometrically.

    Examples
    --------
    >>> nodes, weights = gauss_rule(np.linspace(-1, 1, 2001), np.ones(2001), 2)
    >>> nodes.round(2), weights.round(2)
    (array([-0.58,  0.58]), array([0.5, 0.5]))
    """
    basis = [np.sqrt(weights / weights.sum())]
    diagonal: list[float] = []
    off: list[float] = []
    scale = np.abs(points).max()
    while True:
        v = points * basis[-1]
        diagonal.append(float(basis[-1] @ v))
        if len(diagonal) == n_nodes:
            break
        known = np.array(basis)
        for _ in range(2):  # Gram–Schmidt twice: no loss of orthogonality
            v = v - known.T @ (known @ v)
        norm = float(np.linalg.norm(v))
        if norm <= 1e-12 * scale:
            break
        off.append(norm)
        basis.append(v / norm)
    nodes, vectors = eigh_tridiagonal(np.array(diagonal), np.array(off))
    return np.asarray(nodes, dtype=float), np.asarray(vectors[0] ** 2, dtype=float)


@lru_cache(maxsize=4)
def _legendre_rule(n_nodes: int) -> tuple[Floats, Floats]:
    """Gauss–Legendre rule on [−1, 1], computed once."""
    return np.polynomial.legendre.leggauss(n_nodes)


def norm_rule(
    dimension: float, n_nodes: int, n_draws: float | None = None
) -> tuple[Floats, Floats]:
    """Gauss's rule for r = ‖g‖/√d, g standard Gaussian in R^d.

    Parameters
    ----------
    dimension : float
        d; it need not be whole.
    n_nodes : int
        Number of nodes.
    n_draws : float, optional
        Cut the distribution where fewer than half of n draws are expected beyond, so that its
        support is that of n norms and not the whole line.

    Examples
    --------
    >>> r, w = norm_rule(64, 5)
    >>> round(float(w @ r**2), 9)
    1.0
    """
    tail = max(0.5 / n_draws if n_draws else 0.0, 1e-14)
    low, high = np.sqrt(2 * gammaincinv(dimension / 2, [tail, 1 - tail]) / dimension)
    x, w = _legendre_rule(200)
    r = 0.5 * (low + high) + 0.5 * (high - low) * x
    log_density = (dimension - 1) * np.log(r) - dimension * r * r / 2
    return gauss_rule(r, w * np.exp(log_density - log_density.max()), n_nodes)
