"""How the constants of the edge tests were measured, and how well they hold.

1. `EdgeTest`: mean and spread of (λ₁/κ̂ − λ₊)/s for products of Wishart matrices, against the
   Tracy–Widom law (−1.21 and 1.27) and the rule spread = exp(−3.5 s/λ₊); false alarms at 5 %.
2. `edge_spacing`: the coefficients c, e and the quantiles of T from Airy points, drawn as the
   largest eigenvalues of the tridiagonal GOE; false alarms at 5 % for several bulks.
3. `tail_gap`: its mean and spread on tokens, 0 and 1 if its two rules held exactly.

    python benchmarks/edge_constants.py [--draws 1000] [--airy 20000]
"""

import argparse

import numpy as np
from scipy.linalg import eigvalsh_tridiagonal

from attnlaw.estimators.edge_test import (
    NARROWING,
    PREDICTION,
    SPACINGS,
    UNIT,
    EdgeTest,
    Sizes,
    spacing_p_value,
    tail_gap,
    winsorised,
)
from attnlaw.laws.finite_spectra import (
    TRACY_WIDOM_MEAN,
    TRACY_WIDOM_STD,
    tracy_widom_quantile,
)

RATIOS = [(0, 0.1), (0, 1), (0, 3), (0.1, 0.1), (0.5, 0.4), (1, 1), (2, 0.5), (0.5, 2)]
PROBABILITIES = [0.99, 0.9, 0.75, 0.5, 0.25, 0.1, 0.05, 0.025, 0.01, 0.005, 0.0025, 0.001, 0.0005]


