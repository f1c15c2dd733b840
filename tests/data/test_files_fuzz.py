"""Damaged files either read or raise ValueError: nothing else, and never a crash."""

import io
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from spelled_files import TABLE, gguf_bytes, npy_bytes, safetensors_bytes

from attnlaw.diagnostics import read_attention, read_sequences, read_table


def _npz():
    stream = io.BytesIO()
    np.savez_compressed(stream, table=TABLE, other=TABLE)
    return stream.getvalue()


SEEDS = {
    "x.npy": npy_bytes(TABLE),
    "x.npz": _npz(),
    "x.safetensors": safetensors_bytes({"table": TABLE, "ids": np.arange(3)}),
    "x.gguf": gguf_bytes(TABLE, tokens=("a", "Ġb", "cd", "e")),
}
QUANTISED = gguf_bytes(np.arange(5 * 34, dtype=np.uint8).reshape(5, 34), kind=8, shape=(5, 32))


def attempt(name, content, read=read_table):
    """Read; a ValueError with one sentence is the only permitted failure."""
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
    assert "must" in sentence
    assert "\n" not in sentence


@pytest.mark.parametrize("name", SEEDS)
def test_mutated_files(name):
    rng = np.random.default_rng(20240229)
    original = np.frombuffer(SEEDS[name], np.uint8)
    for _ in range(600):
        mutated = original.copy()
        places = rng.integers(0, min(len(mutated), 400), size=rng.integers(1, 6))
        mutated[places] = rng.integers(0, 256, size=len(places))
        end = len(mutated) if rng.random() < 0.7 else rng.integers(0, len(mutated))
        attempt(name, mutated[:end].tobytes())


def test_mutated_quantised_gguf():
    pytest.importorskip("gguf")
    rng = np.random.default_rng(1)
    original = np.frombuffer(QUANTISED, np.uint8)
    for _ in range(200):
        mutated = original.copy()
        mutated[rng.integers(0, len(mutated), size=3)] = rng.integers(0, 256, size=3)
        attempt("x.gguf", mutated.tobytes())


def test_mutated_sequences():
    """Several arrays in one archive, every one of them open to damage."""
    rng = np.random.default_rng(2)
    stream = io.BytesIO()
    ids = np.arange(8).reshape(4, 2) % 4
    np.savez(stream, tokens=ids, table=TABLE, labels=np.arange(4), lengths=np.full(4, 2))
    original = np.frombuffer(stream.getvalue(), np.uint8)
    for _ in range(300):
        mutated = original.copy()
        places = rng.integers(0, len(mutated), size=rng.integers(1, 6))
        mutated[places] = rng.integers(0, 256, size=len(places))
        attempt("x.npz", mutated.tobytes(), read_sequences)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    name=st.sampled_from(sorted(SEEDS)),
    start=st.sampled_from([b"", b"\x93NUMPY\x01\x00", b"PK\x03\x04", b"GGUF\x03\x00\x00\x00"]),
    rest=st.binary(max_size=300),
)
def test_arbitrary_bytes(name, start, rest):
    attempt(name, start + rest)


MAPS = np.full((2, 9, 9), 1 / 9, dtype=np.float32)
MAP_SEEDS = {
    "x.npy": npy_bytes(MAPS),
    "x.safetensors": safetensors_bytes({"attention": MAPS, "scores": MAPS}),
    "qk.safetensors": safetensors_bytes({"queries": MAPS, "keys": MAPS}),
}


@pytest.mark.parametrize("name", MAP_SEEDS)
def test_mutated_maps(name):
    rng = np.random.default_rng(20241116)
    original = np.frombuffer(MAP_SEEDS[name], np.uint8)
    for _ in range(300):
        mutated = original.copy()
        places = rng.integers(0, len(mutated), size=rng.integers(1, 6))
        mutated[places] = rng.integers(0, 256, size=len(places))
        end = len(mutated) if rng.random() < 0.7 else rng.integers(0, len(mutated))
        attempt(name, mutated[:end].tobytes(), read_attention)
