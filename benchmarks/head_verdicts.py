"""How often random heads are called structured, and heads with planted structure are found.

    python benchmarks/head_verdicts.py                  # about four minutes on one core
    python benchmarks/head_verdicts.py --heads 20       # a glance

Random heads: Gaussian queries and keys, inverse temperatures log-uniform between 0.15 and 8, the
head dimension estimated as a user without it would have it. Exits with 1 when the rate of false
"structured" is significantly above the promised 1 %.
"""

import argparse
import sys
import time

import numpy as np
from scipy.stats import beta as beta_law

from attnlaw.diagnostics.heads import attention_maps, inspect_heads

SIZES = [
    (24, 64),
    (48, 16),
    (64, 8),
    (96, 32),
    (96, 128),
    (160, 64),
    (200, 32),
    (320, 64),
    (640, 64),
]
STRUCTURES = {
    "previous token: k_j + c q_{j+1}": (0.1, 0.2, 0.4, 0.8),
    "first token: score of column 0 + c": (1.0, 2.0, 3.0, 4.0),
    "copies: the last c n tokens repeat those before": (0.05, 0.1, 0.2, 0.4),
    "shared direction: q_i + c z_i u, k_i + c z_i u": (0.5, 1.0, 1.5, 2.0),
    "same subspace: k = c M q + noise, M of rank 2": (0.5, 1.0, 1.5, 2.0),
}


def softmax(scores, causal):
    if causal:
        scores = np.where(np.tri(scores.shape[-1], dtype=bool), scores, -np.inf)
    A = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return A / A.sum(axis=-1, keepdims=True)


def random_heads(n, d, causal, n_heads, rng):
    Q, K = rng.standard_normal((2, n_heads, n, d))
    beta = np.exp(rng.uniform(np.log(0.15), np.log(8), n_heads))
    return softmax(beta[:, None, None] * (Q @ K.transpose(0, 2, 1)) / d**0.5, causal)


def planted(kind, strength, n, d, causal, n_heads, rng):
    Q, K = rng.standard_normal((2, n_heads, n, d))
    extra = 0.0
    if kind.startswith("previous"):
        K[:, :-1] += strength * Q[:, 1:]
    elif kind.startswith("first"):
        extra = strength * (np.arange(n) == 0)
    elif kind.startswith("copies"):
        k = round(strength * n)
        for X in (Q, K):
            X[:, n - k :] = X[:, n - 2 * k : n - k]
    elif kind.startswith("shared"):
        z, u = rng.standard_normal((n_heads, n, 1)), np.eye(d)[0]
        Q, K = Q + strength * z * u, K + strength * z * u
    else:
        K[..., :2] += strength * Q[..., 2:4]
    return softmax(Q @ K.transpose(0, 2, 1) / d**0.5 + extra, causal)


def interval(hits, total):
    """Clopper and Pearson's 95 % interval."""
    low = beta_law.ppf(0.025, hits, total - hits + 1) if hits else 0.0
    high = beta_law.ppf(0.975, hits + 1, total - hits) if hits < total else 1.0
    return low, high


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--heads", type=int, default=120, help="random heads of each size")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng, start = np.random.default_rng(options.seed), time.perf_counter()
    hits = total = 0
    print("random heads   n   d_k  estimated   mask    structured  random  collapsed  saturated")
    for n, d in SIZES:
        for causal in (False, True):
            count = options.heads if n <= 512 else options.heads // 4  # large ones take long
            maps = attention_maps(random_heads(n, d, causal, count, rng))
            report = inspect_heads(maps)
            verdicts = [head.verdict for head in report.heads]
            counts = [verdicts.count(v) for v in ("structured", "random-like", "collapsed")]
            print(
                f"             {n:4d} {d:4d} {report.head_dimension:8d}    "
                f"{'causal' if causal else 'none  '}  {counts[0]:8d} {counts[1]:9d} "
                f"{counts[2]:8d} {verdicts.count('saturated'):10d}",
                flush=True,
            )
            hits, total = hits + counts[0], total + len(verdicts)
    low, high = interval(hits, total)
    print(
        f"called structured: {hits} of {total} random heads, {hits / total:.2%} "
        f"(95 %: {low:.2%} to {high:.2%}); promised: at most 1 %"
    )
    n, d, count = 128, 32, max(20, options.heads // 4)
    print(f"\nplanted structure, n = {n}, d_k = {d}, β = 1: share of {count} heads that is found")
    for kind, strengths in STRUCTURES.items():
        for causal in (False, True):
            found = []
            for c in strengths:
                maps = attention_maps(planted(kind, c, n, d, causal, count, rng))
                report = inspect_heads(maps, head_dimension=d)
                found.append(sum(h.verdict == "structured" for h in report.heads) / count)
            shares = "  ".join(
                f"c={c:g}: {share:4.0%}" for c, share in zip(strengths, found, strict=True)
            )
            print(f"  {kind:48s} {'causal' if causal else 'no mask':8s} {shares}", flush=True)
    print(f"{time.perf_counter() - start:.0f} seconds")
    return int(low > 0.01)


if __name__ == "__main__":
    sys.exit(main())
