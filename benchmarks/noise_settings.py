"""Kinds of noise without a signal, on which `calibration.py` counts false alarms.

The settings marked * were used to choose constants, the others were not looked at before; those
marked ! are outside of what the method can tell from rows alone.
"""

from collections.abc import Callable
from functools import cache

import numpy as np

from attnlaw.data.examples import example_table

Rows = tuple[np.ndarray, dict]


def tokens(
    d: int,
    V: int,
    N: int,
    *,
    length: int = 10,
    table=None,
    exponent: float = 0.0,
    frequencies=None,
    lengths=None,
) -> Callable[[np.random.Generator], Rows]:
    """Means of tokens drawn with Zipf's frequencies k^(−exponent), of the given lengths."""

    def draw(rng: np.random.Generator) -> Rows:
        Z = rng.standard_normal((V, d)) if table is None else table(rng, (V, d))
        p = np.arange(1, V + 1) ** -float(exponent)
        p = p if frequencies is None else frequencies(rng, V)
        n = np.full(N, length) if lengths is None else lengths(rng, N)
        ids = np.searchsorted(np.cumsum(p / p.sum())[:-1], rng.random((N, n.max())))
        ids[np.arange(n.max()) >= n[:, None]] = -1
        padded = np.concatenate([Z, np.zeros((1, d))])
        X = sum(padded[column] for column in ids.T) / n[:, None]
        return X, {"ids": ids, "lengths": n}

    return draw


def entries(d: int, N: int, draw) -> Callable[[np.random.Generator], Rows]:
    return lambda rng: (draw(rng, (N, d)), {})


def scaled_rows(base, scales) -> Callable[[np.random.Generator], Rows]:
    def draw(rng: np.random.Generator) -> Rows:
        X, known = base(rng)
        mean = X.mean(axis=0)
        return mean + (X - mean) * scales(rng, len(X))[:, None], known

    return draw


def with_copies(base, share: float, error: float) -> Callable[[np.random.Generator], Rows]:
    def draw(rng: np.random.Generator) -> Rows:
        X, _ = base(rng)
        again = X[rng.integers(len(X), size=int(share * len(X)))]
        again = again + error * X.std() * rng.standard_normal(again.shape)
        return np.concatenate([X, again]), {}

    return draw


def coloured(variances: np.ndarray, N: int) -> Callable[[np.random.Generator], Rows]:
    return lambda rng: (rng.standard_normal((N, len(variances))) * np.sqrt(variances), {})


def wide_columns(d: int, N: int, draw) -> Callable[[np.random.Generator], Rows]:
    return lambda rng: (rng.standard_normal((N, d)) * np.sqrt(draw(rng, d)), {})


def autoregressive(length: int, correlation: float) -> np.ndarray:
    places = np.arange(length)
    return np.linalg.cholesky(correlation ** np.abs(places[:, None] - places))  # of ρ^|i−j|


def correlated_columns(d: int, N: int, rho: float) -> Callable[[np.random.Generator], Rows]:
    factor = autoregressive(d, rho)
    return lambda rng: (rng.standard_normal((N, d)) @ factor.T, {})


def correlated_rows(base, rho: float) -> Callable[[np.random.Generator], Rows]:
    def draw(rng: np.random.Generator) -> Rows:
        X, _ = base(rng)
        return autoregressive(len(X), rho) @ (X - X.mean(axis=0)), {}

    return draw


def tf_idf(n_words: int, n_texts: int, length: int) -> Callable[[np.random.Generator], Rows]:
    """Sparse rows of unit norm: words with Zipf's frequencies, weighed by log(n/df)."""

    def draw(rng: np.random.Generator) -> Rows:
        p = 1 / np.arange(1, n_words + 1)
        counts = rng.multinomial(length, p / p.sum(), size=n_texts)
        X = counts * np.log(n_texts / np.maximum((counts > 0).sum(axis=0), 1))
        return X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-9), {}

    return draw


def permuted_table(name: str, N: int, *, equal=False) -> Callable[[np.random.Generator], Rows]:
    """Rows of a real table, every column permuted by itself, perhaps of equal variance."""

    @cache
    def load() -> np.ndarray:
        table = example_table(name).vectors
        return table / table.std(axis=0) if equal else table

    def draw(rng: np.random.Generator) -> Rows:
        table = load()
        return rng.permuted(table[rng.integers(len(table), size=N)].astype(float), axis=0), {}

    return draw


def t(df: float):
    return lambda rng, shape: rng.standard_t(df, shape)


