"""Optional dependencies."""

import sys

import pytest

from attnlaw._extras import MissingExtra, require


def test_a_missing_package_gives_its_install_hint(monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    hint = r"^Reading needs tokenizers, which is not installed: pip install 'attnlaw\[data\]'\.$"
    with pytest.raises(MissingExtra, match=hint) as raised:
        require("tokenizers", extra="data", purpose="Reading")
    assert (raised.value.name, raised.value.extra) == ("tokenizers", "data")
    assert isinstance(raised.value, ModuleNotFoundError)


def test_a_missing_submodule_counts_as_its_package():
    with pytest.raises(MissingExtra, match="This needs json, which"):
        require("json.no_such_part", extra="data")


def test_a_package_that_misses_another_is_not_blamed_on_the_extra(tmp_path, monkeypatch):
    (tmp_path / "incomplete_package.py").write_text("import no_such_module")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="no_such_module") as raised:
        require("incomplete_package", extra="data")
    assert not isinstance(raised.value, MissingExtra)
