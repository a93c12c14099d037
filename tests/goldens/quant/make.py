"""Makes the golden files of the block formats from ggml, libgguf and gguf-py.

    pip install gguf==0.19.0 libgguf==0.2.2
    python make.py --source LLAMA_CPP_TREE --build ITS_BUILD_FOLDER

Needs a static build of llama.cpp for x86 with AVX2 (the sdist of llama-cpp-python 0.3.36 carries the tree).
Writes, next to itself,

    TYPE.bin           blocks, then their values as f32; the first blocks have odd scales, the last 512 elements
                       ordinary ones
    activations.f32    512 ordinary values, then blocks of 256 with corner cases
    Q8_*.activation    these values as ggml's CPU backend quantises them
    dots.txt           per type: name, dot product of the ordinary blocks with the ordinary activations in
                       double precision over dequantised factors, the same by ggml's kernel in single precision
    hashes.txt         per type: name, hash of the values of MANY blocks of SplitMix64 bytes (every lattice point
                       of the IQ formats is among them)

All three sources must agree on every value that they know, or nothing is written.
"""

import argparse
import pathlib
import subprocess
import tempfile

import gguf
import libgguf
import numpy as np
from gguf import quants

HERE = pathlib.Path(__file__).parent
ORDINARY = 512  # elements
MANY = 2048  # blocks

# Name: id, elements, bytes, offsets of half-precision scales.
FORMATS = {
    "F32": (0, 1, 4, []),
    "F16": (1, 1, 2, []),
    "BF16": (30, 1, 2, []),
    "Q4_0": (2, 32, 18, [0]),
    "Q4_1": (3, 32, 20, [0, 2]),
    "Q5_0": (6, 32, 22, [0]),
    "Q5_1": (7, 32, 24, [0, 2]),
    "Q8_0": (8, 32, 34, [0]),
    "Q2_K": (10, 256, 84, [80, 82]),
    "Q3_K": (11, 256, 110, [108]),
    "Q4_K": (12, 256, 144, [0, 2]),
    "Q5_K": (13, 256, 176, [0, 2]),
    "Q6_K": (14, 256, 210, [208]),
    "IQ2_XXS": (16, 256, 66, [0]),
    "IQ2_XS": (17, 256, 74, [0]),
    "IQ3_XXS": (18, 256, 98, [0]),
    "IQ1_S": (19, 256, 50, [0]),
    "IQ4_NL": (20, 32, 18, [0]),
    "IQ3_S": (21, 256, 110, [0]),
    "IQ2_S": (22, 256, 82, [0]),
    "IQ4_XS": (23, 256, 136, [0]),
    "IQ1_M": (29, 256, 56, []),
    "TQ1_0": (34, 256, 54, [52]),
    "TQ2_0": (35, 256, 66, [64]),
    "MXFP4": (39, 32, 17, []),
    "NVFP4": (40, 64, 36, []),
    "Q1_0": (41, 128, 18, [0]),
    "Q2_0": (42, 64, 18, [0]),
}
# Half-precision bits: negative, zero, negative zero, subnormals, infinity, NaN.
ODD = [0xB266, 0x0000, 0x8000, 0x0001, 0x83FF, 0x7C00, 0x7E01]


def halves(rng, count):
    """Scales as they occur: positive, around 0.01."""
    return (rng.uniform(0.005, 0.02, count)).astype("<f2").view(np.uint8).reshape(count, 2)


def numbers(name, rng):
    """Ordinary numbers after odd ones, for the types without blocks."""
    odd = np.array([1, -1, 0, -0.0, np.inf, -np.inf, np.nan, 3e38, 6e-5, 1e-40, -1e-40, 5e-8], "<f4")
    values = np.concatenate([odd, rng.standard_normal(ORDINARY).astype("<f4")])
    with np.errstate(over="ignore"):
        return {
            "F32": lambda: values.view(np.uint8),
            "F16": lambda: values.astype("<f2").view(np.uint8),
            "BF16": lambda: np.ascontiguousarray((values.view("<u4") >> 16).astype("<u2")).view(np.uint8),
        }[name]()


