"""What models share: equality, checks, gains and sizes; and verbs, which ask any model.

A verb is a `functools.singledispatch` function that puts one question to any model. It is declared
once, with its signature and its docstring (`theory/verbs.py`, `simulation/verbs.py`), and answered
beside the formulas or the draws of each model with `answers`. Packages that hold answers import
all of their modules with `import_answers`, so that a new model needs no list to be extended.
"""

import inspect
import pkgutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from functools import singledispatch, wraps
from importlib import import_module
from typing import (
    Any,
    ClassVar,
    Generic,
    Literal,
    NamedTuple,
    TypeVar,
    cast,
    get_origin,
    get_type_hints,
)

import numpy as np
from numpy.typing import ArrayLike

from attnlaw._checks import (
    LARGEST,
    Floats,
    Real,
    choice,
    count,
    frozen,
    invalid_argument,
    real,
    real_array,
    warn_regime,
)
from attnlaw.correlations import check_correlation
from attnlaw.results import Record
from attnlaw.weights import by_name

__all__ = [
    "Gains",
    "Model",
    "NamedWeights",
    "PooledModel",
    "Sampling",
    "Sizes",
    "answers",
    "check_shares",
    "check_weights",
    "import_answers",
    "no_answer",
    "refuse_extreme_weights",
    "set_field",
    "verb",
]

_MOST_DRAWN = 1e12  # tokens or sequences: a day's work
ROUNDED_SHARE = 0.1  # by which whole numbers of tokens may differ from a ratio without a warning
SMALLEST_WEIGHT = (
    1e-60  # of the largest in size: fourth powers of it, and of its inverse, are finite
)
Sampling = Literal["token", "gaussian"]
Answer = TypeVar("Answer", covariant=True)
Function = TypeVar("Function", bound=Callable[..., Any])


class Model(Record, Generic[Answer]):
    """A model, of which `predict` and `simulate` return an `Answer`; equal if its fields are."""

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return same_fields(self, other)


class NamedWeights:
    """The weights of a model: given by name or as anything that makes an array, held as one.

    It tells type checkers what a model takes and what it holds; the model checks.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, model: object, owner: type | None = None) -> Floats:
        if model is None:
            raise AttributeError(self.name)  # so that the field has no default
        held: Floats = vars(model)[self.name]
        return held

    def __set__(self, model: object, value: ArrayLike) -> None:
        vars(model)[self.name] = value


class Sizes(NamedTuple):
    """A finite instance of a model: how many of everything."""

    dimension: int  # d
    n_vocab: int  # V, even when there are two classes; 0 stands for infinitely many
    n_samples: int  # N


class PooledModel(Model[Answer]):
    """Tokens of a table, pooled to one vector for each sequence.

    `signal_field` names the field that holds the strength of the signal.
    """

    signal_field: ClassVar[str] = "signal_norm"

    vocab_ratio: Real  # δ = d/V
    sample_ratio: Real  # γ = d/N
    sampling: Sampling

    @property
    def effective_length(self) -> float:
        """Number L_eff of positions that the weights really use."""
        raise NotImplementedError

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape to which the ratios and the strength of the signal broadcast; () for one model."""
        return np.broadcast_shapes(*map(np.shape, self._numbers().values()))

    def sizes(self, dimension: int) -> Sizes:
        """Whole numbers closest to the ratios at this dimension (an even vocabulary)."""
        return self._sizes(dimension, multiple=2)

    def _sizes(self, dimension: int, multiple: int) -> Sizes:
        """Return whole numbers closest to the ratios, the vocabulary a multiple of `multiple`."""
        d = count("dimension", dimension, at_least=2)
        delta, gamma = self.single_ratios("sizes are")
        if gamma == 0:
            raise invalid_argument("sample_ratio", "above 0 when sizes are asked for", 0.0)
        if d > _MOST_DRAWN * min(gamma, delta or 1.0):
            text = f"such that d/δ and d/γ are at most {_MOST_DRAWN:g}, at these ratios"
            raise invalid_argument("dimension", text, d)
        n_vocab = 0 if delta == 0 else multiple * max(1, round(d / delta / multiple))
        if n_vocab and abs(n_vocab - d / delta) > ROUNDED_SHARE * d / delta:
            warn_regime(
                f"{n_vocab} tokens, a multiple of {multiple}, stand for d/δ = {d / delta:.4g}; "
                "take a larger dimension."
            )
        n_samples = max(2, round(d / gamma))
        if abs(n_samples - d / gamma) > ROUNDED_SHARE * d / gamma:
            warn_regime(
                f"{n_samples} sequences stand for d/γ = {d / gamma:.4g}; take a larger dimension."
            )
        return Sizes(d, n_vocab, n_samples)

    def single_ratios(self, what: str) -> tuple[float, float]:
        """Return δ and γ, checked to be single numbers, as `what` asks for."""
        shapes = np.shape(self.vocab_ratio), np.shape(self.sample_ratio)
        if any(shapes):
            raise ValueError(
                f"vocab_ratio and sample_ratio must be single numbers when {what} asked for, "
                f"got arrays of shapes {shapes[0]} and {shapes[1]}."
            )
        return float(self.vocab_ratio), float(self.sample_ratio)

    def _numbers(self) -> dict[str, Any]:
        names = ("vocab_ratio", "sample_ratio", self.signal_field)
        return {name: getattr(self, name) for name in names}

    def _check_pooled(self) -> None:
        """Check and freeze what all pooled models have: two ratios, a signal and a sampling."""
        numbers = self._numbers()
        for name, value in numbers.items():
            number = real(name, value, at_least=0, at_most=LARGEST)
            set_field(self, name, frozen(number) if isinstance(number, np.ndarray) else number)
        shapes = [np.shape(value) for value in numbers.values()]
        try:
            np.broadcast_shapes(*shapes)
        except ValueError:
            what = f"the ratios and {self.signal_field}"
            raise invalid_argument(what, "broadcastable", shapes) from None
        choice("sampling", self.sampling, ("token", "gaussian"))


