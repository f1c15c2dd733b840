"""Files of every kind that is read, damaged at random, and what reading them may do.

A damaged file reads as finite numbers, or is refused with one sentence of ValueError, in a few
seconds of processor time. Anything else is a finding. By hand, for as long as you like:

    python tests/support/mutated_files.py SECONDS [SEED]
"""

import collections
import importlib.util
import io
import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from spelled_files import TABLE, gguf_bytes, npy_bytes, safetensors_bytes

from attnlaw.data.corpora import count_tokens
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
LISTS = [[1, 2, 3], [4], [5, 6]] * 20
DESCRIPTION_BYTES = 700  # of a folder of Zarr in one file: its description, then its only chunk


def _lists():
    """Corpora of lists, in the formats of which the package is there."""
    yield "x.jsonl", b"".join(json.dumps({"tokens": ids}).encode() + b"\n" for ids in LISTS)
    if importlib.util.find_spec("pyarrow"):
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pa.table({"tokens": LISTS})
        for name, write in [
            ("x.parquet", lambda stream: pq.write_table(table, stream, row_group_size=20)),
            ("x.arrow", lambda stream: _written(pa.ipc.new_file(stream, table.schema), table)),
            ("x.ipc", lambda stream: _written(pa.ipc.new_stream(stream, table.schema), table)),
        ]:
            stream = io.BytesIO()
            write(stream)
            yield name, stream.getvalue()


def _written(writer, table):
    with writer:
        writer.write_table(table)


def _zarr():
    """Folders of Zarr in both formats, each packed in another way."""
    if not importlib.util.find_spec("zarr"):
        return
    import zarr

    ids = np.arange(4000).reshape(40, 100) % 300
    for version, packing in [(2, "blosc"), (2, "zlib"), (3, "zstd"), (3, "gzip"), (3, None)]:
        chosen = {"id": packing} if version == 2 else {"name": packing, "configuration": {}}
        if packing == "gzip":
            chosen["configuration"]["level"] = 5
        if packing == "zstd":
            chosen["configuration"] = {"level": 3, "checksum": False}
        options = {"shape": ids.shape, "chunks": ids.shape, "dtype": "int32"}
        options |= {"zarr_format": version, "compressors": [chosen] if packing else None}
        with tempfile.TemporaryDirectory() as folder:
            zarr.create_array(folder, **options)[:] = ids
            description, chunk = (Path(folder) / name for name in _names(version))
            yield (
                f"zarr.{version}",
                description.read_bytes().ljust(DESCRIPTION_BYTES) + chunk.read_bytes(),
            )


def _names(version):
    return (".zarray", "0.0") if version == 2 else ("zarr.json", "c/0/0")


def count_zarr(file):
    """Unfold a folder of Zarr and count its tokens."""
    content, folder = file.read_bytes(), file.parent / "folder"
    description, chunk = (folder / name for name in _names(int(file.suffix[1:])))
    chunk.parent.mkdir(parents=True)
    description.write_bytes(content[:DESCRIPTION_BYTES])
    chunk.write_bytes(content[DESCRIPTION_BYTES:])
    return count_tokens(folder)


TOKENIZER = b'{"model": {"type": "BPE", "vocab": {"a": 0, "\\u0120b": 1, "cd": 2}}}'
FILES = [
    *((name, content, read_table) for name, content in TABLES.items()),
    ("x.npz", SEQUENCES, read_sequences),
    *((name, content, read_attention) for name, content in ATTENTION.items()),
    ("tokenizer.json", TOKENIZER, read_tokenizer),
    *((name, content, count_tokens) for name, content in _lists()),
    *((name, content, count_zarr) for name, content in _zarr()),
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
