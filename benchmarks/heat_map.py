"""Alignment on a 2000 × 2000 grid (signal norm × vocabulary ratio): one call against a loop.

The loop takes the same steps for each point with Python floats and `math`: the edge parameter by
its closed form and one Newton step, t, the overlap, the ceiling. It runs over the whole grid;
nothing is scaled. (A NumPy function called for each point is some fifty times slower still.)
Times are those of the processor on one thread, so that other work on the machine does not count;
the first call after the import, which also has to ask the system for memory, is shown apart.

    python benchmarks/heat_map.py

Then 100 × 100 points over (a, signal norm) for a vocabulary of 50,000 tokens with Zipf's law and
weights 1/(p + a), `smoothing_overlaps` against `predict` for each point (every 500th is run).

Exit code 0 if the first call, too, is at least 100 times faster and agrees to 1e-13, and the
heat map of the vocabulary at least 30 times.
"""

import argparse
import math
import statistics
import sys
import time
import warnings
from dataclasses import replace

import numpy as np

import attnlaw as al
from attnlaw import squared_overlap  # its import is not timed
from attnlaw.theory import smoothing_overlaps

SAMPLE_RATIO, SNR, SIZE, REPEATS = 0.4, 5.0, 2000, 9


def scalar_overlap(norm: float, delta: float, gamma: float, snr: float) -> float:
    s = (delta + gamma + delta * gamma) / 3
    cosine = min(delta / s * (gamma / s) * math.sqrt(s), 1.0)
    edge = 2 * math.sqrt(s) * math.cos(math.acos(cosine) / 3)
    slope = 3 * s / edge / edge
    edge -= edge * (1 - slope - 2 * (delta / edge) * (gamma / edge) / edge) / (3 - slope)
    squared = norm * norm
    t = snr * squared + (snr - 1) * delta
    if t <= edge:
        return 0.0
    x = edge / t
    k = 2 * (delta / edge) * (gamma / edge) / edge
    zeta = (1 - x) * (1 + x * (1 + k * x)) / (1 + gamma / edge * x)
    return zeta * squared / (squared + delta)


def loop(norms: np.ndarray, deltas: np.ndarray) -> np.ndarray:
    grid = np.empty((len(deltas), len(norms)))
    for i, delta in enumerate(deltas.tolist()):
        for j, norm in enumerate(norms.tolist()):
            grid[i, j] = scalar_overlap(norm, delta, SAMPLE_RATIO, SNR)
    return grid


def one_call(norms: np.ndarray, deltas: np.ndarray) -> np.ndarray:
    return squared_overlap(
        signal_norm=norms, vocab_ratio=deltas[:, None], sample_ratio=SAMPLE_RATIO, snr=SNR
    )


def seconds(function, *arguments):
    start = time.process_time()
    result = function(*arguments)
    return time.process_time() - start, result


def vocabulary_map() -> bool:
    norms, smoothing = np.linspace(0.05, 3.0, 100), np.geomspace(1e-6, 1.0, 100)
    words = al.Vocabulary.zipf(50_000)
    model = al.PooledSequences(
        vocab_ratio=0.015,
        sample_ratio=0.1,
        signal_norm=norms,
        correlation=al.prefix_correlation(20, prefix=5),
        weights="mean",
        vocabulary=words,
    )
    fast, grid = seconds(smoothing_overlaps, model, smoothing)
    points = [divmod(k, 100) for k in range(250, 10_000, 500)]

    def each() -> list[float]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", al.RegimeWarning)
            return [
                al.predict(
                    replace(
                        model,
                        signal_norm=float(norms[j]),
                        vocabulary=words.with_importance("sif", a=float(smoothing[i])),
                    )
                ).squared_overlap
                for i, j in points
            ]

    slow, expected = seconds(each)
    slow *= grid.size / len(points)
    error = max(abs(grid[i, j] - z) for (i, j), z in zip(points, expected, strict=True))
    print(f"vocabulary      {fast:8.1f} s  for 100 x 100, V = 50,000")
    print(f"point by point  {slow:8.1f} s     {slow / fast:5.0f} times slower")
    print(f"largest gap     {error:8.1e}")
    return slow / fast >= 30 and error < 1e-9


def main() -> bool:
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    norms, deltas = np.linspace(0.0, 3.0, SIZE), np.linspace(0.001, 2.0, SIZE)
    first, ours = seconds(one_call, norms, deltas)
    slow, expected = seconds(loop, norms, deltas)
    error = float(np.abs(ours - expected).max())
    del ours
    fast = statistics.median(seconds(one_call, norms, deltas)[0] for _ in range(REPEATS))
    print(f"points          {SIZE} x {SIZE}")
    print(f"scalar loop     {1e3 * slow:8.1f} ms")
    print(f"first call      {1e3 * first:8.1f} ms    {slow / first:5.0f} times faster")
    print(f"later calls     {1e3 * fast:8.1f} ms    {slow / fast:5.0f} (median of {REPEATS})")
    print(f"largest gap     {error:8.1e}")
    is_fast = slow / max(first, fast) >= 100 and error < 1e-13
    return vocabulary_map() and is_fast


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
