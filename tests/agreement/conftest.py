"""Theory against finite matrices; every tolerance is the standard error of the trials."""

from dataclasses import replace

import numpy as np
import pytest


def score(observed, predicted):
    """(mean over trials − predicted) / standard error of the mean."""
    observed = np.asarray(observed, dtype=float)
    error = observed.std(axis=0, ddof=1) / np.sqrt(len(observed))
    return float((observed.mean(axis=0) - predicted) / error)


@pytest.fixture
def z_score():
    return score


def swapped(model):
    return replace(model, sampling="gaussian" if model.sampling == "token" else "token")


@pytest.fixture
def other_sampling():
    """The same model in the other reading, whose formula must not fit."""
    return swapped
