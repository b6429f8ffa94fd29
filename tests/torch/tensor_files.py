"""Tensors in the format of safetensors, by its description: what tests hand to the program and read of it."""
import json
import struct

import numpy as np

TYPES = {"F64": np.float64, "F32": np.float32, "I64": np.int64}


def save(path, tensors):
    """Writes numpy arrays of TYPES by name."""
    header, data = {}, b""
    for name, array in tensors.items():
        array = np.ascontiguousarray(array)
        code = next(c for c, t in TYPES.items() if t == array.dtype)
        header[name] = {"dtype": code, "shape": list(array.shape), "data_offsets": [len(data), len(data) + array.nbytes]}
        data += array.tobytes()
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def load(path):
    """Arrays by name, and the file's own words about itself."""
    with open(path, "rb") as f:
        raw = f.read()
    length = struct.unpack("<Q", raw[:8])[0]
    header, data = json.loads(raw[8:8 + length]), raw[8 + length:]
    words = header.pop("__metadata__", {})
    arrays = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        arrays[name] = np.frombuffer(data[begin:end], TYPES[entry["dtype"]]).reshape(entry["shape"])
    return arrays, words
