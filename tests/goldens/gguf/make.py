"""Makes small GGUF files by gguf-py's writer, and what gguf-py's reader finds in them as text.

    pip install gguf==0.19.0
    python make.py

kinds.gguf has every value type and several tensor types under an alignment of 64; v2.gguf is the same under
version 2; set-*.gguf is a split set whose first file holds no tensors. Text: one line per entry and tensor, in
file order; integers decimal, floats as hexadecimal bits, strings as hexadecimal bytes, data as FNV-1a.
"""

import pathlib
import struct

import gguf
import numpy as np
from gguf import GGUFReader, GGUFValueType, GGUFWriter

HERE = pathlib.Path(__file__).parent
KINDS = "u8 i8 u16 i16 u32 i32 f32 bool string array u64 i64 f64".split()
TYPES = {"F32": 4, "F16": 2, "Q8_0": 34, "Q4_K": 144}
SCALARS = {
    GGUFValueType.UINT8: 255,
    GGUFValueType.INT8: -128,
    GGUFValueType.UINT16: 65535,
    GGUFValueType.INT16: -32768,
    GGUFValueType.UINT32: 4294967295,
    GGUFValueType.INT32: -2147483648,
    GGUFValueType.FLOAT32: -1.5,
    GGUFValueType.BOOL: True,
    GGUFValueType.STRING: "gr\u00fc\u00df dich \U0001f980",
    GGUFValueType.UINT64: 18446744073709551615,
    GGUFValueType.INT64: -9223372036854775808,
    GGUFValueType.FLOAT64: 1e300,
}
ARRAYS = {
    GGUFValueType.UINT8: [0, 255],
    GGUFValueType.INT8: [-1, 1, -128],
    GGUFValueType.UINT16: [1, 65535],
    GGUFValueType.INT16: [-2, 2],
    GGUFValueType.UINT32: [3, 4000000000],
    GGUFValueType.INT32: [-3, 3],
    GGUFValueType.FLOAT32: [0.25, -0.5],
    GGUFValueType.BOOL: [True, False, True],
    GGUFValueType.STRING: ["", "a", "\u2581b"],
    GGUFValueType.UINT64: [1 << 60],
    GGUFValueType.INT64: [-(1 << 60), 5],
    GGUFValueType.FLOAT64: [0.1],
}


def text(kind, value):
    kind = KINDS[kind]
    if kind == "string":
        return value.encode().hex() or "-"
    if kind in ("f32", "f64"):
        return struct.pack({"f32": ">f", "f64": ">d"}[kind], value).hex()
    return str(int(value))


def fnv(data):
    hash = 0xCBF29CE484222325
    for byte in data:
        hash = (hash ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{hash:016x}"


def entries(reader):
    for name, field in reader.fields.items():
        if name.startswith("GGUF."):
            continue
        kind = field.types[0]
        if kind == GGUFValueType.ARRAY:
            inner = field.types[1] if len(field.types) > 1 else 0
            values = " ".join(text(inner, value) for value in field.contents())
            yield f"{name} array of {len(field.data)} {KINDS[inner]}: {values}"
        else:
            yield f"{name} {KINDS[kind]} {text(kind, field.contents())}"


def tensors(reader):
    for tensor in reader.tensors:
        dims = "x".join(str(dim) for dim in tensor.shape)
        yield f"{tensor.name} {dims} {tensor.tensor_type.name} {fnv(tensor.data.tobytes())}"


def add_tensors(writer):
    rng = np.random.default_rng(7)
    for name, shape, ty in [
        ("norm.weight", (5,), "F32"),
        ("two.weight", (3, 32), "Q8_0"),
        ("experts.weight", (2, 1, 256), "Q4_K"),
        ("half.weight", (2, 2, 3, 1), "F16"),
    ]:
        block = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[ty]]
        row = shape[-1] // block[0] * block[1]
        data = rng.integers(0, 256, (*shape[:-1], row), dtype=np.uint8)
        if ty in ("F32", "F16"):
            data = rng.standard_normal(shape).astype({"F32": "<f4", "F16": "<f2"}[ty])
            writer.add_tensor(name, data)
        else:
            writer.add_tensor(name, data, raw_dtype=gguf.GGMLQuantizationType[ty])


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def kinds():
    path = HERE / "kinds.gguf"
    writer = GGUFWriter(path, "none")
    writer.add_custom_alignment(64)
    for kind, value in SCALARS.items():
        writer.add_key_value(f"scalar.{KINDS[kind]}", value, kind)
    for kind, value in ARRAYS.items():
        writer.add_key_value(f"array.{KINDS[kind]}", value, GGUFValueType.ARRAY, sub_type=kind)
    add_tensors(writer)
    finish(writer)
    reader = GGUFReader(path)
    lines = [f"alignment {reader.alignment}", *entries(reader), *tensors(reader)]
    (HERE / "kinds.txt").write_text("\n".join(lines) + "\n")
    data = bytearray(path.read_bytes())
    data[4] = 2
    (HERE / "v2.gguf").write_bytes(data)


def split():
    writer = GGUFWriter(HERE / "set.gguf", "none", split_max_tensors=2, small_first_shard=True)
    writer.add_uint32("answer", 42)
    add_tensors(writer)
    finish(writer)
    readers = [GGUFReader(path) for path in sorted(HERE.glob("set-*.gguf"))]
    lines = [f"alignment {readers[0].alignment}", *entries(readers[0])]
    for reader in readers:
        lines += tensors(reader)
    (HERE / "set.txt").write_text("\n".join(lines) + "\n")


kinds()
split()
