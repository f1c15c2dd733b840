"""Good files give their arrays; every bad file gives one sentence."""

import json
import pickle
import struct
import zipfile

import numpy as np
import pytest
from spelled_files import TABLE, gguf_bytes, npy_bytes, safetensors_bytes

from attnlaw.data.readers import array_files, entries
from attnlaw.diagnostics import list_arrays, read_array, read_table


def test_every_format_gives_the_same_table(tmp_path):
    np.save(tmp_path / "a.npy", TABLE)
    np.save(tmp_path / "fortran.npy", np.asfortranarray(TABLE))
    np.savez(tmp_path / "b.npz", table=TABLE)
    np.savez_compressed(tmp_path / "c.npz", table=TABLE)
    (tmp_path / "d.safetensors").write_bytes(safetensors_bytes({"table": TABLE}))
    (tmp_path / "e.gguf").write_bytes(gguf_bytes(TABLE))
    for file in sorted(tmp_path.iterdir()):
        np.testing.assert_array_equal(read_table(file).vectors, TABLE, err_msg=file.name)


def test_format_is_recognised_by_the_bytes_and_not_by_the_name(tmp_path):
    np.save(tmp_path / "table.npy", TABLE)
    (tmp_path / "table.npy").rename(tmp_path / "table.gguf")
    np.testing.assert_array_equal(read_table(tmp_path / "table.gguf").vectors, TABLE)


def test_plain_arrays_are_mapped_and_not_copied(tmp_path):
    np.save(tmp_path / "a.npy", TABLE)
    (tmp_path / "b.safetensors").write_bytes(safetensors_bytes({"table": TABLE}))
    for name in ("a.npy", "b.safetensors"):
        assert isinstance(read_table(tmp_path / name).vectors, np.memmap)


def test_reader_agrees_with_the_reference_implementation(tmp_path):
    save_file = pytest.importorskip("safetensors.numpy").save_file
    arrays = {"half": TABLE.astype(np.float16), "ids": np.arange(6).reshape(2, 3), "x": TABLE}
    save_file(arrays, str(tmp_path / "x.safetensors"), metadata={"format": "np"})
    for name, array in arrays.items():
        read = read_array(tmp_path / "x.safetensors", name)
        np.testing.assert_array_equal(read, array)
        assert read.dtype == array.dtype


def test_bfloat16_is_the_upper_half_of_a_float32(tmp_path):
    # 1 = 0x3f80, −2 = 0xc000, 3.140625 = 0x4049, 2⁻¹²⁶ = 0x0080
    codes = np.array([[0x3F80, 0xC000], [0x4049, 0x0080]], dtype=np.uint16)
    (tmp_path / "x.safetensors").write_bytes(safetensors_bytes({"t": codes}, {"t": "BF16"}))
    vectors = read_table(tmp_path / "x.safetensors").vectors
    np.testing.assert_array_equal(vectors, np.float32([[1, -2], [3.140625, 2.0**-126]]))


def test_eight_bit_floats_follow_their_definition():
    # OCP 8-bit floats: largest finite E4M3 448 = 0x7e, least 2⁻⁹ = 0x01, NaN 0x7f; E5M2 1 = 0x3c
    codes = np.array([0x7E, 0x01, 0x38, 0xB8], dtype=np.uint8)
    decoded = array_files._decoded(codes, "F8_E4M3")
    np.testing.assert_array_equal(decoded, [448, 2.0**-9, 1, -1])
    assert np.isnan(array_files._decoded(np.uint8([0x7F, 0xFF]), "F8_E4M3")).all()
    np.testing.assert_array_equal(array_files._decoded(np.uint8([0x3C]), "F8_E5M2"), [1])


def test_quantised_gguf_agrees_with_the_reference_reader(tmp_path):
    gguf = pytest.importorskip("gguf")
    rng = np.random.default_rng(0)
    table = rng.standard_normal((5, 64)).astype(np.float32)
    writer = gguf.GGUFWriter(tmp_path / "x.gguf", "llama")
    writer.add_token_list([f"Ġword{i}" for i in range(5)])
    kinds = ("Q8_0", "Q4_1", "BF16", "F16")
    for kind in kinds:
        quantisation = gguf.GGMLQuantizationType[kind]
        data = gguf.quants.quantize(table, quantisation)
        writer.add_tensor(kind, data, raw_dtype=quantisation)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    for tensor in gguf.GGUFReader(tmp_path / "x.gguf").tensors:
        expected = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        read = read_table(tmp_path / "x.gguf", tensor.name)
        np.testing.assert_array_equal(read.vectors, expected.reshape(5, 64))
    assert read.tokens == tuple(f" word{i}" for i in range(5))


