"""Principal components that noise cannot explain, with the right null for pooled embeddings."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from attnlaw._checks import Floats, count, invalid_argument, real
from attnlaw.estimators.artefacts import Artefact, count_rows, effective_rows, find_artefacts
from attnlaw.estimators.outliers import OutlierTest, outlier_test
from attnlaw.estimators.spectrum import row_blocks, sample_spectrum

__all__ = ["ComponentAnalysis", "signal_components"]


@dataclass(frozen=True, kw_only=True)
class ComponentAnalysis:
    """Significant principal components of pooled embeddings, and what is known about them."""

    components: Floats  # (n, d): unit eigenvectors, the `test.n_signals` first are significant
    mean: Floats  # x̄ (d,)
    test: OutlierTest  # eigenvalues, edge, p-values, shrunken eigenvalues, predicted overlaps
    signal_overlaps: Floats  # predicted, with μ itself; NaN where the snr is not given
    artefacts: tuple[Artefact, ...]  # known causes other than a signal


def signal_components(
    pooled: Any,
    *,
    noise: str = "auto",
    n_tokens: int | None = None,
    token_frequencies: ArrayLike | None = None,
    noise_spectrum: ArrayLike | None = None,
    snr: float | None = None,
    tokens: Any = None,
    centred: bool = True,
    level: float = 0.05,
    min_components: int = 0,
    max_components: int | None = None,
) -> ComponentAnalysis:
    r"""Find the principal components of pooled embeddings that noise cannot explain.

    Parameters
    ----------
    pooled : array of shape (N, d)
        Pooled embeddings x_i; float32 is not converted, and rows are read block by block.
    noise, n_tokens, token_frequencies, noise_spectrum, level
        What the noise is and how it is tested, see `outlier_test`.
    snr : float, optional
        wᵀRw/wᵀw of the pooling weights, as `learn_pooling_weights` estimates it. With it, the
        part of a spike that is only noise of the table can be told from the signal.
    tokens : array of int and shape (N, length), optional
        Tokens of each row, negative where there is none, to name tokens that are a component.
    centred : bool
        Subtract the mean of the rows.
    min_components : int
        Components that are returned at least, significant or not.
    max_components : int, optional
        Components that are returned at most.

    Returns
    -------
    ComponentAnalysis

    Notes
    -----
    Copies of rows are no new samples: N in the null is (Σc)²/Σc² for rows that occur c times.
    Constant columns are left out of the dimension.

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
    X = np.asarray(pooled)
    if X.ndim != 2 or X.dtype.kind not in "fiu":
        raise invalid_argument("pooled", "an array of real numbers with 2 axes", X)
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float64)
    if not all(np.isfinite(block).all() for block in row_blocks(X)):
        raise invalid_argument("pooled", "finite", "NaN or infinity")
    if snr is not None:
        snr = float(np.asarray(real("snr", snr, above=0)))
    if tokens is not None and (np.ndim(tokens) != 2 or len(tokens) != len(X)):
        raise invalid_argument("tokens", f"of shape ({len(X)}, length)", np.asarray(tokens))
    least = count("min_components", min_components, at_least=0)
    spectrum = sample_spectrum(X, centred=centred)
    if not spectrum.eigenvalues.any():
        raise invalid_argument("pooled", "such that some column is not constant", X)
    copies = count_rows(X)
    test = outlier_test(
        spectrum.eigenvalues,
        n_samples=max(2, round(effective_rows(copies))),
        noise=noise,
        n_tokens=n_tokens,
        token_frequencies=token_frequencies,
        noise_spectrum=noise_spectrum,
        centred=centred,
        level=level,
        max_signals=max_components,
    )
    n_kept = min(max(test.n_signals, least), *X.shape)
    if max_components is not None:
        n_kept = min(n_kept, max_components)
    components = spectrum.vectors(n_kept)
    overlaps = np.full(test.n_signals, np.nan)
    if snr is not None:
        strength = test.spike_ratios / snr  # ‖μ‖² + δ
        ceiling = np.clip((strength - test.vocab_ratio) / strength, 0, 1)
        overlaps = test.squared_overlaps * ceiling
    artefacts = find_artefacts(
        X,
        spectrum,
        test,
        components[: test.n_signals],
        centred=centred,
        copies=copies,
        snr=snr,
        tokens=tokens,
    )
    return ComponentAnalysis(
        components=components,
        mean=spectrum.mean,
        test=test,
        signal_overlaps=overlaps,
        artefacts=artefacts,
    )
