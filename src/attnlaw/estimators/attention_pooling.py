"""`AttentionPooling`: one vector a text from its token embeddings, as a scikit-learn object."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from attnlaw._checks import choice, count, invalid_argument, real, refuse_masked, scalar
from attnlaw.data.sequences import Sequences
from attnlaw.data.user_arrays import as_sequences, converted, labels_array, padded
from attnlaw.estimators.alternation import trained_weights
from attnlaw.estimators.fitted_pooling import FittedPooling, fit_pooling
from attnlaw.estimators.pooling import POOLINGS, PostProcessing, position_weights
from attnlaw.estimators.pooling_weights import PoolingWeights, learn_pooling_weights
from attnlaw.weights import mean_weights

__all__ = ["AttentionPooling"]

CHOICES = (*POOLINGS, "optimal", "trained")


class AttentionPooling(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Pool sequences of token embeddings: weights, token weights and post-processing in one.

    Parameters
    ----------
    weights : str or array of shape (length,)
        How positions are pooled. "optimal" learns weights without labels, see
        `learn_pooling_weights`; "trained" learns them from the labels y; "mean", "causal", "last",
        "first", "late", "max" and "mean+max" are those of `pool_sequences` (in "mean+max" the
        maximum is scaled to half of the standard deviation of the mean).
    token_weights : "uniform", "sif", "idf" or array of shape (V,)
        Importance of the tokens: equal, smooth inverse frequency a/(a + p) or inverse document
        frequency, both counted in `fit`, or any numbers by token id. All but "uniform" need token
        ids: as X beside a `table`, or as `tokens` beside embeddings.
    smoothing : float
        a of "sif".
    components_removed : int, optional
        Number of leading principal components removed from the pooled vectors after the mean; 0
        removes the mean only.
    whitening : float, optional
        Shrinkage s > 0 with which vectors are whitened, x (C + sλ̄)^(−1/2).
    length, dimension : int, optional
        Of a sequence; one of them is needed for input of shape (n, length·dimension), which is
        how sequences pass through tools that support two axes only.
    table : array of shape (V, dimension), optional
        Embeddings of the tokens; the input then is token ids of shape (n, length), negative
        where there is no token.
    signed : bool or "auto"
        Whether learned weights may be negative, see `learn_pooling_weights`.
    fallback : "mean" or None
        What "optimal" does when the gain over mean pooling is not supported by the data: use
        the mean, or the learned weights regardless.
    confidence : float
        Level of the interval on which that decision rests.
    random_state : int, RandomState or None
        Source of the random starts, and the halves of "optimal".

    Attributes
    ----------
    weights_ : array of shape (length,)
        Weights of a sequence without padding; the mean's for "max" and "mean+max".
    importance_ : array of shape (V,) or None
        Importance of the tokens by id.
    mean_, components_, matrix_ : array or None
        Post-processing ``x → (x − mean_)(1 − UᵀU) matrix_``, ``U = components_``.
    learned_ : PoolingWeights or None
        For "optimal": weights, correlation, SNR, gain with its interval.
    length_, dimension_ : int
        Shape of a sequence.
    n_features_in_ : int
        length·dimension, or the length when a table is given.

    Notes
    -----
    Padding is given by ``mask`` or ``lengths`` in `fit` and `transform`, by negative token ids,
    by lists of unequal length, or by tokens that are NaN throughout, which need no second
    argument in a pipeline. Sequences to transform may have another length: learned weights are
    cut, or continued by the mean of their last quarter. `save` and `load` use .npz and .json
    files; `to_sentence_transformers` gives a module for that library.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> sequences = rng.standard_normal((300, 6, 10))
    >>> sequences[:, :2, 0] += 2 * rng.choice([-1.0, 1.0], size=(300, 1))   # a shared sign
    >>> pooling = AttentionPooling(random_state=0).fit(sequences)
    >>> pooling.learned_.gain_is_supported
    True
    >>> np.abs(pooling.weights_).round(1)
    array([0.5, 0.5, 0. , 0. , 0. , 0. ])
    >>> pooling.transform(sequences).shape
    (300, 10)
    """

    def __init__(
        self,
        weights: str | ArrayLike = "optimal",
        *,
        token_weights: str | ArrayLike = "uniform",
        smoothing: float = 1e-3,
        components_removed: int | None = None,
        whitening: float | None = None,
        length: int | None = None,
        dimension: int | None = None,
        table: ArrayLike | None = None,
        signed: bool | str = "auto",
        fallback: str | None = "mean",
        confidence: float = 0.95,
        random_state: Any = None,
    ) -> None:
        self.weights = weights
        self.token_weights = token_weights
        self.smoothing = smoothing
        self.components_removed = components_removed
        self.whitening = whitening
        self.length = length
        self.dimension = dimension
        self.table = table
        self.signed = signed
        self.fallback = fallback
        self.confidence = confidence
        self.random_state = random_state

    def fit(
        self, X: Any, y: Any = None, *, mask: Any = None, lengths: Any = None, tokens: Any = None
    ) -> Any:
        """Check the sequences, and fit weights, token weights and post-processing.

        Parameters
        ----------
        X : array of shape (n, length, dimension), (n, length·dimension) or, of int, (n, length)
            Sequences; see the class for which is which.
        y : array of shape (n,), optional
            Classes, for "trained".
        mask : array of bool or int and shape (n, length), optional
            True or 1 where there is a token.
        lengths : array of int and shape (n,), optional
            The same for sequences padded at the end.
        tokens : array of int and shape (n, length), optional
            Token ids of embeddings, for token weights.
        """
        if isinstance(self.weights, str):
            choice("weights", self.weights, CHOICES)
        data, ids = self._sequences(X, mask, lengths, tokens, reset=True)
        N = data.shape[0]
        self.learned_: PoolingWeights | None = None
        self.weights_ = self._fitted_weights(data, y)
        k, s = self.components_removed, self.whitening
        if k is not None and count("components_removed", k, at_least=0) >= min(N, data.shape[2]):
            limit = min(N, data.shape[2])
            raise invalid_argument("components_removed", f"below {limit}", k)
        g = self.token_weights
        if not isinstance(g, str):
            g = np.asarray(real("token_weights", g, at_least=0))
            if g.ndim != 1 or not g.any():
                raise invalid_argument("token_weights", "an array with one axis, not all 0", g)
        fitted = fit_pooling(
            data,
            ids,
            self._pooling,
            token_weights=g,
            smoothing=scalar("smoothing", self.smoothing, above=0),
            components_removed=k,
            whitening=None if s is None else scalar("whitening", s, above=0),
            n_tokens=0 if self.table is None else len(converted("table", self.table)),
            asked=str(self.weights) if isinstance(self.weights, str) else None,
        )
        self._take(fitted)
        return self

    def transform(
        self, X: Any, *, mask: Any = None, lengths: Any = None, tokens: Any = None
    ) -> NDArray[Any]:
        """Pool the sequences.

        Parameters
        ----------
        X, mask, lengths, tokens
            As in `fit`.

        Returns
        -------
        array of shape (n, dimension), or (n, 2·dimension) for "mean+max"
        """
        check_is_fitted(self)
        data, ids = self._sequences(X, mask, lengths, tokens, reset=False)
        return self.fitted.apply(data, ids)

    def fit_transform(self, X: Any, y: Any = None, **places: Any) -> NDArray[Any]:
        """Fit and pool the same sequences; mask, lengths and tokens go to both."""
        return np.asarray(self.fit(X, y, **places).transform(X, **places))

    @property
    def _pooling(self) -> str | NDArray[np.float64]:
        named = isinstance(self.weights, str) and self.weights in POOLINGS
        return str(self.weights) if named else self.weights_

    @property
    def fitted(self) -> FittedPooling:
        """The same pooling without scikit-learn."""
        return FittedPooling(
            pooling=self._pooling,
            length=self.length_,
            dimension=self.dimension_,
            settings=self._settings,
            importance=self.importance_,
            unseen=self._unseen,
            scale=self.scale_,
            processing=PostProcessing(
                mean=self.mean_, components=self.components_, matrix=self.matrix_
            ),
        )

    def _fitted_weights(self, data: Sequences, y: Any) -> NDArray[np.float64]:
        N, L, _ = data.shape
        if not isinstance(self.weights, str) or self.weights in POOLINGS:
            return _position_weights(self.weights, L)
        if self.weights == "trained":
            if y is None:
                raise invalid_argument("y", "given for weights='trained'", None)
            classes, labels = np.unique(labels_array("y", y, N), return_inverse=True)
            if len(classes) < 2:
                found = f"{len(labels)} labels of {len(classes)} classes"
                raise invalid_argument("y", f"{N} labels of two or more classes", found)
            return trained_weights(data, labels)
        if self.fallback is not None:
            choice("fallback", self.fallback, ("mean",))
            if N < 8 or L < 2:  # no gain could be supported
                return mean_weights(L)
        seed = check_random_state(self.random_state).randint(2**31)
        self.learned_ = learn_pooling_weights(
            data, signed=self.signed, confidence=self.confidence, rng=int(seed)
        )
        kept = self.learned_.gain_is_supported or self.fallback is None
        return self.learned_.weights if kept else mean_weights(L)

    @classmethod
    def from_fitted(cls, fitted: FittedPooling, *, table: Any = None) -> "AttentionPooling":
        """Return the transformer of a pooling that was fitted elsewhere, ready to transform."""
        asked = dict(fitted.settings)
        if asked.get("weights") is None:
            asked["weights"] = fitted.pooling
        if asked.get("token_weights") is None:
            asked["token_weights"] = fitted.importance
        learned = isinstance(asked["weights"], str) and asked["weights"] == "optimal"
        fallback = None if learned else "mean"
        self = cls(**asked, table=table, fallback=fallback)
        self.learned_ = None
        self.n_features_in_ = fitted.length * (1 if table is not None else fitted.dimension)
        self.weights_ = _position_weights(fitted.pooling, fitted.length)
        return self._take(fitted)

    def _take(self, fitted: FittedPooling) -> "AttentionPooling":
        self.length_, self.dimension_ = fitted.length, fitted.dimension
        self.importance_, self._unseen = fitted.importance, fitted.unseen
        self.scale_, post = fitted.scale, fitted.processing
        self.mean_, self.components_, self.matrix_ = post.mean, post.components, post.matrix
        twice = isinstance(fitted.pooling, str) and fitted.pooling == "mean+max"
        self._n_features_out = self.dimension_ * (2 if twice else 1)
        self._settings = dict(fitted.settings)
        return self

    def save(self, folder: str | Path) -> None:
        """Write pooling.json and pooling.npz into a folder, the table included; no pickle."""
        check_is_fitted(self)
        self.fitted.save(folder, table=self.table)

    @classmethod
    def load(cls, folder: str | Path, *, table: Any = None) -> "AttentionPooling":
        """Return the fitted transformer that `save` or `attnlaw pool --out` wrote.

        The latter does not save the table: pass it here to transform token ids.
        """
        fitted, stored = FittedPooling.load(folder)
        return cls.from_fitted(fitted, table=stored if table is None else table)

    def to_sentence_transformers(self) -> Any:
        """Return the pooling as a module of sentence-transformers, to follow its Transformer.

        ``SentenceTransformer(modules=[Transformer(folder), pooling.to_sentence_transformers()])``
        pools as `transform` does. Loading what that model saves needs attnlaw installed, and
        ``trust_remote_code=True``, since it is code from elsewhere.
        """
        from attnlaw.estimators.sentence_module import PoolingModule

        return PoolingModule(self)

    def _sequences(
        self, X: Any, mask: Any, lengths: Any, tokens: Any, *, reset: bool
    ) -> tuple[Sequences, NDArray[Any] | None]:
        """Return X as sequences, checked by scikit-learn's rules and by ours, and token ids."""
        refuse_masked("X", X)
        shown, own = X, None
        if isinstance(X, list | tuple) or getattr(X, "dtype", None) is np.dtype(object):
            shown, own = padded(X)
        elif hasattr(X, "detach"):
            shown = converted("X", X)
        mask = own if mask is None and lengths is None else mask
        if self.table is not None:
            if getattr(shown, "ndim", 2) == 2 and own is None and reset:
                shown = validate_data(self, shown, reset=True, dtype=None)
            elif reset:
                self.n_features_in_ = shown.shape[1]
            shown = np.asarray(shown)
            return as_sequences(shown, self.table, mask=mask, lengths=lengths), shown
        if getattr(shown, "ndim", 2) == 3:
            shown = np.asarray(shown)
            wanted = self.dimension if reset else self.dimension_
            if wanted is not None and shown.shape[2] != wanted:
                raise invalid_argument("X's dimension", str(wanted), shown.shape[2])
            if reset and self.length is not None and shown.shape[1] != self.length:
                raise invalid_argument("X's length", str(self.length), shown.shape[1])
            if reset:
                self.n_features_in_ = shown.shape[1] * shown.shape[2]
        else:
            shown = validate_data(
                self,
                shown,
                reset=reset,
                dtype=[np.float64, np.float32],
                ensure_all_finite=False,
                ensure_min_samples=1,
            )
            shown = self._unflattened(shown)
        if shown.dtype.kind == "f" and mask is None and lengths is None:
            missing = np.isnan(shown[:, :, 0])
            if missing.any():
                mask = ~(missing & np.isnan(shown).all(axis=2))
        return as_sequences(shown, mask=mask, lengths=lengths), self._checked_ids(tokens, shown)

    @staticmethod
    def _checked_ids(tokens: Any, X: NDArray[Any]) -> NDArray[Any] | None:
        if tokens is None:
            return None
        ids = np.asarray(padded(tokens)[0])
        if ids.shape != X.shape[:2] or ids.dtype.kind not in "iu":
            raise invalid_argument("tokens", f"whole numbers of shape {X.shape[:2]}", ids)
        return ids

    def _unflattened(self, X: NDArray[Any]) -> NDArray[Any]:
        n, width = X.shape
        if self.length is None and self.dimension is None:
            raise invalid_argument("length or dimension", "given when X has two axes", None)
        length = None if self.length is None else count("length", self.length)
        dimension = None if self.dimension is None else count("dimension", self.dimension)
        L = length if length is not None else width // (dimension or 1)
        d = dimension if dimension is not None else width // L
        if L * d != width or 0 in (L, d):
            raise invalid_argument("X", f"of shape (n, length·dimension) = (n, {L}·{d})", X)
        return X.reshape(n, L, d)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = self.dimension == 1  # only tokens NaN throughout are padding
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _position_weights(pooling: Any, length: int) -> NDArray[np.float64]:
    """Return weights of a full sequence; the mean's for a maximum."""
    no_positions = isinstance(pooling, str) and pooling in ("max", "mean+max")
    return position_weights("mean" if no_positions else pooling, length)
