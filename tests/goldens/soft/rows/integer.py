"""Integer, bit, packed, dot-product and comparison instructions, lane by lane; see vector.py for the form of the entries."""
import number as n
from number import F16, BF16, F32, FP8, BF8, FORMATS_BY_KIND
from vector import FUNCTIONS, MASK, define, floats, high, low, minimum, number_of, pair, propagate, signed

WIDE = (1 << 64) - 1


def ints(names, kinds, function):
    for name in names.split():
        FUNCTIONS[name] = (kinds.split(), function)


def saturated(value, bits, is_signed):
    least, most = (-(1 << bits - 1), (1 << bits - 1) - 1) if is_signed else (0, (1 << bits) - 1)
    return max(least, min(most, value)) & (1 << bits) - 1


def wrapped(lane, value, bits, is_signed):
    """Result of an integer sum: saturated where the instruction has the clamp bit, else its low bits."""
    return saturated(value, bits, is_signed) if lane.bits("clamp") else value & (1 << bits) - 1


def u(value, bits):
    return value & (1 << bits) - 1


s = signed
# One operand.
ints("v_mov_b32 v_dual_mov_b32", "i32", lambda lane, a: a)
ints("v_not_b32", "i32", lambda lane, a: ~a & MASK)
ints("v_not_b16", "i16", lambda lane, a: ~a & 0xffff)
ints("v_bfrev_b32", "i32", lambda lane, a: int(f"{a:032b}"[::-1], 2))
ints("v_clz_i32_u32", "i32", lambda lane, a: 32 - a.bit_length() if a else MASK)
ints("v_ctz_i32_b32", "i32", lambda lane, a: (a & -a).bit_length() - 1 if a else MASK)
ints("v_cls_i32", "i32", lambda lane, a: next((i for i in range(1, 32) if (a >> 31 - i & 1) != a >> 31), MASK))

# 32 bits, two operands.
for name, operation in {"add": lambda a, b: a + b, "sub": lambda a, b: a - b, "subrev": lambda a, b: b - a}.items():
    ints(f"v_{name}_nc_u32", "i32 i32", lambda lane, a, b, f=operation: wrapped(lane, f(a, b), 32, False))
    ints(f"v_{name}_nc_i32", "i32 i32", lambda lane, a, b, f=operation: wrapped(lane, f(s(a, 32), s(b, 32)), 32, True))
    ints(f"v_{name}_nc_u16", "i16 i16", lambda lane, a, b, f=operation: wrapped(lane, f(low(a), low(b)), 16, False))
    ints(f"v_{name}_nc_i16", "i16 i16", lambda lane, a, b, f=operation: wrapped(lane, f(s(a, 16), s(b, 16)), 16, True))
    ints(f"v_{name}_co_u32", "i32 i32", lambda lane, a, b, f=operation: (
        wrapped(lane, f(a, b), 32, False), int(not 0 <= f(a, b) <= MASK)))
    sign = 1 if name == "add" else -1
    ints(f"v_{name}_co_ci_u32", "i32 i32 mask", lambda lane, a, b, f=operation, g=sign: (
        (f(a, b) + g * lane.mask) & MASK, int(not 0 <= f(a, b) + g * lane.mask <= MASK)))
