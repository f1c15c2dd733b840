"""Theory against finite matrices; every tolerance is the standard error of the trials."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest


def score(observed, predicted):
    """(mean over trials − predicted) / standard error of the mean."""
    observed = np.asarray(observed, dtype=float)
    error = observed.std(axis=0, ddof=1) / np.sqrt(len(observed))
    return float((observed.mean(axis=0) - predicted) / error)


def pytest_collection_modifyitems(items):
    """Leave repeated draws out of coverage: tests of the parts run the same lines."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker("no_cover")


@pytest.fixture
def z_score():
    return score


def swapped(model):
    return replace(model, sampling="gaussian" if model.sampling == "token" else "token")


@pytest.fixture
def other_sampling():
    """The same model in the other reading, whose formula must not fit."""
    return swapped
