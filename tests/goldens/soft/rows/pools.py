"""Input vectors of 32 words by type: edge cases, then random words, in a different order for each operand."""
LANES = 32
MASK = 0xffffffff


def splitmix(number):
    z = (number + 1) * 0x9e3779b97f4a7c15 % 2**64
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9 % 2**64
    z = (z ^ z >> 27) * 0x94d049bb133111eb % 2**64
    return (z ^ z >> 31) % 2**64


def half_pairs(low):
    """Words whose low halves are `low` and whose high halves are the same in another order."""
    return [value | low[(index * 7 + 3) % len(low)] << 16 for index, value in enumerate(low)]


F32 = [0, 0x80000000, 0x3f800000, 0xbf800000, 0x40200000, 0xc0200000, 0x3f000000, 0x3fc00000, 1, 0x007fffff, 0x80000001,
       0x00800000, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0x7fa00000, 0x4b000001, 0x4f000000,
       0xcf000000, 0x4f800000, 0x40490fdb, 0xd0150000]
# No denormals and no results beyond the normal range in any transcendental function.
F32_NORMAL = [0, 0x80000000, 0x3f800000, 0xbf800000, 0x40200000, 0x3f000000, 0x3fc00000, 0x42c80000, 0x7f800000, 0xff800000,
              0x7fc00000, 0x40490fdb, 0x3eaaaaab, 0x41a00000, 0x3dcccccd, 0x42f60000, 0xc2f60000, 0x40e00000, 0x3f7fffff,
              0x3f800001, 0x41100000, 0x47c35000]
F16 = [0, 0x8000, 0x3c00, 0xbc00, 0x4100, 0xc100, 0x3800, 0x3e00, 1, 0x3ff, 0x8001, 0x400, 0x7bff, 0xfbff, 0x7c00, 0xfc00,
       0x7e00, 0x7d00, 0x6401, 0x4248, 0x5640, 0x0c3f, 0xb266, 0x77ff]
F16_NORMAL = [0, 0x8000, 0x3c00, 0xbc00, 0x4100, 0x3800, 0x3e00, 0x7c00, 0xfc00, 0x7e00, 0x4248, 0x3555, 0x4a00, 0x2e66, 0x4700,
              0x3bff, 0x3c01, 0x4880, 0xc880, 0x5640]
EXACT16 = [0, 0x3c00, 0xbc00, 0x4000, 0xc200, 0x4200, 0x3800, 0x4400, 0xb800, 0x4500, 0x4600, 0xc400, 0x4700]
EXACT_BF16 = [0, 0x3f80, 0xbf80, 0x4000, 0xc040, 0x4040, 0x3f00, 0x4080, 0xbf00, 0x40a0, 0x40c0, 0xc080, 0x40e0]
EXACT32 = [0, 0x3f800000, 0xbf800000, 0x40000000, 0xc0400000, 0x40400000, 0x3f000000, 0x40800000, 0xc2c80000, 0x40a00000]
I32 = [0, 1, 2, 0x7fffffff, 0x80000000, 0xffffffff, 0xfffffffe, 0x00ffffff, 0x01000000, 0xff000000, 0x00800000, 0x007fffff,
       0xffff0000, 0x0000ffff, 0x00010000, 0x55555555, 0xaaaaaaaa, 5, 31, 32, 33, 63, 0x00008000, 0x12345678]
I16 = [0, 1, 2, 0x7fff, 0x8000, 0xffff, 0xfffe, 0x00ff, 0x0100, 0xff00, 0x5555, 0xaaaa, 5, 15, 16, 17, 0x1234, 0x00fe]
F64 = [0, 0x8000000000000000, 0x3ff0000000000000, 0xbff0000000000000, 0x4004000000000000, 0xc004000000000000,
       0x3fe0000000000000, 0x3ff8000000000000, 1, 0x000fffffffffffff, 0x8000000000000001, 0x0010000000000000,
       0x7fefffffffffffff, 0xffefffffffffffff, 0x7ff0000000000000, 0xfff0000000000000, 0x7ff8000000000000,
       0x7ff4000000000000, 0x41e0000000000000, 0xc1e0000000000000, 0x41f0000000000000, 0x400921fb54442d18,
       0x41dfffffffc00000, 0x47efffffe0000000, 0x3690000000000000]
