"""Detection: principal components that noise cannot explain, with the null of pooled tokens."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnlaw._checks import Floats, RegimeWarning, count, invalid_argument, real, real_array
from attnlaw.estimators.artefacts import Artefact, find_artefacts
from attnlaw.estimators.outliers import OutlierTest, outlier_test
from attnlaw.estimators.rows import (
    before_scaling,
    copy_groups,
    equalised,
    mean_and_varying,
    row_blocks,
    sample_spectrum,
)
from attnlaw.results import Record

__all__ = ["ComponentAnalysis", "checked_rows", "signal_components"]


@dataclass(frozen=True, kw_only=True)
class ComponentAnalysis(Record):
    """Significant principal components of pooled embeddings, and what is known about them."""

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
    pooled : array of shape (N, d)
        Pooled embeddings x_i; float32 is not converted.
    noise, n_tokens, token_frequencies, noise_spectrum, level
        What the noise is and how it is tested, see `outlier_test`.
    snr : float, optional
        wᵀRw/wᵀw of the pooling weights, as `learn_pooling_weights` estimates it. With it, the
        part of a spike that is only noise of the table can be told from the signal.
    lengths : array of shape (N,), optional
        Number of tokens in each row, if rows are means of different numbers of tokens.
    tokens : array of int and shape (N, length), optional
        Tokens of each row, negative where there is none. They give `lengths` and, unless
        `n_tokens` or a null is given, `token_frequencies`; and they name tokens that are a
        component.
    scale_rows : bool
        Scale rows to one variance, by `lengths` if these are known and to one norm about the
        spatial median otherwise. Without it, heavy tails and unequal lengths raise false alarms.
    centred : bool
        Subtract the mean of the rows.
    min_components : int
        Components that are returned at least, significant or not.
    max_components : int, optional
        Components that are returned at most.

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
    X = checked_rows(pooled)
    if snr is not None:
        snr = float(np.asarray(real("snr", snr, above=0)))
    if tokens is not None:
        tokens = np.asarray(tokens)
        if tokens.ndim != 2 or len(tokens) != len(X):
            raise invalid_argument("tokens", f"of shape ({len(X)}, length)", tokens)
    row_lengths = _row_lengths(lengths, tokens, len(X))
    least = count("min_components", min_components, at_least=0)
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
        row_lengths = None if row_lengths is None else row_lengths[first]
    nothing_known = n_tokens is None and token_frequencies is None and noise_spectrum is None
    if tokens is not None and noise in ("auto", "tokens") and nothing_known:
        token_frequencies = np.unique(tokens[tokens >= 0], return_counts=True)[1]
    rows, dispersion = X, 1.0
    if scale_rows:
        rows, centre = equalised(X, centred=centred, lengths=row_lengths)
        dispersion = _norm_dispersion(X, centre)
    spectrum = sample_spectrum(rows, centred=centred)
    values = spectrum.eigenvalues
    if scale_rows and row_lengths is None:
        values = before_scaling(values, max(len(X) - centred, 1))
    test = outlier_test(
        values,
        n_samples=max(2, len(X)),
        noise=noise,
        n_tokens=n_tokens,
        token_frequencies=token_frequencies,
        noise_spectrum=noise_spectrum,
        centred=centred,
        level=level,
        max_signals=max_components,
    )
    if test.notes and test.n_signals:
        warnings.warn(f"{test.n_signals} components: {test.notes[0]}", RegimeWarning, stacklevel=2)
    n_kept = min(max(test.n_signals, least), *X.shape)
    if max_components is not None:
        n_kept = min(n_kept, max_components)
    components = np.zeros((n_kept, len(mean)))
    components[:, varying] = spectrum.vectors(n_kept)
    overlaps = np.full(test.n_signals, np.nan)
    if snr is not None:
        strength = test.spike_ratios / snr  # ‖μ‖² + δ
        ceiling = np.clip((strength - test.vocab_ratio) / strength, 0, 1)
        overlaps = test.squared_overlaps * ceiling
    artefacts = find_artefacts(
        X,
        mean[varying] * centred,
        test,
        components[: test.n_signals, varying],
        n_constant=int(np.sum(~varying)),
        raw_mean=None if centred else mean[varying],
        n_copies=n_copies,
        norm_dispersion=dispersion,
        snr=snr,
        tokens=tokens,
    )
    return ComponentAnalysis(
        components=components,
        mean=mean,
        test=test,
        signal_overlaps=overlaps,
        artefacts=artefacts,
        n_rows=len(X),
    )


def checked_rows(pooled: Any) -> NDArray[Any]:
    """Return rows of finite float32 or float64 numbers."""
    X = np.asarray(pooled)
    if X.ndim != 2 or X.dtype.kind not in "fiu":
        raise invalid_argument("pooled", "an array of real numbers with 2 axes", X)
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float64)
    if not all(np.isfinite(block).all() for block in row_blocks(X)):
        raise invalid_argument("pooled", "finite", "NaN or infinity")
    return X


def _row_lengths(lengths: ArrayLike | None, tokens: Any, n_rows: int) -> Floats | None:
    """Return the number of tokens in each row, from either argument; None if all are equal."""
    if lengths is None and tokens is None:
        return None
    if lengths is None:
        found = real_array("tokens", np.sum(tokens >= 0, axis=1))
    else:
        found = real_array("lengths", lengths, ndim=1)
    if found.shape != (n_rows,) or found.min(initial=1) <= 0:
        raise invalid_argument("lengths", f"of shape ({n_rows},) and above 0", found)
    return found


def _norm_dispersion(rows: NDArray[Any], centre: Floats) -> float:
    """Return the variance of squared norms over that of Gaussian rows, 2 tr C²/(tr C)².

    tr C²/(tr C)² is the mean of cos² over pairs of different rows.
    """
    few = rows[:: -(-len(rows) // 1000)].astype(np.float64) - centre
    squares = np.sum(few**2, axis=1)
    if len(few) < 30 or not squares.all():
        return 1.0
    products = few @ few.T
    cosines = products**2 / np.outer(squares, squares)
    n = len(few)
    expected = 2 * float(np.sum(cosines) - n) / (n * (n - 1))
    return float(squares.var() / squares.mean() ** 2 / expected)
