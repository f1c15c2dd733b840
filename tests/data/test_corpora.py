"""Sources of a corpus: the same sequences from every kind of file, and bad rows by their names."""

import json
import os
import struct
import subprocess
import sys

import numpy as np
import pytest

from attnlaw.data import corpora
from attnlaw.data.corpora import count_tokens, open_corpus
from attnlaw.data.readers import limited_memory, zarr_folders
from attnlaw.data.readers.columnar_files import column_sizes

N, L, V = 500, 9, 40


@pytest.fixture
def documents():
    rng = np.random.default_rng(3)
    return [rng.integers(0, V, rng.integers(1, L + 1)).tolist() for _ in range(N)]


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(corpora, "CHUNK_ROWS", 64)
    monkeypatch.setattr(corpora, "CHUNK_BYTES", 1000)
    monkeypatch.setattr(corpora, "BLOCK_ROWS", 50)
    monkeypatch.setattr("attnlaw.data.readers.lists.BLOCK_ROWS", 50)


def test_columns_of_arrays_are_rejected(tmp_path, documents):
    np.save(tmp_path / "ids.npy", padded(documents))
    with pytest.raises(ValueError, match="label must be left out for arrays, which have no colum"):
        corpora.open_corpus(tmp_path / "ids.npy", label="group")


def padded(documents):
    return np.array([row + [-1] * (L - len(row)) for row in documents])


def written(folder, kind, documents, labels=None, column="tokens"):
    """Write documents in one of the formats, and return what `open_corpus` takes."""
    path = folder / f"corpus.{kind}"
    if kind == "npy":
        np.save(path, padded(documents))
    elif kind == "jsonl":
        pairs = zip(documents, labels or documents, strict=True)
        rows = [{column: row, "label": label} for row, label in pairs]
        path.write_text("\n\n".join(map(json.dumps, rows)) + "\n")
    else:
        pa = pytest.importorskip("pyarrow")
        table = pa.table({"label": labels or list(range(len(documents))), column: documents})
        if kind == "parquet":
            pq = pytest.importorskip("pyarrow.parquet")
            pq.write_table(table, path, row_group_size=90)
        else:
            new = pa.ipc.new_stream if kind == "ipc" else pa.ipc.new_file
            with new(str(path), table.schema) as writer:
                writer.write_table(table, max_chunksize=70)
    return path


def read(corpus):
    """All documents of a corpus, chunk by chunk, without padding."""
    blocks = [block for index in range(len(corpus.chunks)) for block in corpus.blocks(index)]
    return [[int(v) for v in row if v >= 0] for block in blocks for row in block.values]


@pytest.mark.parametrize("kind", ["npy", "parquet", "arrow", "ipc", "jsonl"])
def test_every_format_gives_the_same_documents(tmp_path, documents, kind):
    corpus = open_corpus(written(tmp_path, kind, documents))
    assert len(corpus.chunks) > 5
    assert read(corpus) == documents
    assert corpus.is_of_ids
    cut = open_corpus(written(tmp_path, kind, documents), max_length=3)
    assert read(cut) == [row[:3] for row in documents]


def test_arrays_of_any_library_are_sliced(documents):
    da = pytest.importorskip("dask.array")
    ids = padded(documents)
    assert read(open_corpus(da.from_array(ids, chunks=77))) == documents


def test_zarr_folders_are_read(tmp_path, documents):
    zarr = pytest.importorskip("zarr")
    ids = padded(documents)
    options = {"shape": ids.shape, "chunks": (77, L), "dtype": ids.dtype}
    array = zarr.create_array(str(tmp_path / "ids.zarr"), **options)
    array[:] = ids
    assert read(open_corpus(tmp_path / "ids.zarr")) == documents
    assert read(open_corpus(array)) == documents


@pytest.mark.parametrize("kind", ["u1", "<i2", ">i4", "<u8", ">i8"])
def test_ids_of_any_type_are_read(tmp_path, kind):
    ids = np.arange(120).reshape(30, 4).astype(kind)
    np.save(tmp_path / "ids.npy", ids)
    blocks = list(open_corpus(tmp_path / "ids.npy").blocks(0))
    assert all(b.values.dtype in (np.int32, np.int64) and b.values.dtype.isnative for b in blocks)
    assert read(open_corpus(tmp_path / "ids.npy")) == ids.tolist()


