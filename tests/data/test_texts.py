"""Texts and word vectors from files, and one sentence for what they must be."""

import json
import struct
import time

import numpy as np
import pytest

from attnlaw.data.readers import (
    embed_texts,
    holds_texts,
    limited_memory,
    read_texts,
    read_word_vectors,
)

ROWS = [
    ("good law", "yes", 1.0),
    ('a "quoted", text', "no", 2.5),
    ("Änderung\nin two lines", "no", 3),
]


def write(path, kind):
    if kind == "csv":
        quoted = ('"' + t.replace('"', '""') + '"' for t, _, _ in ROWS)
        lines = [f"{t},{y},{s}" for t, (_, y, s) in zip(quoted, ROWS, strict=True)]
        path.write_text("\ufeffreview,stars,score\n" + "\n".join(lines), encoding="utf-8")
    elif kind == "jsonl":
        lines = [json.dumps({"review": t, "stars": y, "score": s}) for t, y, s in ROWS]
        path.write_text("\n".join(lines) + "\n\n", encoding="utf-8")
    else:
        pyarrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        t, y, s = zip(*ROWS, strict=True)
        columns = {"review": t, "stars": y, "score": list(map(float, s)), "other": [0, 1, 2]}
        parquet.write_table(pyarrow.table(columns), path)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_columns_are_the_same_in_every_format(tmp_path, kind):
    path = tmp_path / f"texts.{kind}"
    write(path, kind)
    assert holds_texts(path)
    found = read_texts(path, "review", label="stars", score="score")
    assert found.texts == ([t for t, _, _ in ROWS],)
    assert found.labels == [y for _, y, _ in ROWS]
    np.testing.assert_array_equal(found.scores, [s for *_, s in ROWS])
    for bad, words in (({"text": "no"}, "have a column called 'no', got review, stars, score"),):
        with pytest.raises(ValueError, match=words):
            read_texts(path, **bad)


def first_column(path):
    return read_texts(path, "text")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        (
            "a.csv",
            b"review,stars\ngood,1\n ,2\n",
            "hold a text in every row of 'review', got none in",
        ),
        (
            "a.csv",
            b"review,stars\ngood,\n",
            "hold a value in every row of 'stars', got none in row",
        ),
        ("a.csv", b"review,stars\n", "hold texts, got no row"),
        ("a.csv", b"review,stars\n\xff\xfe,1\n", "be a sound .csv file"),
        (
            "a.jsonl",
            b'{"review": "a", "stars": 1}\n[1]\n',
            "one JSON object a line, got none in line 2",
        ),
        ("a.jsonl", b'{"review": "a", "stars"', "be a sound .jsonl file"),
        ("a.parquet", b"nothing", "be a .parquet file"),
        ("a.docx", b"nothing", "be one of .csv"),
    ],
)
def test_bad_files_are_one_sentence(tmp_path, name, content, words):
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=words) as raised:
        read_texts(tmp_path / name, "review", label="stars")
    assert str(raised.value).count(".\n") == 0
    with pytest.raises(ValueError, match="nothing at that place"):
        read_texts(tmp_path / "missing.csv", "review")


def word_files(folder):
    """Write the same vectors as GloVe's text, word2vec's text and word2vec's binary."""
    words, vectors = ["law", "spectrum", "Ärger"], np.arange(6, dtype="<f4").reshape(3, 2) / 8
    lines = [f"{w} {a} {b}" for w, (a, b) in zip(words, vectors.tolist(), strict=True)]
    (folder / "glove.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "words.vec").write_text("3 2\n" + "\n".join(lines) + "\n", encoding="utf-8")
    parts = [w.encode() + b" " + v.tobytes() + b"\n" for w, v in zip(words, vectors, strict=True)]
    (folder / "words.bin").write_bytes(b"3 2\n" + b"".join(parts))
    return words, vectors


@pytest.mark.parametrize("name", ["glove.txt", "words.vec", "words.bin"])
def test_word_vectors_are_the_same_in_every_format(tmp_path, name):
    words, vectors = word_files(tmp_path)
    table = read_word_vectors(tmp_path / name)
    assert table.tokens == tuple(words)
    np.testing.assert_array_equal(table.vectors, vectors)
    found = embed_texts(["The LAW, Ärger!", "nothing known", "spectrum law"], tmp_path / name)
    np.testing.assert_array_equal(found.kept, [0, 2])
    np.testing.assert_array_equal(found.sequences, [[0, 2], [1, 0]])


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.txt", b"law 1 2\nspectrum 1\n", "equally many numbers a line, got 1 in line 2"),
        ("a.txt", b"", "hold word vectors"),
        ("a.txt", b"law nan 1\n", "finite"),
        ("a.bin", b"no counts", "begin with the counts"),
        ("a.bin", b"1000000 300\nlaw ", "hold 1000000 words of 300 numbers"),
        (
            "a.bin",
            b"1 2\n" + b"x" * 20 + struct.pack("<2f", 1, 2)[:4],
            "hold 1 words of 2 numbers",
        ),
    ],
)
def test_bad_word_vectors_are_one_sentence(tmp_path, name, content, words):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=words):
        read_word_vectors(tmp_path / name)