def blocks(name, rng):
    _, length, size, scales = FORMATS[name]
    if length == 1:
        return numbers(name, rng)
    ordinary = ORDINARY // length
    odd = len(ODD) + 1
    data = rng.integers(0, 256, (odd + ordinary, size), dtype=np.uint8)
    for at in scales:
        data[:, at : at + 2] = halves(rng, len(data))
    for row, bits in enumerate(ODD):
        if scales:
            at = scales[row % len(scales)]
            data[row, at : at + 2] = [bits & 255, bits >> 8]
        if name == "IQ1_M":  # a nibble of the scale on top of each of four 16-bit words
            data[row, 49:56:2] = data[row, 49:56:2] & 15 | [(bits >> n & 15) << 4 for n in (0, 4, 8, 12)]
    if name == "IQ1_M":
        for row in data[len(ODD) :]:
            bits = int(halves(rng, 1).view("<u2")[0, 0])
            row[49:56:2] = row[49:56:2] & 15 | [(bits >> n & 15) << 4 for n in (0, 4, 8, 12)]
    if name == "MXFP4":
        data[:odd, 0] = [0, 1, 2, 127, 128, 200, 254, 255]
        data[odd:, 0] = rng.integers(118, 124, ordinary)
    if name == "NVFP4":
        data[:odd, :4] = np.arange(4 * odd).reshape(odd, 4) * 8 % 256
        data[odd - 2, :4] = [0, 0x7F, 0xFF, 0x80]
        data[odd:, :4] = rng.integers(0x20, 0x38, (ordinary, 4))
    return data.reshape(-1)


def corner_cases(rng):
    """Blocks of 256 for the activation quantisers."""
    ties = np.tile([127, 0.5, 1.5, -0.5, -2.5, 126.5, 3.5, -126.5], 32)
    peaks = rng.standard_normal(256)
    peaks[[100, 200]] = [-5, 5]
    rows = [ties, -ties, np.zeros(256), peaks, -peaks, rng.standard_normal(256) * 1e-6, np.full(256, 3000.0)]
    return np.array(rows, "<f4").reshape(-1)


