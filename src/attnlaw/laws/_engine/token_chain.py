"""A random walk through bins of many tokens, each of which is observed by itself.

`BinChain` puts the observations of a bin in its middle. That is enough while a bin has fewer
tokens than a block has latent dimensions; here each token of the bin has its increment and its
observation, with the same R and C. A step takes the variance p to n/d,

    (n, d) = M₁ (p, 1) ,     M₁ = ( e , c ; κoe , 1 + κoc ) ,

with the increment c = C, the precision o = −R/ℓ, κ = 1/N and the decay e of the walk, and m of
them take it to M₁ᵐ (p, 1), where

    M₁ᵐ/e^{m/2} = a M₁/√e − b ,     a = sinh(mθ)/sinh θ ,   b = sinh((m−1)θ)/sinh θ ,
    cosh θ = (e + 1 + κoc)/(2√e) .

With the information J from later bins, D = d + κJn is the determinant of the bin, and its
diagonals are derivatives of F = log D/κ: F_o/(mℓ) of rows and −F_c/m of columns.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Complexes
from attnlaw.laws._engine.bin_chain import Ladders

if TYPE_CHECKING:
    from attnlaw.laws.causal_profile import CausalProfile

__all__ = ["TokenChain"]

_SERIES = 0.3  # m²(cosh θ − 1) below which a and b are taken as series in it
_TERMS = 9


class _Power(NamedTuple):
    """Entries of M₁ᵐ = (A, cB; κoG, H), and derivatives by y = κoc, all times e^{−mθ}."""

    A: tuple[Complexes, ...]
    B: tuple[Complexes, ...]
    G: tuple[Complexes, ...]
    H: tuple[Complexes, ...]
    determinant: Complexes


class TokenChain:
    """The random walk of a causal profile, conditioned on an observation at each token."""

    def __init__(self, profile: "CausalProfile") -> None:
        self.m, self.sizes = (
            a[:, None, None].astype(np.complex128) for a in (profile.bins, profile.sizes)
        )
        self.inverse_dimensions = 1 / profile.latent_dimensions[:, None] + 0j  # κ
        self.root = float(np.exp(-profile.slope))  # √e

    def smoothed(self, R: Complexes, C: Complexes, *, slopes: bool) -> Ladders:
        """Return the smoother's diagonals in each bin, and their derivatives if asked for."""
        k, c, o = self.inverse_dimensions, C, -R / self.sizes
        power = self._power(k * o * c)
        A, B, G, H = (entry[0] for entry in power[:4])
        p, J = np.zeros_like(C), np.zeros_like(C)
        cB, oG = c * B, o * G
        kcB, koG = k * cB, k * oG
        for i in range(len(p) - 1):
            p[i + 1] = (A[i] * p[i] + cB[i]) / (koG[i] * p[i] + H[i])
        for i in range(len(p) - 1, 0, -1):
            J[i - 1] = (oG[i] + A[i] * J[i]) / (H[i] + kcB[i] * J[i])
        n, d = A * p + cB, koG * p + H
        A1, B1, G1, H1 = (entry[1] for entry in power[:4])
        n1, d1 = A1 * p + c * B1, k * o * G1 * p + H1
        D, D1 = d + k * J * n, d1 + k * J * n1
        row, column = (c * D1 + G * p) / D, (o * D1 + B * J) / D  # F_o, F_c
        to_rows, to_columns = 1 / (self.m * self.sizes), -1 / self.m
        rows, columns = row * to_rows, column * to_columns
        if not slopes:
            return Ladders(rows, columns)
        A2, B2, G2, H2 = (entry[2] for entry in power[:4])
        D2 = H2 + k * (o * G2 * p + J * (A2 * p + c * B2))
        before, before1 = oG + J * A, o * G1 + J * A1  # of D by p, over κ
        alone, alone1 = H + kcB * J, H1 + k * c * B1 * J  # D at p = 0
        after, J_before = n / d, before / alone
        o_R = -1 / self.sizes
        oo = k * ((c * c * D2 + 2 * c * G1 * p) / D - row**2)
        cc = k * ((o * o * D2 + 2 * o * B1 * J) / D - column**2)
        oc = (D1 + k * (o * c * D2 + c * B1 * J + o * G1 * p)) / D - k * row * column
        op = (G + k * (c * before1 - row * before)) / D
        oJ = k * (c * n1 - row * n) / D
        cp = k * (o * before1 - column * before) / D
        cJ = (B + k * (o * n1 - column * n)) / D
        return Ladders(
            rows,
            columns,
            rows_by=(oo * o_R * to_rows, oc * to_rows, op * to_rows, oJ * to_rows),
            columns_by=(oc * o_R * to_columns, *(part * to_columns for part in (cc, cp, cJ))),
            walk_by=(
                k * (c * n1 - after * (c * d1 + G * p)) / d * o_R,
                (B + k * o * (n1 - after * d1)) / d,
                power.determinant / d**2,
            ),
            information_by=(
                (G + k * c * (before1 - J_before * alone1)) / alone * o_R,
                k * (o * before1 - J_before * (o * alone1 + B * J)) / alone,
                power.determinant / alone**2,
            ),
        )

    def _power(self, y: Complexes) -> _Power:
        """Entries of M₁ᵐ, and their first two derivatives, from those of a and b."""
        g = self.root
        over = ((1 - g) ** 2 + y) / (2 * g)  # cosh θ − 1
        square = over * (over + 2)
        sinh = np.sqrt(square)
        theta = np.log1p(over + sinh)
        sign = np.where(theta.real < 0, -1.0, 1.0)
        sinh, theta = sign * sinh, sign * theta
        scale = np.exp(-self.m * theta)  # e^{−mθ}
        near = np.abs(self.m**2 * over) < _SERIES
        safe = np.where(near, 1.0, sinh)
        (a, a1, a2), (b, b1, b2) = (
            _chebyshev(number, over, safe, near, np.exp((number - self.m) * theta), scale)
            for number in (self.m, self.m - 1)
        )
        half = 0.5 / g
        a1, b1, a2, b2 = a1 * half, b1 * half, a2 * half**2, b2 * half**2
        return _Power(
            A=(a * g - b, a1 * g - b1, a2 * g - b2),
            B=(a / g, a1 / g, a2 / g),
            G=(a * g, a1 * g, a2 * g),
            H=(
                a * (1 + y) / g - b,
                (a1 * (1 + y) + a) / g - b1,
                (a2 * (1 + y) + 2 * a1) / g - b2,
            ),
            determinant=scale**2,
        )