def test_numbers_that_are_not_whole_among_ids_are_named(tmp_path):
    (tmp_path / "a.jsonl").write_text("[1, 2]\n[3, 4]\n\n[5, 6.5]\n[7, 8]\n")
    with pytest.raises(ValueError, match=r"a.jsonl must hold token ids.* \[5.0, 6.5\] in line 4"):
        read(open_corpus(tmp_path / "a.jsonl"))


def test_several_files_are_one_corpus(tmp_path, documents):
    first = written(tmp_path, "npy", documents[:200])
    second = written(tmp_path, "jsonl", documents[200:])
    corpus = open_corpus([first, second])
    assert read(corpus) == documents
    assert open_corpus(**corpus.plain).chunks == corpus.chunks


@pytest.mark.parametrize("kind", ["parquet", "arrow", "jsonl"])
def test_labels_come_from_a_column(tmp_path, documents, kind):
    labels = [f"class {len(row) % 3}" for row in documents]
    corpus = open_corpus(written(tmp_path, kind, documents, labels), label="label")
    assert corpus.classes == ("class 0", "class 1", "class 2")
    found = [x for k in range(len(corpus.chunks)) for b in corpus.blocks(k) for x in b.labels]
    assert found == labels


@pytest.mark.parametrize("kind", ["parquet", "arrow", "jsonl"])
@pytest.mark.parametrize(
    ("row", "words"),
    [
        ([], "an entry in every row|list of numbers"),
        (None, "a list in every row|a list of numbers|JSON with a list"),
        ([3, None], "a number in every place|a list of numbers"),
        ([3, -4], "token ids, from 0 on"),
    ],
)
def test_a_bad_row_is_named_by_file_and_place(tmp_path, documents, kind, row, words):
    documents[321] = row
    path = written(tmp_path, kind, documents)
    place = "line 643" if kind == "jsonl" else "row 321"  # with an empty line between two
    with pytest.raises(ValueError, match=f"corpus.{kind} must .*({words}).* in {place}"):
        read(open_corpus(path))


def test_ragged_vectors_are_named(tmp_path):
    rows = np.random.default_rng(0).standard_normal((N, 4)).tolist()
    rows[456] = rows[456][:3]
    for kind, place in (("parquet", "row 456"), ("jsonl", "line 913")):
        path = written(tmp_path, kind, rows)
        with pytest.raises(ValueError, match=f"corpus.{kind} must .*one length.* 3 in {place}"):
            read(open_corpus(path))


def test_broken_files_are_named(tmp_path, documents):
    path = written(tmp_path, "parquet", documents)
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    with pytest.raises(ValueError, match=r"corpus.parquet must be a complete \.parquet file"):
        open_corpus(path)
    broken = bytearray(whole)
    broken[len(whole) // 3 : len(whole) // 2] = bytes(len(whole) // 2 - len(whole) // 3)
    path.write_bytes(broken)
    with pytest.raises(ValueError, match=r"complete \.parquet file, got damage after row \d+"):
        read(open_corpus(path))
    path = written(tmp_path, "arrow", documents)
    path.write_bytes(path.read_bytes()[:-300])
    with pytest.raises(ValueError, match=r"corpus.arrow must be a complete Arrow file"):
        read(open_corpus(path))
    path = written(tmp_path, "npy", documents)
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(ValueError, match=r"corpus.npy must hold .* truncated"):
        open_corpus(path)
    path = written(tmp_path, "jsonl", documents)
    path.write_text(path.read_text()[:-5])
    with pytest.raises(ValueError, match=f"JSON with a list 'tokens' a line, .* line {2 * N - 1}"):
        read(open_corpus(path))


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.npz", b"", r"unpacked into \.npy files"),
        ("a.csv", b"", r"be one of \.npy"),
        ("a.jsonl", b'{"ids": [1]}\n', "JSON with a list 'tokens' a line, got KeyError: 'tokens'"),
        ("a.jsonl", b"[[1, 2], [3]]\n", "line 1"),
        ("a.jsonl", b'["a"]\n', "list of numbers a line, got \\['a'\\] in line 1"),
    ],
)
def test_other_files_are_refused(tmp_path, name, content, words):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=words):
        read(open_corpus(tmp_path / name))


def test_bad_arguments_are_named(tmp_path, documents):
    path = written(tmp_path, "parquet", documents)
    with pytest.raises(ValueError, match="have a column called 'ids', got label, tokens"):
        read(open_corpus(path, column="ids"))
    with pytest.raises(ValueError, match="must be a corpus, got nothing at that place"):
        open_corpus(tmp_path / "nowhere.npy")
    with pytest.raises(ValueError, match="labels must be of length 3"):
        open_corpus(np.ones((3, 2), int), labels=[1, 2])
    with pytest.raises(ValueError, match="token ids or real numbers, got dtype"):
        open_corpus(np.array([["a"]]))


