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

import numpy as np
from noise_settings import SETTINGS
from optht import optht
from scipy.stats import beta
from screenot.ScreeNOT import computeOptThreshold, createPseudoNoise
from sklearn.decomposition import PCA
from sklearn.linear_model import RidgeClassifierCV

import attnlaw as al
from attnlaw.simulation import sample_pooled

LARGEST_RANK = 10  # that ScreeNOT is told to expect
MOST_COLUMNS = 300  # for PCA(n_components="mle"), which takes 20 s at 400
MOST_FALSE_ALARMS = 0.08
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
    mle = -1
    if d < N and d <= MOST_COLUMNS:
        mle = PCA(n_components="mle", svd_solver="full").fit(X).n_components_
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
            rivals = others(X[train].astype(float), rng)
            kept.append([A.shape[1], reliable, *rivals[1:4]])
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