ints("v_mul_lo_u32", "i32 i32", lambda lane, a, b: a * b & MASK)
ints("v_mul_hi_u32", "i32 i32", lambda lane, a, b: a * b >> 32)
ints("v_mul_hi_i32", "i32 i32", lambda lane, a, b: s(a, 32) * s(b, 32) >> 32 & MASK)
ints("v_mul_lo_u16", "i16 i16", lambda lane, a, b: low(a) * low(b) & 0xffff)
ints("v_mul_i32_i24", "i32 i32", lambda lane, a, b: s(a, 24) * s(b, 24) & MASK)
ints("v_mul_u32_u24", "i32 i32", lambda lane, a, b: u(a, 24) * u(b, 24) & MASK)
ints("v_mul_hi_i32_i24", "i32 i32", lambda lane, a, b: s(a, 24) * s(b, 24) >> 32 & MASK)
ints("v_mul_hi_u32_u24", "i32 i32", lambda lane, a, b: u(a, 24) * u(b, 24) >> 32)
ints("v_mad_i32_i24", "i32 i32 i32", lambda lane, a, b, c: wrapped(lane, s(a, 24) * s(b, 24) + s(c, 32), 32, True))
ints("v_mad_u32_u24", "i32 i32 i32", lambda lane, a, b, c: wrapped(lane, u(a, 24) * u(b, 24) + c, 32, False))
ints("v_mad_u16", "i16 i16 i16", lambda lane, a, b, c: wrapped(lane, low(a) * low(b) + low(c), 16, False))
ints("v_mad_i16", "i16 i16 i16", lambda lane, a, b, c: wrapped(lane, s(a, 16) * s(b, 16) + s(c, 16), 16, True))
ints("v_mad_u32_u16", "i16 i16 i32", lambda lane, a, b, c: wrapped(lane, low(a) * low(b) + c, 32, False))
ints("v_mad_i32_i16", "i16 i16 i32", lambda lane, a, b, c: wrapped(lane, s(a, 16) * s(b, 16) + s(c, 32), 32, True))
for name in ("v_mad_u64_u32", "v_mad_co_u64_u32"):
    ints(name, "i32 i32 i64", lambda lane, a, b, c: (wrapped(lane, a * b + c, 64, False), a * b + c >> 64 & 1))
for name in ("v_mad_i64_i32", "v_mad_co_i64_i32"):
    ints(name, "i32 i32 i64", lambda lane, a, b, c: (wrapped(lane, s(a, 32) * s(b, 32) + s(c, 64), 64, True),
                                                     s(a, 32) * s(b, 32) + s(c, 64) >> 64 & 1))

# Minima, maxima, medians.
for bits, kind in ((32, "i32"), (16, "i16")):
    for letter in "iu":
        key = (lambda x, b=bits: s(x, b)) if letter == "i" else (lambda x, b=bits: u(x, b))
        t = f"{letter}{bits}"
        cut = (1 << bits) - 1
        pick = lambda f, k=key, c=cut: (lambda lane, *v: f(v, k) & c)
        ints(f"v_min_{t}", f"{kind} {kind}", pick(lambda v, k: min(v, key=k)))
        ints(f"v_max_{t}", f"{kind} {kind}", pick(lambda v, k: max(v, key=k)))
        ints(f"v_min3_{t}", f"{kind} {kind} {kind}", pick(lambda v, k: min(v, key=k)))
        ints(f"v_max3_{t}", f"{kind} {kind} {kind}", pick(lambda v, k: max(v, key=k)))
        ints(f"v_med3_{t}", f"{kind} {kind} {kind}", pick(lambda v, k: sorted(v, key=k)[1]))
        ints(f"v_maxmin_{t}", f"{kind} {kind} {kind}", pick(lambda v, k: min((max(v[:2], key=k), v[2]), key=k)))
        ints(f"v_minmax_{t}", f"{kind} {kind} {kind}", pick(lambda v, k: max((min(v[:2], key=k), v[2]), key=k)))

# Bits.
for name, operation in {"and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b,
                        "xnor": lambda a, b: ~(a ^ b)}.items():
    ints(f"v_{name}_b32", "i32 i32", lambda lane, a, b, f=operation: f(a, b) & MASK)
    ints(f"v_{name}_b16", "i16 i16", lambda lane, a, b, f=operation: f(a, b) & 0xffff)
