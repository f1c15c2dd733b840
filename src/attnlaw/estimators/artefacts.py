"""Known causes of an outlier that is not the signal looked for, by name."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Floats
from attnlaw.estimators.outliers import OutlierTest
from attnlaw.estimators.rows import row_blocks

__all__ = ["Artefact", "find_artefacts"]

UNEQUAL_ROWS = 3.0  # variance of squared norms, over that of Gaussian rows, that is mentioned


@dataclass(frozen=True, kw_only=True)
class Artefact:
    """A known cause of an outlier, found in the data."""

    kind: str  # "constant columns", "duplicated rows", "unequal rows", "mean direction", "few
    # rows", "single column", "heavy tokens" or "table means"
    component: int | None  # the component it explains; None if it concerns all
    evidence: float  # a number from which it was concluded; the message says which
    message: str


def find_artefacts(
    rows: NDArray[Any],
    centre: Floats,
    test: OutlierTest,
    components: Floats,
    *,
    n_constant: int = 0,
    raw_mean: Floats | None = None,
    n_copies: int = 0,
    norm_dispersion: float = 1.0,
    snr: float | None = None,
    tokens: Any = None,
) -> tuple[Artefact, ...]:
    """Look for every artefact that the data allow to see.

    Parameters
    ----------
    rows : array of shape (n, d)
    centre : array of shape (d,)
        What is subtracted from the rows.
    test : OutlierTest
        Of these rows.
    components : array of shape (n_signals, d)
        Significant eigenvectors.
    n_constant : int
        Columns that are constant.
    raw_mean : array of shape (d,), optional
        Mean of the rows if it was not subtracted.
    n_copies : int
        Rows that were left out because they are copies or near-copies of others.
    norm_dispersion : float
        Variance of the squared norms of the rows, over that of Gaussian rows of the same spectrum.
    snr : float, optional
        wᵀRw/wᵀw of the pooling; with it, the noise of a table's class means can be told.
    tokens : array of int and shape (n, length), optional
        Tokens of each row, negative where there is none.
    """
    n, d = rows.shape
    found = []
    if n_constant:
        found.append(
            _all(
                "constant columns",
                n_constant,
                f"{n_constant} of {d + n_constant} columns are constant; they were left out of "
                "the dimension.",
            )
        )
    if n_copies:
        found.append(
            _all(
                "duplicated rows",
                n_copies / (n + n_copies),
                f"{n_copies} of {n + n_copies} rows are copies or near-copies of others; "
                "one of each was used.",
            )
        )
    if norm_dispersion > UNEQUAL_ROWS:
        found.append(
            _all(
                "unequal rows",
                norm_dispersion,
                f"squared norms of rows vary {norm_dispersion:.0f} times as much as those of "
                "Gaussian rows (heavy tails or unequal lengths); rows were scaled.",
            )
        )
    scores = np.concatenate([(block - centre) @ components.T for block in row_blocks(rows)])
    for j, (v, s) in enumerate(zip(components, scores.T, strict=True)):
        found += _of_component(j, v, s, test, raw_mean=raw_mean, snr=snr, tokens=tokens)
    return tuple(found)


def _of_component(
    j: int,
    v: Floats,
    scores: Floats,
    test: OutlierTest,
    *,
    raw_mean: Floats | None,
    snr: float | None,
    tokens: Any,
) -> list[Artefact]:
    found = []
    n, d = len(scores), len(v)
    if raw_mean is not None and raw_mean.any():
        overlap = float((v @ raw_mean) ** 2 / (raw_mean @ raw_mean))
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


def _all(kind: str, evidence: float, message: str) -> Artefact:
    return Artefact(kind=kind, component=None, evidence=float(evidence), message=message)
