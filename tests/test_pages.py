"""The README does what it says, and so would any page: the build of docs/ runs its own."""

import os
import sys
from pathlib import Path

import pytest
from page_examples import ROOT, run_page


def test_the_readme_runs_as_printed():
    assert run_page(ROOT / "README.md") > 10


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("```python\n>>> 1 + 1\n3\n```\n", "Expected"),
        ("```python\nassert 1 == 2, 'no'\n```\n", "no"),
        ("```console\n$ echo 1.25\n1.35\n```\n", "should print"),
        ("```console\n$ false\n```\n", "ended with 1"),
        ("```sh\necho one\nexit 3\n```\n", "ended with 3"),
    ],
)
def test_a_page_that_lies_is_found(tmp_path: Path, text: str, problem: str):
    page = tmp_path / "page.md"
    page.write_text(text)
    with pytest.raises(AssertionError, match=problem):
        run_page(page)


def test_later_blocks_see_earlier_ones_and_digits_count_as_shown(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text(
        "```python\nx = 3.14159\n```\n\n```python\n>>> x\n3.14\n```\n"
        '\n<!-- skip: next "no network" -->\n\n```console\n$ false\n```\n'
    )
    before = os.getcwd(), sys.path[:]
    assert run_page(page) == 2
    assert (os.getcwd(), sys.path) == before
