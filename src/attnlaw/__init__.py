"""The exact spectral laws of attention: theory and simulation, side by side.

Begin with a model, predict what theory says of it, and observe what happens:

>>> import attnlaw as al
>>> model = al.PooledSequences(
...     vocab_ratio=0.5, sample_ratio=0.4, signal_norm=1.5,
...     correlation=al.prefix_correlation(length=20, prefix=5),
...     weights=al.causal_weights(20),
... )
"""

import lazy_loader

__version__ = "0.1.0"

# A name is imported when it is first used, so that `import attnlaw` and `attnlaw --help` take no
# time. The names are listed in __init__.pyi, for readers and type checkers as for this line.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
