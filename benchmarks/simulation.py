"""Curves of alignment for three pooling weights: plain NumPy, the reference, the fast path.

3 weight vectors × 20 signal norms × 10 trials = 600 cells at d = 400, V = 1000, N = 2000, L = 20.
Plain NumPy is what one writes first: draw the table and the tokens, gather the tokens' vectors,
pool them by einsum, form the covariance, call eigh, for every cell. The reference, `simulate` with
``method="reference"``, draws once for all norms and measures six more fields. The fast path is
`simulate_alignment`. Everything runs in this process on one thread, then plain NumPy once more
with two threads for BLAS.

    python benchmarks/simulation.py               # all 600 cells of plain NumPy
    python benchmarks/simulation.py --cells 60    # a random subset, its time scaled up

The law of the answers is compared, too: the mean of plain NumPy's cells at each of the 60 points,
in standard errors, with 400 trials of the fast path. Exit code 0 if the fast path is at least 200
times faster than plain NumPy and no z-score exceeds 5.
"""

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import attnlaw as al
from attnlaw.simulation import prefer_compiled

DIMENSION, VOCAB, SAMPLES, LENGTH, PREFIX, TRIALS = 400, 1000, 2000, 20, 5, 10
CORRELATION = al.prefix_correlation(LENGTH, PREFIX)
WEIGHTS = np.stack(
    [al.mean_weights(LENGTH), al.causal_weights(LENGTH), al.optimal_weights(CORRELATION)]
)
NORMS = np.linspace(0.1, 2.0, 20)
MODEL = al.PooledSequences(
    vocab_ratio=DIMENSION / VOCAB,
    sample_ratio=DIMENSION / SAMPLES,
    signal_norm=NORMS,
    correlation=CORRELATION,
    weights=WEIGHTS[0],
)
FIELDS = ("top_eigenvalue", "squared_overlap")


def plain_cell(weights: np.ndarray, norm: float, rng: np.random.Generator) -> tuple[float, float]:
    """Top eigenvalue and squared overlap with the signal, in plain NumPy."""
    classes = np.repeat([1, -1], VOCAB // 2)
    table = rng.standard_normal((VOCAB, DIMENSION))
    table[:, 0] += norm * classes
    signs = rng.choice([1, -1], size=(SAMPLES, LENGTH))
    signs[:, :PREFIX] = signs[:, :1]
    tokens = rng.integers(VOCAB // 2, size=signs.shape) + np.where(signs > 0, 0, VOCAB // 2)
    pooled = np.einsum("nld,l->nd", table[tokens], weights)
    pooled -= pooled.mean(axis=0)
    values, vectors = np.linalg.eigh(pooled.T @ pooled / SAMPLES)
    return values[-1], vectors[0, -1] ** 2


def timed(work: Callable[[], Any]) -> tuple[np.ndarray, Any]:
    """Seconds on the clock and of the processor, and what the work returned."""
    clock, processor = time.perf_counter(), time.process_time()
    result = work()
    return np.array([time.perf_counter() - clock, time.process_time() - processor]), result


def plain(n_cells: int, rng: np.random.Generator) -> dict[tuple[int, int], list]:
    """Answers of a random subset of the cells, by weights and norm."""
    cells = np.array([(i, j) for i in range(3) for j in range(len(NORMS)) for _ in range(TRIALS)])
    answers: dict[tuple[int, int], list] = {}
    for i, j in rng.permutation(cells)[:n_cells].tolist():
        answers.setdefault((i, j), []).append(plain_cell(WEIGHTS[i], NORMS[j], rng))
    return answers


def fast(n_trials: int, rng: int) -> al.results.Alignment:
    return al.simulation.simulate_alignment(MODEL, DIMENSION, n_trials, rng, weights=WEIGHTS)


def z_scores(answers: dict[tuple[int, int], list], seen: al.results.Alignment) -> np.ndarray:
    """Deviation of each mean of plain NumPy; shape (points, 2)."""
    z = []
    for (i, j), cells in answers.items():
        drawn = np.stack([getattr(seen, name)[:, i, j] for name in FIELDS], axis=1)
        error = drawn.std(axis=0, ddof=1) * np.sqrt(1 / len(cells) + 1 / len(drawn))
        z.append((np.mean(cells, axis=0) - drawn.mean(axis=0)) / error)
    return np.array(z)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    n_all = len(WEIGHTS) * len(NORMS) * TRIALS
    parser.add_argument("--cells", type=int, default=n_all, help="of plain NumPy, at most 600")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    n_cells = min(arguments.cells, n_all)
    rng = np.random.default_rng(arguments.seed)

    prefer_compiled()  # small calls would not compile for themselves
    first, _ = timed(lambda: fast(1, 0))  # compiles, or loads what was compiled before
    with threadpool_limits(1):
        plain_cell(WEIGHTS[0], 1.0, rng)  # the first call of anything is slower
        one, answers = timed(lambda: plain(n_cells, rng))
    rounds = [timed(lambda seed=seed: fast(TRIALS, seed))[0] for seed in range(9)]
    ours = np.median(rounds, axis=0)
    reference, _ = timed(
        lambda: [
            al.simulate(replace(MODEL, weights=w), DIMENSION, 1, 0, method="reference")
            for w in WEIGHTS
        ]
    )
    with threadpool_limits(2):
        some = max(1, n_cells // 10)
        two, _ = timed(lambda: plain(some, rng))

    one, two, reference = one * n_all / n_cells, two * n_all / some, reference * TRIALS
    print(f"{n_all} cells; seconds on the clock, of the processor, and times the fast path's")
    for name, seconds, note in (
        ("plain NumPy, 1 thread", one, scaled(n_cells, n_all)),
        ("plain NumPy, 2 threads", two, scaled(some, n_all)),
        ("simulate, reference", reference, scaled(n_all // TRIALS, n_all)),
        ("simulate_alignment", ours, f"median of {len(rounds)}"),
    ):
        columns = f"{seconds[0]:9.3f} {seconds[1]:9.3f} {seconds[0] / ours[0]:8.0f}"
        print(f"{name:24} {columns} {seconds[1] / ours[1]:8.0f}  {note}")
    extra = first[0] - ours[0] / TRIALS
    print(f"the first call takes {extra:.2f} s more: imports, and numba's cache or compilation")

    z = z_scores(answers, fast(400, 1000))
    wrong = replace(MODEL, sampling="gaussian")
    other = al.simulation.simulate_alignment(wrong, DIMENSION, 100, 1, weights=WEIGHTS)
    z_wrong = z_scores(answers, other)
    print(
        f"z-scores of plain NumPy at {len(z)} points, eigenvalue and overlap: largest "
        f"{np.abs(z).max():.2f}, root mean square {np.sqrt(np.mean(z**2)):.2f}; "
        f"beside the idealised model the largest is {np.abs(z_wrong).max():.0f}"
    )
    passed = (one / ours).min() >= 200 and np.abs(z).max() < 5
    print("passed" if passed else "FAILED: 200 times faster at the same law was promised")
    return 0 if passed else 1


def scaled(n: int, n_all: int) -> str:
    return f"all {n} cells run" if n == n_all else f"{n} cells run, scaled to {n_all}"


if __name__ == "__main__":
    sys.exit(main())