def wishart_root(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """A with AᵀA of the law of GᵀG/n, G n×d standard: Bartlett's triangle where n ≥ d."""
    if n < d:
        return rng.standard_normal((n, d)) / n**0.5
    A = np.triu(rng.standard_normal((d, d)), 1)
    A[np.arange(d), np.arange(d)] = np.sqrt(rng.chisquare(n - np.arange(d)))
    return A / n**0.5


def spectrum(d: int, V: float, N: int, rng: np.random.Generator, scales=1.0) -> np.ndarray:
    """Eigenvalues in falling order, zeros left out, in units of their mean over d."""
    X = wishart_root(V, d, rng) if np.isfinite(V) else np.eye(d) * np.sqrt(scales)
    X = wishart_root(N, len(X), rng) @ X
    S = X @ X.T if len(X) < d else X.T @ X
    values = np.linalg.eigvalsh(S)[::-1]
    return values * d / values.sum()


def known_laws(n_draws: int) -> None:
    print("EdgeTest: statistic before the narrowing is taken into account")
    print(f"{'d':>5}{'δ':>6}{'γ':>6}{'mean':>8}{'spread':>8}{'rule':>8}{'alarms at 5 %':>15}")
    threshold = tracy_widom_quantile(0.95)
    for delta, gamma in RATIOS:
        for d in (30, 100):
            rng = np.random.default_rng(0)
            V, N = round(d / delta) if delta else np.inf, round(d / gamma)
            test = EdgeTest(Sizes(d, N, V))
            top = np.array([spectrum(d, V, N, rng)[0] for _ in range(n_draws)])
            x = (top - test.edge) / test.unit
            rule = np.exp(-NARROWING * test.unit / test.edge)
            alarms = np.mean([test.statistic(value) > threshold for value in top])
            spread = x.std() / TRACY_WIDOM_STD
            print(
                f"{d:>5}{delta:>6g}{gamma:>6g}{x.mean():>8.2f}{spread:>8.3f}{rule:>8.3f}"
                f"{alarms:>14.1%}"
            )
    print(f"law{'':14}{TRACY_WIDOM_MEAN:>8.2f}{1:>8.3f}   (standard error {3 / n_draws**0.5:.2f})")


def airy_points(n_draws: int, n_points: int, n: int = 3000) -> np.ndarray:
    """Largest eigenvalues of the GOE at the edge; 24 n^{1/3} rows of the triangle are enough."""
    rng = np.random.default_rng(7)
    k = int(24 * n ** (1 / 3))
    points = np.empty((n_draws, n_points))
    for i in range(n_draws):
        diagonal = np.sqrt(2) * rng.standard_normal(k)
        beside = np.sqrt(rng.chisquare(n - 1.0 - np.arange(k - 1)))
        values = eigvalsh_tridiagonal(diagonal, beside, lapack_driver="sterf")
        points[i] = (values[::-1][:n_points] - 2 * n**0.5) * n ** (1 / 6)
    return points


def coefficients(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Best linear prediction of A₁ exact for 1, a, a², and best estimate of s exact for 1, a."""
    a, C = points.mean(axis=0), np.cov(points.T)

    def solve(powers: int, against: np.ndarray, wanted: list) -> np.ndarray:
        F = np.vstack([a[1:] ** k for k in range(powers)])
        K = np.block([[C[1:, 1:], F.T], [F, np.zeros((powers, powers))]])
        return np.linalg.solve(K, np.concatenate([against, wanted]))[: len(a) - 1]

    return (
        solve(3, C[1:, 0], [1, a[0], a[0] ** 2]),
        solve(2, np.zeros(len(a) - 1), [0, 1]),
    )


def unknown_law(n_airy: int, n_draws: int) -> None:
    points = airy_points(n_airy, SPACINGS + 1)
    c, e = coefficients(points)
    print("\nedge_spacing: coefficients measured now, and those in use")
    for name, now, used in (("c", c, PREDICTION), ("e", e, UNIT)):
        print(name, np.round(now, 4), f"largest difference {np.abs(now - used).max():.4f}")
    T = (points[:, 0] - points[:, 1:] @ PREDICTION) / (points[:, 1:] @ UNIT)
    print("quantiles", np.quantile(T, 1 - np.array(PROBABILITIES)).round(3))
    print(f"{'bulk':>24}{'d':>5}{'alarms at 5 %':>15}")
    bulks = {
        "MP_γ": lambda d: (np.inf, 1.0),
        "MP_δ ⊠ MP_γ": lambda d: (2 * d, 1.0),
        "uniform spectrum": lambda d: (np.inf, np.linspace(0.2, 2, d)),
        "exponential spectrum": lambda d: (np.inf, -np.log((np.arange(d) + 0.5) / d)),
    }
    for name, make in bulks.items():
        for d in (100, 300):
            rng, (V, scales) = np.random.default_rng(0), make(d)
            n = n_draws if d == 100 else n_draws // 3
            p = [
                spacing_p_value(spectrum(d, V, int(2.5 * d), rng, scales)[: SPACINGS + 1])
                for _ in range(n)
            ]
            print(f"{name:>24}{d:>5}{np.mean(np.array(p) <= 0.05):>14.1%}")


def tail_gaps(n_draws: int) -> None:
    print("\ntail_gap of tokens, without the largest eigenvalue")
    print(f"{'d':>5}{'δ':>6}{'γ':>6}{'mean':>8}{'spread':>8}")
    for delta, gamma in RATIOS[3:]:
        for d in (30, 100):
            rng = np.random.default_rng(0)
            V, N = round(d / delta), round(d / gamma)
            gaps = []
            for _ in range(n_draws):
                values = np.zeros(d)
                seen = spectrum(d, V, N, rng)
                values[: len(seen)] = seen
                test, bulk = winsorised(values[1:], N - 1)
                gaps.append(tail_gap(bulk, test.sizes))
            print(f"{d:>5}{delta:>6g}{gamma:>6g}{np.mean(gaps):>8.2f}{np.std(gaps):>8.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--airy", type=int, default=20_000)
    options = parser.parse_args()
    known_laws(options.draws)
    unknown_law(options.airy, options.draws)
    tail_gaps(options.draws // 5)
