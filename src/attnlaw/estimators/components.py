"""Detection of components that noise cannot explain, and of causes other than a signal."""

import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnlaw._checks import Floats, RegimeWarning, count, invalid_argument, scalar
from attnlaw.data.corpus_statistics import CorpusStatistics
from attnlaw.data.user_arrays import converted
from attnlaw.estimators.outliers import OutlierTest, n_dominant, outlier_test
from attnlaw.estimators.rows import (
    SampleSpectrum,
    before_scaling,
    checked_rows,
    copy_groups,
    corpus_spectrum,
    equalised,
    heavy_tokens,
    in_doubt,
    mean_and_varying,
    norm_dispersion,
    row_blocks,
    row_lengths,
    sample_spectrum,
)
from attnlaw.results import Record

__all__ = ["Artefact", "ComponentAnalysis", "signal_components"]

COPIES_USED = "one of each was used."
ROWS_SCALED = "Gaussian rows (heavy tails or unequal lengths); rows were scaled."
UNEQUAL_ROWS = 3.0  # variance of squared norms, over that of Gaussian rows, that is mentioned


@dataclass(frozen=True, kw_only=True)
class Artefact:
    """A known cause of an outlier, found in the data."""

    kind: str  # "constant columns", "duplicated rows", "unequal rows", "mean direction", "few
    # rows", "single column", "heavy tokens" or "table means"
    component: int | None  # the component it explains; None if it concerns all
    evidence: float  # a number from which it was concluded; the message says which
    message: str


@dataclass(frozen=True, kw_only=True)
class ComponentAnalysis(Record):
    """Significant principal components of pooled embeddings, with their statistics."""

    components: Floats  # (n, d): unit eigenvectors, the `test.n_signals` first are significant
    mean: Floats  # x̄ (d,)
    test: OutlierTest  # eigenvalues, edge, p-values, shrunken eigenvalues, predicted overlaps
    signal_overlaps: Floats  # predicted, with μ itself; NaN where the snr is not given
    artefacts: tuple[Artefact, ...]  # known causes other than a signal
    n_rows: int  # distinct rows: copies and near-copies are counted once


