"""Files made to take memory or time for ever are refused in one sentence, and at once."""

import json
import os
import struct
import subprocess
import sys
import time
import zipfile

import numpy as np
import pytest
from spelled_files import TABLE, gguf_bytes, npy_bytes, safetensors_bytes

import attnlaw as al
from attnlaw.data.corpus_statistics import CorpusStatistics
from attnlaw.data.readers import (
    array_files,
    entries,
    limited_memory,
    read_texts,
    read_word_vectors,
)
from attnlaw.diagnostics import list_arrays, read_sequences, read_table, read_tokenizer

MIB = 2**20


def header_of(text):
    text = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<Q", len(text)) + text


def described(begin, end, **changes):
    return {
        "dtype": "F32",
        "shape": [(end - begin) // 4],
        "data_offsets": [begin, end],
        **changes,
    }


ONE = '{"dtype":"F32","shape":[2],"data_offsets":[0,8]}'
TWICE = '{"dtype":"F32",'
UNSOUND = {
    "overlap": header_of(json.dumps({"a": described(0, 8), "b": described(4, 12)})) + bytes(12),
    "twice the same bytes": header_of(json.dumps({"a": described(0, 8), "b": described(0, 8)}))
    + bytes(8),
    "hole": header_of(json.dumps({"a": described(0, 8), "b": described(12, 20)})) + bytes(20),
    "hole at the start": header_of(json.dumps({"a": described(4, 12)})) + bytes(12),
    "trailing bytes": header_of(json.dumps({"a": described(0, 8)})) + bytes(9),
    "trailing bytes alone": header_of("{}") + b"x",
    "duplicate name": header_of(f'{{"a":{ONE},"a":{ONE.replace("[0,8]", "[8,16]")}}}') + bytes(16),
    "duplicate field": header_of(f'{{"a":{ONE.replace("{", TWICE)}}}') + bytes(8),
    "duplicate metadata": header_of(f'{{"__metadata__":{{}},"__metadata__":{{}},"a":{ONE}}}')
    + bytes(8),
    "UTF-16": header_of(f'{{"a":{ONE}}}'.encode("utf-16")) + bytes(8),
    "UTF-16 without a mark": header_of(f'{{"a":{ONE}}}'.encode("utf-16-le")) + bytes(8),
    "byte order mark": header_of(f'{{"a":{ONE}}}'.encode("utf-8-sig")) + bytes(8),
    "metadata of numbers": header_of(f'{{"__metadata__":{{"x":1}},"a":{ONE}}}') + bytes(8),
    "metadata in a list": header_of(f'{{"__metadata__":[],"a":{ONE}}}') + bytes(8),
    "NaN": header_of(f'{{"__metadata__":{{"x":NaN}},"a":{ONE}}}') + bytes(8),
    "unknown type": header_of(f'{{"a":{ONE.replace("F32", "X9")}}}') + bytes(8),
    "half a byte": header_of('{"a":{"dtype":"F4","shape":[7],"data_offsets":[0,4]}}') + bytes(4),
    "nothing inside another": header_of(
        json.dumps({"a": described(0, 8), "z": described(4, 4), "b": described(8, 16)})
    )
    + bytes(16),
    "half a surrogate pair": header_of(f'{{"\\ud800":{ONE}}}') + bytes(8),
    "minus zero": header_of(f'{{"a":{ONE.replace("[0,8]", "[-0,8]")}}}') + bytes(8),
}  # fmt: skip


@pytest.mark.parametrize("name", UNSOUND)
@pytest.mark.parametrize("with_package", [True, False])
def test_what_the_reference_reader_refuses_is_refused(tmp_path, monkeypatch, name, with_package):
    file = tmp_path / "x.safetensors"
    file.write_bytes(UNSOUND[name])
    package = pytest.importorskip("safetensors")
    with pytest.raises(package.SafetensorError):
        package.safe_open(str(file), "np")
    if not with_package:
        monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(ValueError, match=r"x\.safetensors must .*\.$"):
        list_arrays(file)


def test_rules_refuse_all_mutated_files_that_the_reference_reader_refuses(tmp_path, monkeypatch):
    package = pytest.importorskip("safetensors")
    monkeypatch.setattr(array_files, "_passes_reference", lambda path: False)
    rng = np.random.default_rng(17)
    arrays = {"table": TABLE, "ids": np.arange(3), "half": TABLE.astype("f2")}
    original = np.frombuffer(safetensors_bytes(arrays), np.uint8)
    file = tmp_path / "x.safetensors"
    n_refused = 0
    for _ in range(1500):
        mutated = original.copy()
        places = rng.integers(0, 230, size=rng.integers(1, 4))
        mutated[places] = rng.choice(
            np.frombuffer(b'0123456789{}[],":ab -\\', np.uint8), len(places)
        )
        file.write_bytes(mutated.tobytes())
        try:
            with package.safe_open(str(file), "np"):
                continue
        except package.SafetensorError:
            n_refused += 1
        with pytest.raises(ValueError, match="must"):
            list_arrays(file)
    assert n_refused > 1000


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_a_pipe_is_refused_and_not_waited_for(tmp_path):
    for name in ("model.safetensors", "x.npy", "labels.txt", "tokenizer.json"):
        os.mkfifo(tmp_path / name)
    np.save(tmp_path / "ids.npy", np.ones((4, 2, 3)))
    script = (
        "import sys; from attnlaw.diagnostics import *\n"
        "calls = [(read_table, sys.argv[1]), (read_table, sys.argv[1] + '/x.npy'),\n"
        "         (read_table, sys.argv[1] + '/model.safetensors'),\n"
        "         (lambda p: read_sequences(p, labels=sys.argv[1] + '/labels.txt'),\n"
        "          sys.argv[1] + '/ids.npy')]\n"
        "for call, path in calls:\n"
        "    try: call(path)\n"
        "    except ValueError as error: print(error)\n"
    )
    run = [sys.executable, "-c", script, str(tmp_path)]
    done = subprocess.run(run, capture_output=True, text=True, timeout=60, check=True)
    lines = done.stdout.splitlines()
    assert len(lines) == 4
    assert all(line.endswith("must be a regular file, got a named pipe.") for line in lines)


def test_a_sparse_file_is_refused_and_not_scanned(tmp_path):
    file = tmp_path / "sparse.npy"
    with file.open("wb") as stream:
        header = {"descr": "<f4", "fortran_order": False, "shape": (2**30, 50)}
        np.lib.format.write_array_header_1_0(stream, header)
        stream.truncate(128 + 200 * 2**30)
    if file.stat().st_blocks * 512 > MIB:
        pytest.skip("this file system stores holes")
    with pytest.raises(
        ValueError, match=r"sparse.npy must be stored in full, got 214748364928 bytes"
    ):
        read_table(file)


def test_a_part_of_a_large_array_is_looked_at_before_all(tmp_path, monkeypatch):
    """A map of a file with a hole of 200 GiB was scanned to its end, or copied as float64."""
    file = tmp_path / "hole.bin"
    with file.open("wb") as stream:
        stream.truncate(200 * 2**30)
    if file.stat().st_blocks * 512 > MIB:
        pytest.skip("this file system stores holes")
    rows = np.memmap(file, "f4", "r", shape=(2**30, 50))
    calls = [
        lambda: al.signal_components(rows),
        lambda: al.reliable_components(rows),
        lambda: al.pooled_covariance(rows.reshape(2**29, 2, 50)),
        lambda: al.learn_pooling_weights(rows.reshape(2**29, 2, 50)),
        lambda: al.Discrete(1.0).cdf(rows),
    ]
    begun = time.process_time()
    for call in calls:
        with pytest.raises(ValueError, match="finite rows that differ, got '64 equal rows among"):
            call()
    monkeypatch.setattr(
        "attnlaw.data.readers.entries.SPARSE_BYTES", 2**62
    )  # stored, but all zeros
    with (tmp_path / "zeros.npy").open("wb") as stream:
        header = {"descr": "<f4", "fortran_order": False, "shape": (2**30, 50)}
        np.lib.format.write_array_header_1_0(stream, header)
        stream.truncate(128 + 200 * 2**30)
    with pytest.raises(ValueError, match=r"zeros.npy must hold finite rows that differ, got 64"):
        read_table(tmp_path / "zeros.npy")
    assert time.process_time() - begun < 5


def test_a_row_that_is_not_finite_is_seen_in_a_part(tmp_path):
    rows = np.memmap(tmp_path / "rows.bin", "f8", "w+", shape=(2**20, 40))
    rows[-1, 3] = np.nan
    with pytest.raises(ValueError, match="NaN or infinity in row 1048575"):
        al.signal_components(rows)


@pytest.mark.parametrize("target", ["x.npy", "nowhere"])
def test_symbolic_links_in_a_circle_get_a_sentence(tmp_path, target):
    (tmp_path / "x.npy").symlink_to(tmp_path / target)
    with pytest.raises(ValueError, match="No such file or folder"):
        read_table(tmp_path / "x.npy")
    (tmp_path / "model.safetensors").symlink_to(tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match=r"model.safetensors must be a file that can be read"):
        read_table(tmp_path)


def test_limits_know_what_an_analysis_copies(tmp_path):
    np.save(tmp_path / "mapped.npy", np.zeros((1000, 1000), "f4"))
    np.savez_compressed(tmp_path / "packed.npz", table=np.zeros((1000, 1000), "f4"))
    for name in ("mapped.npy", "packed.npz"):
        with limited_memory(80 * MIB), pytest.raises(ValueError, match="of memory allowed here"):
            read_table(tmp_path / name)
        with limited_memory(100 * MIB):
            assert read_table(tmp_path / name).vectors.shape == (1000, 1000)


def many_members(path, n):
    with zipfile.ZipFile(path, "w") as archive:
        for k in range(n):
            archive.writestr(f"{k:020}.npy", b"")


def test_long_directories_headers_and_fields_are_refused(tmp_path, monkeypatch):
    many_members(tmp_path / "members.npz", 200)
    monkeypatch.setattr(array_files, "MAX_DIRECTORY", 5000)
    with pytest.raises(ValueError, match="list its arrays in at most 5000 bytes"):
        list_arrays(tmp_path / "members.npz")
    notes = header_of(json.dumps({"__metadata__": {f"{k}": "" for k in range(100_000)}}))
    (tmp_path / "notes.safetensors").write_bytes(notes)
    (tmp_path / "tokenizer.json").write_text("[" + "[]," * 500_000 + "[]]")
    for name, read in [("notes.safetensors", list_arrays), ("tokenizer.json", read_tokenizer)]:
        with limited_memory(30 * MIB), pytest.raises(ValueError, match="of memory allowed here"):
            read(tmp_path / name)


def peak(script, *arguments):
    """Return the memory in MiB that a script takes beyond its imports."""
    text = (
        "import resource, sys\n"
        "from attnlaw.diagnostics import *; import attnlaw.data.readers.gguf_files\n"
        "try:\n    import safetensors, tokenizers\nexcept ImportError:\n    pass\n"
        "top = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        f"before = top()\ntry:\n    {script}\n"
        "except ValueError as error:\n    sentence = str(error)\n"
        "print((top() - before) / 1024, sentence)"
    )
    run = [sys.executable, "-c", text, *map(str, arguments)]
    done = subprocess.run(run, capture_output=True, text=True, timeout=120, check=True)
    memory, _, sentence = done.stdout.partition(" ")
    assert "must" in sentence
    return float(memory)


@pytest.mark.skipif(sys.platform != "linux", reason="counts memory as Linux does")
@pytest.mark.parametrize("kind", ["pipe", "bomb", "header"])
def test_saved_statistics_and_poolings_are_held_to_the_same_limits(tmp_path, kind):
    """Regular files within the memory at hand, whoever wrote them."""
    pooling = al.AttentionPooling("mean").fit(np.random.default_rng(0).standard_normal((40, 3, 2)))
    pooling.save(tmp_path)
    arrays = tmp_path / "pooling.npz"
    arrays.unlink()
    if kind == "pipe":
        os.mkfifo(arrays)
    elif kind == "bomb":
        np.savez_compressed(arrays, n=np.zeros(20 * MIB))
    else:  # announces more than it holds
        header = npy_bytes(np.zeros(2)).replace(b"(2,), }" + 8 * b" ", b"(2000000000,), }")
        with zipfile.ZipFile(arrays, "w") as archive:
            archive.writestr("n.npy", header)
    words = {"pipe": "a named pipe", "bomb": "a need of 320 MiB", "header": r"got 14\d\."}[kind]
    with limited_memory(64 * MIB):
        for load in (CorpusStatistics.load, lambda _: al.AttentionPooling.load(tmp_path)):
            with pytest.raises(ValueError, match=words):
                load(arrays)


def test_bombs_take_little_memory(tmp_path):
    fields = gguf_bytes(TABLE, tokens=("",))
    place = fields.index(struct.pack("<IIQ", 9, 8, 1))
    numbers = struct.pack("<IIQ", 9, 3, 15 * MIB) + np.arange(15 * MIB, dtype="i2").tobytes()
    (tmp_path / "numbers.gguf").write_bytes(fields[:place] + numbers + fields[place + 24 :])
    # 30 MiB of numbers were 560 MiB of objects; the file goes on to a table, so it may be read.
    with (tmp_path / "big.json").open("w") as file:
        file.write("[" + "[]," * 34_000_000 + "[]]")
    (tmp_path / "big.json").rename(tmp_path / "tokenizer.json")
    notes = b'{"__metadata__":{' + b'"":"",' * 5_000_000 + b'"a":""}}'
    (tmp_path / "notes.safetensors").write_bytes(header_of(notes))
    numbers_gguf = "read_table(sys.argv[1]); sentence = 'must'"
    assert peak(numbers_gguf, tmp_path / "numbers.gguf") < 150
    assert peak("read_tokenizer(sys.argv[1])", tmp_path / "tokenizer.json") < 60
    assert peak("list_arrays(sys.argv[1])", tmp_path / "notes.safetensors") < 60


def test_labels_are_counted(tmp_path):
    np.save(tmp_path / "x.npy", np.ones((4, 2, 3)))
    (tmp_path / "labels.txt").write_text("\n" * 10**6)
    with limited_memory(50 * MIB), pytest.raises(ValueError, match="leave its labels within"):
        read_sequences(tmp_path / "x.npy", labels=tmp_path / "labels.txt")
    assert entries._LIMIT.get() is None


@pytest.mark.filterwarnings("ignore:Duplicate name:UserWarning")
def test_names_that_occur_twice_are_refused(tmp_path):
    """One of the two was read in silence."""
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        for value in (0.0, 1.0):
            with archive.open("a.npy", "w") as member:
                np.save(member, np.full((3, 3), value))
    with pytest.raises(ValueError, match="must hold arrays of different names, got two 'a'"):
        read_table(tmp_path / "a.npz")
    once, name = gguf_bytes(TABLE), b"token_embd.weight"
    at = once.index(struct.pack("<Q", len(name)) + name)
    entry = once[at : at + 8 + len(name) + 4 + 8 * 2 + 4 + 8]
    (tmp_path / "a.gguf").write_bytes(
        once[:8] + struct.pack("<Q", 2) + once[16:at] + entry + once[at:]
    )
    with pytest.raises(ValueError, match="must hold arrays of different names"):
        list_arrays(tmp_path / "a.gguf")


def test_a_shape_of_truth_values_is_refused(tmp_path):
    np.save(tmp_path / "a.npy", TABLE)
    data = (tmp_path / "a.npy").read_bytes()
    shape = f"{TABLE.shape}".encode()
    (tmp_path / "a.npy").write_bytes(data.replace(shape, b"(True,)".ljust(len(shape))))
    with pytest.raises(ValueError, match="must have a possible shape"):
        read_table(tmp_path / "a.npy")


def test_shapes_and_names_without_end_are_refused(tmp_path):
    """The product of a million axes was computed for hours; NumPy's own errors were shown."""
    file = tmp_path / "x.safetensors"
    text = '{"a":{"dtype":"F32","shape":[%s],"data_offsets":[0,%s]}}'
    many = ",".join(["4611686018427387900"] * 300_000)
    begun = time.process_time()
    for shape, end, words in [
        (many, 0, "describe 'a' soundly"),
        (",".join("1" * 40), 4, "describe 'a' soundly"),
        (f"0,{2**61},{2**61}", 0, "have a possible shape"),
    ]:
        file.write_bytes(header_of(text % (shape, end)) + bytes(end))
        with pytest.raises(ValueError, match=f"x.safetensors must {words}"):
            list_arrays(file)
    assert time.process_time() - begun < 5
    for name, words in [("a" * 10**6, "of 1000000"), ("a\n" * 300, "of 600")]:
        file.write_bytes(header_of(json.dumps({name: described(0, 8)})) + bytes(8))
        with pytest.raises(ValueError, match=f"at most 500 letters, got a name {words}"):
            list_arrays(file)
    file.write_bytes(header_of(json.dumps({"a" * 10**6: described(4, 8)})) + bytes(8))
    with pytest.raises(ValueError, match="must hold 'aaa") as caught:
        list_arrays(file)
    assert len(str(caught.value)) < 1500
    header = npy_bytes(np.zeros(0)).replace(b"(0,), }" + 22 * b" ", b"(0, %d), }" % 2**70)
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("sequences.npy", npy_bytes(np.ones((2, 2, 2))))
        archive.writestr("labels.npy", header)
    with pytest.raises(ValueError, match=r"x.npz must have a possible shape for 'labels'"):
        read_sequences(tmp_path / "x.npz")


def test_a_directory_that_hides_its_length_is_refused(tmp_path):
    """The last record of a zip holds the mark of a last record, which hid the length from us."""
    record = struct.pack("<4s4B4HL2L5H2L", b"PK\1\2", 20, 3, 20, *[0] * 8, 1, *[0] * 6) + b"a"
    n, lead = 300_000, b"PK\3\4" + bytes(26)
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 0x4B50, 0x0605, len(record) * n, 30, 0)
    (tmp_path / "hidden.npz").write_bytes(lead + record * n + end)
    with pytest.raises(ValueError, match=f"list its arrays in at most .* got {len(record) * n}"):
        list_arrays(tmp_path / "hidden.npz")


