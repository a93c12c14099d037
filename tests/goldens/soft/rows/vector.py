"""What vector instructions compute, lane by lane, from AMD's instruction set documents (RDNA3, RDNA3.5, RDNA4).

`FUNCTIONS` maps a mnemonic to (operand kinds, function). A kind names the pools of an operand (pools.py); the function takes a
lane and the operands as integers and gives the destination as an integer, or (destination, mask bit).
"""
from fractions import Fraction
import number as n
from number import F16, BF16, F32, F64, FP8, BF8

FUNCTIONS = {}
MASK = 0xffffffff
FORMATS = {"f16": F16, "f32": F32, "f64": F64, "bf16": BF16}


class Lane:
    """What a lane sees besides its operands: number, old destination, mask input, the operands' modifiers."""

    def __init__(self, number, old, mask, settings):
        self.number, self.old, self.mask, self.settings = number, old, mask, settings

    def signed(self, index):
        return self.settings.get("neg", 0) >> index & 1

    def bits(self, name):
        return self.settings.get(name, 0)


def define(names, kinds):
    def register(function):
        for name in names.split():
            FUNCTIONS[name] = (kinds.split(), function)
        return function
    return register


def signed(value, bits):
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


def low(value):
    return value & 0xffff


def high(value):
    return value >> 16 & 0xffff


def pair(a, b):
    return low(a) | low(b) << 16


def floats(kind, function, count, pools=None):
    """An operation on decoded values of one format."""
    form = FORMATS[kind]
    cut = (1 << form.bits) - 1
    return [pools or kind] * count, lambda lane, *s: form.encode(function(*[form.decode(x & cut) for x in s]))


def minimum(kind, name):
    """gfx11's minimum and maximum with MODE.IEEE set; a signalling NaN wins, a quiet one loses."""
    def choose(a, b):
        if a[1] == "snan" or b[1] == "snan":
            return n.NAN
        if n.is_nan(b):
            return a
        if n.is_nan(a):
            return b
        first = n.before(a, b) if name == "min" else n.before(b, a)
        return a if first else b
    return choose


def number_of(name):
    """gfx12's minimumNumber and maximumNumber: the operand that is a number wins."""
    def choose(a, b):
        if n.is_nan(a):
            return n.NAN if n.is_nan(b) else b
        if n.is_nan(b):
            return a
        first = n.before(a, b) if name == "min" else n.before(b, a)
        return a if first else b
    return choose


def propagate(name):
    """gfx12's minimum and maximum: NaN wins."""
    def choose(a, b):
        if n.is_nan(a) or n.is_nan(b):
            return n.NAN
        first = n.before(a, b) if name == "min" else n.before(b, a)
        return a if first else b
    return choose


def median(minimum_of, maximum_of):
    def choose(a, b, c):
        if n.is_nan(a) or n.is_nan(b) or n.is_nan(c):
            return minimum_of(minimum_of(a, b), c)
        top = maximum_of(maximum_of(a, b), c)
        if n.equal(top, a):
            return maximum_of(b, c)
        return maximum_of(a, c) if n.equal(top, b) else maximum_of(a, b)
    return choose