for bits, kind in ((16, "i16"), (32, "i32"), (64, "i64")):
    amount = "i16" if bits == 16 else "i32"
    cut = (1 << bits) - 1
    ints(f"v_lshlrev_b{bits}", f"{amount} {kind}", lambda lane, a, b, c=cut, n_=bits: (b & c) << (a & n_ - 1) & c)
    ints(f"v_lshrrev_b{bits}", f"{amount} {kind}", lambda lane, a, b, c=cut, n_=bits: (b & c) >> (a & n_ - 1))
    ints(f"v_ashrrev_i{bits}", f"{amount} {kind}", lambda lane, a, b, c=cut, n_=bits: s(b, n_) >> (a & n_ - 1) & c)
ints("v_bfe_u32", "i32 i32 i32", lambda lane, a, b, c: a >> (b & 31) & (1 << (c & 31)) - 1)
ints("v_bfe_i32", "i32 i32 i32", lambda lane, a, b, c: s(s(a, 32) >> (b & 31), c & 31) & MASK if c & 31 else 0)
ints("v_bfi_b32", "i32 i32 i32", lambda lane, a, b, c: a & b | ~a & c & MASK)
ints("v_bfm_b32", "i32 i32", lambda lane, a, b: ((1 << (a & 31)) - 1) << (b & 31) & MASK)
ints("v_alignbit_b32", "i32 i32 i32", lambda lane, a, b, c: (a << 32 | b) >> (c & 31) & MASK)
ints("v_alignbyte_b32", "i32 i32 i32", lambda lane, a, b, c: (a << 32 | b) >> 8 * (c & 3) & MASK)
ints("v_xor3_b32", "i32 i32 i32", lambda lane, a, b, c: a ^ b ^ c)
ints("v_or3_b32", "i32 i32 i32", lambda lane, a, b, c: a | b | c)
ints("v_and_or_b32", "i32 i32 i32", lambda lane, a, b, c: a & b | c)
ints("v_lshl_or_b32", "i32 i32 i32", lambda lane, a, b, c: a << (b & 31) & MASK | c)
ints("v_lshl_add_u32", "i32 i32 i32", lambda lane, a, b, c: (a << (b & 31)) + c & MASK)
ints("v_add_lshl_u32", "i32 i32 i32", lambda lane, a, b, c: a + b << (c & 31) & MASK)
ints("v_xad_u32", "i32 i32 i32", lambda lane, a, b, c: (a ^ b) + c & MASK)
ints("v_add3_u32", "i32 i32 i32", lambda lane, a, b, c: a + b + c & MASK)
ints("v_bcnt_u32_b32", "i32 i32", lambda lane, a, b: a.bit_count() + b & MASK)
ints("v_mbcnt_lo_u32_b32", "i32 i32", lambda lane, a, b: (a & (1 << lane.number) - 1).bit_count() + b & MASK)
# A wave of 32 has no lanes above 31, so no bit of the high half lies below any lane.
ints("v_mbcnt_hi_u32_b32", "i32 i32", lambda lane, a, b: b)
ints("v_cndmask_b32", "i32 i32 mask", lambda lane, a, b: b if lane.mask else a)
ints("v_cndmask_b16", "i16 i16 mask", lambda lane, a, b: low(b if lane.mask else a))


@define("v_perm_b32", "i32 i32 selectors")
def perm(lane, a, b, c):
    data = [(a << 32 | b) >> 8 * i & 255 for i in range(8)]
    choose = lambda k: 255 if k >= 13 else 0 if k == 12 else 255 * (data[(k - 8) * 2 + 1] >> 7) if k >= 8 else data[k]
    return sum(choose(c >> 8 * i & 255) << 8 * i for i in range(4))


def each_byte(a, b, masked=False):
    """Sum of the distances of four bytes; masked: where the byte of b is not zero."""
    total = 0
    for i in range(4):
        x, y = a >> 8 * i & 255, b >> 8 * i & 255
        total += 0 if masked and y == 0 else abs(x - y)
    return total