def signal_components(
    pooled: Any,
    *,
    noise: str = "auto",
    n_tokens: int | None = None,
    token_frequencies: ArrayLike | None = None,
    noise_spectrum: ArrayLike | None = None,
    snr: float | None = None,
    lengths: ArrayLike | None = None,
    tokens: Any = None,
    scale_rows: bool = True,
    centred: bool = True,
    level: float = 0.05,
    min_components: int = 0,
    max_components: int | None = None,
) -> ComponentAnalysis:
    r"""Find the principal components of pooled embeddings that noise cannot explain.

    Parameters
    ----------
    pooled : array of shape (N, d), or CorpusStatistics
        Pooled embeddings x_i; float32 is not converted. Or the statistics of a corpus: its tokens
        are then the null, unless another is given, and `lengths`, `tokens`, copies and the scaling
        of rows, which need the rows, are not used.
    noise, n_tokens, token_frequencies, noise_spectrum, level
        The noise model and the level of the test, see `outlier_test`.
    snr : float, optional
        wᵀRw/wᵀw of the pooling weights, as `learn_pooling_weights` estimates it. With it, the part
        of a spike that is noise of the table can be separated from the signal.
    lengths : array of shape (N,), optional
        Number of tokens in each row, if rows are means of different numbers of tokens.
    tokens : array of int and shape (N, length), optional
        Tokens of each row, negative where there is none. They give `lengths` and, unless
        `n_tokens` or a null is given, `token_frequencies`; and they identify tokens that make a
        component.
    scale_rows : bool
        Scale rows to one variance, by `lengths` if these are known and to one norm about the
        spatial median otherwise. Without it, heavy tails and unequal lengths raise false alarms.
    centred : bool
        Subtract the mean of the rows.
    min_components : int
        Smallest number of components returned, significant or not.
    max_components : int, optional
        Largest number of components returned.

    Returns
    -------
    ComponentAnalysis

    Warns
    -----
    RegimeWarning
        If components are significant against a null that the data had to choose, and frequent
        tokens could explain them (`test.notes`).

    Notes
    -----
    One row is used of each group of copies and near-copies; constant columns are left out of the
    dimension. Eigenvalues of rows of one norm are corrected for the scaling, and their sum is the
    total variance of the rows.

    In a table of V tokens the two classes' means differ by noise m with ‖m‖² → δ, so that the
    spike is (wᵀRw/wᵀw)(‖μ‖² + δ): correlated positions make an outlier even without a signal,
    and the overlap with μ is ‖μ‖²/(‖μ‖² + δ) of that with the spike
    (docs/theory/signal-components.md, "An outlier without a signal").

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> pooled = rng.standard_normal((300, 60))
    >>> pooled[:, 3] += 2 * rng.choice([-1.0, 1.0], 300)
    >>> found = signal_components(pooled)
    >>> found.test.n_signals, int(np.argmax(np.abs(found.components[0])))
    (1, 3)
    """
    if snr is not None:
        snr = scalar("snr", snr, above=0)
    least = count("min_components", min_components, at_least=0)
    settings: dict[str, Any] = {
        "noise": noise,
        "n_tokens": n_tokens,
        "token_frequencies": token_frequencies,
        "noise_spectrum": noise_spectrum,
        "centred": centred,
        "level": level,
        "max_signals": max_components,
    }
    if isinstance(pooled, CorpusStatistics):
        if lengths is not None or tokens is not None:
            raise invalid_argument("lengths and tokens", "left out for a corpus", "one of them")
        return _of_corpus(pooled, settings, snr, least)
    data = _distinct_rows(pooled, lengths, tokens, centred)
    if data.tokens is not None and _is_open(settings):
        present = data.tokens[data.tokens >= 0]
        settings["token_frequencies"] = np.unique(present, return_counts=True)[1]
    scaled = _scaled(data, scale_rows, centred)
    test = _tested(scaled, settings)
    if test.notes and test.n_signals:
        counted = f"{test.n_signals} component{'s' if test.n_signals > 1 else ''}"
        warnings.warn(f"{counted}: {test.notes[0]}", RegimeWarning, stacklevel=2)
    n_kept = min(max(test.n_signals, least), *data.X.shape)
    if max_components is not None:
        n_kept = min(n_kept, max_components)
    components = np.zeros((n_kept, len(data.mean)))
    components[:, data.varying] = scaled.spectrum.vectors(n_kept)
    return ComponentAnalysis(
        components=components,
        mean=data.mean,
        test=test,
        signal_overlaps=_signal_overlaps(test, snr),
        artefacts=_find_artefacts(
            data,
            test,
            components[: test.n_signals, data.varying],
            centred=centred,
            norm_dispersion=scaled.norm_dispersion,
            snr=snr,
        ),
        n_rows=len(data.X),
    )


class _DistinctRows(NamedTuple):
    """Distinct rows, without constant columns."""

    X: NDArray[Any]
    mean: Floats  # x̄, of all columns
    varying: NDArray[np.bool_]  # the columns of X
    n_copies: int  # rows that were left out because they are copies or near-copies of others
    tokens: Any  # of each row, negative where there is none; None if they are not known
    lengths: Floats | None  # number of tokens in each row


class _Scaled(NamedTuple):
    """Rows of one variance, and their spectrum."""

    rows: NDArray[Any]
    spectrum: SampleSpectrum
    eigenvalues: Floats  # corrected for the scaling
    norm_dispersion: float  # variance of ‖x‖² before scaling, over that of Gaussian rows


