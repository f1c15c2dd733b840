"""A head's kernel and its singular value decomposition, mode by mode.

A query of norm r√d_k and a key of norm s√d_k meet in the entry

    n A_ij ≈ f(q, k) = e^{β r s √d_k u − β²r²/2} = Σ_k B_k(r, s) √N_k P_k(u) ,

u the cosine between them and B_k(r, s) = √N_k b_k(βrs√d_k) e^{−β²r²/2} (`harmonics`). For each
degree k, B_k = Σ_l σ_kl u_kl(r) v_kl(s) with functions that are orthonormal under the distribution
of norms. So the features u_kl(r) Y_km(q/‖q‖) of a query and v_kl(s) Y_km(k/‖k‖) of a key are
orthonormal too, and f is a sum of blocks: mode (k, l) has N_k latent dimensions and the variances
α(r) = σ u², γ(s) = σ v². Degree 0 is a matrix of finite rank, that only outliers can show.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from attnlaw._checks import Floats, invalid_argument
from attnlaw.models import SelfAttention
from attnlaw.theory.attention.harmonics import harmonic_coefficient, harmonic_dimension
from attnlaw.theory.attention.quadrature import norm_rule

__all__ = ["Kernel", "Mode"]

MOST_BETA = 3.0
"""Inverse temperature above which harmonics overflow and rows are ruled by single entries."""

_NEGLIGIBLE = 1e-7  # energy of a mode, as a share of the total


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

    Over h heads side by side the variances of a row average, and so do those of a column in a
    mean of heads: their spread is then less by √h (`averaged`).
    """

    def __init__(self, model: SelfAttention, n_nodes: int | None = None) -> None:
        self.n, self.d, self.h = model.n_tokens, model.head_dimension, model.n_heads
        if self.d < 3:
            raise invalid_argument(
                "head_dimension", "at least 3 for this order of the law", self.d
            )
        if model.inverse_temperature == 0:
            raise invalid_argument("inverse_temperature", "above 0 for this order of the law", 0.0)
        self.row_beta = float(model.inverse_temperature)
        self.beta = min(self.row_beta, MOST_BETA)
        self.is_mean = model.combination == "mean"
        self.h_keys = model.n_key_heads
        self.equal_norms = model.qk_norm
        if self.equal_norms:
            self.norms, self.weights = np.ones(1), np.ones(1)
            return
        spread = 1 / self.d
        if model.input_spectrum is not None:  # ‖q_i‖² is T_ii χ²: its variance is the sum of two
            spread += (float(np.mean(model.input_spectrum**2)) - 1) / self.n
        usual = 7 if self.d >= 16 else 12
        norms, self.weights = norm_rule(1 / spread, n_nodes or usual, self.n * self.h)
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
        else:  # x²/d_k is Beta(1/2, (d_k−1)/2)
            end = min(reach, (1 - 1e-9) * self.d**0.5)
            x = np.linspace(-end, end, n_points)
            density = np.exp(0.5 * (self.d - 3) * np.log1p(-(x**2) / self.d))
        return x, density / density.sum()

    def companions(self, x: Floats, n_nodes: int) -> tuple[Floats, Floats]:
        """Norm of the other token given the score (scores × nodes), and the nodes' weights."""
        if self.equal_norms:
            return np.ones((x.size, 1)), np.ones(1)
        rest, shares = norm_rule(self.d - 1, n_nodes)
        return np.sqrt((x[:, None] ** 2 + (self.d - 1) * rest**2) / self.d), shares

    def coefficient(self, k: int, rs: Floats) -> Floats:
        """√N_k b_k for norms whose product is r s."""
        b = harmonic_coefficient(k, self.beta * self.d**0.5 * rs, self.d)
        return np.asarray(b * harmonic_dimension(self.d, k) ** 0.5)

    def ratio(self, k: int) -> float:
        """ρ_k = n/N_k; the heads of a mean add up the latent dimensions of their keys."""
        return self.n / (harmonic_dimension(self.d, k) * (self.h_keys if self.is_mean else 1))

    def modes(self, least_ratio: float) -> tuple[list[Mode], Floats]:
        """Modes of degree ≥ 1 with ρ ≥ least_ratio, and the energy of all others (r × s)."""
        t, w = self.norms, self.weights
        found: list[Mode] = []
        rest = np.zeros((t.size, t.size))
        total, k = 0.0, 0
        while True:
            k += 1
            B = self.coefficient(k, np.outer(t, t)) / self.normaliser(t)[:, None]
            energy = float(w @ B**2 @ w)
            total += energy
            if energy < 1e-16 * total:
                return found, rest
            ratio = self.ratio(k)
            if ratio < least_ratio:
                rest += B**2
                continue
            left, sigma, right = np.linalg.svd(np.sqrt(w)[:, None] * B * np.sqrt(w))
            strong = np.flatnonzero(sigma**2 > _NEGLIGIBLE * total)
            for i in strong:
                u, v = left[:, i] / np.sqrt(w), right[i] / np.sqrt(w)
                found.append(Mode(k, float(sigma[i]), u, v, ratio))
                B = B - sigma[i] * np.outer(u, v)
            rest += B**2

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
        """Variances of rows: averaged over heads, whichever way they are combined."""
        return self.averaged(variance, self.h) / (self.h if self.is_mean else 1)

    def of_columns(self, variance: Floats) -> Floats:
        """Variances of columns: averaged only in a mean of heads, over those with own keys."""
        return self.averaged(variance, self.h_keys if self.is_mean else 1)

    def key_norm_term(self) -> tuple[Floats, Floats, float]:
        """Degree 0: α and γ of its first mode, and the energy of all of them.

        Rows of attention sum to one, so what does not depend on the key is not part of it.
        """
        t, w = self.norms, self.weights
        B = self.coefficient(0, np.outer(t, t)) / self.normaliser(t)[:, None]
        B = B - (B @ w)[:, None]
        left, sigma, right = np.linalg.svd(np.sqrt(w)[:, None] * B * np.sqrt(w))
        rows, columns = sigma[0] * left[:, 0] ** 2 / w, sigma[0] * right[0] ** 2 / w
        scale = self.h_keys if self.is_mean else 1  # heads that share keys share their norms
        energy = float((sigma**2).sum()) / scale
        return self.of_rows(rows), self.of_columns(columns), energy
