"""How often noise is taken for a component, and how weak a signal is still found.

Every setting is noise without a signal. Counted are the runs in which a method finds a component:

- `signal_components` with nothing but the rows (what is known is used in settings named "known");
- the edge of plain Marchenko–Pastur, (1+√γ)² times the mean eigenvalue;
- `optht` 0.2.0, Gavish and Donoho's threshold for white noise of unknown level;
- `screenot` 0.0.2, the optimal threshold for noise of unknown law, rank at most 10;
- parallel analysis: eigenvalues above the largest of ten samples with permuted columns;
- scikit-learn's PCA(n_components="mle").

    pip install 'attnlaw[benchmarks]'
    python benchmarks/calibration.py [--seeds 200] [--quick] [--only NAME ...]
        [--power 100] [--components 4]

The settings marked * were used to choose constants, the others were not looked at before; those
marked ! are outside of what the method can tell from rows alone. "no note": components found
without a word of what they rest on. How the constants of the edge tests were measured is in
edge_constants.py. Exit code 0 if no other setting has more than 8 % false alarms beyond chance.
"""

import argparse
import sys
import warnings
from collections.abc import Callable
from functools import cache

import numpy as np
from optht import optht
from scipy.stats import beta
from screenot.ScreeNOT import computeOptThreshold, createPseudoNoise
from sklearn.decomposition import PCA
from sklearn.linear_model import RidgeClassifierCV

import attnlaw as al
from attnlaw.data.examples import example_table
from attnlaw.simulation import sample_pooled

Rows = tuple[np.ndarray, dict]
LARGEST_RANK = 10  # that ScreeNOT is told to expect
MOST_FALSE_ALARMS = 0.08


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


def permuted_table(name: str, N: int) -> Callable[[np.random.Generator], Rows]:
    """Rows of a real table, every column permuted by itself."""
    load = cache(lambda: example_table(name).vectors)

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
    "MiniLM, columns permuted": permuted_table("minilm", 500),
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
    # outside: single directions stand out, which no spectrum can tell from a signal
    "! Zipf 0.5, 60, 300, 180": tokens(60, 300, 180, exponent=0.5),
    "! power law k^-.15, rotated": lambda r: (
        r.standard_normal((360, 120)) * k**-0.075 @ np.linalg.qr(r.standard_normal((120, 120)))[0],
        {},
    ),
}
METHODS = ("signal_components", "plain MP", "optht", "ScreeNOT", "parallel", "PCA mle")


def ours(name: str, X: np.ndarray, known: dict) -> tuple[int, bool]:
    """Return the number of components found, and whether a note says what that rests on."""
    what = "ids" if name.endswith("ids known") else "lengths"
    arguments = {what.replace("ids", "tokens"): known[what]} if name.endswith("known") else {}
    test = al.signal_components(X, max_components=1, **arguments).test
    return test.n_signals, bool(test.notes)


def hard_threshold(ratio: float, s: np.ndarray) -> int:
    try:
        return int(optht(ratio, sv=s, sigma=None))
    except ValueError:  # where it finds nothing
        return 0