@pytest.mark.parametrize("missing", ["null", "NaN"])
def test_a_missing_label_is_no_class(tmp_path, missing):
    lines = ['{"tokens": [1, 2], "label": "a"}', f'{{"tokens": [1, 2], "label": {missing}}}']
    (tmp_path / "c.jsonl").write_text("\n".join(lines))
    with pytest.raises(ValueError, match=r"hold a label in every row, got (None|nan) in line 2"):
        _ = open_corpus(tmp_path / "c.jsonl", label="label").classes
    with pytest.raises(ValueError, match="hold a label in every row, got nan in row 1"):
        list(open_corpus(np.ones((2, 3), int), labels=np.array([1.0, np.nan])).blocks(0))


def test_lists_that_unpack_beyond_memory_are_refused(tmp_path):
    """Four hundred million equal ids in 8 kB were unpacked at once."""
    arrow, parquet = (pytest.importorskip(name) for name in ("pyarrow", "pyarrow.parquet"))
    ids = arrow.ListArray.from_arrays([0, 1, 2 * 10**7], np.zeros(2 * 10**7, np.int8))
    parquet.write_table(arrow.table({"tokens": ids}), tmp_path / "b.parquet")
    assert (tmp_path / "b.parquet").stat().st_size < 10_000
    corpus = open_corpus(tmp_path / "b.parquet")
    message = "leave column tokens.* within the 100 MiB"
    with limited_memory(100 * 2**20), pytest.raises(ValueError, match=message):
        next(corpus.blocks(0))


def zarr_folder(folder, ids, **described):
    """A folder in the older format of Zarr, written without the package."""
    folder.mkdir()
    description = {
        "zarr_format": 2,
        "shape": ids.shape,
        "chunks": ids.shape,
        "dtype": "<i4",
        "compressor": None,
        "filters": None,
        "fill_value": 0,
        "order": "C",
    }
    (folder / ".zarray").write_text(json.dumps(description | described))
    (folder / "0.0").write_bytes(ids.astype("<i4").tobytes())
    return folder


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("packing", ["none", "zstd", "gzip", "blosc"])
@pytest.mark.parametrize("chunk", [(7, L), (64, 4), (500, L), (3000, 1)])
def test_packed_zarr_folders_give_the_same_documents(
    tmp_path, documents, zarr_format, packing, chunk
):
    zarr = pytest.importorskip("zarr")
    numcodecs = pytest.importorskip("numcodecs")
    ids = padded(documents)
    codecs = {
        (2, "zstd"): numcodecs.Zstd(),
        (2, "gzip"): numcodecs.GZip(),
        (2, "blosc"): numcodecs.Blosc(),
        (3, "zstd"): zarr.codecs.ZstdCodec(checksum=True),
        (3, "gzip"): zarr.codecs.GzipCodec(),
        (3, "blosc"): zarr.codecs.BloscCodec(),
    }
    options = {"shape": ids.shape, "chunks": chunk, "dtype": ids.dtype}
    options |= {"zarr_format": zarr_format, "compressors": codecs.get((zarr_format, packing))}
    zarr.create_array(str(tmp_path / "ids.zarr"), **options)[:] = ids
    assert read(open_corpus(tmp_path / "ids.zarr")) == documents


IDS = np.arange(12).reshape(4, 3)


def packed_zeros(n_bytes, packing):
    """Some kilobytes that unpack to many zeros."""
    zeros = np.zeros(n_bytes, dtype="u1")
    return pytest.importorskip("numcodecs").get_codec({"id": packing}).encode(zeros)