def _distinct_rows(pooled: Any, lengths: Any, tokens: Any, centred: bool) -> _DistinctRows:
    X = checked_rows(pooled)
    if tokens is not None:
        tokens = np.asarray(converted("tokens", tokens))
        if tokens.ndim != 2 or len(tokens) != len(X) or tokens.dtype.kind not in "iu":
            raise invalid_argument("tokens", f"whole numbers of shape ({len(X)}, length)", tokens)
    lengths = row_lengths(lengths, tokens, len(X))
    mean, varying = mean_and_varying(X)
    if not centred:
        varying = varying | (mean != 0)
    if not varying.any():
        raise invalid_argument("pooled", "such that some column is not constant", X)
    X = X if varying.all() else X[:, varying]
    first = np.sort(np.unique(copy_groups(X), return_index=True)[1])
    n_copies = len(X) - len(first)
    if n_copies:
        X = X[first]
        tokens = None if tokens is None else tokens[first]
        lengths = None if lengths is None else lengths[first]
    return _DistinctRows(X, mean, varying, n_copies, tokens, lengths)


def _scaled(data: _DistinctRows, scale_rows: bool, centred: bool) -> _Scaled:
    """Scale rows by their lengths, or to one norm beside the components that dominate it."""
    X = data.X
    if not scale_rows:
        spectrum = sample_spectrum(X, centred=centred)
        return _Scaled(X, spectrum, spectrum.eigenvalues, 1.0)
    rows, centre = equalised(X, centred=centred, lengths=data.lengths)
    spectrum = sample_spectrum(rows, centred=centred)
    values = spectrum.eigenvalues
    if data.lengths is None:
        n = n_dominant(values, len(X) - centred)
        if n:
            rows, _ = equalised(X, centred=centred, components=spectrum.vectors(n))
            spectrum = sample_spectrum(rows, centred=centred)
        values = spectrum.eigenvalues.copy()
        values[n:] = before_scaling(values[n:], max(len(X) - centred, 1))
    return _Scaled(rows, spectrum, values, norm_dispersion(X, centre))


def _tested(scaled: _Scaled, settings: dict[str, Any]) -> OutlierTest:
    """Test the eigenvalues, then again with the fluctuations of the components found."""
    rows, values = scaled.rows, scaled.eigenvalues
    settings = {**settings, "n_samples": max(2, len(rows))}
    test = outlier_test(values, **settings)
    if not test.n_signals:
        return test
    centre = rows.mean(axis=0) * settings["centred"]
    scores = (rows - centre) @ scaled.spectrum.vectors(test.n_signals).T
    scores /= np.sqrt(np.mean(scores**2, axis=0))
    kurtosis, doubt = np.mean(scores**4, axis=0), in_doubt(rows, scores, test.vocab_ratio)
    return outlier_test(values, **settings, score_kurtosis=kurtosis, in_doubt=doubt)


def _is_open(settings: dict[str, Any]) -> bool:
    """Return whether tokens may be the null: no other noise was specified."""
    known = ("n_tokens", "token_frequencies", "noise_spectrum")
    return settings["noise"] in ("auto", "tokens") and all(settings[k] is None for k in known)


def _signal_overlaps(test: OutlierTest, snr: float | None) -> Floats:
    if snr is None:
        return np.full(test.n_signals, np.nan)
    strength = test.spike_ratios / snr  # ‖μ‖² + δ
    ceiling = np.clip((strength - test.vocab_ratio) / strength, 0, 1)
    return np.asarray(test.squared_overlaps * ceiling)


