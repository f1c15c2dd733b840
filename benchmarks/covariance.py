"""Covariance of a corpus, block by block from a file, beside plain NumPy on data in memory.

Plain NumPy is what one writes when everything fits: pool with `mean` in double precision, then
`np.cov`. Both sides sum in double precision and agree to 1e-10. Times are those of the processor
on one thread, the best of several taken in turn, so that other work on the machine counts little.

    OMP_NUM_THREADS=1 python benchmarks/covariance.py

Exit code 0 if blocks are at least half as fast as plain NumPy on equal lengths and pooled rows,
and faster on unequal lengths and on token ids.
"""

import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from attnlaw import pooled_covariance, token_covariance

N, L, D, V, REPEATS = 10_000, 32, 256, 10_000, 5


def compare(ours, plain):
    """Processor seconds of both, the best of several."""
    times = []
    for _ in range(REPEATS):
        row = []
        for function in (ours, plain):
            start = time.process_time()
            result = function()
            row.append(time.process_time() - start)
            if function is ours:
                found = result.covariance
        times.append(row)
        np.testing.assert_allclose(found, result, rtol=0, atol=1e-10 * np.abs(result).max())
    return np.min(times, axis=0)


def covariance(rows):
    return np.cov(rows.T, bias=True)


def masked_mean(embeddings, lengths):
    present = (np.arange(L) < lengths[:, None])[..., None]
    return np.where(present, embeddings, 0).sum(axis=1, dtype=float) / lengths[:, None]


def main() -> int:
    rng = np.random.default_rng(0)
    table = rng.standard_normal((V, D), dtype=np.float32)
    tokens = rng.integers(0, V, (N, L), dtype=np.int32)
    lengths = rng.integers(1, L + 1, N)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "embeddings.npy"
        embeddings = table[tokens]
        np.save(path, embeddings)
        mapped = np.load(path, mmap_mode="r")
        rows = rng.standard_normal((20 * N, D), dtype=np.float32)
        cases = {
            "equal lengths": (
                lambda: pooled_covariance(mapped),
                lambda: covariance(embeddings.mean(axis=1, dtype=float)),
                0.5,
            ),
            "unequal lengths": (
                lambda: pooled_covariance(mapped, lengths=lengths),
                lambda: covariance(masked_mean(embeddings, lengths)),
                1.0,
            ),
            "pooled rows": (lambda: pooled_covariance(rows), lambda: covariance(rows), 0.5),
            "token ids": (
                lambda: token_covariance(tokens, table),
                lambda: covariance(table[tokens].mean(axis=1, dtype=float)),
                1.0,
            ),
        }
        print(f"{N:,} sequences of {L} tokens, dimension {D}, float32")
        missed = False
        for name, (ours, plain, promised) in cases.items():
            a, b = compare(ours, plain)
            n = len(rows) if name == "pooled rows" else N
            missed |= b / a < promised
            print(f"{name:16} {n / a:10,.0f} rows/s   NumPy {n / b:10,.0f}   {b / a:5.2f} times")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