def long_tokens(rng, shape):
    return rng.standard_normal(shape) * np.where(rng.random(shape[0]) < 0.01, 4.0, 1.0)[:, None]


def normal(rng, shape):
    return rng.standard_normal(shape)


def uniform_lengths(low: int, high: int):
    return lambda rng, N: rng.integers(low, high + 1, N)


def geometric_lengths(mean: float):
    return lambda rng, N: np.minimum(rng.geometric(1 / mean, N) + 1, 200)


k = np.arange(1, 121)
SETTINGS = {
    # the table and what constants were chosen on
    "* tokens 100, 1000, 300": tokens(100, 1000, 300),
    "* tokens 64, 300, 128": tokens(64, 300, 128),
    "* tokens 50, 200, 100": tokens(50, 200, 100),
    "* tokens 20, 200, 100": tokens(20, 200, 100),
    "* tokens 16, 32, 400": tokens(16, 32, 400),
    "tokens 384, 32000, 3000": tokens(384, 32000, 3000),
    "* white 100, 300": entries(100, 300, normal),
    "* t5 table": tokens(100, 200, 250, table=t(5)),
    "* t3 entries": entries(100, 250, t(3)),
    "* t3 rows": scaled_rows(entries(100, 250, normal), lambda r, n: r.chisquare(3, n) ** -0.5),
    "* t4 entries": entries(100, 250, t(4)),
    "* lengths 2-40": tokens(100, 200, 250, lengths=uniform_lengths(2, 40)),
    "* near-copies, 5 %": with_copies(tokens(60, 300, 200), 0.3, 0.05),
    "* power law (k+10)^-.7": coloured((k[:100] + 10.0) ** -0.7, 300),
    "* tokens 80, 100, 160": tokens(80, 100, 160),
    "* tokens 40, 80, 600": tokens(40, 80, 600),
    "* more columns than rows": tokens(120, 300, 80),
    "* linear spectrum .3-1.7": coloured(np.linspace(0.3, 1.7, 120), 360),
    "* power law k^-.7": coloured(k**-0.7, 360),
    "* power law k^-.3": coloured(k**-0.3, 360),
    "* power law (k+30)^-.5": coloured((k + 30.0) ** -0.5, 360),
    "* Zipf 0.8": tokens(100, 1000, 300, exponent=0.8),
    "* Zipf 0.5": tokens(100, 500, 1000, exponent=0.5),
    "* log-normal frequencies .5": tokens(
        100, 300, 300, frequencies=lambda r, V: np.exp(0.5 * r.standard_normal(V))
    ),
    "* exponential frequencies": tokens(
        80, 300, 240, frequencies=lambda r, V: r.exponential(size=V)
    ),
    "* t4 table, 25 tokens": tokens(70, 350, 210, length=25, table=t(4)),
    "* t3 table": tokens(60, 240, 180, length=12, table=t(3)),
    "* AR(1) columns .6": correlated_columns(100, 300, 0.6),
    "* Cauchy rows": scaled_rows(entries(80, 200, normal), lambda r, n: r.standard_cauchy(n)),
    "* log-normal columns .3": wide_columns(80, 240, lambda r, d: r.lognormal(0, 0.3, d)),
    "* log-normal columns .5": wide_columns(100, 300, lambda r, d: r.lognormal(0, 0.5, d)),
    "* power law k^-.15": coloured(k**-0.15, 360),
    # not looked at while constants were chosen
    "tokens 12, 60, 240": tokens(12, 60, 240),
    "tokens 48, 96, 24": tokens(48, 96, 24),
    "tokens 120, 5000, 240": tokens(120, 5000, 240),
    "tokens 300, 1500, 450": tokens(300, 1500, 450, length=5),
    "white 25, 500": entries(25, 500, normal),
    "white 240, 80": entries(240, 80, normal),
    "Rademacher entries": entries(70, 140, lambda r, s: r.choice([-1.0, 1.0], s)),
    "Poisson counts, mean 1": entries(60, 180, lambda r, s: r.poisson(1.0, s).astype(float)),
    "binary, 3 % ones": entries(60, 400, lambda r, s: (r.random(s) < 0.03).astype(float)),
    "TF-IDF of Zipf's words": tf_idf(150, 400, 20),
    "AR(1) columns .5": correlated_columns(90, 270, 0.5),
    "AR(1) rows .4": correlated_rows(tokens(60, 300, 240), 0.4),
    "Laplace table": tokens(80, 240, 200, table=lambda r, s: r.laplace(size=s)),
    "t3.5 table": tokens(80, 400, 240, length=15, table=t(3.5)),
    "1 % of tokens 4 times as long": tokens(60, 400, 200, table=long_tokens),
    "table with 80 % zeros": tokens(
        60, 300, 200, table=lambda r, s: r.standard_normal(s) * (r.random(s) < 0.2)
    ),
    "tokens 30, 3000, 1000": tokens(30, 3000, 1000),
    "exponential rows": scaled_rows(entries(60, 200, normal), lambda r, n: r.exponential(size=n)),
    "t6 table, lengths 5-30": tokens(90, 270, 270, table=t(6), lengths=uniform_lengths(5, 30)),
    "t3 entries, 40 columns": entries(40, 300, t(3)),
    "log-normal rows of tokens": scaled_rows(
        tokens(80, 160, 200), lambda r, n: np.exp(r.standard_normal(n))
    ),
    "geometric lengths": tokens(80, 200, 240, lengths=geometric_lengths(12.0)),
    "geometric lengths, known": tokens(80, 200, 240, lengths=geometric_lengths(12.0)),
    "copies, half of the rows": with_copies(tokens(70, 200, 150), 1.0, 0.0),
    "near-copies, 20 %": with_copies(tokens(80, 250, 200), 0.5, 0.2),
    "t5 table, near-copies 10 %": with_copies(tokens(60, 300, 180, table=t(5)), 2.0, 0.1),
    "gamma frequencies, shape 2": tokens(
        70, 280, 210, frequencies=lambda r, V: r.gamma(2.0, size=V)
    ),
    "Zipf 0.3": tokens(50, 250, 400, exponent=0.3),
    "Zipf 1": tokens(80, 400, 300, exponent=1.0),
    "Zipf 1, ids known": tokens(80, 400, 300, exponent=1.0),
    "power law 1/(k+20)": coloured(1 / (k[:100] + 20.0), 250),
    "columns of variance .6-1.4": wide_columns(70, 210, lambda r, d: r.uniform(0.6, 1.4, d)),
    "half of the columns 1.5": wide_columns(60, 240, lambda r, d: 1 + (np.arange(d) % 2) / 2),
    # added after the method was fixed
    "tokens 200, 800, 1000": tokens(200, 800, 1000),
    "tokens 30, 45, 90": tokens(30, 45, 90),
    "exponential entries": entries(80, 240, lambda r, s: r.exponential(size=s)),
    "uniform entries, 50, 50": entries(50, 50, lambda r, s: r.random(s)),
    "t5 rows of tokens": scaled_rows(
        tokens(70, 210, 280, length=6), lambda r, n: r.chisquare(5, n) ** -0.5
    ),
    "lengths 1-5": tokens(60, 240, 200, lengths=uniform_lengths(1, 5)),
    "lengths 3 or 60": tokens(90, 360, 300, lengths=lambda r, n: r.choice([3, 60], n)),
    "beta frequencies": tokens(60, 300, 240, frequencies=lambda r, V: r.beta(0.5, 1.5, V)),
    "Zipf 0.4": tokens(90, 450, 270, exponent=0.4),
    "AR(1) columns -.4": correlated_columns(80, 320, -0.4),
    "AR(1) rows .25": correlated_rows(tokens(80, 240, 300), 0.25),
    "thirds of variance .8, 1, 1.2": wide_columns(
        90, 270, lambda r, d: 0.8 + 0.2 * (np.arange(d) % 3)
    ),
    "table with 95 % zeros": tokens(
        60, 400, 240, length=20, table=lambda r, s: r.standard_normal(s) * (r.random(s) < 0.05)
    ),
    "near-copies, 2 %, each row twice": with_copies(entries(60, 150, normal), 1.0, 0.02),
    "WordLlama, columns permuted": permuted_table("wordllama", 400),
    "MiniLM, columns permuted, of one variance": permuted_table("minilm", 500, equal=True),
    # outside: single directions stand out, which no spectrum can tell from a signal
    "! Zipf 0.5, 60, 300, 180": tokens(60, 300, 180, exponent=0.5),
    "! MiniLM, columns permuted": permuted_table("minilm", 500),  # one has 2.2 times the variance
    "! power law k^-.15, rotated": lambda r: (
        r.standard_normal((360, 120)) * k**-0.075 @ np.linalg.qr(r.standard_normal((120, 120)))[0],
        {},
    ),
}
