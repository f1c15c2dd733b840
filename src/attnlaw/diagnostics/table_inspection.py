"""Signal and noise of embedding tables, and whether the noise follows the law."""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnlaw._checks import Floats, Random, count, invalid_argument, random_generator
from attnlaw.data.corpus_statistics import CorpusStatistics, as_statistics
from attnlaw.data.covariance import pooled_covariance
from attnlaw.data.readers import EmbeddingTable
from attnlaw.data.user_arrays import converted
from attnlaw.diagnostics.table_noise import (
    SubsetCheck,
    check_subsets,
    population_spectrum,
    row_scales,
    scale_atoms,
)
from attnlaw.estimators.outliers import outlier_test
from attnlaw.laws.separable import SeparableLaw
from attnlaw.models import effective_vocabulary
from attnlaw.results import Record

__all__ = [
    "TableOutlier",
    "TableReport",
    "inspect_table",
    "noise_law",
    "rank_correlation",
    "token_loading",
]

Rows = NDArray[np.floating]


@dataclass(frozen=True, kw_only=True)
class TableOutlier:
    """A direction of the table that stands out from the noise, and the tokens that make it."""

    eigenvalue: float  # λ of the centred covariance
    p_value: float  # of `outlier_test` for noise of any spectrum; see `inspect_table`
    share_of_variance: float  # λ/Σλ
    population_eigenvalue: float  # ℓ: what it would be with infinitely many rows
    highest_tokens: tuple[str, ...]  # with the largest projections
    lowest_tokens: tuple[str, ...]  # with the smallest
    n_effective_tokens: float  # (Σs²)²/Σs⁴ of the projections s: how many rows make it
    order_correlation: float  # Spearman, of the projection with the row's number
    length_correlation: float  # Spearman, of the projection with the row's length
    frequency_correlation: float | None = None  # Spearman, with how often a corpus has the token


@dataclass(frozen=True, kw_only=True)
class TableReport(Record):
    """Noise and outliers of an embedding table, and whether the law describes it."""

    source: str
    n_vocab: int  # V
    dimension: int  # d
    vocab_ratio: float  # δ = d/V
    effective_rank: float  # (Σλ)²/Σλ²
    mean_share: float  # ‖mean‖²/(‖mean‖² + Σλ): what centring takes away
    length_spread: float  # standard deviation of the rows' squared lengths, whose mean is 1
    eigenvalues: Floats  # λ of the centred covariance, largest first
    noise_spectrum: Floats  # H: population eigenvalues of the noise, largest first
    length_atoms: Floats  # r: squared lengths in groups of equally many rows, mean 1
    bulk_edge: float  # λ₊ of the noise
    outliers: tuple[TableOutlier, ...]
    check: SubsetCheck | None  # None when the table has too few rows for it
    notes: tuple[str, ...]  # artefacts that were noticed
    verdict: str  # the findings in a few sentences
    n_occurring: int | None = None  # rows whose token occurs in the corpus, if there is one
    effective_vocabulary: float | None = None  # V_eff = 1/Σp² of the corpus


def noise_law(report: TableReport) -> SeparableLaw:
    """Law of the noise of a table: H with the spread of lengths, at the table's own ratio."""
    ratio = len(report.noise_spectrum) / (report.n_vocab - 1)
    return SeparableLaw(report.noise_spectrum, ratio=ratio, rows=report.length_atoms)


