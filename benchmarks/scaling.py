"""Many trials on one process and on two: how much sooner they are done.

    python benchmarks/scaling.py

The work is P1's Fig. 4: three weightings × 12 norms at d = 1000 with real tokens. Workers are up
and warm before the clock starts, as they are in any work of more than a few seconds; the answers
are compared. Exit code 0 if two processes are at least 1.7 times as fast as one.
"""

import argparse
import statistics
import sys
import time

import numpy as np

import attnlaw as al
from attnlaw.figures import recovery
from attnlaw.weights import by_name

TRIALS, ROUNDS, PROMISED = 400, 3, 1.7
R = recovery.CORRELATIONS["prefix"]
WEIGHTS = np.stack([by_name(name, len(R), R) for name in recovery.WEIGHTINGS])
MODEL = recovery._aligned_model("prefix", "mean", "token", np.linspace(0.25, 3, 12))


def simulate(n_jobs: int, n_trials: int = TRIALS) -> tuple[float, np.ndarray]:
    start = time.perf_counter()
    seen = al.simulation.simulate_alignment(
        MODEL, 1000, n_trials, 0, weights=WEIGHTS, n_jobs=n_jobs
    )
    return time.perf_counter() - start, seen.squared_overlap


def main() -> int:
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    for n_jobs in (1, 2):
        simulate(n_jobs, 8)  # starts processes, loads what is compiled
    ratios = []
    for _ in range(ROUNDS):  # in turn, so that both meet the same machine
        (one, alone), (two, shared) = simulate(1), simulate(2)
        ratios.append(one / two)
        print(f"{TRIALS} trials: one process {one:.2f} s, two {two:.2f} s, {one / two:.2f} times")
    gap = float(np.abs(alone - shared).max())
    ratio = statistics.median(ratios)
    print(f"median {ratio:.2f} times; largest difference between the answers {gap:.1e}")
    passed = ratio >= PROMISED and gap < 1e-6
    print("passed" if passed else f"FAILED: {PROMISED} times, and equal answers, were promised")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