def _chebyshev(
    m: Complexes,
    over: Complexes,
    sinh: Complexes,
    near: NDArray[np.bool_],
    rising: Complexes,
    scale: Complexes,
) -> tuple[Complexes, Complexes, Complexes]:
    """Return U = sinh(mθ)/sinh θ and two derivatives by x = cosh θ, times `scale`.

    `rising` is e^{mθ} times the scale. U = Σ_j u_j (x−1)^j, u_0 = m and u_{j+1} = u_j
    (m² − (j+1)²)/((2j+3)(j+1)), where θ is small, and (x²−1)U' = m cosh mθ − xU,
    (x²−1)U'' = (m²−1)U − 3xU'.
    """
    x = 1 + over
    falling = scale**2 / rising
    value = 0.5 * (rising - falling) / sinh
    first = (0.5 * m * (rising + falling) - x * value) / sinh**2
    second = ((m**2 - 1) * value - 3 * x * first) / sinh**2
    if near.any():
        h = np.where(near, over, 0.0)
        u, power = m * scale, np.ones_like(h)
        sums = [u, np.zeros_like(value), np.zeros_like(value)]
        for j in range(1, _TERMS):  # power is h^{j−1}
            u = u * ((m**2 - j**2) / ((2 * j + 1) * j))
            sums[2] = sums[2] + (j + 1) * j * ((m**2 - (j + 1) ** 2) / ((2 * j + 3) * (j + 1))) * (
                u * power
            )
            sums[1] = sums[1] + j * u * power
            power = power * h
            sums[0] = sums[0] + u * power
        value, first, second = (
            np.where(near, terms, rest)
            for terms, rest in zip(sums, (value, first, second), strict=True)
        )
    return value, first, second