ints("v_sad_u8", "i32 i32 i32", lambda lane, a, b, c: wrapped(lane, each_byte(a, b) + c, 32, False))
ints("v_msad_u8", "i32 i32 i32", lambda lane, a, b, c: wrapped(lane, each_byte(a, b, True) + c, 32, False))
ints("v_sad_hi_u8", "i32 i32 i32", lambda lane, a, b, c: wrapped(lane, (each_byte(a, b) << 16) + c, 32, False))
ints("v_sad_u16", "i32 i32 i32", lambda lane, a, b, c: wrapped(lane, abs(low(a) - low(b)) + abs(high(a) - high(b)) + c, 32, False))
ints("v_sad_u32", "i32 i32 i32", lambda lane, a, b, c: wrapped(lane, abs(a - b) + c, 32, False))
ints("v_lerp_u8", "i32 i32 i32", lambda lane, a, b, c: sum(
    ((a >> i & 255) + (b >> i & 255) + (c >> i & 1) >> 1) << i for i in (0, 8, 16, 24)))
for name, masked in (("v_qsad_pk_u16_u8", False), ("v_mqsad_pk_u16_u8", True)):
    ints(name, "i64 i32 i64", lambda lane, a, b, c, m=masked: sum(
        wrapped(lane, each_byte(a >> 8 * i & MASK, b, m) + (c >> 16 * i & 0xffff), 16, False) << 16 * i for i in range(4)))
ints("v_mqsad_u32_u8", "i64 i32 i128", lambda lane, a, b, c: sum(
    wrapped(lane, each_byte(a >> 8 * i & MASK, b, True) + (c >> 32 * i & MASK), 32, False) << 32 * i for i in range(4)))

# Cube maps: face, coordinates and twice the major axis of a direction.


def cube(lane, x, y, z):
    a, b, c = (F32.decode(v) for v in (x, y, z))
    at_least = lambda p, q: not n.is_nan(p) and not n.is_nan(q) and not n.less(n.absolute(p), n.absolute(q))
    negative = lambda v: not n.is_nan(v) and n.less(v, n.ZERO)
    if at_least(c, a) and at_least(c, b):
        return (5 if negative(c) else 4, n.negate(a) if negative(c) else a, n.negate(b), c)
    if at_least(b, a):
        return (3 if negative(b) else 2, a, n.negate(c) if negative(b) else c, b)
    return (int(negative(a)), c if negative(a) else n.negate(c), n.negate(b), a)


ints("v_cubeid_f32", "f32 f32 f32", lambda lane, *v: F32.encode(n.of(cube(lane, *v)[0])))
ints("v_cubesc_f32", "f32 f32 f32", lambda lane, *v: F32.encode(cube(lane, *v)[1]))
ints("v_cubetc_f32", "f32 f32 f32", lambda lane, *v: F32.encode(cube(lane, *v)[2]))
ints("v_cubema_f32", "f32 f32 f32", lambda lane, *v: F32.encode(n.mul(cube(lane, *v)[3], n.of(2))))

# Packed pairs: the same operation on both halves.
PACKED = {"v_pk_mad_i16": "v_mad_i16", "v_pk_mul_lo_u16": "v_mul_lo_u16", "v_pk_add_i16": "v_add_nc_i16", "v_pk_sub_i16": "v_sub_nc_i16",
          "v_pk_lshlrev_b16": "v_lshlrev_b16", "v_pk_lshrrev_b16": "v_lshrrev_b16", "v_pk_ashrrev_i16": "v_ashrrev_i16",
          "v_pk_max_i16": "v_max_i16", "v_pk_min_i16": "v_min_i16", "v_pk_mad_u16": "v_mad_u16", "v_pk_add_u16": "v_add_nc_u16",
          "v_pk_sub_u16": "v_sub_nc_u16", "v_pk_max_u16": "v_max_u16", "v_pk_min_u16": "v_min_u16", "v_pk_fma_f16": "v_fma_f16",
          "v_pk_add_f16": "v_add_f16", "v_pk_mul_f16": "v_mul_f16", "v_pk_min_f16": "v_min_f16", "v_pk_max_f16": "v_max_f16",
          "v_pk_min_num_f16": "v_min_num_f16", "v_pk_max_num_f16": "v_max_num_f16", "v_pk_minimum_f16": "v_minimum_f16",
          "v_pk_maximum_f16": "v_maximum_f16"}