@pytest.mark.parametrize(
    ("described", "chunk", "words"),
    [
        ({"compressor": {"id": "pickle"}}, b"cos\nsystem\n", "be packed by one of"),
        ({"filters": [{"id": "pickle"}]}, b"cos\nsystem\n", "be packed by one of"),
        ({"dtype": "|O"}, b"", "hold token ids or real numbers"),
        ({"chunks": [0, 3]}, b"", "have chunks of at least one number"),
        ({"chunks": [10**9, 10**9]}, b"", "of memory"),
        ({"shape": [10**12, 64], "chunks": [1000, 64]}, b"", "stored in full, got 2 files"),
        ({}, bytes(10**5), "be a chunk of at most"),
        ({"compressor": {"id": "zlib"}}, ("zlib", 2**19), "a chunk of 48 bytes"),
        ({"compressor": {"id": "gzip"}}, ("gzip", 2**19), "a chunk of 48 bytes"),
        ({"compressor": {"id": "zstd"}}, ("zstd", 2**21), "a chunk of 48 bytes"),
        ({"compressor": {"id": "blosc"}}, ("blosc", 2**18), "a chunk of 48 bytes"),
        ({"compressor": {"id": "zstd"}}, b"no frame at all", "bytes of another kind"),
        ({"compressor": {"id": "gzip"}}, 2 * ("gzip", 48), "bytes of another kind"),
        ({"compressor": {"id": "zstd"}}, 2 * ("zstd", 48), "bytes of another kind"),
    ],
)
def test_hostile_zarr_folders_get_a_sentence(tmp_path, described, chunk, words):
    """Code, bombs and arrays without end: refused before anything is unpacked."""
    pytest.importorskip("zarr")
    folder = zarr_folder(tmp_path / "ids.zarr", IDS, **described)
    if isinstance(chunk, tuple):
        chunk = b"".join(
            packed_zeros(n, kind) for kind, n in zip(chunk[::2], chunk[1::2], strict=True)
        )
    (folder / "0.0").write_bytes(chunk)
    with pytest.raises(ValueError, match=words):
        count_tokens(folder)


def test_pipes_and_long_descriptions_in_zarr_folders_are_refused(tmp_path):
    pytest.importorskip("zarr")
    for name in ("0.0", ".zattrs"):
        folder = zarr_folder(tmp_path / f"pipe {name}", IDS)
        (folder / name).unlink(missing_ok=True)
        os.mkfifo(folder / name)
        with pytest.raises(ValueError, match="must be a regular file, got a named pipe"):
            count_tokens(folder)
    folder = zarr_folder(tmp_path / "long", IDS, attributes="x" * 2**20)
    with pytest.raises(ValueError, match="a description of at most"):
        count_tokens(folder)
    (folder / ".zarray").write_text("[" * 10**5)
    with pytest.raises(ValueError, match="describe a Zarr array in JSON"):
        count_tokens(folder)


def test_each_chunk_of_a_zarr_folder_is_unpacked_once(tmp_path, documents, monkeypatch):
    zarr = pytest.importorskip("zarr")
    ids = padded(documents)
    options = {"shape": ids.shape, "chunks": (400, L), "dtype": ids.dtype}
    zarr.create_array(str(tmp_path / "ids.zarr"), **options)[:] = ids
    sizes = []
    unpacked = zarr_folders._unpacked
    monkeypatch.setattr(
        zarr_folders, "_unpacked", lambda *args: (sizes.append(args), unpacked(*args))[1]
    )
    assert read(open_corpus(tmp_path / "ids.zarr")) == documents
    assert len(sizes) == 2


@pytest.mark.parametrize("form", ["file", "stream"])
@pytest.mark.parametrize("packing", ["zstd", "lz4"])
def test_packed_batches_of_arrow_files_are_held_to_memory(tmp_path, form, packing):
    """Some kilobytes of equal ids that take gigabytes, also behind the first format's marks."""
    pa = pytest.importorskip("pyarrow")
    for n, legacy in [(10**7, False), (10**7, True), (300, False), (300, True)]:
        table = pa.table({"tokens": [np.zeros(n, dtype=np.int64)] * 2})
        options = pa.ipc.IpcWriteOptions(compression=packing, use_legacy_format=legacy)
        new = pa.ipc.new_file if form == "file" else pa.ipc.new_stream
        with new(str(tmp_path / "ids.arrow"), table.schema, options=options) as writer:
            writer.write_table(table)
        with limited_memory(2**26):
            if n == 300:
                assert count_tokens(tmp_path / "ids.arrow").tolist() == [600]
                continue
            with pytest.raises(ValueError, match="within the 64 MiB of memory allowed here"):
                count_tokens(tmp_path / "ids.arrow")


def test_batches_packed_as_the_first_format_said_so_are_held_to_memory(tmp_path):
    """The mark stood among the batch's own words, where pyarrow still finds it."""
    pa = pytest.importorskip("pyarrow")
    batch = pa.record_batch({"tokens": pa.array([[2**40, 1, 2]] * 50)})  # 2**40 bytes unpacked
    options = pa.ipc.IpcWriteOptions(metadata_version=pa.ipc.MetadataVersion.V4)
    mark = {"ARROW:experimental_compression": "zstd"}
    with pa.ipc.new_file(str(tmp_path / "ids.arrow"), batch.schema, options=options) as writer:
        writer.write_batch(batch, custom_metadata=mark)
    with pytest.raises(ValueError, match="must leave a batch of its rows within"):
        count_tokens(tmp_path / "ids.arrow")


