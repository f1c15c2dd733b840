"""`SignalComponents`: principal components with the right null, as a scikit-learn transformer."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from attnlaw.estimators.components import signal_components

__all__ = ["SignalComponents"]


class SignalComponents(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Keep the principal components of pooled embeddings that noise cannot explain.

    Parameters
    ----------
    noise : "auto", "tokens", "independent", "spectrum" or "general"
        What noise alone would look like, see `outlier_test`.
    n_tokens : int, optional
        Number of tokens in the table; left out, the bulk tells it.
    token_frequencies : array, optional
        How often each token occurs.
    noise_spectrum : array, optional
        Eigenvalues of the noise covariance, for noise="spectrum".
    snr : float, optional
        wᵀRw/wᵀw of the pooling weights, to tell signal from the table's own noise.
    level : float
        Probability of a single false component.
    min_components : int
        Components that are kept at least, significant or not, so that what follows in a
        pipeline always has a column to work on. `n_signals_` says how many are significant.
    max_components : int, optional
        Components that are kept at most.
    centred : bool
        Subtract the mean of the rows.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        Unit eigenvectors.
    n_components_ : int
        Number of components kept.
    n_signals_ : int
        How many of them are significant.
    eigenvalues_ : array of shape (n_features,)
        Of the sample covariance, falling; constant columns are left out.
    explained_variance_ : array of shape (n_components,)
        Leading eigenvalues.
    shrunken_eigenvalues_ : array of shape (n_signals,)
        Variance that the components really have in the population.
    squared_overlaps_ : array of shape (n_signals,)
        Predicted squared overlap of each component with the truth.
    p_values_ : array
        Of the leading eigenvalues.
    bulk_edge_, noise_level_ : float
        Where the noise ends, and its mean.
    mean_ : array of shape (n_features,)
        Mean of the rows.
    artefacts_ : tuple of Artefact
        Known causes other than a signal.
    analysis_ : ComponentAnalysis
        All of it, as `signal_components` returns it.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> pooled = rng.standard_normal((300, 60))
    >>> pooled[:, :2] += 2 * rng.choice([-1.0, 1.0], (300, 2))
    >>> components = SignalComponents().fit(pooled)
    >>> components.n_signals_, components.transform(pooled).shape
    (2, (300, 2))
    """

    def __init__(
        self,
        noise: str = "auto",
        *,
        n_tokens: int | None = None,
        token_frequencies: ArrayLike | None = None,
        noise_spectrum: ArrayLike | None = None,
        snr: float | None = None,
        level: float = 0.05,
        min_components: int = 1,
        max_components: int | None = None,
        centred: bool = True,
    ) -> None:
        self.noise = noise
        self.n_tokens = n_tokens
        self.token_frequencies = token_frequencies
        self.noise_spectrum = noise_spectrum
        self.snr = snr
        self.level = level
        self.min_components = min_components
        self.max_components = max_components
        self.centred = centred

    def fit(self, X: Any, y: Any = None, *, tokens: Any = None) -> Any:
        """Find the components.

        Parameters
        ----------
        X : array of shape (n, d)
            Pooled embeddings.
        y : ignored
        tokens : array of int and shape (n, length), optional
            Tokens of each row, to name those that are a component.
        """
        del y
        X = validate_data(self, X, dtype=[np.float64, np.float32], ensure_min_samples=2)
        found = self.analysis_ = signal_components(
            X,
            noise=self.noise,
            n_tokens=self.n_tokens,
            token_frequencies=self.token_frequencies,
            noise_spectrum=self.noise_spectrum,
            snr=self.snr,
            tokens=tokens,
            centred=self.centred,
            level=self.level,
            min_components=self.min_components,
            max_components=self.max_components,
        )
        test = found.test
        self.components_ = found.components.astype(X.dtype, copy=False)
        self.mean_ = found.mean
        self.n_components_ = self._n_features_out = len(found.components)
        self.n_signals_ = test.n_signals
        self.eigenvalues_ = test.eigenvalues
        self.explained_variance_ = test.eigenvalues[: self.n_components_]
        self.shrunken_eigenvalues_ = test.shrunken_eigenvalues
        self.squared_overlaps_ = test.squared_overlaps
        self.p_values_ = test.p_values
        self.bulk_edge_, self.noise_level_ = test.bulk_edge, test.noise_level
        self.artefacts_ = found.artefacts
        return self

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
        X = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        scores = X @ self.components_.T
        if self.centred:
            scores -= self.components_ @ self.mean_
        return np.asarray(scores, dtype=X.dtype)

    def inverse_transform(self, X: Any) -> NDArray[Any]:
        """Return rows of the original width from scores: the part that is kept, denoised."""
        check_is_fitted(self)
        rows = np.asarray(X) @ self.components_
        return np.asarray(rows + self.mean_ if self.centred else rows)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
