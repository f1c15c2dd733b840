"""Known causes of an outlier that is not the signal looked for, by name."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Floats
from attnlaw.estimators.outliers import OutlierTest
from attnlaw.estimators.spectrum import SampleSpectrum, row_blocks

__all__ = ["Artefact", "count_rows", "find_artefacts"]


@dataclass(frozen=True, kw_only=True)
class Artefact:
    """A known cause of an outlier, found in the data."""

    kind: str  # "constant columns", "duplicated rows", "mean direction", "few rows", "single
    # column", "heavy tokens" or "table means"
    component: int | None  # the component it explains; None if it concerns all
    evidence: float  # a number from which it was concluded; the message says which
    message: str


def find_artefacts(
    rows: NDArray[Any],
    spectrum: SampleSpectrum,
    test: OutlierTest,
    components: Floats,
    *,
    centred: bool,
    copies: Floats,
    snr: float | None = None,
    tokens: Any = None,
) -> tuple[Artefact, ...]:
    """Look for every artefact that the data allow to see.

    Parameters
    ----------
    rows : array of shape (n, d)
    spectrum, test : SampleSpectrum, OutlierTest
        Of these rows.
    components : array of shape (n_signals, d)
        Significant eigenvectors.
    centred : bool
        Whether the mean was subtracted.
    copies : array
        How often each distinct row occurs, see `count_rows`.
    snr : float, optional
        wᵀRw/wᵀw of the pooling; with it, the noise of a table's class means can be told.
    tokens : array of int and shape (n, length), optional
        Tokens of each row, negative where there is none.
    """
    n, d = rows.shape
    found = []
    constant = d - int(spectrum.varying.sum())
    if constant:
        found.append(
            _all(
                "constant columns",
                constant,
                f"{constant} of {d} columns are constant; they were left out of the dimension.",
            )
        )
    distinct = len(copies)
    if distinct < n:
        found.append(
            _all(
                "duplicated rows",
                1 - distinct / n,
                f"{n - distinct} of {n} rows are copies of others; the test counts "
                f"{effective_rows(copies):.0f} independent rows.",
            )
        )
    scores = _scores(rows, spectrum.mean if centred else 0 * spectrum.mean, components)
    for j, (v, s) in enumerate(zip(components, scores.T, strict=True)):
        found += _of_component(j, v, s, spectrum, test, centred=centred, snr=snr, tokens=tokens)
    return tuple(found)


def _of_component(
    j: int,
    v: Floats,
    scores: Floats,
    spectrum: SampleSpectrum,
    test: OutlierTest,
    *,
    centred: bool,
    snr: float | None,
    tokens: Any,
) -> list[Artefact]:
    found = []
    mean, n, d = spectrum.mean, len(scores), len(v)
    if not centred and mean.any():
        overlap = float((v @ mean) ** 2 / (mean @ mean))
        if overlap > 0.5:
            found.append(
                Artefact(
                    kind="mean direction",
                    component=j,
                    evidence=overlap,
                    message=f"component {j} points along the mean of the rows (squared overlap "
                    f"{overlap:.2f}); centre the data to remove it.",
                )
            )
    active = float(np.sum(scores**2) ** 2 / max(np.sum(scores**4), np.finfo(float).tiny))
    if active < n / 30:
        found.append(
            Artefact(
                kind="few rows",
                component=j,
                evidence=active,
                message=f"component {j} is carried by about {max(active, 1):.0f} of {n} rows.",
            )
        )
    columns = float(1 / np.sum(v**4))
    if columns < 1.5 and test.eigenvalues[j] > 25 * np.median(test.eigenvalues):
        found.append(
            Artefact(
                kind="single column",
                component=j,
                evidence=columns,
                message=f"component {j} is column {int(np.argmax(np.abs(v)))} almost alone, "
                "on another scale than the rest.",
            )
        )
    if tokens is not None:
        named, share = _heavy_tokens(scores, tokens)
        if share > 0.5:
            found.append(
                Artefact(
                    kind="heavy tokens",
                    component=j,
                    evidence=share,
                    message=f"{share:.0%} of component {j} is whether a row holds the tokens "
                    f"{', '.join(map(str, named))}.",
                )
            )
    if snr is not None and test.noise == "tokens":
        found += _table_means(j, snr, test, d)
    return found


def _table_means(j: int, snr: float, test: OutlierTest, d: int) -> list[Artefact]:
    """Name the noise of the class means when it is all that a spike needs.

    A spike of ratio ρ has strength ρ/snr = ‖μ‖² + ‖m‖² per token, and ‖m‖² is δ(1 ± √(2/d)).
    Derived in docs/theory/signal-components.md, "An outlier without a signal".
    """
    delta = test.vocab_ratio
    power = float(test.spike_ratios[j]) / snr - delta
    table = (2 * delta**2 + 4 * max(power, 0) * delta) / d
    error = float(np.sqrt((test.spike_ratio_errors[j] / snr) ** 2 + table))
    if power > 2 * error:
        return []
    return [
        Artefact(
            kind="table means",
            component=j,
            evidence=power,
            message=f"component {j} is no stronger than what correlated positions make of the "
            f"noise in the class means of {d / delta:.0f} tokens "
            f"(‖μ‖² = {power:.2g} ± {error:.2g}).",
        )
    ]


def _heavy_tokens(scores: Floats, tokens: Any, most: int = 5) -> tuple[list[int], float]:
    """Return the few tokens whose presence explains a component best, and how much of it."""
    ids = np.asarray(tokens)
    present = ids >= 0
    used, places = np.unique(ids[present], return_inverse=True)
    rows = np.broadcast_to(np.arange(len(ids))[:, None], ids.shape)[present]
    pairs = np.unique(rows * len(used) + places)  # presence, not count
    rows, places = pairs // len(used), pairs % len(used)
    share = np.bincount(places, minlength=len(used)) / len(ids)
    total = np.bincount(places, weights=scores[rows], minlength=len(used)) / len(ids)
    covariance = total - share * scores.mean()
    spread = share * (1 - share) * scores.var()
    with np.errstate(invalid="ignore", divide="ignore"):
        explained = np.where(spread > 0, covariance**2 / spread, 0.0)
    best = np.argsort(-explained)[:most]
    best = best[explained[best] > 0.05]
    if len(best) == 0:
        return [], 0.0
    design = np.zeros((len(ids), len(best)))
    for column, token in enumerate(best):
        design[rows[places == token], column] = 1
    design -= design.mean(axis=0)
    fit = design @ np.linalg.lstsq(design, scores - scores.mean(), rcond=None)[0]
    return used[best].tolist(), float(fit.var() / scores.var())


def count_rows(rows: NDArray[Any]) -> Floats:
    """Return how often each distinct row occurs.

    Rows are told apart by a 64-bit sum of their bit patterns with random odd factors, one pass
    over the data.
    """
    kind = {2: np.uint16, 4: np.uint32, 8: np.uint64}[rows.dtype.itemsize]
    rng = np.random.default_rng(0)
    factors = rng.integers(2**63, size=rows.shape[1], dtype=np.uint64) * np.uint64(2) + np.uint64(
        1
    )
    hashes = []
    for block in row_blocks(rows):
        bits = np.ascontiguousarray(block + 0.0).view(kind).astype(np.uint64)  # −0 becomes 0
        bits ^= bits >> np.uint64(29)
        hashes.append((bits * factors).sum(axis=1, dtype=np.uint64))
    return np.unique(np.concatenate(hashes), return_counts=True)[1].astype(float)


def effective_rows(copies: Floats) -> float:
    """Return the number of independent rows that weigh as much as rows with these copies."""
    return float(copies.sum() ** 2 / np.sum(copies**2))


def _scores(rows: NDArray[Any], mean: Floats, components: Floats) -> Floats:
    return np.concatenate([(block - mean) @ components.T for block in row_blocks(rows)])


def _all(kind: str, evidence: float, message: str) -> Artefact:
    return Artefact(kind=kind, component=None, evidence=float(evidence), message=message)
