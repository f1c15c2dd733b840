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

from attnlaw._checks import Floats, invalid_argument
from attnlaw.models import SelfAttention
from attnlaw.theory.attention.harmonics import harmonic_coefficient, harmonic_dimension
from attnlaw.theory.attention.quadrature import norm_rule

__all__ = ["Kernel", "Mode"]

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

    Over h heads side by side the variances of a row average, and so do those of a column in a
    mean of heads: their spread is then less by √h (`averaged`).
    """

    def __init__(self, model: SelfAttention) -> None:
        self.n, self.d, self.h = model.n_tokens, model.head_dimension, model.n_heads
        if self.d < 3:
            raise invalid_argument(
                "head_dimension", "at least 3 for this order of the law", self.d
            )
        self.beta = float(model.inverse_temperature)
        if self.beta == 0:
            raise invalid_argument("inverse_temperature", "above 0 for this order of the law", 0.0)
        self.is_mean = model.combination == "mean"
        spread = 1 / self.d
        if model.input_spectrum is not None:  # ‖q_i‖² is T_ii χ²: its variance is the sum of two
            spread += (float(np.mean(model.input_spectrum**2)) - 1) / self.n
        self.norms, self.weights = norm_rule(
            1 / spread, 7 if self.d >= 16 else 12, self.n * self.h
        )

    def normaliser(self, r: Floats) -> Floats:
        """E e^{β r x} = e^{β²r²/2}: the mean of a row of exponentials."""
        return np.asarray(np.exp(0.5 * self.beta**2 * r**2))

    def coefficient(self, k: int, rs: Floats) -> Floats:
        """√N_k b_k for norms whose product is r s."""
        b = harmonic_coefficient(k, self.beta * self.d**0.5 * rs, self.d)
        return np.asarray(b * harmonic_dimension(self.d, k) ** 0.5)

    def ratio(self, k: int) -> float:
        """ρ_k = n/N_k; the heads of a mean add up their latent dimensions."""
        return self.n / (harmonic_dimension(self.d, k) * (self.h if self.is_mean else 1))

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

    def averaged(self, variance: Floats, *, over_heads: bool) -> Floats:
        """Variances of rows or columns (… × nodes) that are means over heads."""
        if not over_heads or self.h == 1:
            return variance
        mean = (variance @ self.weights)[..., None]
        return np.asarray(mean + (variance - mean) / self.h**0.5)

    def of_rows(self, variance: Floats) -> Floats:
        """Variances of rows: averaged over heads, whichever way they are combined."""
        return self.averaged(variance, over_heads=True) / (self.h if self.is_mean else 1)

    def of_columns(self, variance: Floats) -> Floats:
        """Variances of columns: averaged only in a mean of heads."""
        return self.averaged(variance, over_heads=self.is_mean)

    def key_norm_term(self) -> tuple[Floats, Floats, float]:
        """Degree 0: α and γ of its first mode, and the energy of all of them.

        Rows of attention sum to one, so what does not depend on the key is not part of it.
        """
        t, w = self.norms, self.weights
        B = self.coefficient(0, np.outer(t, t)) / self.normaliser(t)[:, None]
        B = B - (B @ w)[:, None]
        left, sigma, right = np.linalg.svd(np.sqrt(w)[:, None] * B * np.sqrt(w))
        rows, columns = sigma[0] * left[:, 0] ** 2 / w, sigma[0] * right[0] ** 2 / w
        scale = self.h if self.is_mean else 1
        energy = float((sigma**2).sum()) / scale
        return self.of_rows(rows), self.of_columns(columns), energy