def random_bytes(count):
    """The stream of SplitMix64 from seed 0."""
    with np.errstate(over="ignore"):
        z = np.arange(1, count // 8 + 2, dtype="<u8") * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return (z ^ z >> np.uint64(31)).view(np.uint8)[:count].copy()


def hash_values(floats):
    """Sum of bits times odd place numbers; all NaNs count as one."""
    bits = np.where(np.isnan(floats), np.uint32(0x7FC00000), floats.view("<u4")).astype("<u8")
    with np.errstate(over="ignore"):
        total = np.sum(bits * (2 * np.arange(len(bits), dtype="<u8") + 1), dtype="<u8")
    return f"{int(total):016x}"


class Ggml:
    def __init__(self, source, build, folder):
        self.program = folder / "ggml"
        libraries = [build / "ggml/src" / f"lib{name}.a" for name in ("ggml-cpu", "ggml-base")]
        objects = folder / "ggml.o"
        include = source / "ggml/include"
        subprocess.run(["gcc", "-O1", "-c", "-I", include, HERE / "ggml.c", "-o", objects], check=True)
        flags = ["-lm", "-lpthread", "-fopenmp"]
        subprocess.run(["g++", objects, *libraries, *flags, "-o", self.program], check=True)

    def run(self, operation, name, data):
        ty = FORMATS[name][0] if name in FORMATS else {"Q8_1": 9, "Q8_K": 15}[name]
        command = [self.program, operation, str(ty)]
        return subprocess.run(command, input=data.tobytes(), stdout=subprocess.PIPE, check=True).stdout


def same(a, b):
    return np.array_equal(a[~np.isnan(a)].view("<u4"), b[~np.isnan(b)].view("<u4")) and np.array_equal(
        np.isnan(a), np.isnan(b)
    )


def values(name, data, ggml):
    """The values of `data`, on which all sources agree."""
    ty, length, size, _ = FORMATS[name]
    if name == "F32":
        return data.view("<f4")
    answers = {"ggml": np.frombuffer(ggml.run("dequantize", name, data), "<f4")}
    try:
        with np.errstate(all="ignore"):
            answers["gguf"] = quants.dequantize(data.reshape(1, -1), gguf.GGMLQuantizationType(ty)).reshape(-1)
    except (NotImplementedError, ValueError) as error:
        print(f"{name}: gguf-py: {error}")
    try:
        raw = libgguf.dequantize_rows_raw(ty, data.tobytes(), 1, len(data) // size * length)
        answers["libgguf"] = np.frombuffer(raw, "<f4")
    except ValueError as error:
        print(f"{name}: libgguf: {error}")
    first = answers["ggml"]
    for source, answer in answers.items():
        if not same(first, answer):
            raise SystemExit(f"{name}: {source} disagrees with ggml")
    return first


def activations(name, data):
    """The values that quantised activations stand for, in double precision."""
    if name == "Q8_K":
        rows = np.frombuffer(data, np.uint8).reshape(-1, 292)
        scales = np.ascontiguousarray(rows[:, :4]).view("<f4")
        return (scales.astype("f8") * rows[:, 4:260].view("i1")).reshape(-1)
    head = {"Q8_0": 2, "Q8_1": 4}[name]
    rows = np.frombuffer(data, np.uint8).reshape(-1, head + 32)
    scales = np.ascontiguousarray(rows[:, :2]).view("<f2")
    return (scales.astype("f8") * rows[:, head:].view("i1")).reshape(-1)


def dot_format(name):
    """What our dot product takes for the type."""
    if name in ("Q4_1", "Q5_1"):
        return "Q8_1"
    if name in ("Q4_0", "Q5_0", "Q8_0", "IQ4_NL", "MXFP4"):
        return "Q8_0"
    return "Q8_K" if name in ("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_XS") else None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    args = parser.parse_args()
    rng = np.random.default_rng(20260)
    files = {}
    with tempfile.TemporaryDirectory() as folder:
        ggml = Ggml(args.source, args.build, pathlib.Path(folder))
        ordinary = rng.standard_normal(ORDINARY).astype("<f4")
        inputs = np.concatenate([ordinary, corner_cases(rng)])
        files["activations.f32"] = inputs.tobytes()
        quantised = {}
        for name in ("Q8_0", "Q8_1", "Q8_K"):
            files[f"{name}.activation"] = ggml.run("quantize", name, inputs)
            quantised[name] = activations(name, ggml.run("quantize", name, ordinary))
        dots, hashes = [], []
        for name, (_, length, size, _) in FORMATS.items():
            data = np.ascontiguousarray(blocks(name, rng))
            floats = values(name, data, ggml)
            files[f"{name}.bin"] = data.tobytes() + floats.tobytes()
            other = quantised.get(dot_format(name), ordinary.astype("f8"))
            many = values(name, random_bytes(MANY * size), ggml)
            hashes.append(f"{name} {hash_values(many)}\n")
            exact = float(np.dot(floats[-ORDINARY:].astype("f8"), other))
            tail = data[-(ORDINARY // length * size) :]
            kernel = np.frombuffer(ggml.run("dot", name, np.concatenate([ordinary.view(np.uint8), tail])), "<f4")
            dots.append(f"{name} {exact!r} {float(kernel[0])!r}\n")
    files["hashes.txt"] = "".join(hashes).encode()
    files["dots.txt"] = "".join(dots).encode()
    for name, data in files.items():
        (HERE / name).write_bytes(data)
    print(f"{len(files)} files, {sum(map(len, files.values()))} bytes")


main()
