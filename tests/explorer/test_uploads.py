import base64

import pytest

from attnlaw.explorer.uploads import LARGEST_FILE, decoded, file_name, temporary_file


@pytest.mark.parametrize(
    ("contents", "sentence"),
    [
        (None, "the file must be sent as text, got 'NoneType'."),
        ("data:;base64,***", "the file must be sent in base 64"),
        ("A" * int(LARGEST_FILE * 1.4), "the file must be at most 64 MiB long"),
    ],
)
def test_what_is_no_file_is_refused(contents, sentence):
    with pytest.raises(ValueError, match=sentence):
        decoded(contents)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("table.npy", "table.npy"),
        ("/etc/passwd", "passwd"),
        ("..\\..\\evil", "evil"),
        ("..", "file"),
        ("\x00.npy", "_.npy"),
        ("x" * 300, "x" * 80),
        (None, "None"),
    ],
)
def test_names_lose_their_folders_and_odd_characters(given, kept):
    assert file_name(given) == kept


def test_the_folder_is_removed_even_after_a_failure():
    content = decoded("data:;base64," + base64.b64encode(b"hello").decode())
    file = temporary_file(content, "file")
    path = file.__enter__()
    assert path.read_bytes() == b"hello"
    assert file.__exit__(RuntimeError, RuntimeError(), None) is False
    assert not path.parent.exists()
