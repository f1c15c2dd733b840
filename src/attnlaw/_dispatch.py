"""Verbs: functions that put one question to any model.

A verb is a `functools.singledispatch` function. It is declared once, with its signature and its
docstring (`theory/verbs.py`, `simulation/verbs.py`), and answered beside the formulas or the draws
of each model with `answers`. Packages that hold answers import all of their modules with
`import_answers`, so that a new model needs no list to be extended.
"""

import inspect
import pkgutil
from collections.abc import Callable, Iterable
from functools import singledispatch, wraps
from importlib import import_module
from typing import Any, TypeVar, cast, get_origin, get_type_hints

__all__ = ["answers", "import_answers", "no_answer", "verb"]

Function = TypeVar("Function", bound=Callable[..., Any])


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