def test_members_of_archives_are_read_to_their_checksum(tmp_path):
    """A smaller number in the header left the end unread, and with it the checksum."""
    np.savez(tmp_path / "x.npz", table=np.arange(3600.0).reshape(1200, 3))
    data = (tmp_path / "x.npz").read_bytes()
    assert data.count(b"(1200, 3)") == 1
    (tmp_path / "x.npz").write_bytes(data.replace(b"(1200, 3)", b"(1000, 3)"))
    with pytest.raises(ValueError, match="hold 24000 bytes for 'table', got more"):
        read_table(tmp_path / "x.npz")


def test_arrays_of_gguf_files_lie_apart_and_aligned(tmp_path):
    """As their first reader wants it; one was read for another."""
    file, name = tmp_path / "x.gguf", b"token_embd.weight"
    once = gguf_bytes(TABLE)
    at = once.index(struct.pack("<Q", len(name)) + name)
    size = 8 + len(name) + 4 + 8 * 2 + 4 + 8
    entry = bytearray(once[at : at + size])
    for offset, words in [
        (32, "from byte 48 of its data on, got 32"),
        (3, "multiple of 32 bytes"),
    ]:
        second = entry.replace(b"token", b"other")
        second[-8:] = struct.pack("<Q", offset)
        head = once[:8] + struct.pack("<Q", 2) + once[16:at] + entry + second
        file.write_bytes(head + bytes(-len(head) % 32) + bytes(200))
        with pytest.raises(ValueError, match=f"must hold 'other_embd.weight' .*{words}"):
            list_arrays(file)
    key = struct.pack("<Q", 1) + b"k" + struct.pack("<II", 4, 7)
    file.write_bytes(once[:16] + struct.pack("<Q", 2) + 2 * key + once[at:])
    with pytest.raises(ValueError, match="must hold fields of different names, got two 'k'"):
        list_arrays(file)