def _of_corpus(
    found: CorpusStatistics, settings: dict[str, Any], snr: float | None, least: int
) -> ComponentAnalysis:
    """Return the components of a corpus from its covariance and counts of tokens."""
    if found.n_tokens and _is_open(settings):
        masses = found.token_masses
        settings["token_frequencies"] = masses[masses > 0]
    spectrum = corpus_spectrum(found, centred=settings["centred"])
    test = outlier_test(spectrum.eigenvalues, n_samples=found.n_sequences, **settings)
    most = settings["max_signals"] or len(spectrum.eigenvalues)
    n_kept = min(max(test.n_signals, least), most, len(spectrum.eigenvalues), found.n_sequences)
    artefacts = []
    if n_constant := int(np.sum(~spectrum.varying)):
        artefacts.append(_constant_columns(n_constant, len(found.mean)))
    lengths = np.flatnonzero(found.length_counts)
    if len(lengths) and lengths[-1] > 2 * lengths[0]:
        words = f"sequences have {lengths[0]} to {lengths[-1]} tokens, and rows that a pass has "
        words += "summed cannot be scaled: short sequences can make a component."
        artefacts.append(_artefact("unequal rows", lengths[-1] / lengths[0], words))
    return ComponentAnalysis(
        components=spectrum.vectors(n_kept),
        mean=found.mean,
        test=test,
        signal_overlaps=_signal_overlaps(test, snr),
        artefacts=tuple(artefacts),
        n_rows=found.n_sequences,
    )


def _constant_columns(n_constant: int, dimension: int) -> Artefact:
    words = f"{n_constant} of {dimension} columns are constant; they were left out of "
    return _artefact("constant columns", n_constant, words + "the dimension.")


def _find_artefacts(
    data: _DistinctRows,
    test: OutlierTest,
    components: Floats,
    *,
    centred: bool,
    norm_dispersion: float,
    snr: float | None,
) -> tuple[Artefact, ...]:
    """Look for every artefact that the data can show, in all rows and in each component."""
    n, d = data.X.shape
    mean = data.mean[data.varying]
    found = []
    if n_constant := len(data.mean) - d:
        found.append(_constant_columns(n_constant, len(data.mean)))
    if n_copies := data.n_copies:
        words = f"{n_copies} of {n + n_copies} rows are copies or near-copies of others; "
        found.append(_artefact("duplicated rows", n_copies / (n + n_copies), words + COPIES_USED))
    if norm_dispersion > UNEQUAL_ROWS:
        words = f"squared norms of rows vary {norm_dispersion:.0f} times as much as those of "
        found.append(_artefact("unequal rows", norm_dispersion, words + ROWS_SCALED))
    centre, raw_mean = (mean, None) if centred else (0 * mean, mean)
    scores = np.concatenate([(block - centre) @ components.T for block in row_blocks(data.X)])
    for j, (v, s) in enumerate(zip(components, scores.T, strict=True)):
        found += _of_component(j, v, s, test, raw_mean=raw_mean, snr=snr, tokens=data.tokens)
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
            words = f"component {j} points along the mean of the rows (squared overlap "
            words += f"{overlap:.2f}); centre the data to remove it."
            found.append(_artefact("mean direction", overlap, words, j))
    active = float(np.sum(scores**2) ** 2 / max(np.sum(scores**4), np.finfo(float).tiny))
    if active < n / 30:
        words = f"component {j} is carried by about {max(active, 1):.0f} of {n} rows."
        found.append(_artefact("few rows", active, words, j))
    columns = float(1 / np.sum(v**4))
    if columns < 1.5 and test.eigenvalues[j] > 25 * np.median(test.eigenvalues):
        words = f"component {j} is column {int(np.argmax(np.abs(v)))} almost alone, "
        words += "on another scale than the rest."
        found.append(_artefact("single column", columns, words, j))
    if tokens is not None:
        named, share = heavy_tokens(scores, tokens)
        if share > 0.5:
            words = f"{share:.0%} of component {j} is whether a row holds the tokens "
            words += f"{', '.join(map(str, named))}."
            found.append(_artefact("heavy tokens", share, words, j))
    if snr is not None and test.noise == "tokens":
        found += _table_means(j, snr, test, d)
    return found


def _table_means(j: int, snr: float, test: OutlierTest, d: int) -> list[Artefact]:
    """Name the noise of the class means if it explains a spike by itself.

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


def _artefact(kind: str, evidence: float, message: str, component: int | None = None) -> Artefact:
    return Artefact(kind=kind, component=component, evidence=float(evidence), message=message)