def test_lists_that_end_outside_their_values_are_refused(tmp_path):
    pa = pytest.importorskip("pyarrow")
    offsets = pa.array([0, 2, 2000, 6], pa.int32())
    lists = pa.ListArray.from_arrays(offsets, pa.array(np.arange(6)))
    table = pa.table({"tokens": lists})
    with pa.ipc.new_file(str(tmp_path / "ids.arrow"), table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(
        ValueError, match=r"must hold consistent columns, got .* in row 0 or after"
    ):
        count_tokens(tmp_path / "ids.arrow")


def test_rows_of_very_unequal_length_are_held_to_memory(tmp_path):
    rows = [*[[1]] * 40, list(range(10**5))]
    (tmp_path / "ids.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with limited_memory(2**26), pytest.raises(ValueError, match="rows of up to 100000 ids within"):
        count_tokens(tmp_path / "ids.jsonl")


def test_chunks_that_got_lost_are_not_taken_for_fill_values(tmp_path):
    """A missing chunk, or a link to nowhere, counted as tokens with the id of the fill value."""
    pytest.importorskip("zarr")
    for name, target in [("missing", None), ("broken", "nowhere"), ("circle", "0.0")]:
        folder = zarr_folder(tmp_path / name, IDS)
        (folder / "0.0").unlink()
        if target:
            (folder / "0.0").symlink_to(target)
        with pytest.raises(ValueError, match=r"0\.0 must be a chunk.*, got nothing"):
            count_tokens(folder)
    folder = zarr_folder(tmp_path / "tiny", IDS, shape=[6 * 10**7, 1], chunks=[1, 1])
    with pytest.raises(ValueError, match=r"must be|must hold"):
        count_tokens(folder)  # each chunk took a millisecond


def test_folders_in_place_of_files_and_two_descriptions_are_refused(tmp_path):
    pytest.importorskip("zarr")
    folder = zarr_folder(tmp_path / "folder", IDS)
    (folder / "0.0").unlink()
    (folder / "0.0").mkdir()
    with pytest.raises(ValueError, match="must be a regular file, got a folder"):
        count_tokens(folder)
    folder = zarr_folder(tmp_path / "both", IDS)
    (folder / "zarr.json").write_text((folder / ".zarray").read_text())
    with pytest.raises(ValueError, match="got a folder with both"):
        count_tokens(folder)


@pytest.mark.parametrize("rows", [[[2**63 + 5, 1]], [[2**63 + 5], [1, 2]]], ids=["even", "ragged"])
@pytest.mark.parametrize("kind", ["npy", "arrow", "array"])
def test_ids_beyond_the_whole_numbers_are_no_padding(tmp_path, rows, kind):
    """They became negative, and so were passed over."""
    if kind == "arrow":
        pa = pytest.importorskip("pyarrow")
        source = tmp_path / "ids.arrow"
        table = pa.table({"tokens": pa.array(rows, pa.list_(pa.uint64()))})
        with pa.ipc.new_file(str(source), table.schema) as writer:
            writer.write_table(table)
    else:
        source = np.array([row[:1] for row in rows], dtype=np.uint64)
        if kind == "npy":
            np.save(tmp_path / "ids.npy", source)
            source = tmp_path / "ids.npy"
    with pytest.raises(ValueError, match=r"below 2.63, got 9223372036854775813 in row 0"):
        count_tokens(source)


def test_tokens_of_unsigned_arrays_of_one_axis_are_counted():
    assert count_tokens(np.array([3, 1, 1], dtype=np.uint64)).tolist() == [0, 2, 0, 1]


def with_footer(content, times=1, place=None):
    """An Arrow file whose footer names its first batch so often, at a place of one's choice."""
    (length,) = struct.unpack("<i", content[-10:-6])
    footer = bytearray(content[-10 - length : -10])
    (root,) = struct.unpack_from("<I", footer)
    (back,) = struct.unpack_from("<i", footer, root)
    (offset,) = struct.unpack_from("<H", footer, root - back + 4 + 2 * 3)  # of the batches
    field = root + offset
    (vector,) = struct.unpack_from("<I", footer, field)
    block = list(struct.unpack_from("<qiiq", footer, field + vector + 4))
    block[0] = block[0] if place is None else place
    footer += bytes(-(len(footer) + 4) % 8)
    struct.pack_into("<I", footer, field, len(footer) - field)
    footer += struct.pack("<I", times) + times * struct.pack("<qiiq", *block)
    return content[: -10 - length] + footer + struct.pack("<i", len(footer)) + b"ARROW1"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"times": 10**5}, "hold each batch of its rows once"),  # took hours
        ({"place": 2**61}, "be a complete Arrow file"),  # an OSError
        ({"place": -8}, "be a complete Arrow file"),
        ({"place": 8}, "be a complete Arrow file"),
    ],
)
def test_footers_of_arrow_files_name_each_batch_once(tmp_path, change, words):
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"tokens": [[1, 2, 3], [4]] * 1000})
    with pa.ipc.new_file(str(tmp_path / "ids.arrow"), table.schema) as writer:
        writer.write_table(table)
    content = (tmp_path / "ids.arrow").read_bytes()
    (tmp_path / "ids.arrow").write_bytes(with_footer(content))
    assert count_tokens(tmp_path / "ids.arrow").sum() == 4000
    (tmp_path / "ids.arrow").write_bytes(with_footer(content, **change))
    with pytest.raises(ValueError, match=words):
        count_tokens(tmp_path / "ids.arrow")