def fract(form):
    """x - floor(x), below one: the largest value below one where that rounds up to it."""
    def run(x):
        if not n.finite(x):
            return n.NAN
        value = n.exact(x)
        exact = n.of(value - value.numerator // value.denominator)
        rounded = form.decode(form.encode(exact))
        return n.of(1 - n.power(-form.mantissa - 1)) if rounded == n.ONE else rounded
    return run


# Arithmetic of one format.
for kind in ("f16", "f32", "f64"):
    form = FORMATS[kind]
    two = {"add": n.add, "sub": n.sub, "subrev": lambda a, b: n.sub(b, a), "mul": n.mul, "min": minimum(kind, "min"),
           "max": minimum(kind, "max"), "min_num": number_of("min"), "max_num": number_of("max"),
           "minimum": propagate("min"), "maximum": propagate("max")}
    for name, function in two.items():
        FUNCTIONS[f"v_{name}_{kind}"] = floats(kind, function, 2)
    FUNCTIONS[f"v_fma_{kind}"] = floats(kind, n.fma, 3)
    for suffix, low_of, high_of in (("", two["min"], two["max"]), ("_num", two["min_num"], two["max_num"])):
        FUNCTIONS[f"v_min3{suffix}_{kind}"] = floats(kind, lambda a, b, c, f=low_of: f(f(a, b), c), 3)
        FUNCTIONS[f"v_max3{suffix}_{kind}"] = floats(kind, lambda a, b, c, f=high_of: f(f(a, b), c), 3)
        FUNCTIONS[f"v_med3{suffix}_{kind}"] = floats(kind, median(low_of, high_of), 3)
        FUNCTIONS[f"v_maxmin{suffix}_{kind}"] = floats(kind, lambda a, b, c, f=low_of, g=high_of: f(g(a, b), c), 3)
        FUNCTIONS[f"v_minmax{suffix}_{kind}"] = floats(kind, lambda a, b, c, f=low_of, g=high_of: g(f(a, b), c), 3)
    least, most = two["minimum"], two["maximum"]
    FUNCTIONS[f"v_minimum3_{kind}"] = floats(kind, lambda a, b, c, f=least: f(f(a, b), c), 3)
    FUNCTIONS[f"v_maximum3_{kind}"] = floats(kind, lambda a, b, c, f=most: f(f(a, b), c), 3)
    FUNCTIONS[f"v_minimummaximum_{kind}"] = floats(kind, lambda a, b, c, f=least, g=most: g(f(a, b), c), 3)
    FUNCTIONS[f"v_maximumminimum_{kind}"] = floats(kind, lambda a, b, c, f=least, g=most: f(g(a, b), c), 3)
    for name in ("trunc", "ceil", "floor", "even"):
        mnemonic = "rndne" if name == "even" else name
        FUNCTIONS[f"v_{mnemonic}_{kind}"] = floats(kind, lambda x, m=name: n.to_integral(x, m), 1)
    FUNCTIONS[f"v_fract_{kind}"] = floats(kind, fract(form), 1)
    FUNCTIONS[f"v_frexp_mant_{kind}"] = floats(kind, lambda x: n.frexp(x)[1], 1)
    normal = {"f16": "f16n", "f32": "f32n", "f64": "f64n"}[kind]
    roots = {"rcp": n.rcp, "rsq": n.rsq, "sqrt": n.sqrt, "exp": n.exp2, "log": n.log2}
    for name, function in roots.items():
        FUNCTIONS[f"v_{name}_{kind}"] = floats(kind, function, 1, normal)
        FUNCTIONS[f"v_s_{name}_{kind}"] = floats(kind, function, 1, normal)
    turns = {"f16": "turn16", "f32": "turn32"}.get(kind)
    if turns:
        FUNCTIONS[f"v_sin_{kind}"] = floats(kind, lambda x: n.circular(x, False), 1, turns)
        FUNCTIONS[f"v_cos_{kind}"] = floats(kind, lambda x: n.circular(x, True), 1, turns)
    cut = (1 << form.bits) - 1
    FUNCTIONS[f"v_fmac_{kind}"] = ([kind] * 2, lambda lane, a, b, f=form, c=cut: f.encode(
        n.fma(f.decode(a & c), f.decode(b & c), f.decode(lane.old & c))))
    FUNCTIONS[f"v_fmamk_{kind}"] = ([kind, "k", kind], lambda lane, a, k, b, f=form, c=cut: f.encode(
        n.fma(f.decode(a & c), f.decode(k & c), f.decode(b & c))))
    FUNCTIONS[f"v_fmaak_{kind}"] = ([kind, kind, "k"], lambda lane, a, b, k, f=form, c=cut: f.encode(
        n.fma(f.decode(a & c), f.decode(b & c), f.decode(k & c))))
FUNCTIONS["v_rcp_iflag_f32"] = FUNCTIONS["v_rcp_f32"]
EXPONENT_BITS = {"f16": ("i16", 0xffff), "f32": ("i32", MASK), "f64": ("i32", MASK)}
for kind, (integer, cut) in EXPONENT_BITS.items():
    FUNCTIONS[f"v_frexp_exp_{integer}_{kind}"] = ([kind], lambda lane, x, f=FORMATS[kind], c=cut: n.frexp(f.decode(
        x & (1 << f.bits) - 1))[0] & c)


def dx9(a, b, product):
    return n.ZERO if n.is_zero(a) or n.is_zero(b) else product


# Zero times anything is zero, and the sum is the third operand.
FUNCTIONS["v_mul_dx9_zero_f32"] = floats("f32", lambda a, b: dx9(a, b, n.mul(a, b)), 2)
FUNCTIONS["v_fma_dx9_zero_f32"] = floats("f32", lambda a, b, c: c if n.is_zero(a) or n.is_zero(b) else n.fma(a, b, c), 3)


@define("v_fmac_dx9_zero_f32", "f32 f32")
def fmac_dx9(lane, a, b):
    return FUNCTIONS["v_fma_dx9_zero_f32"][1](lane, a, b, lane.old)


@define("v_mullit_f32", "f32 f32 f32")
def mullit(lane, a, b, c):
    x, y, z = F32.decode(a), F32.decode(b), F32.decode(c)
    smallest = F32.largest(1)
    off = y == smallest or y == n.MINUS_INF or n.is_nan(y) or n.is_nan(z) or not n.less(n.ZERO, z)
    if off:
        return F32.encode(smallest)
    return F32.encode(n.mul(x, y))


# Conversions.
for source in ("f16", "f32", "f64"):
    form = FORMATS[source]
    cut = (1 << form.bits) - 1
    for target in ("i16", "u16", "i32", "u32"):
        FUNCTIONS[f"v_cvt_{target}_{source}"] = ([source], lambda lane, x, f=form, c=cut, t=target: n.to_int(
            f.decode(x & c), int(t[1:]), t[0] == "i"))
    for target in ("f16", "f32", "f64"):
        FUNCTIONS[f"v_cvt_{target}_{source}"] = ([source], lambda lane, x, f=form, g=FORMATS[target], c=cut: g.encode(f.decode(x & c)))
for source, bits in (("i16", 16), ("u16", 16), ("i32", 32), ("u32", 32)):
    for target in ("f16", "f32", "f64"):
        FUNCTIONS[f"v_cvt_{target}_{source}"] = (["i16" if bits == 16 else "i32"], lambda lane, x, b=bits, s=source[0] == "i",
                                                 g=FORMATS[target]: g.encode(n.of(signed(x, b) if s else x & (1 << b) - 1)))
FUNCTIONS["v_cvt_i32_i16"] = (["i16"], lambda lane, x: signed(x, 16) & MASK)
FUNCTIONS["v_cvt_u32_u16"] = (["i16"], lambda lane, x: low(x))
for byte in range(4):
    FUNCTIONS[f"v_cvt_f32_ubyte{byte}"] = (["i32"], lambda lane, x, b=byte: F32.encode(n.of(x >> 8 * b & 255)))


@define("v_cvt_nearest_i32_f32", "f32")
def cvt_nearest(lane, x):
    value = F32.decode(x)
    if not n.finite(value):
        return n.to_int(value, 32, True)
    shifted = F32.decode(F32.encode(n.add(value, n.of(Fraction(1, 2)))))
    return n.to_int(n.to_integral(shifted, "floor"), 32, True)


@define("v_cvt_floor_i32_f32", "f32")
def cvt_floor(lane, x):
    return n.to_int(n.to_integral(F32.decode(x), "floor"), 32, True)


@define("v_cvt_off_f32_i4", "i32")
def cvt_off(lane, x):
    return F32.encode(n.of(Fraction(signed(x, 4), 16)))


def normalised(form, bits, is_signed):
    """Clamped to [-1, 1] or [0, 1], scaled to the integer range, rounded to the nearest, ties to even; NaN is 0."""
    value = form.decode(bits & (1 << form.bits) - 1)
    if n.is_nan(value):
        return 0
    low_end, scale = (-1, 32767) if is_signed else (0, 65535)
    clamped = max(Fraction(low_end), min(Fraction(1), n.exact(value))) if n.finite(value) else Fraction(low_end if value[0] else 1)
    return n.exact(n.to_integral(n.of(clamped * scale), "even")).numerator & 0xffff


for kind in ("f16", "f32"):
    for letter in "iu":
        FUNCTIONS[f"v_cvt_norm_{letter}16_{kind}"] = ([kind], lambda lane, x, f=FORMATS[kind], s=letter == "i": normalised(f, x, s))
        FUNCTIONS[f"v_cvt_pk_norm_{letter}16_{kind}"] = ([kind] * 2, lambda lane, a, b, f=FORMATS[kind], s=letter == "i": pair(
            normalised(f, a, s), normalised(f, b, s)))
for letter in "iu":
    FUNCTIONS[f"v_cvt_pk_{letter}16_f32"] = (["f32"] * 2, lambda lane, a, b, s=letter == "i": pair(
        n.to_int(F32.decode(a), 16, s), n.to_int(F32.decode(b), 16, s)))
FUNCTIONS["v_cvt_pk_u16_u32"] = (["i32"] * 2, lambda lane, a, b: pair(min(a, 0xffff), min(b, 0xffff)))
FUNCTIONS["v_cvt_pk_i16_i32"] = (["i32"] * 2, lambda lane, a, b: pair(*[max(-32768, min(32767, signed(x, 32))) for x in (a, b)]))
FUNCTIONS["v_cvt_pk_rtz_f16_f32"] = (["f32"] * 2, lambda lane, a, b: pair(
    F16.encode(F32.decode(a), True), F16.encode(F32.decode(b), True)))
FUNCTIONS["v_pack_b32_f16"] = (["f16"] * 2, lambda lane, a, b: pair(a, b))
FUNCTIONS["v_sat_pk_u8_i16"] = (["i16"], lambda lane, x: sum(max(0, min(255, signed(h, 16))) << 8 * i
                                                            for i, h in enumerate((low(x), high(x)))))


@define("v_cvt_pk_u8_f32", "f32 i32 i32")
def cvt_pk_u8(lane, a, b, c):
    """Truncated where the fraction is zero in every case of this table; saturated."""
    shift = 8 * (b & 3)
    value = F32.decode(a)
    byte = n.to_int(n.to_integral(value, "even"), 8, False) if n.finite(value) else n.to_int(value, 8, False)
    return c & ~(255 << shift) & MASK | byte << shift


# Small floats of gfx12.
for name, form in (("fp8", FP8), ("bf8", BF8)):
    FUNCTIONS[f"v_cvt_f32_{name}"] = (["bytes"], lambda lane, x, f=form: F32.encode(f.decode(x & 255)))
    FUNCTIONS[f"v_cvt_pk_f32_{name}"] = (["bytes"], lambda lane, x, f=form: F32.encode(f.decode(x & 255)) |
                                         F32.encode(f.decode(x >> 8 & 255)) << 32)

    def pack_small(lane, a, b, f=form):
        both = f.encode(F32.decode(a)) | f.encode(F32.decode(b)) << 8
        return low(lane.old) | both << 16 if lane.bits("opsel") & 8 else lane.old & 0xffff0000 | both
    FUNCTIONS[f"v_cvt_pk_{name}_f32"] = (["small", "small"], pack_small)

    def stochastic(lane, a, b, f=form, keep=12 if name == "fp8" else 11):
        """The random bits join below the significand that stays (S1[31:12] for fp8, S1[31:11] for bf8)."""
        mantissa = (a & 0x7fffff) + (b >> keep) & 0x7fffff
        shift = 8 * (lane.bits("opsel") >> 2 & 3)
        byte = f.encode(F32.decode(a & 0xff800000 | mantissa))
        return lane.old & ~(255 << shift) & MASK | byte << shift
    FUNCTIONS[f"v_cvt_sr_{name}_f32"] = (["small", "i32"], stochastic)

# Scaling and division.
for kind, form in (("f32", F32), ("f64", F64)):
    FUNCTIONS[f"v_ldexp_{kind}"] = ([kind, "power"], lambda lane, a, b, f=form: f.encode(n.ldexp(f.decode(a), signed(b, 32))))
FUNCTIONS["v_ldexp_f16"] = (["f16", "power"], lambda lane, a, b: F16.encode(n.ldexp(F16.decode(low(a)), signed(b, 16))))


def fixup(form, lowest):
    """The quotient with the specials of numerator (third operand) and denominator (second) put right."""
    def run(q, d, m):
        sign = d[0] ^ m[0]
        if n.is_nan(m) or n.is_nan(d) or n.is_zero(d) and n.is_zero(m) or n.is_inf(d) and n.is_inf(m):
            return n.NAN
        if n.is_zero(d) or n.is_inf(m):
            return sign, "inf"
        if n.is_inf(d) or n.is_zero(m):
            return sign, Fraction(0)
        field = lambda x: max(0, n.floor_log2(x[1]) + form.bias)
        if lowest is not None and field(m) - field(d) < lowest:
            return sign, Fraction(0)
        return (sign, "inf") if n.is_nan(q) else (sign, q[1])
    return run


FUNCTIONS["v_div_fixup_f32"] = floats("f32", fixup(F32, -150), 3)
FUNCTIONS["v_div_fixup_f64"] = floats("f64", fixup(F64, -1075), 3)
FUNCTIONS["v_div_fixup_f16"] = floats("f16", fixup(F16, None), 3)


def fmas(form, scale, lane, a, b, c):
    """Where VCC is set, scaled up if the addend is 2 or more, down otherwise: as measured on gfx1100."""
    a, b, c = form.decode(a), form.decode(b), form.decode(c)
    total = n.fma(a, b, c)
    if lane.mask and n.finite(total) and not n.is_zero(total):
        up = not n.finite(c) or not n.is_zero(c) and n.floor_log2(c[1]) >= 1
        total = n.ldexp(total, scale if up else -scale)
    return form.encode(total)


FUNCTIONS["v_div_fmas_f32"] = (["f32"] * 3, lambda lane, a, b, c: fmas(F32, 64, lane, a, b, c))
FUNCTIONS["v_div_fmas_f64"] = (["f64"] * 3, lambda lane, a, b, c: fmas(F64, 128, lane, a, b, c))


def div_scale(form, lane, a, b, c):
    """(scaled operand, whether the quotient is rescaled later); second operand denominator, third numerator.

    The document's conditions, read so that division comes out right, and with the values measured on gfx1100: a zero
    operand gives NaN and sets the bit."""
    scale, near, tiny = (64, 96, 23) if form is F32 else (128, 768, 53)
    value, d, m = form.decode(a), form.decode(b), form.decode(c)
    field = lambda bits: bits >> form.mantissa & form.top
    if n.is_zero(d) or n.is_zero(m):
        return form.encode(n.NAN), 1
    up, down = form.encode(n.ldexp(value, scale)), form.encode(n.ldexp(value, -scale))
    distance = field(c) - field(b)
    if distance >= near:
        return (up if a == b else a), 1
    if field(b) == 0:
        return up, 0
    # 1/d is denormal, or m/d may be.
    reciprocal = n.is_inf(d) or n.finite(d) and 1 / d[1] < n.power(1 - form.bias)
    quotient = distance <= 1 - form.bias
    if reciprocal and quotient:
        return (down if a == b else a), 1
    if reciprocal:
        return down, 0
    if quotient:
        return (up if a == c else a), 1
    return (up, 0) if field(c) <= tiny else (a, 0)


@define("v_trig_preop_f64", "f64 segment")
def trig_preop(lane, a, b):
    """53 bits of 2/pi from bit 53 * segment (and further for large values) of its fraction."""
    field = a >> 52 & 0x7ff
    shift = (b & 31) * 53 + max(0, field - 1077)
    digits = (n.UNIT_WIDE << 1202) // n.PI_WIDE
    bits = digits & (1 << 1201) - 1
    result = (bits << shift) >> 1148 & (1 << 53) - 1
    return F64.encode(n.ldexp(n.of(result), -53 - shift + (128 if field >= 1968 else 0)))
