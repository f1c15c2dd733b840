"""The exact spectral laws of attention: theory and simulation, side by side.

Begin with a model, predict what theory says of it, and simulate it:

>>> import attnlaw as al
>>> model = al.PooledSequences(
...     vocab_ratio=0.5, sample_ratio=0.4, signal_norm=1.5,
...     correlation=al.prefix_correlation(length=20, prefix=5),
...     weights=al.causal_weights(20),
... )

Docstrings cite theorems of three papers, P1 (arXiv 2605.06826), P2 (arXiv 2510.06685) and P3
(arXiv 2610.10033), and our own derivations, docs/theory/bulk.md, "Edges", say: a page of the
documentation, in this project's repository, and a heading on it.
"""

import lazy_loader

__version__ = "0.2.0"

# A name is imported when it is first used, so that `import attnlaw` and `attnlaw --help` take no
# time. The names are listed in __init__.pyi, for readers and type checkers as for this line.
_lazy, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    """Import a public name; a misspelt one is answered with the nearest."""
    try:
        return _lazy(name)
    except AttributeError:
        if name in __all__:
            raise
    from difflib import get_close_matches

    near = get_close_matches(name, __all__, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near and not name.startswith("_") else ""
    raise AttributeError(f"module 'attnlaw' has no attribute {name!r}{hint}")
