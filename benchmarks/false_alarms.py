"""How many components noise seems to have, and how weak a signal is still found.

Pooled tokens from a table, mean pooling over 10 positions, centred. Four ways to count components
from the same singular values:

- an edge from plain Marchenko–Pastur, (1+√γ)² times the mean eigenvalue;
- `optht` 0.2.0, the optimal hard threshold for white noise of unknown level;
- `screenot` 0.0.2, the optimal threshold for noise of unknown law, rank at most 10;
- `outlier_test` of this library, with the table's size known and with nothing known.

    pip install 'attnlaw[benchmarks]'
    python benchmarks/false_alarms.py [--seeds 200] [--runs 100]

Exit code 0 if false alarms at 5 % are within 5 ± 3 %, and the signal of squared norm 1 is found
more often than by ScreeNOT at a level as low as ScreeNOT's own.
"""

import argparse
import sys
import warnings

import numpy as np
from optht import optht
from screenot.ScreeNOT import adaptiveHardThresholding, computeOptThreshold, createPseudoNoise

import attnlaw as al
from attnlaw.simulation import sample_pooled

DELTA, GAMMA, LENGTH = 0.5, 0.4, 10
LARGEST_RANK = 10  # that ScreeNOT is told to expect
LEVELS = (0.05, 0.005, 0.0001)


def screenot_rank(singular_values: np.ndarray, ratio: float) -> int:
    """Count as `adaptiveHardThresholding` does, without computing the SVD again."""
    noise = createPseudoNoise(singular_values.copy(), LARGEST_RANK)
    return int(np.sum(singular_values > computeOptThreshold(noise, ratio)))


def counts(values: np.ndarray, n_samples: int, n_tokens: int) -> dict[str, int]:
    """Return the number of components by every method, from eigenvalues of S."""
    singular_values = np.sqrt(np.sort(values)[::-1])
    gamma = len(values) / n_samples
    found = {
        "plain Marchenko–Pastur": int(np.sum(values > values.mean() * (1 + gamma**0.5) ** 2)),
        "optht": int(optht(gamma, sv=singular_values, sigma=None)),
        "screenot": screenot_rank(singular_values, gamma),
    }
    for level in LEVELS:
        test = al.outlier_test(values, n_samples=n_samples, n_tokens=n_tokens, level=level)
        found[f"attnlaw, level {level:g}"] = test.n_signals
    found["attnlaw, nothing known"] = al.outlier_test(values, n_samples=n_samples).n_signals
    return found


def spectrum(sample, signal_norm: float) -> np.ndarray:
    X = sample.pooled(signal_norm)
    X -= X.mean(axis=0)
    return np.maximum(np.linalg.eigvalsh(X.T @ X / len(X)), 0)


def study(correlation, dimension: int, seeds: range, squared_norms) -> dict[float, list]:
    model = al.PooledSequences(
        vocab_ratio=DELTA,
        sample_ratio=GAMMA,
        signal_norm=0.0,
        correlation=correlation,
        weights=al.mean_weights(LENGTH),
    )
    sizes = model.sizes(dimension)
    results: dict[float, list] = {q: [] for q in squared_norms}
    for seed in seeds:
        sample = sample_pooled(model, dimension, seed)
        for q in squared_norms:
            values = spectrum(sample, q**0.5)
            results[q].append(counts(values, sizes.n_samples, sizes.n_vocab))
    return results


def check_screenot(dimension: int = 60) -> None:
    """Our short cut through ScreeNOT gives what its one public function gives."""
    X = np.random.default_rng(0).standard_normal((150, dimension))
    X[:, 0] *= 4
    _, _, rank = adaptiveHardThresholding(X, LARGEST_RANK)
    assert rank == screenot_rank(np.linalg.svd(X, compute_uv=False), dimension / 150) == 1


def share(rows: list, method: str) -> float:
    return float(np.mean([row[method] > 0 for row in rows]))


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=200, help="signal-free spectra")
    parser.add_argument("--runs", type=int, default=100, help="spectra at each signal norm")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    check_screenot()

    noise = study(np.eye(LENGTH), 500, range(options.seeds), [0.0])[0.0]
    methods = list(noise[0])
    print(f"No signal (d=500, δ={DELTA}, γ={GAMMA}, L={LENGTH}), {options.seeds} seeds")
    print(f"{'':28}{'runs with a component':>24}{'components a run':>20}")
    for method in methods:
        mean = np.mean([row[method] for row in noise])
        print(f"{method:28}{share(noise, method):>23.1%}{mean:>20.2f}")

    norms = [0.5, 0.75, 1.0, 1.25, 1.5, 2.0]
    prefix = al.prefix_correlation(LENGTH, 3)
    signal = study(prefix, 400, range(10_000, 10_000 + options.runs), norms)
    print(f"\nA signal (d=400, prefix 3), runs of {options.runs} in which one component is found")
    print(f"{'squared signal norm':28}" + "".join(f"{q:>9g}" for q in norms))
    for method in methods[2:]:
        cells = "".join(f"{share(signal[q], method):>9.0%}" for q in norms)
        print(f"{method:28}{cells}")

    alarms = share(noise, "attnlaw, level 0.05")
    strict, theirs = share(signal[1.0], "attnlaw, level 0.0001"), share(signal[1.0], "screenot")
    return 0 if abs(alarms - 0.05) <= 0.03 and strict > theirs else 1


if __name__ == "__main__":
    sys.exit(main())