F64_NORMAL = [0, 0x8000000000000000, 0x3ff0000000000000, 0x4004000000000000, 0x3fe0000000000000, 0x7ff0000000000000,
              0x7ff8000000000000, 0x400921fb54442d18, 0x4059000000000000, 0x3fb999999999999a, 0x4340000000000001,
              0xc004000000000000, 0x4008000000000000]
I64 = [0, 1, 2, 0x7fffffffffffffff, 0x8000000000000000, 0xffffffffffffffff, 0x00000000ffffffff, 0xffffffff00000000,
       0x0000000100000000, 0x5555555555555555, 0xaaaaaaaaaaaaaaaa, 0x123456789abcdef0, 0x80000000, 31, 32, 63, 64]
# Halves in turns for sine and cosine: |x| < 256.
TURNS32 = [0, 0x80000000, 0x3e800000, 0x3f000000, 0x3f400000, 0x3f800000, 0xbe800000, 0xbf000000, 0x3e000000, 0x3dcccccd,
           0x3eaaaaab, 0x42c84000, 0xc2c84000, 0x437f8000, 0x3f7fffff, 0x3c23d70a, 0x7fc00000, 0x7f800000]
TURNS16 = [0, 0x8000, 0x3400, 0x3800, 0x3a00, 0x3c00, 0xb400, 0xb800, 0x3000, 0x2e66, 0x3555, 0x5642, 0xd642, 0x5bfc, 0x3bff,
           0x211f, 0x7e00, 0x7c00]


def narrow_random(seed):
    """A random float of moderate size: exponent between 2^-8 and 2^7."""
    word = splitmix(seed)
    return word >> 32 & 0x807fffff | (127 - 8 + word % 16) << 23


def filled(edges, seed, random):
    return edges + [random(seed * 1000 + index) for index in range(max(0, LANES - len(edges)))]


RANDOM = {
    "f32": narrow_random,
    "f32n": lambda seed: narrow_random(seed) & 0x7fffffff,
    "turn32": lambda seed: splitmix(seed) >> 32 & 0x807fffff | (127 - 4 + splitmix(seed) % 8) << 23,
    "f16": lambda seed: splitmix(seed) >> 40 & 0x83ff | (15 - 4 + splitmix(seed) % 8) << 10,
    "f16n": lambda seed: splitmix(seed) >> 40 & 0x03ff | (15 - 3 + splitmix(seed) % 5) << 10,
    "turn16": lambda seed: splitmix(seed) >> 40 & 0x83ff | (15 - 3 + splitmix(seed) % 6) << 10,
    "i32": lambda seed: splitmix(seed) >> 32,
    "i16": lambda seed: splitmix(seed) >> 48,
    "f64": lambda seed: splitmix(seed) & 0x800fffffffffffff | (1023 - 8 + splitmix(seed + 7) % 16) << 52,
    "f64n": lambda seed: splitmix(seed) & 0x000fffffffffffff | (1023 - 8 + splitmix(seed + 7) % 16) << 52,
    "i64": splitmix,
}
EDGES = {"f32": F32, "f32n": F32_NORMAL, "turn32": TURNS32, "f16": F16, "f16n": F16_NORMAL, "turn16": TURNS16, "i32": I32,
         "i16": I16, "f64": F64, "f64n": F64_NORMAL, "i64": I64, "x16": EXACT16, "xb16": EXACT_BF16, "x32": EXACT32}