class Gains:
    """What pooling by one weight vector does to signal and noise."""

    correlation: Floats
    weights: NamedWeights = NamedWeights()

    @property
    def length(self) -> int:
        """Sequence length L."""
        return len(self.weights)

    @property
    def signal_gain(self) -> float:
        """Weight α = wᵀRw of the signal in the pooled covariance."""
        return max(float(self.weights @ self.correlation @ self.weights), 0.0)

    @property
    def noise_gain(self) -> float:
        """Weight κ = wᵀw of the noise in the pooled covariance."""
        return float(self.weights @ self.weights)

    @property
    def snr(self) -> float:
        """Effective signal-to-noise ratio α/κ of the pooling."""
        return self.signal_gain / self.noise_gain

    @property
    def effective_length(self) -> float:
        """Number L_eff = κ²/Σw⁴ of positions that the weights really use."""
        return self.noise_gain**2 / float(np.sum(self.weights**4))

    def _check_gains(self) -> None:
        """Check and freeze the correlation, and the weights or those of a name."""
        R = check_correlation(self.correlation)
        set_field(self, "correlation", frozen(R))
        set_field(self, "weights", frozen(check_weights(self.weights, R)))


def set_field(model: object, name: str, value: object) -> None:
    """Set a field of a frozen dataclass while it validates itself."""
    object.__setattr__(model, name, value)


def check_weights(weights: ArrayLike, correlation: Floats) -> Floats:
    """Return pooling weights of one sequence: those of a name, or an array that is checked."""
    if isinstance(weights, str):
        return by_name(weights, len(correlation), correlation)
    w = real_array("weights", weights, ndim=1)
    if len(w) != len(correlation):
        words = f"of length {len(correlation)}, like the correlation"
        raise invalid_argument("weights", words, w)
    if not w.any():
        raise invalid_argument("weights", "different from zero", w.tolist())
    refuse_extreme_weights(w)
    return w