def inspect_table(
    table: EmbeddingTable | NDArray[np.floating],
    *,
    corpus: CorpusStatistics | str | Path | None = None,
    n_tokens: int = 8,
    level: float = 0.05,
    rng: Random = 0,
) -> TableReport:
    """Report on the spectrum of an embedding table.

    Parameters
    ----------
    table : EmbeddingTable or array of shape (V, d)
        From `read_table`, or plain vectors.
    corpus : CorpusStatistics or path, optional
        Counts from a pass over a corpus (`attnlaw.sweeps.corpus_statistics`), or their file:
        outliers are then compared with the frequencies of the tokens that occur.
    n_tokens : int
        Tokens named at each end of an outlier.
    level : float
        Probability of a false outlier, as for `outlier_test`.
    rng : Generator, int or None
        Draws the subsets of the check.

    Returns
    -------
    TableReport
        Spectrum, noise, outliers, check and verdict.

    Notes
    -----
    Derived in docs/theory/tables.md, "The law".

    The table is centred by column; λ are the eigenvalues of EᵀE/V. Outliers are those of
    `outlier_test(λ, n_samples=V, noise="general")`, which tests an eigenvalue by the spacings of
    those below it and needs no knowledge of the noise; the others are the bulk, whose population
    spectrum H is found by inverting the law (`population_spectrum`). Where rows differ in length
    the law takes that into account (`SeparableLaw`); the test does not, and a few very long rows
    can make an outlier, which `notes` then report.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> signs = rng.choice([-1.0, 1.0], size=(3000, 1))
    >>> E = rng.standard_normal((3000, 100)) + signs * np.full(100, 0.3)
    >>> report = inspect_table(E)
    >>> len(report.outliers), report.check.passes
    (1, True)
    """
    if not isinstance(table, EmbeddingTable):
        table = EmbeddingTable(vectors=table, tokens=None, source="an array", name="")
    E = _checked(table.vectors)
    V, d = E.shape
    counts = None if corpus is None else _counts(corpus, V)
    generator, n_words = random_generator(rng), count("n_tokens", n_tokens)
    whole = pooled_covariance(E, dtype=np.float32)
    mean, trace = whole.mean, float(np.trace(whole.covariance))
    if trace <= 1e-12 * float(mean @ mean):
        raise invalid_argument("table", "made of rows that differ", E)
    values, vectors = np.linalg.eigh(whole.covariance)
    values, vectors = np.maximum(values[::-1], 0.0) * (V / (V - 1)), vectors[:, ::-1]
    found = outlier_test(values, n_samples=V, noise="general", level=level)
    k = found.n_signals

    centred = np.asarray(E, dtype=np.float32) - mean.astype(np.float32)
    some = np.sort(generator.permutation(V)[:8192])
    atoms = scale_atoms(row_scales(centred[some], whole.covariance))
    noise = population_spectrum(values[k:], (d - k) / (V - 1), rows=atoms)[::-1]
    law = SeparableLaw(noise, ratio=(d - k) / (V - 1), rows=atoms)
    squares = np.einsum("ij,ij->i", centred, centred)
    projections = centred @ vectors[:, :k].astype(np.float32)
    behind = law.population(values[:k]) if k else values[:0]
    outliers = tuple(
        TableOutlier(
            eigenvalue=float(values[j]),
            p_value=float(found.p_values[j]),
            share_of_variance=float(values[j] / values.sum()),
            population_eigenvalue=float(behind[j]),
            **token_loading(projections[:, j], squares, table.tokens, n_words, counts)._asdict(),
        )
        for j in range(k)
    )
    check = check_subsets(E, whole, rng=generator) if max(2 * d, 40) <= V else None
    return TableReport(
        source=table.source,
        n_vocab=V,
        dimension=d,
        vocab_ratio=d / V,
        effective_rank=float(values.sum() ** 2 / np.sum(values**2)),
        mean_share=float(mean @ mean / (mean @ mean + trace)),
        length_spread=float(atoms.std()),
        eigenvalues=values,
        noise_spectrum=noise,
        length_atoms=atoms,
        bulk_edge=law.right_edge,
        outliers=outliers,
        check=check,
        notes=_artefacts(E, values, squares, outliers),
        verdict=_verdict(outliers, check),
        n_occurring=None if counts is None else int(np.sum(counts > 0)),
        effective_vocabulary=None if counts is None else effective_vocabulary(counts),
    )


def _counts(corpus: CorpusStatistics | str | Path, n_vocab: int) -> Floats:
    """Return how often each row of a table occurs in a corpus."""
    counts = as_statistics("corpus", corpus).token_counts
    if len(counts) > n_vocab:
        raise invalid_argument("corpus", f"of tokens below {n_vocab}", len(counts))
    return np.append(counts, np.zeros(n_vocab - len(counts)))


class Loading(NamedTuple):
    """The rows at both ends of a direction."""

    highest_tokens: tuple[str, ...]
    lowest_tokens: tuple[str, ...]
    n_effective_tokens: float  # (Σs²)²/Σs⁴ of the projections s
    order_correlation: float  # Spearman, of s with the row's number
    length_correlation: float  # Spearman, of s with the row's length
    frequency_correlation: float | None  # Spearman, of s with the token's count, if above 0


def token_loading(
    projections: Rows,
    squared_lengths: Rows,
    tokens: tuple[str, ...] | None,
    n_tokens: int,
    counts: Floats | None = None,
) -> Loading:
    """Describe a direction by the projections s of the centred rows on it.

    Rows without a word are named by their number. The sign of the eigenvector is the one with the
    longer upper tail.
    """
    s = np.asarray(projections, dtype=np.float64)
    s = -s if np.sum(s**3) < 0 else s
    order = np.argsort(s)

    def words(rows: NDArray[np.intp]) -> tuple[str, ...]:
        return tuple(tokens[i] if tokens and tokens[i] else f"#{i}" for i in rows)

    with_counts = None
    if counts is not None and np.sum(occurs := counts > 0) > 2:
        with_counts = rank_correlation(s[occurs], counts[occurs])
    return Loading(
        highest_tokens=words(order[::-1][:n_tokens]),
        lowest_tokens=words(order[:n_tokens]),
        n_effective_tokens=float(np.sum(s**2) ** 2 / np.sum(s**4)),
        order_correlation=rank_correlation(s, np.arange(len(s), dtype=np.float64)),
        length_correlation=rank_correlation(s, squared_lengths),
        frequency_correlation=with_counts,
    )


