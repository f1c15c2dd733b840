"""Files that survive a kill, checksums and fingerprints; locks are tested with the sweeps."""

import pytest

from attnlaw import _store
from attnlaw._store import (
    StoreError,
    atomic_path,
    fingerprint,
    fingerprint_difference,
    source_files,
)


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "file.txt"
    path.write_text("old")

    def fail_halfway():
        with atomic_path(path) as partial:
            partial.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_halfway()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_folders_are_made_and_suffixes_kept(tmp_path):
    with atomic_path(tmp_path / "new" / "picture.png") as partial:
        assert partial.suffix == ".png"
        partial.write_bytes(b"...")
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["picture.png"]


def test_what_a_killed_only_writer_left_behind_is_overwritten(tmp_path):
    with atomic_path(tmp_path / "results.nc", only_writer=True) as first:
        first.write_text("whole")
    first.write_text("torn")
    with atomic_path(tmp_path / "results.nc", only_writer=True) as partial:
        assert partial == first
        partial.write_text("whole again")
    assert [p.read_text() for p in tmp_path.iterdir()] == ["whole again"]


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")

    def write():
        with atomic_path(tmp_path / "file" / "below") as partial:
            partial.write_text("")

    with pytest.raises(StoreError, match=r"below must be writable, got '(Not a d|File ex).*'\.$"):
        write()


def test_the_fingerprint_counts_the_files_named_and_no_others(tmp_path, monkeypatch):
    (tmp_path / "laws").mkdir()
    for name in ("a.py", "laws/b.py", "c.py"):
        (tmp_path / name).write_text("1")
    monkeypatch.setattr(_store, "ROOT", tmp_path)
    before = fingerprint.__wrapped__(("a.py", "laws"))
    (tmp_path / "c.py").write_text("2")
    assert fingerprint.__wrapped__(("a.py", "laws")) == before
    (tmp_path / "laws" / "b.py").write_text("1  # a comment")
    after = fingerprint.__wrapped__(("a.py", "laws"))
    assert fingerprint_difference(before, after).endswith("but its source has been edited")
    assert [file.name for file in source_files()] == ["a.py", "c.py", "b.py"]
