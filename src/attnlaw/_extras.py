"""Optional dependencies: imported where they are needed, with an install hint if missing."""

from importlib import import_module
from types import ModuleType

__all__ = ["MissingExtra", "require"]


class MissingExtra(ModuleNotFoundError):
    """A package is missing that one of attnlaw's extras brings; the message is an install hint."""

    def __init__(self, module: str, extra: str, purpose: str = "This") -> None:
        super().__init__(
            f"{purpose} needs {module}, which is not installed: pip install 'attnlaw[{extra}]'.",
            name=module,
        )
        self.extra = extra


def require(module: str, *, extra: str, purpose: str = "This") -> ModuleType:
    """Import a module of an optional dependency and return it.

    Parameters
    ----------
    module : str
        Its name.
    extra : str
        The extra of attnlaw that brings it.
    purpose : str
        What needs it, a singular noun with which the install hint begins.

    Raises
    ------
    MissingExtra
        When it is not installed. Other errors of the import are passed on.

    Examples
    --------
    >>> require("json", extra="data").__name__
    'json'
    >>> require("no_such_module", extra="data", purpose="Reading it")
    Traceback (most recent call last):
    attnlaw._extras.MissingExtra: Reading it needs no_such_module, which is not installed:
    pip install 'attnlaw[data]'.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if (error.name or "").partition(".")[0] != package:
            raise
        raise MissingExtra(package, extra, purpose) from None