def test_a_folder_without_weights_is_one_sentence(tmp_path):
    with pytest.raises(ValueError, match="must be a model, got nothing at that place"):
        embed_texts(["a"], tmp_path / "none")
    with pytest.raises(ValueError, match=r"must hold a .safetensors file, got none"):
        embed_texts(["a"], tmp_path)
    (tmp_path / "config.json").write_text('{"architectures": ["BertModel"]}')
    with pytest.raises(ValueError, match=r"must hold a .safetensors file, got none"):
        embed_texts(["a"], tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("two.csv", "text,text\na,b\n", "have only one column called 'text', got text, text"),
        (
            "dict.jsonl",
            '{"text": {"a": 1}}',
            "hold text in every row of 'text', got a dict in row 1",
        ),
        ("half.jsonl", '{"text": "\\ud800"}', "hold text in every row of 'text'"),
        ("long.jsonl", '{"text": 1' + "0" * 5000 + "}", "be a sound .jsonl file"),
        ("cut.vec", "5 2\na 1 2\n", "hold the 5 words of 2 numbers that it announces, got 1 of 2"),
    ],
)
def test_hostile_texts_get_a_sentence(tmp_path, name, content, words):
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=f"{name} must {words}"):
        read_word_vectors(tmp_path / name) if "vec" in name else read_texts(
            tmp_path / name, "text"
        )


@pytest.mark.parametrize("name", ["hole.csv", "hole.jsonl", "hole.txt"])
def test_a_line_without_end_is_not_read(tmp_path, name):
    with (tmp_path / name).open("wb") as stream:
        stream.truncate(200 * 2**30)
    with pytest.raises(ValueError, match="must be stored in full"):
        read_word_vectors(tmp_path / name) if "txt" in name else read_texts(
            tmp_path / name, "text"
        )


def test_a_parquet_file_of_one_text_takes_the_memory_of_one(tmp_path):
    """A text that is stored once was copied for every row: 200 kB of file took 2 GB."""
    arrow, parquet = (pytest.importorskip(name) for name in ("pyarrow", "pyarrow.parquet"))
    column = arrow.array(["a" * 10_000] * 20_000)
    parquet.write_table(arrow.table({"text": column}), tmp_path / "t.parquet")
    (texts,) = read_texts(tmp_path / "t.parquet", "text").texts
    assert len(texts) == 20_000
    assert len(set(map(id, texts))) < 20
    parquet.write_table(arrow.table({"text": [b"a"]}), tmp_path / "b.parquet")
    with pytest.raises(ValueError, match="hold text in every row of 'text', got a bytes"):
        read_texts(tmp_path / "b.parquet", "text")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("open.csv", 'text\nabc\n"abc\ndef\n', "be a sound .csv file, got unexpected end of data"),
        ("more.csv", "text,score\na, b,1\n", "hold 2 fields a line, .* got 3 in row 1"),
        ("nan.csv", "text,score\na,nan\n", "hold finite numbers in 'score', got nan in row 1"),
        ("big.jsonl", '{"text":"a","score":1%s}' % ("0" * 400), "hold numbers in 'score'"),
        ("inf.jsonl", '{"text":"a","score":1e999}', "hold finite numbers in 'score', got inf"),
        ("some.vec", "1 2\na 1 2\nb 3 4\n", "hold the 1 words of 2 numbers .* got 2 of 2"),
        ("wide.vec", "2 5\na 1 2\nb 3 4\n", "hold the 2 words of 5 numbers .* got 2 of 2"),
        ("apart.vec", "a 1_0 2\n", "hold a word and equally many numbers a line"),
        ("over.vec", "a 1e39 2\n", "hold finite numbers"),
        ("rest.bin", "1 1\na 1234b 1234", "hold 1 words of 1 numbers, got more"),
    ],
)
def test_rows_that_hold_other_numbers_than_they_say_are_refused(tmp_path, name, content, words):
    """Each was read in silence, or ended in an error of another kind."""
    (tmp_path / name).write_text(content)
    score = None if "open" in name else "score"
    with pytest.raises(ValueError, match=f"{name} must {words}"):
        (
            read_texts(tmp_path / name, "text", score=score)
            if holds_texts(name)
            else read_word_vectors(tmp_path / name)
        )


def test_wide_tables_of_texts_take_time_for_the_columns_wanted(tmp_path):
    """A row of two bytes took 16 ms beside 100,000 names."""
    names = ",".join(["text", *(f"c{k}" for k in range(100_000))])
    (tmp_path / "wide.csv").write_text(names + "\n" + "a\n" * 3000)
    begun = time.process_time()
    (texts,) = read_texts(tmp_path / "wide.csv", "text").texts
    assert texts == ["a"] * 3000
    assert time.process_time() - begun < 5


def test_many_short_rows_and_long_lines_are_held_to_memory(tmp_path):
    """Objects take up to fifty times the bytes of a file."""
    (tmp_path / "rows.csv").write_text("text\n" + "ab\n" * 140_000)
    (tmp_path / "rows.vec").write_text("ab 1\n" * 140_000)
    (tmp_path / "line.vec").write_text("ab" + " 1" * 600_000)
    (tmp_path / "line.jsonl").write_text('{"text":"a","b":[%s1]}' % ("[]," * 400_000))
    with limited_memory(20 * 2**20):
        for name, words in [("rows", "its rows"), ("line", "the parts of a line")]:
            with pytest.raises(ValueError, match=f"leave {words} within"):
                read_word_vectors(tmp_path / f"{name}.vec")
        for name, words in [("rows.csv", "its rows"), ("line.jsonl", "the parts of a line")]:
            with pytest.raises(ValueError, match=f"leave {words} within"):
                read_texts(tmp_path / name, "text")
