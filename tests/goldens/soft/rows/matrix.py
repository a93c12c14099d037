"""Matrix instructions: small integer matrices, whose products' sums are exact in every format and order.

Layouts are those that AMD's matrix instruction calculator prints for RDNA3 and RDNA4 (`layouts.py` compares them).
"""
from fractions import Fraction
from pools import LANES, splitmix
import number as n
from number import BF8, BF16, F16, F32, FP8

FORMATS = {"f16": F16, "bf16": BF16, "fp8": FP8, "bf8": BF8, "f32": F32}
BITS = {"f16": 16, "bf16": 16, "fp8": 8, "bf8": 8, "iu8": 8, "iu4": 4}


def element(kind, value, bits):
    if kind.startswith("iu"):
        return value & (1 << bits) - 1
    return FORMATS[kind].encode(n.of(value))


def k_of(gfx12, bits, depth, half, index):
    """K of the index-th stored element of a lane: RDNA3 lanes hold all of K, those of RDNA4 one half."""
    if not gfx12:
        return index
    if bits == 16:
        run = 4 if depth == 16 else 8
        return index % run + 2 * run * (index // run) + run * half
    return depth // 2 * half + index


def pack(values, bits):
    per = 32 // bits
    return [sum(value << bits * i for i, value in enumerate(values[at:at + per])) for at in range(0, len(values), per)]


def output_place(gfx12, out, row, column):
    """(register, lane, shift) of an element of the result."""
    if not gfx12:
        return row // 2, column + 16 * (row % 2), 0
    if out in ("f16", "bf16"):
        return row % 8 // 2, column + 16 * (row // 8), 16 * (row % 2)
    return row % 8, column + 16 * (row // 8), 0


def build(name, gfx12):
    """(A pools, B pools, C pools, index pool or None, result registers, settings) of an instruction."""
    parts = name.split("_")
    sparse = parts[1] == "swmmac"
    out, shape, a_kind = parts[2], parts[3], parts[4]
    b_kind = parts[5] if len(parts) > 5 else a_kind
    depth = int(shape.split("x")[2])
    signs = 3 if a_kind.startswith("iu") else 0
    limit = {"bf16": 2, "f16": 4}.get(out, 8 if not a_kind.startswith("iu4") else 8)
    pick = lambda seed, least, most: least + splitmix(seed) % (most - least)
    seed = sum(map(ord, name)) * 1000
    span = 2 if out in ("f16", "bf16") else 7
    a = [[pick(seed + 40 * r + k, -span, span + 1) for k in range(depth)] for r in range(16)]
    b = [[pick(seed + 5000 + 40 * k + c, -span, span + 1) for c in range(16)] for k in range(depth)]
    index = [0] * LANES
    if sparse:
        choose_pairs(a, index, seed, a_kind, depth)
    c = [[pick(seed + 9000 + 16 * r + col, -20, 21) for col in range(16)] for r in range(16)]
    d = [[c[r][col] + sum(a[r][k] * b[k][col] for k in range(depth)) for col in range(16)] for r in range(16)]
    a_words = sparse_words(a, index, a_kind, depth) if sparse else side(lambda r, k: a[r][k], a_kind, depth, gfx12)
    b_words = side(lambda col, k: b[k][col], b_kind, depth, gfx12)
    registers = 4 if gfx12 and out in ("f16", "bf16") else 8
    encode = lambda value: value & 0xffffffff if out == "i32" else FORMATS[out].encode(n.of(value))
    c_words, d_words = [[0] * LANES for _ in range(registers)], [[0] * LANES for _ in range(registers)]
    for r in range(16):
        for col in range(16):
            register, lane, shift = output_place(gfx12, out, r, col)
            c_words[register][lane] |= encode(c[r][col]) << shift
            d_words[register][lane] |= encode(d[r][col]) << shift
    return a_words, b_words, c_words, index if sparse else None, d_words, {"neg": signs} if signs else {}


def side(at, kind, depth, gfx12):
    """Registers of one operand: lane holds line lane % 16."""
    bits = BITS[kind]
    count = depth if not gfx12 else depth // 2
    lanes = [pack([element(kind, at(lane % 16, k_of(gfx12, bits, depth, lane // 16, i)), bits) for i in range(count)], bits)
             for lane in range(LANES)]
    return [[lanes[lane][register] for lane in range(LANES)] for register in range(len(lanes[0]))]


def group_k(bits, depth, half, group):
    """First K of a group of four of a lane of a sparse matrix."""
    return 16 * (group // 2) + 8 * half + 4 * (group % 2) if bits == 16 else depth // 2 * half + 4 * group


def choose_pairs(a, index, seed, kind, depth):
    """Keeps two of every four neighbours in K and notes which."""
    pairs = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    for lane in range(LANES):
        row, half = lane % 16, lane // 16
        for group in range(depth // 8):
            first, second = pairs[splitmix(seed + lane * 16 + group) % 6]
            base = group_k(BITS[kind], depth, half, group)
            for k in range(4):
                if k not in (first, second):
                    a[row][base + k] = 0
            index[lane] |= (first | second << 2) << 4 * group


def sparse_words(a, index, kind, depth):
    bits = BITS[kind]
    lanes = []
    for lane in range(LANES):
        kept = []
        for group in range(depth // 8):
            code = index[lane] >> 4 * group & 15
            base = group_k(bits, depth, lane // 16, group)
            kept += [element(kind, a[lane % 16][base + (code >> shift & 3)], bits) for shift in (0, 2)]
        lanes.append(pack(kept, bits))
    return [[lanes[lane][register] for lane in range(LANES)] for register in range(len(lanes[0]))]
