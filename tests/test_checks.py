"""What every check shares: the sentence, and the memory that there is."""

import re

import numpy as np
import pytest

from attnlaw._checks import (
    count,
    invalid_argument,
    random_generator,
    real,
    scalar_or_array,
)


def test_sentences_show_the_value_and_arrays_their_shape():
    assert str(invalid_argument("x", "above 0", -1)) == "x must be above 0, got -1."
    shown = str(invalid_argument("x", "above 0", np.ones((2, 3))))
    assert shown == "x must be above 0, got an array of shape (2, 3)."
    assert len(str(invalid_argument("x", "short", "a" * 1000))) < 120


@pytest.mark.parametrize(
    ("bounds", "value", "sentence"),
    [
        ({"above": 0}, 0.0, "x must be above 0, got 0.0."),
        ({"at_least": 0}, -1e-9, "x must be at least 0, got -1e-09."),
        ({"below": 1}, 1.0, "x must be below 1, got 1.0."),
        ({"at_most": 1}, [0.5, 2.0], "x must be at most 1, got [0.5, 2.0]."),
        ({}, "one", "x must be made of real numbers, got 'one'."),
        ({}, np.inf, "x must be finite, got inf."),
    ],
)
def test_numbers_out_of_bounds_get_the_sentence(bounds, value, sentence):
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        real("x", value, **bounds)


def test_numbers_stay_numbers_and_arrays_arrays():
    assert type(real("x", 3)) is float
    assert type(scalar_or_array(np.float32(2))) is float
    assert real("x", [1, 2]).dtype == np.float64


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "3", None, np.nan, np.inf, [1]])
def test_what_is_not_a_whole_number_is_refused(value):
    with pytest.raises(ValueError, match="n must be a whole number of at least 1, got"):
        count("n", value)


@pytest.mark.parametrize("value", [3, 3.0, np.int64(3)])
def test_whole_numbers_come_in_several_types(value):
    assert count("n", value) == 3


def test_generators_are_kept_and_seeds_turned_into_them():
    generator = np.random.default_rng(5)
    assert random_generator(generator) is generator
    assert random_generator(5).random() == np.random.default_rng(5).random()
    with pytest.raises(ValueError, match="rng must be a Generator, a seed of at least 0 or None"):
        random_generator("seed")