def refuse_extreme_weights(weights: Floats) -> None:
    """Raise if fourth powers of weights, of each row if there are several, are no numbers."""
    for w in np.atleast_2d(weights):
        if not SMALLEST_WEIGHT <= np.abs(w).max() <= 1 / SMALLEST_WEIGHT:
            words = f"between {SMALLEST_WEIGHT:g} and {1 / SMALLEST_WEIGHT:g} (scale them)"
            raise invalid_argument("the largest of the weights", words, float(np.abs(w).max()))


def check_shares(argument: str, shares: ArrayLike | None, n: int, each: str) -> Floats:
    """Return n shares above 0 that sum to one; equal ones for None."""
    q = real_array(argument, np.ones(n) if shares is None else shares, ndim=1)
    if len(q) != n:
        raise invalid_argument(argument, f"of length {n}, one for each {each}", q)
    if (q <= 0).any():
        raise invalid_argument(argument, "above 0", q.tolist())
    return frozen(q / q.sum())


def same_fields(first: Any, second: Any) -> bool:
    """Return whether two models of one type have the same fields."""
    pairs = ((getattr(first, f.name), getattr(second, f.name)) for f in fields(first))
    return all(_same(a, b) for a, b in pairs)


def _same(first: Any, second: Any) -> bool:
    """Compare values, arrays, and sequences of arrays that may differ in size."""
    if isinstance(first, tuple) and isinstance(second, Sequence):
        return len(first) == len(second) and all(map(_same, first, second))
    return np.array_equal(first, second)


def verb(question: Function) -> Function:
    """Make a function dispatch on the type of its first argument; its body is for all others.

    To type checkers and editors it keeps its own signature.
    """
    dispatcher = singledispatch(question)
    first = next(iter(inspect.signature(question).parameters))

    @wraps(question)
    def ask(*arguments: Any, **options: Any) -> Any:
        if first in options:  # singledispatch knows positional arguments only
            arguments = (options.pop(first), *arguments)
        return dispatcher(*arguments, **options)

    vars(ask).update(register=dispatcher.register, registry=dispatcher.registry)
    return cast(Function, ask)


def answers(question: Callable[..., Any]) -> Callable[[Function], Function]:
    """Return a decorator that registers a function as a verb's answer for a model.

    The model is the type of the function's first argument.

    Examples
    --------
    >>> class Coin: ...
    >>> @verb
    ... def mean(model: object) -> float:
    ...     raise no_answer(mean, model)
    >>> @answers(mean)
    ... def mean_of_coin(model: Coin) -> float:
    ...     return 0.5
    >>> mean(Coin())
    0.5
    >>> mean("tails")
    Traceback (most recent call last):
    TypeError: mean has no answer for str; it answers for Coin.
    """
    dispatcher: Any = question

    def register(answer: Function) -> Function:
        parameter = next(iter(inspect.signature(answer).parameters))
        model = get_type_hints(answer)[parameter]
        dispatcher.register(get_origin(model) or model, answer)  # a generic model by its class
        return answer

    return register


def no_answer(question: Callable[..., Any], model: object) -> TypeError:
    """Return (not raise) the sentence of a verb that cannot answer for a model."""
    dispatcher: Any = question
    known = sorted(_shown_models(cls for cls in dispatcher.registry if cls is not object))
    if isinstance(model, type):
        return TypeError(f"model must be an instance, got the class {model.__name__}.")
    name = type(model).__name__
    return TypeError(
        f"{dispatcher.__name__} has no answer for {name}; it answers for {_listed(known)}."
    )


def import_answers(package: str, path: Iterable[str]) -> None:
    """Import every module of a package that does not start with an underscore."""
    for module in pkgutil.iter_modules(path):
        if not module.name.startswith("_"):
            import_module(f"{package}.{module.name}")


def _shown_models(classes: Iterable[type]) -> set[str]:
    """Return names of models; a registered base class stands for those that derive from it."""
    names: set[str] = set()
    for cls in classes:
        names |= _shown_models(cls.__subclasses__()) or {cls.__name__}
    return names


def _listed(names: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]])) or "no model yet"