@pytest.mark.skipif(sys.platform != "linux", reason="files of /proc")
def test_files_that_the_system_makes_up_are_refused(tmp_path):
    """They are regular and empty, and may be read for ever."""
    np.save(tmp_path / "x.npy", np.ones((4, 2, 3)))
    np.save(tmp_path / "table.npy", np.eye(3))
    for name in ("words.txt", "texts.jsonl", "vocab.txt", "model.npy"):
        (tmp_path / name).symlink_to("/proc/self/pagemap")
    calls = [
        lambda: read_word_vectors(tmp_path / "words.txt"),
        lambda: read_texts(tmp_path / "texts.jsonl", "text"),
        lambda: read_table(tmp_path / "table.npy", vocabulary=tmp_path / "vocab.txt"),
        lambda: read_table(tmp_path / "model.npy"),
        lambda: read_sequences(tmp_path / "x.npy", labels=tmp_path / "words.txt"),
    ]
    (tmp_path / "memory.npy").symlink_to("/proc/self/mem")
    for call in calls:
        with pytest.raises(ValueError, match="must be stored in full, got a file that the system"):
            call()
    with pytest.raises(ValueError, match=r"memory\.npy must be a file that can be read"):
        read_table(tmp_path / "memory.npy")


def test_long_doubles_beyond_the_doubles_are_not_finite(tmp_path):
    np.save(tmp_path / "x.npy", np.full((3, 3), np.finfo(np.longdouble).max))
    if np.finfo(np.longdouble).max == np.finfo(np.float64).max:
        pytest.skip("long doubles are doubles here")
    np.save(tmp_path / "x.npy", np.finfo(np.longdouble).max * np.array([[1, 0.5], [0.2, 0.1]]))
    with pytest.raises(ValueError, match="must hold finite numbers, got inf in row 0"):
        read_table(tmp_path / "x.npy")