def test_folder_joins_shards_and_finds_the_token_table_and_its_words(tmp_path):
    (tmp_path / "one.safetensors").write_bytes(safetensors_bytes({"h.0.mlp.weight": TABLE.T}))
    (tmp_path / "two.safetensors").write_bytes(safetensors_bytes({"wte.weight": TABLE}))
    index = {"weight_map": {"wte.weight": "two.safetensors", "h.0.mlp.weight": "one.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    (tmp_path / "vocab.json").write_text(json.dumps({"a": 0, "Ġb": 1, "c": 3}))
    table = read_table(tmp_path)
    np.testing.assert_array_equal(table.vectors, TABLE)
    assert table.name == "wte.weight"
    assert table.tokens == ("a", " b", "", "c")
    assert set(list_arrays(tmp_path)) == {"h.0.mlp.weight", "wte.weight"}


def test_words_that_do_not_fit_the_table_are_left_out(tmp_path):
    np.save(tmp_path / "table.npy", TABLE)
    (tmp_path / "vocab.txt").write_text("\n".join(map(str, range(9))))
    assert read_table(tmp_path / "table.npy").tokens is None
    with pytest.raises(ValueError, match="9 words for 4 rows"):
        read_table(tmp_path / "table.npy", vocabulary=tmp_path / "vocab.txt")


def bad_files():
    """Name, bytes and the words that the error must contain."""
    good = safetensors_bytes({"table": TABLE})
    header_of = lambda text: struct.pack("<Q", len(text)) + text  # noqa: E731
    nan = TABLE.copy()
    nan[2, 1] = np.nan
    yield "empty.npy", b"", "an empty file"
    yield "truncated.npy", npy_bytes(TABLE)[:-4], "truncated"
    yield "header.npy", npy_bytes(TABLE)[:40], "a damaged one"
    yield "pickled.npy", npy_bytes(np.array([[{}, []]], dtype=object)), "pickled Python objects"
    yield "complex.npy", npy_bytes(TABLE * 1j), "dtype complex64"
    yield "text.npy", npy_bytes(np.array([["a"]])), "dtype <U1"
    yield "nan.npy", npy_bytes(nan), "nan in row 2"
    yield "infinite.npy", npy_bytes(TABLE - np.inf), "in row 0"
    yield "ints.npy", npy_bytes(np.arange(6).reshape(2, 3)), "floating-point numbers, got int64"
    yield "flat.npy", npy_bytes(TABLE.ravel()), "2 axes, got flat (12 float32)"
    yield "norows.npy", npy_bytes(TABLE[:0]), "at least one number"
    yield "huge.npy", npy_bytes(TABLE).replace(b"(4, 3)", b"(4, 9999999999)", 1), "must"
    yield "plain.pkl", pickle.dumps(TABLE), "a pickle, which may run code"
    yield "words.csv", b"a,b\n1,2\n", "be a .npy, .npz, .safetensors or .gguf file"
    yield "short.safetensors", good[:5], "announce a header"
    yield "huge.safetensors", struct.pack("<Q", 2**60) + b"{}", "announce a header"
    yield "truncated.safetensors", good[:-1], "truncated"
    yield "nojson.safetensors", header_of(b"{nonsense"), "a damaged one"
    yield "deep.safetensors", header_of(b"[" * 90000), "a damaged one"
    yield "list.safetensors", header_of(b"[]"), "without names"
    yield "none.safetensors", header_of(b"{}"), "no array at all"
    yield "keys.safetensors", header_of(b'{"a": {"dtype": "F32"}}'), "damaged header"
    fp4 = json.dumps({"t": {"dtype": "F4", "shape": [4, 3], "data_offsets": [0, 6]}}).encode()
    yield "fp4.safetensors", header_of(fp4) + bytes(6), "as one of"
    lying = json.dumps({"a": {"dtype": "F32", "shape": [9, 9], "data_offsets": [0, 4]}}).encode()
    yield "lying.safetensors", header_of(lying) + b"1234", "hold 324 bytes for 'a', got 4"
    two = safetensors_bytes({"one": TABLE, "two": TABLE})
    yield "two.safetensors", two, "name of one of its arrays, got one (4×3 F32), two (4×3 F32)"
    yield "truncated.gguf", gguf_bytes(TABLE)[:-1], "truncated"
    yield "short.gguf", gguf_bytes(TABLE)[:60], "be a complete .gguf file"
    yield "future.gguf", b"GGUF" + struct.pack("<I", 9) + bytes(40), "version 9"
    yield "many.gguf", b"GGUF" + struct.pack("<IQQ", 3, 2**50, 1) + bytes(40), "entries"
    yield "huge.gguf", gguf_bytes(TABLE, shape=(2**40, 2**40)), "must"
    yield "vocab.gguf", gguf_bytes(TABLE).replace(
        struct.pack("<IIQ", 9, 8, 0), struct.pack("<IIQ", 9, 8, 2**40)
    ), "complete"  # fmt: skip


BAD_FILES = list(bad_files())


@pytest.mark.parametrize(("name", "content", "words"), BAD_FILES, ids=[b[0] for b in BAD_FILES])
def test_bad_file_gets_one_sentence(tmp_path, name, content, words):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match="must") as caught:
        read_table(tmp_path / name)
    message = str(caught.value)
    assert words in message
    assert message.startswith(str(tmp_path / name))
    assert message.endswith(".")
    assert "\n" not in message
    assert len(message) < 400


def test_wrong_tensor_name_lists_what_is_there(tmp_path):
    many = {f"layer.{i}.weight": TABLE for i in range(9)}
    (tmp_path / "x.safetensors").write_bytes(safetensors_bytes(many))
    with pytest.raises(ValueError, match=r"called 'wte', got layer.0.weight \(4×3 F32\).* 3 more"):
        read_table(tmp_path / "x.safetensors", "wte")


def test_pytorch_archives_are_refused_as_pickles(tmp_path):
    with zipfile.ZipFile(tmp_path / "model.bin", "w") as archive:
        archive.writestr("archive/data.pkl", b"")
    with pytest.raises(ValueError, match=r"convert it to .safetensors.*PyTorch pickle"):
        read_table(tmp_path / "model.bin")
    (tmp_path / "folder").mkdir()
    (tmp_path / "model.bin").rename(tmp_path / "folder" / "pytorch_model.bin")
    with pytest.raises(ValueError, match=r"only the pickle pytorch_model\.bin"):
        read_table(tmp_path / "folder")


def test_zip_bomb_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "zeros.npz", table=np.zeros((2000, 2000)))
    monkeypatch.setattr(entries, "available_memory", lambda: 90 * 2**20)
    words = r"table \(2000×2000 float64\) within the 90 MiB of memory available, got a need of 92"
    with pytest.raises(ValueError, match=words):
        read_table(tmp_path / "zeros.npz")
    monkeypatch.setattr(entries, "available_memory", lambda: 95 * 2**20)
    read_table(tmp_path / "zeros.npz")
    # A member that claims less than its array needs is refused by the header alone.
    lying = npy_bytes(TABLE).replace(b"(4, 3)", b"(4, 9)", 1)
    with zipfile.ZipFile(tmp_path / "lying.npz", "w") as archive:
        archive.writestr("table.npy", lying)
    with pytest.raises(ValueError, match="hold 144 bytes"):
        read_table(tmp_path / "lying.npz")


def test_shards_outside_the_folder_are_refused(tmp_path):
    index = {"weight_map": {"wte.weight": "../secret.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(ValueError, match="files of its own folder"):
        read_table(tmp_path)


def test_no_file_at_all():
    with pytest.raises(ValueError, match="No such file or folder: "):
        read_table("no/such/file.npy")


def test_finite_check_sees_through_sums_that_overflow(tmp_path):
    large = np.full((4, 3), 3e38, dtype=np.float32)
    entries.check_finite(tmp_path, large)
    entries.check_finite(tmp_path, np.full((4, 3), 1.7e308))
