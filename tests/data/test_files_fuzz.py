"""Damaged files either read or raise ValueError: nothing else, and never a crash."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mutated_files import ATTENTION, QUANTISED, SEQUENCES, TABLES, attempt, fuzz, mutated

from attnlaw.diagnostics import read_attention, read_sequences


@pytest.mark.parametrize("name", TABLES)
def test_mutated_files(name):
    rng = np.random.default_rng(20240229)
    for _ in range(600):
        attempt(name, mutated(TABLES[name], rng, reach=400))


def test_mutated_quantised_gguf():
    pytest.importorskip("gguf")
    rng = np.random.default_rng(1)
    for _ in range(200):
        attempt("x.gguf", mutated(QUANTISED, rng))


def test_mutated_sequences():
    """Several arrays in one archive, every one of them open to damage."""
    rng = np.random.default_rng(2)
    for _ in range(300):
        attempt("x.npz", mutated(SEQUENCES, rng), read_sequences)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    name=st.sampled_from(sorted(TABLES)),
    start=st.sampled_from([b"", b"\x93NUMPY\x01\x00", b"PK\x03\x04", b"GGUF\x03\x00\x00\x00"]),
    rest=st.binary(max_size=300),
)
def test_arbitrary_bytes(name, start, rest):
    attempt(name, start + rest)


@pytest.mark.parametrize("name", ATTENTION)
def test_mutated_maps(name):
    rng = np.random.default_rng(20241116)
    for _ in range(300):
        attempt(name, mutated(ATTENTION[name], rng), read_attention)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 10**6])
def test_two_minutes_of_damaged_files_find_nothing(seed):
    n_files, found = fuzz(60, seed)
    assert n_files > 3000
    assert not found
