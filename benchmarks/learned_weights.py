"""Weights learned without labels: how close to the optimum, and how often a gain is claimed.

Tokens from a table with a hidden signal (d=300, V=600, N=1500, L=20). Left: squared overlap of the
learned weights with the optimal ones, over seeds. Right: SNR on held-out sequences beside the
truth, and how often a gain over mean pooling is claimed.

    python benchmarks/learned_weights.py [--seeds 20] [--null-seeds 0]

Exit code 0 if every overlap is at least 0.95 where it is asked for (marked *), and if a gain is
claimed in at most 5 % (+ 2 standard errors) of the runs without one.
"""

import argparse
import sys
import time

import numpy as np

import attnlaw as al
from attnlaw.simulation import sample_signs, sample_table, sample_tokens

D, V, N, L = 300, 600, 1500, 20


def draw(correlation, signal_norm: float, seed: int):
    rng = np.random.default_rng(seed)
    tokens = sample_tokens(sample_signs(correlation, N, rng), V, rng)
    table = sample_table(V, D, rng)
    table[: V // 2, 0] += signal_norm
    table[V // 2 :, 0] -= signal_norm
    return tokens, table.astype(np.float32)


def alternating(prefix: int) -> np.ndarray:
    signs = np.where(np.arange(L) % 2, -1.0, 1.0)
    return al.prefix_correlation(L, prefix) * np.outer(signs, signs)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--null-seeds", type=int, default=0, help="runs without a gain")
    options = parser.parse_args()
    cases = [
        *(
            (f"prefix {p}", al.prefix_correlation(L, p), q)
            for p in (3, 4, 5, 10)
            for q in (0.5, 1)
        ),
        *((f"alternating {p}", alternating(p), q) for p in (3, 5, 20) for q in (0.5, 1.2)),
    ]
    header = ("pattern", "‖μ‖", "overlap: least", "median", "SNR", "truth", "mean's", "truth")
    print("{:>15}{:>6}{:>16}{:>8}{:>7}{:>7}{:>8}{:>7}".format(*header), "  claimed  seconds")
    good = True
    for name, R, norm in cases:
        best = al.optimal_direction(R)
        mean = al.mean_weights(L)
        rows = []
        start = time.process_time()
        for seed in range(options.seeds):
            tokens, table = draw(R, norm, seed)
            found = al.learn_pooling_weights(tokens, table=table, rng=seed)
            w = found.weights / np.linalg.norm(found.weights)
            rows.append(((w @ best) ** 2, found.snr, found.mean_snr, found.gain_is_supported))
        seconds = (time.process_time() - start) / options.seeds
        overlap, snr, mean_snr, claimed = np.array(rows, dtype=float).T
        asked = "*" if norm >= 1 or (name.startswith("prefix") and name != "prefix 3") else " "
        good &= asked == " " or overlap.min() >= 0.95
        print(
            f"{name:>15}{norm:>6g}{overlap.min():>15.3f}{asked}{np.median(overlap):>8.3f}"
            f"{snr.mean():>7.2f}{best @ R @ best:>7.2f}{mean_snr.mean():>8.2f}"
            f"{mean @ R @ mean * L:>7.2f}{claimed.mean():>10.0%}{seconds:>9.2f}"
        )
    n = options.null_seeds
    for name, R in (("independent", np.eye(L)), ("mean is best", al.prefix_correlation(L, L))):
        if n:
            draws = (draw(R, 1.0, 5000 + seed) for seed in range(n))
            claims = sum(
                al.learn_pooling_weights(tokens, table=table, rng=seed).gain_is_supported
                for seed, (tokens, table) in enumerate(draws)
            )
            print(f"no gain, {name}: claimed in {claims} of {n}")
            good &= claims <= 0.05 * n + 2 * np.sqrt(n * 0.05 * 0.95)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