def test_all_dictionaries_of_an_arrow_file_together_are_held_to_memory(tmp_path):
    pa = pytest.importorskip("pyarrow")
    words = {
        name: pa.DictionaryArray.from_arrays([0], ["x" * 10**7]) for name in ("a", "b", "c", "d")
    }
    table = pa.table({"tokens": [[1]], **words})
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(str(tmp_path / "ids.arrow"), table.schema, options=options) as writer:
        writer.write_table(table)
    assert count_tokens(tmp_path / "ids.arrow").tolist() == [0, 1]
    with limited_memory(2**26), pytest.raises(ValueError, match="within the 64 MiB"):
        count_tokens(tmp_path / "ids.arrow")


def test_columns_of_parquet_files_are_named_in_letters(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pytest.importorskip("pyarrow").table({"tokens": [[1]], "other": [[2]]})
    parquet.write_table(table, tmp_path / "ids.parquet", store_schema=False)
    content = (tmp_path / "ids.parquet").read_bytes()
    head, _, tail = content.rpartition(b"other")  # in the description of the row group
    (tmp_path / "ids.parquet").write_bytes(head + b"oth\xe9r" + tail)
    with pytest.raises(ValueError, match="must name its columns in UTF-8"):
        count_tokens(tmp_path / "ids.parquet")


def test_footers_of_parquet_files_say_what_the_package_reads(tmp_path):
    parquet, pa = (pytest.importorskip(name) for name in ("pyarrow.parquet", "pyarrow"))
    rows = {"tokens": [[1, 2, 3], [4]] * 50, "label": [True, None] * 50, "x": [{"y": 0.5}] * 100}
    parquet.write_table(pa.table(rows), tmp_path / "a.parquet", row_group_size=30)
    metadata = parquet.ParquetFile(tmp_path / "a.parquet").metadata
    for k, group in enumerate(column_sizes(tmp_path / "a.parquet")):
        for j, found in enumerate(group):
            column = metadata.row_group(k).column(j)
            wanted = column.path_in_schema, column.num_values, column.total_uncompressed_size
            assert found == wanted
    assert k == 3


def test_statistics_that_contradict_each_other_do_not_end_the_process(tmp_path):
    """pyarrow aborted when it was asked for such a column."""
    parquet, pa = (pytest.importorskip(name) for name in ("pyarrow.parquet", "pyarrow"))
    parquet.write_table(pa.table({"tokens": [[1, 2, 3], [4]] * 30}), tmp_path / "a.parquet")
    content = bytearray((tmp_path / "a.parquet").read_bytes())
    rng = np.random.default_rng(0)
    code = "import sys; from attnlaw.data.corpora import count_tokens\nfor f in sys.argv[1:]:\n"
    code += "    try: count_tokens(f)\n    except ValueError: pass"
    names = []
    start = len(content) - int.from_bytes(content[-8:-4], "little")
    for k in range(400):
        damaged = content.copy()
        damaged[rng.integers(start, len(content) - 8)] ^= 1 << rng.integers(8)
        names.append(str(tmp_path / f"{k}.parquet"))
        (tmp_path / f"{k}.parquet").write_bytes(damaged)
    done = subprocess.run([sys.executable, "-c", code, *names], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr[-300:]
