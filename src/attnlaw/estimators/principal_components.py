"""`SignalComponents`: principal components that can be trusted, as a scikit-learn transformer."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from attnlaw._checks import RegimeWarning, count, invalid_argument, real_array, refuse_masked
from attnlaw.data.corpus_statistics import CorpusStatistics
from attnlaw.estimators.components import signal_components
from attnlaw.estimators.reliability import reliable_components

__all__ = ["SignalComponents"]


class SignalComponents(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Keep the principal components of pooled embeddings that can be trusted.

    Parameters
    ----------
    keep : "reliable", "detected", int or float
        Which components to keep:

        - "reliable": those whose variance is reproduced by held-out rows, see
          `reliable_components`. Later steps of a pipeline lose little by it;
        - "detected": those that noise cannot explain, see `signal_components`;
        - int: this number of leading components;
        - float between 0 and 1: those that hold this share of the reliable variance.
    noise, n_tokens, token_frequencies, noise_spectrum, snr, level, scale_rows
        The noise model for keep="detected", see `signal_components`.
    min_components : int
        Smallest number of components kept, so that later steps of a pipeline always have a column.
        A column that is neither reliable nor detected gives a `RegimeWarning`.
    max_components : int, optional
        Largest number of components kept.
    centred : bool
        Subtract the mean of the rows.
    random_state : int, RandomState or None
        Source of the folds on which reliability is measured.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        Unit eigenvectors.
    n_components_ : int
        Number of components kept.
    n_vouched_ : int
        How many of the leading components are reliable, or detected for keep="detected".
    eigenvalues_ : array
        Of the sample covariance, falling; those of constant columns are left out.
    explained_variance_ : array of shape (n_components,)
        Variance of the rows along the components.
    mean_ : array of shape (n_features,)
        Mean of the rows.
    reliability_ : ReliableComponents
        All that `reliable_components` returns; unless keep="detected".
    analysis_ : ComponentAnalysis
        All that `signal_components` returns: p-values, edge, overlaps, artefacts; for
        keep="detected".

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> pooled = rng.standard_normal((300, 60))
    >>> pooled[:, :2] += 2 * rng.choice([-1.0, 1.0], (300, 2))
    >>> SignalComponents().fit_transform(pooled).shape
    (300, 2)
    >>> SignalComponents("detected").fit(pooled).analysis_.test.n_signals
    2
    """

    def __init__(
        self,
        keep: str | float = "reliable",
        *,
        noise: str = "auto",
        n_tokens: int | None = None,
        token_frequencies: ArrayLike | None = None,
        noise_spectrum: ArrayLike | None = None,
        snr: float | None = None,
        level: float = 0.05,
        scale_rows: bool = True,
        min_components: int = 1,
        max_components: int | None = None,
        centred: bool = True,
        random_state: Any = 0,
    ) -> None:
        self.keep = keep
        self.noise = noise
        self.n_tokens = n_tokens
        self.token_frequencies = token_frequencies
        self.noise_spectrum = noise_spectrum
        self.snr = snr
        self.level = level
        self.scale_rows = scale_rows
        self.min_components = min_components
        self.max_components = max_components
        self.centred = centred
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, *, tokens: Any = None, lengths: Any = None) -> Any:
        """Find the components.

        Parameters
        ----------
        X : array of shape (n, d), or CorpusStatistics
            Pooled embeddings, or the statistics of a corpus.
        y : ignored
        tokens, lengths : arrays, optional
            Tokens of each row and their number, for keep="detected".
        """
        del y
        is_summed = isinstance(X, CorpusStatistics)
        if is_summed:
            self.n_features_in_ = len(X.mean)
        else:
            _refuse_odd(X)
            X = validate_data(self, X, dtype=[np.float64, np.float32], ensure_min_samples=2)
        if self.keep == "detected":
            components = self._detected(X, tokens, lengths)
        else:
            components = self._reliable(X)
        kind = np.dtype(float) if is_summed else X.dtype
        self.components_ = components.astype(kind, copy=False)
        self.n_components_ = self._n_features_out = len(components)
        if is_summed:
            shift = (components @ X.mean) * (not self.centred)
            variances = np.einsum("kd,de,ke->k", components, X.covariance, components)
            self.explained_variance_ = variances + shift**2
        else:
            scores = self.transform(X).astype(np.float64)
            self.explained_variance_ = np.mean(scores**2, axis=0)
        if self.n_components_ > self.n_vouched_:
            what = "detected" if self.keep == "detected" else "reliable"
            message = (
                f"{self.n_components_} components are kept, {self.n_vouched_} of them {what}: "
                "the others are not distinguishable from noise in these rows."
            )
            warnings.warn(message, RegimeWarning, stacklevel=2)
        return self

    def _detected(self, X: Any, tokens: Any, lengths: Any) -> NDArray[Any]:
        found = self.analysis_ = signal_components(
            X,
            noise=self.noise,
            n_tokens=self.n_tokens,
            token_frequencies=self.token_frequencies,
            noise_spectrum=self.noise_spectrum,
            snr=self.snr,
            lengths=lengths,
            tokens=tokens,
            scale_rows=self.scale_rows,
            centred=self.centred,
            level=self.level,
            min_components=self.min_components,
            max_components=self.max_components,
        )
        self.mean_, self.eigenvalues_ = found.mean, found.test.eigenvalues
        self.n_vouched_ = found.test.n_signals
        return found.components

    def _reliable(self, X: Any) -> NDArray[Any]:
        keep: Any = self.keep
        wanted: int | None = None
        share = 1.0
        if isinstance(keep, int | np.integer):
            wanted = count("keep", keep)
        elif isinstance(keep, float | np.floating) and 0 < keep < 1:
            share = float(keep)
        elif keep != "reliable":
            words = "'reliable', 'detected', a whole number or a share below 1"
            raise invalid_argument("keep", words, keep)
        least = count("min_components", self.min_components, at_least=0)
        seed = check_random_state(self.random_state).randint(2**31)
        found = self.reliability_ = reliable_components(
            X, min_components=wanted or least, centred=self.centred, rng=seed
        )
        self.mean_, self.eigenvalues_ = found.mean, found.eigenvalues
        self.n_vouched_ = found.n_reliable
        n = max(found.n_with_share(share), least) if wanted is None else wanted
        if self.max_components is not None:
            n = min(n, self.max_components)
        return found.components[:n]

    def transform(self, X: Any) -> NDArray[Any]:
        """Project rows on the components, after subtracting the mean if centred.

        Parameters
        ----------
        X : array of shape (n, d)

        Returns
        -------
        array of shape (n, n_components)
        """
        check_is_fitted(self)
        _refuse_odd(X)
        X = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        scores = X @ self.components_.T
        if self.centred:
            scores -= self.components_ @ self.mean_
        return np.asarray(scores, dtype=X.dtype)

    def inverse_transform(self, X: Any) -> NDArray[Any]:
        """Return rows of the original width from scores: the denoised rows."""
        check_is_fitted(self)
        rows = real_array("X", X, ndim=2) @ self.components_
        return np.asarray(rows + self.mean_ if self.centred else rows)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _refuse_odd(X: Any) -> None:
    """Raise for what scikit-learn would convert: masked entries and times."""
    refuse_masked("X", X)
    if getattr(getattr(X, "dtype", None), "kind", "f") in "mM":
        raise invalid_argument("X", "made of real numbers", X.dtype.name)