for name, one in PACKED.items():
    kinds, function = FUNCTIONS[one]
    FUNCTIONS[name] = (kinds, lambda lane, *v, f=function: pair(f(lane, *[low(x) for x in v]), f(lane, *[high(x) for x in v])))


@define("v_pk_fmac_f16", "f16 f16")
def pk_fmac(lane, a, b):
    return FUNCTIONS["v_pk_fma_f16"][1](lane, a, b, lane.old)


# Dot products: operands whose sums are exact in any order and any rounding.


def dot_floats(form, out, a, b, c, count=2):
    width = form.bits
    total = out.decode(c) if isinstance(c, int) else c
    for i in range(count):
        cut = (1 << width) - 1
        total = n.add(total, n.mul(form.decode(a >> width * i & cut), form.decode(b >> width * i & cut)))
    return out.encode(total)


ints("v_dot2_f32_f16", "x16 x16 x32", lambda lane, a, b, c: dot_floats(F16, F32, a, b, c))
ints("v_dot2_f32_bf16", "xb16 xb16 x32", lambda lane, a, b, c: dot_floats(BF16, F32, a, b, c))
ints("v_dot2_f16_f16", "x16 x16 x16", lambda lane, a, b, c: dot_floats(F16, F16, a, b, low(c)))
ints("v_dot2_bf16_bf16", "xb16 xb16 xb16", lambda lane, a, b, c: dot_floats(BF16, BF16, a, b, low(c)))
ints("v_dot2acc_f32_f16 v_dual_dot2acc_f32_f16", "x16 x16", lambda lane, a, b: dot_floats(F16, F32, a, b, lane.old))


def mixed(first, second):
    def run(lane, a, b, c):
        total = F32.decode(c)
        for i in range(4):
            total = n.add(total, n.mul(first.decode(a >> 8 * i & 255), second.decode(b >> 8 * i & 255)))
        return F32.encode(total)
    return run


for x, first in (("fp8", FP8), ("bf8", BF8)):
    for y, second in (("fp8", FP8), ("bf8", BF8)):
        ints(f"v_dot4_f32_{x}_{y}", f"x{x} x{y} x32", mixed(first, second))


