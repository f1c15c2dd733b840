"""Real token ids with a planted signal: the best smoothing of token weights is near κ/(αN).

The page is docs/theory/vocabulary.md, "Where it does not carry over"; the whole curves are printed
by `benchmarks/token_weights.py`.
"""

import numpy as np
import pytest
from scipy.sparse import csr_array

from attnlaw.data.examples import example_texts, example_tokenizer

LENGTH, DIMENSION = 64, 200


@pytest.fixture(scope="module")
def posts():
    """Tokens by the tokenizer of SmolLM2, 0 … V − 1, and the signs of their log odds."""
    try:
        texts, tokenizer = example_texts("newsgroups"), example_tokenizer("smollm2")
    except (FileNotFoundError, ModuleNotFoundError) as error:
        pytest.skip(str(error))
    encoded = tokenizer.encode_batch(texts.texts, add_special_tokens=False)
    long = [i for i, e in enumerate(encoded) if len(e.ids) >= LENGTH]
    rows = np.array([encoded[i].ids[:LENGTH] for i in long])
    _, tokens = np.unique(rows, return_inverse=True)
    tokens = tokens.reshape(rows.shape)
    computer = np.char.startswith(np.array(texts.labels)[long], "comp")
    V = tokens.max() + 1
    counts = [np.bincount(tokens[m].ravel(), minlength=V) for m in (computer, ~computer)]
    odds = [(n + 0.5) / n.sum() for n in counts]
    return tokens, np.where(odds[0] > odds[1], 1.0, -1.0)


@pytest.mark.slow
@pytest.mark.parametrize("n_samples", [1000, 8000])
def test_best_smoothing_of_real_tokens_is_within_a_factor_three(posts, n_samples):
    tokens, c = posts
    V = len(c)
    p = np.bincount(tokens.ravel(), minlength=V) / tokens.size
    steps = 10.0 ** np.array([-3.0, -2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0])  # of a/a*
    star = _first_order(tokens, c, p, n_samples)
    seen = np.zeros((3, len(steps)))
    for table in range(len(seen)):
        rng = np.random.default_rng([n_samples, table])
        rows = rng.choice(len(tokens), size=n_samples, replace=False)
        Z = rng.standard_normal((V, DIMENSION))
        Z[:, 0] += c
        for k, step in enumerate(steps):
            X = _pool(tokens[rows], 1 / (p + step * star), V) @ Z
            X -= X.mean(axis=0)
            _, vectors = np.linalg.eigh(X.T @ X)
            seen[table, k] = np.max(vectors[0, -8:] ** 2)
    curve = seen.mean(axis=0)
    best = int(np.argmax(curve))
    bend, tilt, _ = np.polyfit(np.log(steps[best - 1 : best + 2]), curve[best - 1 : best + 2], 2)
    assert 1 / 3 < np.exp(-tilt / (2 * bend)) < 3
    assert curve[0] < curve[best] - 0.02 > curve[-1]


def _first_order(tokens, c, p, n_samples):
    """Return a* = κ/(αN) with the α/κ that the weights 1/(p + a*) themselves have."""
    a = 1e-4
    for _ in range(8):
        g = 1 / (p + a)
        g /= p @ g
        t = _pool(tokens, g, len(c)) @ c
        snr = max(float(t.var()) * LENGTH - (float(p @ g**2) - 1), 1.0)
        a = 1 / (snr * n_samples)
    return a


def _pool(tokens, g, V):
    starts = np.arange(0, tokens.size + 1, LENGTH)
    values = g[tokens].ravel() / LENGTH
    return csr_array((values, tokens.ravel(), starts), shape=(len(tokens), V))