def rank_correlation(x: Rows, y: Rows) -> float:
    """Spearman's correlation of two sequences; equal values, as of small counts, share a rank.

    Examples
    --------
    >>> rank_correlation(np.array([1.0, 2.0, 4.0]), np.array([1.0, 8.0, 9.0]))
    1.0
    """
    from scipy.stats import rankdata

    a, b = rankdata(x), rankdata(y)
    if not (np.ptp(a) and np.ptp(b)):
        return 0.0
    return round(float(np.corrcoef(a, b)[0, 1]), 12)


def _checked(table: Rows) -> Rows:
    E: Rows = np.asanyarray(converted("table", table))
    if E.ndim != 2 or min(E.shape) < 24:
        raise invalid_argument("table", "of shape (V, d), both at least 24", E)
    if E.dtype.kind != "f":
        raise invalid_argument("table", "made of floating-point numbers", E.dtype.name)
    return E


def _artefacts(
    E: Rows, values: Floats, squares: Rows, outliers: tuple[TableOutlier, ...]
) -> tuple[str, ...]:
    """Name known causes of outliers or of a distorted bulk other than signal."""
    V, d = E.shape
    notes = []
    n_copies = V - len({hash(row.tobytes()) for row in E})
    if n_copies > 0.001 * V:
        notes.append(f"{n_copies} rows are copies of other rows.")
    n_flat = int(np.sum(values < 1e-7 * values[0]))
    if n_flat and d < V:
        notes.append(f"{n_flat} directions hold nothing: some columns are constant or repeated.")
    heavy = np.sort(squares)[::-1][: max(1, V // 1000)].sum() / squares.sum()
    if heavy > 0.05:
        notes.append(f"One row in a thousand holds {heavy:.0%} of all squared length.")
    for j, outlier in enumerate(outliers, start=1):
        if outlier.n_effective_tokens < max(30.0, 0.002 * V):
            notes.append(
                f"Outlier {j} is made by about {outlier.n_effective_tokens:.0f} tokens only."
            )
        elif abs(outlier.frequency_correlation or 0) > 0.5:
            notes.append(
                f"Outlier {j} follows the frequency of tokens in the corpus "
                f"(rank correlation {outlier.frequency_correlation:+.2f})."
            )
        elif abs(outlier.order_correlation) > 0.5:
            notes.append(
                f"Outlier {j} follows the order of the vocabulary, usually that of frequency "
                f"(rank correlation {outlier.order_correlation:+.2f})."
            )
        elif abs(outlier.length_correlation) > 0.5:
            notes.append(
                f"Outlier {j} follows the length of the rows "
                f"(rank correlation {outlier.length_correlation:+.2f})."
            )
    return tuple(notes)


def _verdict(outliers: tuple[TableOutlier, ...], check: SubsetCheck | None) -> str:
    """Summarise the findings in a few sentences."""
    if not outliers:
        first = "No direction stands off the others: the spectrum ends without a gap."
    else:
        share = sum(outlier.share_of_variance for outlier in outliers)
        worst = max(outlier.p_value for outlier in outliers)
        stand = (
            "One direction stands" if len(outliers) == 1 else f"{len(outliers)} directions stand"
        )
        first = f"{stand} off the noise (p ≤ {worst:.1g}), with {share:.1%} of the variance."
    if check is None:
        return f"{first} There are too few rows to check the law of the noise."
    found, chance = f"{check.distance:.2%}", f"{check.tolerance:.2%}"
    spectrum = f"the spectrum of {check.n_rows} random rows"
    if check.passes:
        second = f"The law predicts {spectrum} to within {found}, which chance explains ({chance})"
    elif check.distance <= 0.03:
        second = f"The law predicts {spectrum} to within {found}; chance explains {chance}"
    else:
        second = f"The law misses {spectrum} by {found}; chance explains {chance}"
    if check.silverstein_distance > max(2 * check.distance, check.tolerance):
        second += f"; rows taken as equally long would give {check.silverstein_distance:.2%}"
    return f"{first} {second}."
