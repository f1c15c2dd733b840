"""Parts of attention: against a direct fit, exact in sum, and right for planted heads."""

import numpy as np
import pytest
from drawn_heads import queries_and_keys, scores, softmax
from scipy.optimize import minimize

from attnlaw.diagnostics.heads import decomposition
from attnlaw.diagnostics.heads.decomposition import PARTS, Places, decompose


def direct_fit(A, features, mask):
    """KL of a map from the best log-linear model, by a general optimiser."""
    i, j = np.nonzero(mask)
    X = np.concatenate([f[i, j].reshape(len(i), -1) for f in features], axis=1)
    y = A[i, j]

    def loss(w):
        E = np.full(A.shape, -np.inf)
        E[i, j] = X @ w
        top = E.max(axis=1, keepdims=True)
        logs = X @ w - (np.log(np.exp(E - top).sum(axis=1)) + top[:, 0])[i]
        return -(y * logs).sum(), -X.T @ (y - np.exp(logs))

    best = minimize(
        loss, np.zeros(X.shape[1]), jac=True, method="BFGS", options={"gtol": 1e-7}
    ).fun
    return best + (y * np.log(y)).sum()


@pytest.mark.parametrize("window", [None, 6])
@pytest.mark.parametrize("causal", [True, False])
def test_parts_are_those_of_a_direct_fit(causal, window, monkeypatch):
    monkeypatch.setattr(decomposition, "_SWEEPS", 3000)
    monkeypatch.setattr(decomposition, "_TOLERANCE", 1e-10)
    n, rng = 14, np.random.default_rng(0)
    ids = rng.integers(0, 6, n)
    places = Places.of(n, causal=causal, ids=ids, window=window)
    raw = 2 * rng.standard_normal((n, n)) + 3 * np.eye(n, k=-1) + 2 * (np.arange(n) == 0)
    A = softmax(np.where(places.mask, raw, -np.inf))
    at = np.arange(n)
    column = np.broadcast_to(np.eye(n), (n, n, n))
    distance = at[:, None] - at
    bins = np.eye(len(places.edges))[
        np.clip(np.searchsorted(places.edges[:, 1], distance), 0, len(places.edges) - 1)
    ]
    repeats = np.zeros((n, n, 3))
    repeats[places.rows, places.columns, places.classes] = 1
    kl = {
        name: direct_fit(A, features, places.mask)
        for name, features in {
            "c": [column], "p": [bins], "cp": [column, bins], "cpr": [column, bins, repeats],
        }.items()
    }  # fmt: skip
    inside = A[places.mask]
    energy = np.log(places.mask.sum(axis=1)).sum() + (inside * np.log(inside)).sum()
    expected = [
        (energy - kl["c"] + kl["p"] - kl["cp"]) / 2,
        (energy - kl["p"] + kl["c"] - kl["cp"]) / 2,
        kl["cp"] - kl["cpr"],
        kl["cpr"],
    ]
    found = decompose(A[None], places)
    np.testing.assert_allclose(
        [getattr(found, name)[0] for name in PARTS], np.array(expected) / n, atol=1e-6
    )
    # the nearest wrong split gives the common row all that it can explain by itself
    assert abs((energy - kl["c"]) / n - found.common[0]) > 1e-3


@pytest.mark.parametrize("causal", [True, False])
def test_parts_add_up_exactly(causal):
    rng = np.random.default_rng(1)
    n = 40
    A = softmax(scores(*queries_and_keys(6, n, 8, rng), 2.0), causal)
    found = decompose(A, Places.of(n, causal=causal, ids=rng.integers(0, 12, n)))
    logs = np.log(A, out=np.zeros_like(A), where=A > 0)
    entropy = -np.sum(A * logs, axis=(1, 2)) / n
    energy = np.mean(np.log(np.arange(1, n + 1) if causal else np.full(n, n))) - entropy
    np.testing.assert_allclose(sum(getattr(found, name) for name in PARTS), energy, rtol=1e-9)
    np.testing.assert_allclose(found.entropy, entropy, rtol=1e-9)


def planted(kind, n, ids):
    S = np.zeros((n, n))
    if kind == "common":
        S[:, 0] += 6
    elif kind == "positional":
        S += 6 * np.eye(n, k=-1)
    elif kind == "repetition":
        S[:, 1:] += 6 * (ids[:, None] == ids[:-1])
    else:
        S += 3 * np.random.default_rng(2).standard_normal((n, n))
    return S


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("kind", PARTS)
def test_planted_heads_are_made_of_what_was_planted(kind, causal):
    n = 80
    ids = np.random.default_rng(3).integers(0, 15, n)
    A = softmax(planted(kind, n, ids), causal)
    found = decompose(A[None], Places.of(n, causal=causal, ids=ids))
    parts = np.array([getattr(found, name)[0] for name in PARTS])
    assert parts[PARTS.index(kind)] > 0.6 * parts.sum()


def test_shares_are_those_of_the_map():
    A = softmax(scores(*queries_and_keys(3, 20, 5, np.random.default_rng(4))), True)
    ids = np.array([*range(10), *range(10)])
    found = decompose(A, Places.of(20, causal=True, ids=ids))
    diagonal = np.diagonal(A, axis1=1, axis2=2)
    np.testing.assert_allclose(found.same, diagonal.mean(axis=1))
    before = np.diagonal(A, offset=-1, axis1=1, axis2=2)
    np.testing.assert_allclose(found.previous, before.mean(axis=1))
    np.testing.assert_allclose(found.first, A[:, 1:, 0].mean(axis=1))
    copies = A[:, np.arange(10, 20), np.arange(10)].sum(axis=1) / 20
    np.testing.assert_allclose(found.duplicate, copies)
    followers = A[:, np.arange(10, 20), np.arange(1, 11)].sum(axis=1) / 20
    np.testing.assert_allclose(found.induction, followers)
    assert found.most == pytest.approx(A.sum(axis=1).max(axis=1) / 20)


@pytest.mark.parametrize("slope", [0.5, 2.0])
def test_steep_alibi_is_positional(slope):
    """Far entries underflow to zero, and c_j = exp(slope j) would pass any range of numbers."""
    n, rng = 128, np.random.default_rng(5)
    at = np.arange(n)
    S = rng.standard_normal((2, n, n)) - slope * (at[:, None] - at)
    A = softmax(S, True).astype(np.float32)
    found = decompose(A, Places.of(n, causal=True, ids=rng.integers(0, 40, n)))
    parts = np.array([getattr(found, name) for name in PARTS])
    assert np.isfinite(parts).all()
    assert (parts.argmax(axis=0) == PARTS.index("positional")).all()
    energy = np.log(np.arange(1, n + 1)).mean() - found.entropy
    np.testing.assert_allclose(parts.sum(axis=0), energy, rtol=1e-9)