def others(X: np.ndarray, rng: np.random.Generator) -> list[int]:
    N, d = X.shape
    C = X - X.mean(axis=0)
    s = np.linalg.svd(C, compute_uv=False)[: min(N - 1, d)]
    ratio = min(N, d) / max(N, d)
    values = s**2 / N
    edge = values.sum() / d * (1 + (d / N) ** 0.5) ** 2
    noise = createPseudoNoise(s.copy(), min(LARGEST_RANK, len(s) // 4))
    permuted = []
    for _ in range(10):
        P = rng.permuted(X, axis=0)
        P -= P.mean(axis=0)
        permuted.append(np.linalg.eigvalsh(P.T @ P if d <= N else P @ P.T)[::-1][: len(s)])
    parallel = int(np.argmin(np.append(s**2 > np.max(permuted, axis=0)[: len(s)], False)))
    mle = PCA(n_components="mle", svd_solver="full").fit(X).n_components_ if d < N else -1
    return [
        int(np.sum(values > edge)),
        hard_threshold(ratio, s),
        int(np.sum(s > computeOptThreshold(noise, ratio))),
        parallel,
        mle,
    ]


def interval(n_alarms: int, n: int) -> tuple[float, float]:
    """Clopper and Pearson's 95 % interval."""
    low = beta.ppf(0.025, n_alarms, n - n_alarms + 1) if n_alarms else 0.0
    high = beta.ppf(0.975, n_alarms + 1, n - n_alarms) if n_alarms < n else 1.0
    return float(low), float(high)


def false_alarms(names: list[str], n_seeds: int) -> bool:
    print(f"False alarms at 5 %, {n_seeds} seeds (95 % interval); others: a twentieth of them")
    print(f"{'':28}{METHODS[0]:>24}{'no note':>8}" + "".join(f"{m:>11}" for m in METHODS[1:]))
    within = True
    for name in names:
        n = n_seeds // 4 if "384" in name else n_seeds
        found, noted, rest = [], [], []
        for seed in range(n):
            rng = np.random.default_rng([sum(name.encode()), seed])
            X, known = SETTINGS[name](rng)
            n_found, has_note = ours(name, X, known)
            found.append(n_found)
            noted.append(n_found > 0 and not has_note)
            if seed % 20 == 0:
                rest.append(others(X, rng))
        alarms = int(np.count_nonzero(found))
        low, high = interval(alarms, n)
        cells = "".join(
            f"{'–':>11}" if min(column) < 0 else f"{np.mean(np.array(column) > 0):>10.0%} "
            for column in zip(*rest, strict=True)
        )
        silent = np.mean(noted)
        print(
            f"{name:28}{alarms / n:>8.1%} ({low:5.1%} – {high:5.1%}){silent:>8.1%}{cells}",
            flush=True,
        )
        within = within and (name.startswith("!") or low <= MOST_FALSE_ALARMS)
    return within


def power(n_runs: int) -> None:
    """Print how often a signal is found at d=400, δ=.5, γ=.4, prefix 3 of 10, mean pooling."""
    model = al.PooledSequences(
        vocab_ratio=0.5,
        sample_ratio=0.4,
        signal_norm=0.0,
        correlation=al.prefix_correlation(10, 3),
        weights=al.mean_weights(10),
    )
    norms = (0.5, 0.75, 1.0, 1.25, 1.5)
    print(f"\nSignal found, {n_runs} runs (d=400, δ=.5, γ=.4), at squared norms {norms}")
    for name, arguments in (("V known", {"n_tokens": 800}), ("nothing known", {})):
        shares = []
        for q in norms:
            runs = [sample_pooled(model, 400, 10_000 + s).pooled(q**0.5) for s in range(n_runs)]
            shares.append(
                np.mean([al.signal_components(X, **arguments).test.n_signals > 0 for X in runs])
            )
        print(f"{name:28}" + "".join(f"{share:>8.0%}" for share in shares), flush=True)


def components(n_splits: int) -> None:
    """Print the accuracy of a classifier on the components that each method keeps of real text."""
    from learning_curves import HELD_OUT, TUNED, pooled_texts

    print(
        f"\nRidge classification trained on 700 texts, {n_splits} splits: points below all columns"
    )
    print(f"{'':28}{'all':>12}{'reliable':>16}{'optht':>16}{'ScreeNOT':>16}{'parallel':>16}")
    for pair in TUNED + HELD_OUT:
        X, y = pooled_texts(*pair)
        kept, right = [], []
        for seed in range(n_splits):
            rng = np.random.default_rng([seed, 14])
            order = rng.permutation(len(y))
            train, test = order[:700], order[700:4000]
            pca = PCA(svd_solver="full").fit(X[train])
            A, B = pca.transform(X[train]), pca.transform(X[test])
            reliable = al.SignalComponents(random_state=seed).fit(X[train]).n_components_
            kept.append([A.shape[1], reliable, *others(X[train].astype(float), rng)[1:4]])
            alphas = 700 * pca.explained_variance_.mean() * np.geomspace(1e-4, 10, 11)
            right.append([])
            for k in np.maximum(kept[-1], 1):
                ridge = RidgeClassifierCV(alphas).fit(A[:, :k], y[train])
                right[-1].append(100 * ridge.score(B[:, :k], y[test]))
        n, (full, *rest) = np.mean(kept, axis=0), np.mean(right, axis=0)
        cells = "".join(f"{a - full:>+9.1f} ({k:>4.0f})" for a, k in zip(rest, n[1:], strict=True))
        print(f"{' x '.join(pair):28}{full:>5.1f} ({n[0]:>4.0f}){cells}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--quick", action="store_true", help="40 seeds of the small settings")
    parser.add_argument("--only", nargs="*", help="settings whose name contains one of these")
    parser.add_argument("--power", type=int, default=0, metavar="RUNS")
    parser.add_argument("--components", type=int, default=0, metavar="SPLITS")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    names = [n for n in SETTINGS if not options.only or any(o in n for o in options.only)]
    names = [n for n in names if "384" not in n] if options.quick else names
    options.seeds = 40 if options.quick else options.seeds
    within = false_alarms(names, options.seeds)
    if options.power:
        power(options.power)
    if options.components:
        components(options.components)
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
