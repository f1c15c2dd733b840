"""Free additive and multiplicative convolutions against the eigenvalues of finite random matrices.

Complex matrices, whose spectra differ from the limit by O(1/n²) only, so that a small n with many
trials shows any wrong formula. Compared is the law's own cdf F: over the eigenvalues λ the means
of F(λ) and of F(λ)² are 1/2 and 1/3 when F is right, and F(λ) is uniform.
"""

import numpy as np
import pytest

from attnlaw.laws import Discrete, MarchenkoPastur, Semicircle

N, TRIALS = 60, 60
MP, SC = MarchenkoPastur, Semicircle


def gaussian(rng, rows, columns):
    parts = rng.standard_normal((2, rows, columns))
    return (parts[0] + 1j * parts[1]) / np.sqrt(2)


def wishart(rng, ratio):
    n = round(N / ratio)
    w = gaussian(rng, n, N)
    return w.conj().T @ w / n


def wigner(rng):
    g = gaussian(rng, N, N)
    return (g + g.conj().T) / np.sqrt(2 * N)


def rotated(rng, values):
    q, r = np.linalg.qr(gaussian(rng, N, N))
    q = q * (np.diag(r) / np.abs(np.diag(r)))
    return (q * np.resize(values, N)) @ q.conj().T


def root(matrix):
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.conj().T


def times(a, b):
    half = root(b)
    return half @ a @ half


D, E = [1.0, 2.0, 6.0], [0.5, 1.5]
# name: (law, a matrix of it, the nearest law that is wrong)
CASES = {
    "wishart product": (
        MP(0.5) @ MP(0.3),
        lambda rng: times(wishart(rng, 0.5), wishart(rng, 0.3)),
        MP(0.5) @ MP(0.35),
    ),
    "population spectrum": (
        Discrete(D) @ MP(0.25),
        lambda rng: times(rotated(rng, D), wishart(rng, 0.25)),
        Discrete(D) @ MP(0.3),
    ),
    "sum of discrete": (
        Discrete(D) + Discrete([0.5, 1.5, 1.6]),
        lambda rng: rotated(rng, D) + rotated(rng, [0.5, 1.5, 1.6]),
        Discrete(D) + Discrete([0.5, 1.5, 1.9]),
    ),
    "product of discrete": (
        Discrete(D) @ Discrete([0.5, 1.5, 1.6]),
        lambda rng: times(rotated(rng, D), rotated(rng, [0.5, 1.5, 1.6])),
        Discrete(D) @ Discrete([0.5, 1.5, 1.9]),
    ),
    "signed product": (
        (SC() + 0.5) @ Discrete(E),
        lambda rng: times(wigner(rng) + 0.5 * np.eye(N), rotated(rng, E)),
        (SC() + 0.55) @ Discrete(E),
    ),
    "signed times wishart": (
        Discrete([-1, 2]) @ MP(0.5),
        lambda rng: times(rotated(rng, [-1, 2]), wishart(rng, 0.5)),
        Discrete([-1, 2]) @ MP(0.6),
    ),
    "sum times sum": (
        (SC() + Discrete([3, 5])) @ (MP(0.5) + 0.5 * MP(0.2)),
        lambda rng: times(
            wigner(rng) + rotated(rng, [3, 5]), wishart(rng, 0.5) + 0.5 * wishart(rng, 0.2)
        ),
        (SC() + Discrete([3, 5])) @ (MP(0.6) + 0.5 * MP(0.2)),
    ),
    "three factors": (
        MP(0.2) @ MP(0.3) @ MP(0.5),
        lambda rng: times(times(wishart(rng, 0.2), wishart(rng, 0.3)), wishart(rng, 0.5)),
        MP(0.2) @ MP(0.3) @ MP(0.6),
    ),
}


@pytest.fixture(scope="module")
def spectra():
    seeds = np.random.default_rng(11).spawn(len(CASES))
    return {
        name: np.stack([np.linalg.eigvalsh(draw(rng)) for _ in range(TRIALS)])
        for (name, (_, draw, _)), rng in zip(CASES.items(), seeds, strict=True)
    }


@pytest.mark.parametrize("name", CASES)
def test_cdf_makes_the_eigenvalues_uniform(name, spectra, z_score):
    law, _, wrong = CASES[name]
    levels = law.cdf(spectra[name])
    scores = [z_score(np.mean(levels**k, axis=1), 1 / (k + 1)) for k in (1, 2, 3)]
    assert max(np.abs(scores)) < 5
    levels = wrong.cdf(spectra[name])
    scores = [z_score(np.mean(levels**k, axis=1), 1 / (k + 1)) for k in (1, 2, 3)]
    assert max(np.abs(scores)) > 8


@pytest.mark.parametrize("name", CASES)
def test_empirical_cdf_is_close_and_edges_hold(name, spectra):
    law, _, _ = CASES[name]
    values = np.sort(spectra[name].ravel())
    grid = (np.arange(values.size) + 0.5) / values.size
    assert np.max(np.abs(law.cdf(values) - grid)) < 1.0 / N
    slack = 3 * N ** (-2 / 3) * np.ptp(law.edges)
    mean_top, mean_bottom = spectra[name][:, -1].mean(), spectra[name][:, 0].mean()
    assert abs(mean_top - law.edges[-1]) < slack
    assert abs(mean_bottom - law.edges[0]) < slack
