"""Small files spelled out byte by byte, so that tests share no code with the readers."""

import io
import json
import struct

import numpy as np

TABLE = np.arange(12, dtype=np.float32).reshape(4, 3) / 8


def safetensors_bytes(arrays, dtypes=None, tail=b""):
    """Spell a .safetensors file by hand, so that the test shares no code with the reader."""
    header, data = {}, b""
    for name, array in arrays.items():
        dtype = (dtypes or {}).get(
            name, {"f4": "F32", "f2": "F16", "u2": "U16"}.get(array.dtype.str[1:], "I64")
        )
        header[name] = {"dtype": dtype, "shape": list(array.shape),
                        "data_offsets": [len(data), len(data) + array.nbytes]}  # fmt: skip
        data += array.tobytes()
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data + tail


def gguf_bytes(table, tokens=(), kind=0, shape=None):
    """Spell a GGUF file with one table by hand."""

    def string(text):
        return struct.pack("<Q", len(text.encode())) + text.encode()

    fields = string("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, len(tokens))
    fields += b"".join(map(string, tokens))
    shape = table.shape if shape is None else shape
    info = string("token_embd.weight") + struct.pack(f"<I{len(shape)}Q", len(shape), *shape[::-1])
    info += struct.pack("<IQ", kind, 0)
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + fields + info
    return head + b"\0" * (-len(head) % 32) + table.tobytes()


def npy_bytes(array):
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=True)
    return stream.getvalue()