def dot_ints(bits, by_modifier):
    def run(lane, a, b, c):
        read = lambda x, i, side: s(x >> bits * i, bits) if by_modifier and lane.signed(side) else u(x >> bits * i, bits)
        total = sum(read(a, i, 0) * read(b, i, 1) for i in range(32 // bits)) + (s(c, 32) if by_modifier else c)
        return wrapped(lane, total, 32, by_modifier)
    return run


ints("v_dot4_i32_iu8", "i32 i32 i32", dot_ints(8, True))
ints("v_dot4_u32_u8", "i32 i32 i32", dot_ints(8, False))
ints("v_dot8_i32_iu4", "i32 i32 i32", dot_ints(4, True))
ints("v_dot8_u32_u4", "i32 i32 i32", dot_ints(4, False))


def mix(place):
    """f32 operands or halves of registers, chosen per operand; one rounding in f32, then one to f16 for the halves."""
    def run(lane, *v):
        values = []
        for i, x in enumerate(v):
            if not lane.bits("opselhi") >> i & 1:
                values.append(F32.decode(x))
            else:
                values.append(F16.decode(high(x) if lane.bits("opsel") >> i & 1 else low(x)))
        total = F32.encode(n.fma(*values))
        if place == "all":
            return total
        half = F16.encode(F32.decode(total))
        return lane.old & 0xffff0000 | half if place == "low" else low(lane.old) | half << 16
    return run


ints("v_fma_mix_f32", "mix mix mix", mix("all"))
ints("v_fma_mixlo_f16", "mix mix mix", mix("low"))
ints("v_fma_mixhi_f16", "mix mix mix", mix("high"))
FUNCTIONS["v_div_scale_f32"] = (["f32"] * 3, None)
FUNCTIONS["v_div_scale_f64"] = (["f64"] * 3, None)

# Halves of dual-issue instructions compute what the plain instruction does.
DUAL = {"v_dual_add_nc_u32": "v_add_nc_u32", "v_dual_lshlrev_b32": "v_lshlrev_b32", "v_dual_and_b32": "v_and_b32",
        "v_dual_cndmask_b32": "v_cndmask_b32"}
for name in "fmac fmaak fmamk mul add sub subrev mul_dx9_zero max min max_num min_num".split():
    DUAL[f"v_dual_{name}_f32"] = f"v_{name}_f32"
for name, one in DUAL.items():
    FUNCTIONS[name] = FUNCTIONS[one]

# Comparisons give a mask bit.
FLOAT_TESTS = {"f": lambda a, b: False, "t": lambda a, b: True,
               "o": lambda a, b: not n.is_nan(a) and not n.is_nan(b), "u": lambda a, b: n.is_nan(a) or n.is_nan(b)}
ORDERED = {"lt": lambda a, b: n.less(a, b), "eq": lambda a, b: n.equal(a, b), "le": lambda a, b: not n.less(b, a),
           "gt": lambda a, b: n.less(b, a), "lg": lambda a, b: not n.equal(a, b), "ge": lambda a, b: not n.less(a, b)}
for name, test in ORDERED.items():
    FLOAT_TESTS[name] = lambda a, b, t=test: FLOAT_TESTS["o"](a, b) and t(a, b)
    FLOAT_TESTS["neq" if name == "eq" else "n" + name] = lambda a, b, t=test: not (FLOAT_TESTS["o"](a, b) and t(a, b))
INT_TESTS = {"f": lambda a, b: False, "lt": lambda a, b: a < b, "eq": lambda a, b: a == b, "le": lambda a, b: a <= b,
             "gt": lambda a, b: a > b, "ne": lambda a, b: a != b, "lg": lambda a, b: a != b, "ge": lambda a, b: a >= b,
             "t": lambda a, b: True}


def classify(form, bits, wanted):
    sign, magnitude = form.decode(bits)
    if magnitude == "snan":
        place = 0
    elif magnitude == "nan":
        place = 1
    elif magnitude == "inf":
        place = 2 if sign else 9
    elif magnitude == 0:
        place = 5 if sign else 6
    elif magnitude < n.power(1 - form.bias):
        place = 4 if sign else 7
    else:
        place = 3 if sign else 8
    return wanted >> place & 1


COMPARE = {}
for prefix in ("v_cmp", "v_cmpx"):
    for kind in ("f16", "f32", "f64"):
        form = FORMATS_BY_KIND[kind]
        cut = (1 << form.bits) - 1
        for name, test in FLOAT_TESTS.items():
            COMPARE[f"{prefix}_{name}_{kind}"] = ([kind] * 2, lambda lane, a, b, f=form, c=cut, t=test: int(
                t(f.decode(a & c), f.decode(b & c))))
        COMPARE[f"{prefix}_class_{kind}"] = ([kind, "classes"], lambda lane, a, b, f=form, c=cut: classify(f, a & c, b))
    for bits in (16, 32, 64):
        for letter in "iu":
            read = (lambda x, b=bits: s(x, b)) if letter == "i" else (lambda x, b=bits: u(x, b))
            for name, test in INT_TESTS.items():
                COMPARE[f"{prefix}_{name}_{letter}{bits}"] = ([f"i{bits}"] * 2, lambda lane, a, b, r=read, t=test: int(t(r(a), r(b))))
