"""From file to verdict: `attnlaw table` and `attnlaw pool` as a user runs them.

    python benchmarks/own_data.py

Times the whole command, Python's start and all files included, for a table of 50,000 × 576, for
20,000 labelled sequences of 64 tokens (ids with that table, and embeddings in 128 dimensions) and
for 11,000 documents of very different lengths in 20 classes, the shape of 20 Newsgroups.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

V, D, N, L = 50_000, 576, 20_000, 64
N_DOCUMENTS, LONGEST, N_CLASSES = 11_000, 2000, 20


def write_files(folder: Path) -> None:
    rng = np.random.default_rng(0)
    table = rng.standard_normal((V, D), dtype=np.float32) * np.geomspace(
        1, 0.1, D, dtype=np.float32
    )
    labels = rng.integers(2, size=N)
    table[: V // 2, 0] += 0.5
    ranks = rng.zipf(1.3, size=(N, L)) % (V // 2)  # words are not equally frequent
    tokens = ranks + np.where(rng.random((N, L)) < 0.55, labels[:, None], 1 - labels[:, None]) * (
        V // 2
    )
    np.save(folder / "table.npy", table)
    np.save(folder / "tokens.npy", tokens)
    np.save(folder / "embeddings.npy", table[tokens][:, :, :128])
    np.save(folder / "labels.npy", labels)
    classes = rng.integers(N_CLASSES, size=N_DOCUMENTS)
    lengths = np.clip(rng.lognormal(np.log(190), 0.9, N_DOCUMENTS), 2, LONGEST).astype(int)
    words = rng.zipf(1.2, size=(N_DOCUMENTS, LONGEST)) % (V // 2)
    own = rng.random(words.shape) < 0.05  # a word in twenty belongs to the class
    words = np.where(own, V // 2 + words % 1000 + 1000 * classes[:, None], words)
    words[np.arange(LONGEST) >= lengths[:, None]] = -1
    np.save(folder / "documents.npy", words)
    np.save(folder / "classes.npy", classes)


def seconds(*arguments: str) -> tuple[float, float]:
    """Time on the clock, and of all processors (what counts when others use them, too)."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    program = "from attnlaw.cli import main; main()"
    subprocess.run([sys.executable, "-c", program, *arguments], check=True, capture_output=True)
    after, stop = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    used = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return stop - start, used


def main() -> None:
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder)
        table, labels = str(folder / "table.npy"), str(folder / "labels.npy")
        runs = {
            f"table {V}×{D}": ("table", table),
            "the same with picture": ("table", table, "--out", name),
            f"pool {N}×{L} ids": ("pool", str(folder / "tokens.npy"), "--table", table),
            "the same with labels": (
                "pool", str(folder / "tokens.npy"), "--table", table, "--labels", labels
            ),
            f"pool {N}×{L}×128 embeddings": ("pool", str(folder / "embeddings.npy")),
            "the same with labels ": (
                "pool", str(folder / "embeddings.npy"), "--labels", labels
            ),
            f"pool {N_DOCUMENTS} documents": (
                "pool", str(folder / "documents.npy"), "--table", table,
                "--labels", str(folder / "classes.npy"),
            ),
        }  # fmt: skip
        for title, arguments in runs.items():
            clock, used = seconds(*arguments)
            print(f"{title:32} {clock:6.1f} s   {used:6.1f} s of processors", flush=True)


if __name__ == "__main__":
    main()
