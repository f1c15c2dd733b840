"""Files of every kind that is read, damaged at random, and what reading them may do.

A damaged file reads as finite numbers, or is refused with one sentence of ValueError, in a few
seconds of processor time. Anything else is a finding. By hand, for as long as you like:

    python tests/support/mutated_files.py SECONDS [SEED]
"""

import collections
import io
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from spelled_files import TABLE, gguf_bytes, npy_bytes, safetensors_bytes

from attnlaw.diagnostics import read_attention, read_sequences, read_table, read_tokenizer

SECONDS = 10  # of processor time that a small file may take


def _npz(**arrays):
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    return stream.getvalue()


MAPS = np.full((2, 9, 9), 1 / 9, dtype=np.float32)
IDS = np.arange(8).reshape(4, 2) % 4
TABLES = {
    "x.npy": npy_bytes(TABLE),
    "x.npz": _npz(table=TABLE, other=TABLE),
    "x.safetensors": safetensors_bytes({"table": TABLE, "ids": np.arange(3)}),
    "x.gguf": gguf_bytes(TABLE, tokens=("a", "Ġb", "cd", "e")),
}
QUANTISED = gguf_bytes(np.arange(5 * 34, dtype=np.uint8).reshape(5, 34), kind=8, shape=(5, 32))
SEQUENCES = _npz(tokens=IDS, table=TABLE, labels=np.arange(4), lengths=np.full(4, 2))
ATTENTION = {
    "x.npy": npy_bytes(MAPS),
    "x.safetensors": safetensors_bytes({"attention": MAPS, "scores": MAPS}),
    "qk.safetensors": safetensors_bytes({"queries": MAPS, "keys": MAPS}),
}
TOKENIZER = b'{"model": {"type": "BPE", "vocab": {"a": 0, "\\u0120b": 1, "cd": 2}}}'
FILES = [
    *((name, content, read_table) for name, content in TABLES.items()),
    ("x.npz", SEQUENCES, read_sequences),
    *((name, content, read_attention) for name, content in ATTENTION.items()),
    ("tokenizer.json", TOKENIZER, read_tokenizer),
]


def attempt(name, content, read=read_table):
    """Read; a ValueError with one sentence is the only permitted failure."""
    begun = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / name
        file.write_bytes(content)
        try:
            found = read(file)
        except ValueError as error:
            sentence = str(error)
        else:
            sentence = "must"
            if read is read_table:
                assert found.vectors.ndim == 2
                assert np.isfinite(found.vectors).all()
    assert "must" in sentence, sentence
    assert "\n" not in sentence, sentence
    assert time.process_time() - begun < SECONDS, f"takes {SECONDS} s"


def mutated(content, rng, reach=None):
    """Return content with some bytes changed, moved, repeated or cut off."""
    data = np.frombuffer(content, np.uint8).copy()
    places = rng.integers(0, min(len(data), reach or len(data)), size=rng.integers(1, 6))
    data[places] = rng.integers(0, 256, size=len(places))
    p = rng.random()
    if reach is None and p < 0.15:  # one part twice
        start, stop = np.sort(rng.integers(0, len(data), size=2))
        data = np.concatenate([data[:stop], data[start:]])
    end = len(data) if p < 0.7 else rng.integers(0, len(data))
    return data[:end].tobytes()


def fuzz(seconds, seed=0):
    """Read damaged files for so many seconds of processor time; return their number and findings.

    A finding is the kind of file and of error, with the seeds that show it.
    """
    end, n_files = time.process_time() + seconds, 0
    found = collections.defaultdict(list)
    while time.process_time() < end:
        name, content, read = FILES[n_files % len(FILES)]
        try:
            attempt(name, mutated(content, np.random.default_rng(seed + n_files)), read)
        except Exception as error:
            found[name, f"{type(error).__name__} {str(error)[:80]!r}"].append(seed + n_files)
        n_files += 1
    return n_files, dict(found)


if __name__ == "__main__":
    n_files, found = fuzz(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    print(n_files, "files,", len(found), "kinds of findings")
    for (name, problem), seeds in found.items():
        print(f"{len(seeds):5} {name}: {problem}  (seed {seeds[0]})")
