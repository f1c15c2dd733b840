"""Sweeps: grids of models, observed on one process or a thousand, resumed after any kill.

`grid` describes a sweep, whose `parameters` are fixed or axes, and `cells` divides it; `run` runs
what is left of it, by local `processes` or on a `cluster`, and `store` keeps what is done.
`corpus_run` runs a pass over a corpus in the same way.
"""

from typing import TYPE_CHECKING, Any

from attnlaw._store import StoreError
from attnlaw.sweeps.grid import Sweep, load_sweep
from attnlaw.sweeps.run import open_sweep, run_sweep

if TYPE_CHECKING:
    from attnlaw.sweeps.corpus_run import corpus_statistics

__all__ = ["StoreError", "Sweep", "corpus_statistics", "load_sweep", "open_sweep", "run_sweep"]


def __getattr__(name: str) -> Any:
    """Import what reads corpora when it is first asked for: a sweep does without."""
    if name != "corpus_statistics":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from attnlaw.sweeps.corpus_run import corpus_statistics

    return corpus_statistics