def test_ids_of_a_vocabulary_are_whole_numbers(tmp_path):
    np.save(tmp_path / "x.npy", np.eye(2))
    for text in ('{"a": 0, "b": 1e999}', '{"a": 0, "b": 0.5}', '{"a": 0, "b": true}'):
        (tmp_path / "v.json").write_text(text)
        with pytest.raises(ValueError, match="must be a vocabulary of tokens and ids"):
            read_table(tmp_path / "x.npy", vocabulary=tmp_path / "v.json")


def test_arrays_of_one_name_in_two_files_of_a_folder_are_refused(tmp_path):
    """The one of the last file was read in silence."""
    for name in ("a.safetensors", "b.safetensors"):
        (tmp_path / name).write_bytes(safetensors_bytes({"table": TABLE}))
    words = "hold only one array called 'table', got one in a.safetensors and b.safetensors"
    with pytest.raises(ValueError, match=words):
        read_table(tmp_path)


def test_labels_are_kept_apart(tmp_path):
    """Cut to 100 letters two classes were one, and one long label made all of them long."""
    np.save(tmp_path / "x.npy", np.ones((4, 2, 3)))
    file = tmp_path / "labels.txt"
    for text, words in [
        ("a\0\na\nb\nb\n", r"got 'a\\x00' in line 1"),
        ("a\n\nb\nb\n", "hold a label in every row, got None in line 2"),
        ("a\nb\n" + 1001 * "x" + "\nb\n", "hold labels of at most 1000 letters, got 'xxx"),
    ]:
        file.write_text(text)
        with pytest.raises(ValueError, match=words):
            read_sequences(tmp_path / "x.npy", labels=file)
    one, other = 100 * "x" + "1", 100 * "x" + "2"
    file.write_text(f"\ufeff{one}\r\n{other}\r\na\x0bb\r\n{one}")
    found = read_sequences(tmp_path / "x.npy", labels=file).labels
    assert found.tolist() == [one, other, "a\x0bb", one]
    file.write_text("a\n" * 100_000 + 900 * "x")
    with limited_memory(100 * MIB), pytest.raises(ValueError, match="need of 343 MiB"):
        read_sequences(tmp_path / "x.npy", labels=file)


def test_arrays_do_not_get_lost_by_their_names(tmp_path):
    """A flipped bit in the directory of an archive left an array out that may be there or not."""
    np.savez(tmp_path / "x.npz", sequences=np.ones((4, 2, 3)), lengths=np.full(4, 1))
    data = bytearray((tmp_path / "x.npz").read_bytes())
    data[data.rindex(b"lengths.npy") + 10] ^= 1
    (tmp_path / "x.npz").write_bytes(data)
    with pytest.raises(ValueError, match=r"must be a complete .npz archive, got File name in dir"):
        read_sequences(tmp_path / "x.npz")
