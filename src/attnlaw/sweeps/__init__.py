"""Sweeps: grids of models, observed on one process or a thousand, resumed after any kill."""

from attnlaw._store import StoreError
from attnlaw.sweeps.grid import Sweep, load_sweep
from attnlaw.sweeps.run import open_sweep, run_sweep

__all__ = ["StoreError", "Sweep", "load_sweep", "open_sweep", "run_sweep"]