def column(kind, slot):
    """32 values of a kind for operand `slot`; the last four are the same for all slots, so that operands meet equals."""
    edges = EDGES[kind]
    full = filled(edges, sum(map(ord, kind)) + slot, RANDOM[kind]) if kind in RANDOM else [edges[i % len(edges)] for i in range(LANES)]
    step = [1, 5, 11, 13][slot % 4]
    turned = [full[(index * step + slot * 7) % len(full)] for index in range(LANES)]
    return turned[:28] + edges[2:6]


POWERS = [0, 1, -1, 5, -5, 10, -10, 20, -30, 100, -100, 126, -126, 127, -149, 150, 200, -200, 1000, -1000, 1100, -1100]
# fp8 and bf8 codes of numbers between -8 and 8: their products' sums are exact in f32.
EXACT_FP8 = [0, 0x38, 0xb8, 0x40, 0xc4, 0x44, 0x30, 0x48, 0xb0, 0x4a, 0x4c, 0xc8, 0x4e, 0x34]
EXACT_BF8 = [0, 0x3c, 0xbc, 0x40, 0xc2, 0x42, 0x38, 0x44, 0xb8, 0x45, 0x46, 0xc4, 0x47, 0x3a]
# f32 values inside the range of fp8, halfway cases among them.
SMALL = [0, 0x80000000, 0x3f800000, 0xbf800000, 0x3f880000, 0x3f980000, 0x3fa80000, 0xbfb80000, 0x43e00000, 0xc3d80000,
         0x43d00001, 0x3c800000, 0x3b000000, 0x3b400000, 0x3ac00000, 0x3b800000, 0x3c000000, 0x3c200000, 0x3c600000]
OTHER = {
    "power": lambda slot: [p & MASK for p in (POWERS * 2)[:LANES]],
    "segment": lambda slot: list(range(LANES)),
    "selectors": lambda slot: [sum((splitmix(lane * 4 + i) % 14) << 8 * i for i in range(4)) for lane in range(LANES)],
    "classes": lambda slot: [1 << lane % 10 if lane < 10 else splitmix(lane) % 1024 for lane in range(LANES)],
    "small": lambda slot: [SMALL[(i * 5 + slot * 3) % len(SMALL)] for i in range(16)] +
             [splitmix(900 + slot * 50 + i) >> 32 & 0x807fffff | (127 - 6 + i) << 23 for i in range(14)] + [0x3f800000, 0x40000000],
    "mix": lambda slot: [column("f32", slot)[i] if slot % 2 == 0 else half_pairs(column("f16", slot))[i] for i in range(LANES)],
    "xfp8": lambda slot: [sum(EXACT_FP8[(lane + 3 * i + slot * 5) * (slot + 1) % 14] << 8 * i for i in range(4)) for lane in range(LANES)],
    "xbf8": lambda slot: [sum(EXACT_BF8[(lane + 5 * i + slot * 3) * (slot + 1) % 14] << 8 * i for i in range(4)) for lane in range(LANES)],
    # Every code of a byte, over eight slots; the byte above it is another.
    "bytes": lambda slot: [slot * 32 + lane | (lane * 7 + slot) % 120 << 8 | 0x5a5a0000 for lane in range(LANES)],
}


def words(kind, slot):
    """Names and contents of the pools of one operand: one pool per dword."""
    if kind in OTHER:
        return {f"{kind}_{slot}": OTHER[kind](slot)}
    if kind == "i128":
        return {f"i128_{slot}_{part}": column("i32", slot + part) for part in range(4)}
    values = column(kind, slot)
    if kind in ("f16", "f16n", "turn16", "i16", "x16", "xb16"):
        return {f"{kind}_{slot}": half_pairs(values)}
    if kind in ("f64", "f64n", "i64"):
        return {f"{kind}_{slot}l": [v & MASK for v in values], f"{kind}_{slot}h": [v >> 32 for v in values]}
    return {f"{kind}_{slot}": values}
