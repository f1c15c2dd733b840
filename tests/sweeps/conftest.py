from typing import Any

import pytest

from attnlaw.sweeps import Sweep

CHEAP: dict[str, Any] = {
    "dimension": [6, 8],
    "vocab_ratio": 0.5,
    "sample_ratio": [0.25, 0.5, 1.0],
    "signal_norm": [0.5, 2.0],
    "weights": ["mean", "optimal"],
    "n_trials": 4,
    "trials_per_cell": 2,
    "correlation": {"kind": "prefix", "length": 3, "prefix": 2},
}


@pytest.fixture
def cheap() -> Sweep:
    """24 cells that take a few milliseconds each."""
    return Sweep(**CHEAP)
