"""What scalar instructions compute, from AMD's instruction set documents. An entry is (operand kinds, function); the function
takes (state, operands) and returns a dict of what changes: d (destination), scc, exec."""
from pools import MASK, F16 as EDGES16, F32 as EDGES32, I32, I64, splitmix
import number as n
from number import F16, F32
from integer import FLOAT_TESTS, INT_TESTS, signed as s, u
from vector import high, low, minimum, number_of, pair, propagate

WIDE = (1 << 64) - 1
SCALARS = {}
SMALL_SHIFTS = [0, 1, 5, 31, 32, 33, 63, 64, 0xffffffff, 7, 16, 40]


class State:
    def __init__(self, scc, exec_mask, old):
        self.scc, self.exec, self.old = scc, exec_mask, old


def one(names, kinds, function, scc=None):
    """`scc`: None leaves it, "zero" sets it if the result is not zero."""
    for name in names.split():
        def run(state, *v, f=function, how=scc):
            value = f(state, *v)
            out = value if isinstance(value, dict) else {"d": value}
            if how == "zero":
                out["scc"] = int(out["d"] != 0)
            return out
        SCALARS[name] = (kinds.split(), run)


def both(stem, kinds, function, scc=None):
    """The 32-bit and the 64-bit form."""
    for bits in (32, 64):
        cut = (1 << bits) - 1
        one(f"{stem}_b{bits}", kinds.replace("x", f"i{bits}"), lambda state, *v, c=cut: function(*v) & c, scc)


both("s_mov", "x", lambda a: a)
for bits in (32, 64):
    cut = (1 << bits) - 1
    one(f"s_cmov_b{bits}", f"i{bits}", lambda state, a: a if state.scc else state.old)
    one(f"s_brev_b{bits}", f"i{bits}", lambda state, a, b=bits: int(f"{a:0{b}b}"[::-1], 2))
    one(f"s_ctz_i32_b{bits}", f"i{bits}", lambda state, a: (a & -a).bit_length() - 1 if a else MASK)
    one(f"s_clz_i32_u{bits}", f"i{bits}", lambda state, a, b=bits: b - a.bit_length() if a else MASK)
    one("s_cls_i32" if bits == 32 else "s_cls_i32_i64", f"i{bits}", lambda state, a, b=bits: next(
        (i for i in range(1, b) if (a >> b - 1 - i & 1) != a >> b - 1), MASK))
    one(f"s_bitset0_b{bits}", "shift", lambda state, a, b=bits: state.old & ~(1 << (a & b - 1)))
    one(f"s_bitset1_b{bits}", "shift", lambda state, a, b=bits: state.old | 1 << (a & b - 1))
    one(f"s_bcnt0_i32_b{bits}", f"i{bits}", lambda state, a, b=bits: b - a.bit_count(), "zero")
    one(f"s_bcnt1_i32_b{bits}", f"i{bits}", lambda state, a: a.bit_count(), "zero")
    one(f"s_cselect_b{bits}", f"i{bits} i{bits}", lambda state, a, b: a if state.scc else b)
    one(f"s_lshl_b{bits}", f"i{bits} shift", lambda state, a, b, c=cut, w=bits: a << (b & w - 1) & c, "zero")
    one(f"s_lshr_b{bits}", f"i{bits} shift", lambda state, a, b, w=bits: a >> (b & w - 1), "zero")
    one(f"s_ashr_i{bits}", f"i{bits} shift", lambda state, a, b, c=cut, w=bits: s(a, w) >> (b & w - 1) & c, "zero")
    one(f"s_bfm_b{bits}", "shift shift", lambda state, a, b, c=cut, w=bits: ((1 << (a & w - 1)) - 1) << (b & w - 1) & c)
    # Widths below the operand's: the result of others is not defined.
    one(f"s_bfe_u{bits}", f"i{bits} field{bits}", lambda state, a, b, w=bits: a >> (b & w - 1) & (1 << (b >> 16 & 127)) - 1, "zero")
    one(f"s_bfe_i{bits}", f"i{bits} field{bits}", lambda state, a, b, c=cut, w=bits: (
        s(s(a, w) >> (b & w - 1), b >> 16 & 127) & c if b >> 16 & 127 else 0), "zero")
    one(f"s_bitcmp0_b{bits}", f"i{bits} shift", lambda state, a, b, w=bits: {"scc": int(not a >> (b & w - 1) & 1)})
    one(f"s_bitcmp1_b{bits}", f"i{bits} shift", lambda state, a, b, w=bits: {"scc": a >> (b & w - 1) & 1})
    for name, operation in {"and": lambda a, e: a & e, "or": lambda a, e: a | e, "xor": lambda a, e: a ^ e,
                            "nand": lambda a, e: ~(a & e), "nor": lambda a, e: ~(a | e), "xnor": lambda a, e: ~(a ^ e),
                            "and_not0": lambda a, e: ~a & e, "or_not0": lambda a, e: ~a | e,
                            "and_not1": lambda a, e: a & ~e, "or_not1": lambda a, e: a | ~e}.items():
        def save(state, a, f=operation, c=cut, write=False):
            new = f(a, state.exec) & c
            return {"d": new if write else state.exec & c, "exec": new, "scc": int(new != 0)}
        one(f"s_{name}_saveexec_b{bits}", f"i{bits}", save)
        one(f"s_{name}_wrexec_b{bits}", f"i{bits}", lambda state, a, f=save: f(state, a, write=True))
both("s_not", "x", lambda a: ~a, "zero")
for name, operation in {"and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b,
                        "nand": lambda a, b: ~(a & b), "nor": lambda a, b: ~(a | b), "xnor": lambda a, b: ~(a ^ b),
                        "and_not1": lambda a, b: a & ~b, "or_not1": lambda a, b: a | ~b}.items():
    both(f"s_{name}", "x x", operation, "zero")
one("s_sext_i32_i8", "i32", lambda state, a: s(a, 8) & MASK)
one("s_sext_i32_i16", "i32", lambda state, a: s(a, 16) & MASK)
one("s_bitreplicate_b64_b32", "i32", lambda state, a: sum(3 << 2 * i for i in range(32) if a >> i & 1))
one("s_abs_i32", "i32", lambda state, a: abs(s(a, 32)) & MASK, "zero")

# Sums and their carries.


def carry(value, d=None):
    return {"d": value & MASK, "scc": int(not 0 <= value <= MASK)}


def overflow(value):
    return {"d": value & MASK, "scc": int(not -2**31 <= value < 2**31)}


one("s_add_u32 s_add_co_u32", "i32 i32", lambda state, a, b: carry(a + b))
one("s_sub_u32 s_sub_co_u32", "i32 i32", lambda state, a, b: carry(a - b))
one("s_add_i32 s_add_co_i32", "i32 i32", lambda state, a, b: overflow(s(a, 32) + s(b, 32)))
one("s_sub_i32 s_sub_co_i32", "i32 i32", lambda state, a, b: overflow(s(a, 32) - s(b, 32)))
one("s_addc_u32 s_add_co_ci_u32", "i32 i32", lambda state, a, b: carry(a + b + state.scc))
one("s_subb_u32 s_sub_co_ci_u32", "i32 i32", lambda state, a, b: carry(a - b - state.scc))
one("s_absdiff_i32", "i32 i32", lambda state, a, b: abs(s(a - b, 32)) & MASK, "zero")
for shift in (1, 2, 3, 4):
    one(f"s_lshl{shift}_add_u32", "i32 i32", lambda state, a, b, k=shift: carry((a << k) + b))
for name, pick in (("min", lambda a, b: a < b), ("max", lambda a, b: a >= b)):
    one(f"s_{name}_i32", "i32 i32", lambda state, a, b, f=pick: {
        "d": a if f(s(a, 32), s(b, 32)) else b, "scc": int(f(s(a, 32), s(b, 32)))})
    one(f"s_{name}_u32", "i32 i32", lambda state, a, b, f=pick: {"d": a if f(a, b) else b, "scc": int(f(a, b))})
one("s_mul_i32", "i32 i32", lambda state, a, b: a * b & MASK)
one("s_mul_hi_u32", "i32 i32", lambda state, a, b: a * b >> 32)
one("s_mul_hi_i32", "i32 i32", lambda state, a, b: s(a, 32) * s(b, 32) >> 32 & MASK)
one("s_add_nc_u64", "i64 i64", lambda state, a, b: a + b & WIDE)
one("s_sub_nc_u64", "i64 i64", lambda state, a, b: a - b & WIDE)
one("s_mul_u64", "i64 i64", lambda state, a, b: a * b & WIDE)
one("s_pack_ll_b32_b16", "i32 i32", lambda state, a, b: pair(a, b))
one("s_pack_lh_b32_b16", "i32 i32", lambda state, a, b: pair(a, high(b)))
one("s_pack_hh_b32_b16", "i32 i32", lambda state, a, b: pair(high(a), high(b)))
one("s_pack_hl_b32_b16", "i32 i32", lambda state, a, b: pair(high(a), b))

# 16-bit constants.
one("s_movk_i32", "k16", lambda state, k: s(k, 16) & MASK)
one("s_cmovk_i32", "k16", lambda state, k: s(k, 16) & MASK if state.scc else state.old)
one("s_addk_i32 s_addk_co_i32", "k16", lambda state, k: overflow(s(state.old, 32) + s(k, 16)))
one("s_mulk_i32", "k16", lambda state, k: s(state.old, 32) * s(k, 16) & MASK)
for name in "eq lg gt ge lt le".split():
    one(f"s_cmpk_{name}_i32", "i32 k16", lambda state, a, k, t=INT_TESTS[name]: {"scc": int(t(s(a, 32), s(k, 16)))})
    one(f"s_cmpk_{name}_u32", "i32 k16", lambda state, a, k, t=INT_TESTS[name]: {"scc": int(t(a, k))})
    one(f"s_cmp_{name}_i32", "i32 i32", lambda state, a, b, t=INT_TESTS[name]: {"scc": int(t(s(a, 32), s(b, 32)))})
    one(f"s_cmp_{name}_u32", "i32 i32", lambda state, a, b, t=INT_TESTS[name]: {"scc": int(t(a, b))})
    one(f"s_cmp_{name}_u64", "i64 i64", lambda state, a, b, t=INT_TESTS[name]: {"scc": int(t(a, b))})

# Scalar floats of RDNA3.5 and RDNA4.
for kind, form in (("f32", F32), ("f16", F16)):
    cut = (1 << form.bits) - 1
    for name, test in FLOAT_TESTS.items():
        one(f"s_cmp_{name}_{kind}", f"{kind} {kind}", lambda state, a, b, f=form, c=cut, t=test: {
            "scc": int(t(f.decode(a & c), f.decode(b & c)))})
    for name, function in {"add": n.add, "sub": n.sub, "mul": n.mul, "min": minimum(kind, "min"), "max": minimum(kind, "max"),
                           "min_num": number_of("min"), "max_num": number_of("max"), "minimum": propagate("min"),
                           "maximum": propagate("max")}.items():
        one(f"s_{name}_{kind}", f"{kind} {kind}", lambda state, a, b, f=form, c=cut, g=function: f.encode(
            g(f.decode(a & c), f.decode(b & c))))
    one(f"s_fmac_{kind}", f"{kind} {kind}", lambda state, a, b, f=form, c=cut: f.encode(
        n.fma(f.decode(a & c), f.decode(b & c), f.decode(state.old & c))))
    for name in ("trunc", "ceil", "floor", "rndne"):
        mode = "even" if name == "rndne" else name
        one(f"s_{name}_{kind}", kind, lambda state, a, f=form, c=cut, m=mode: f.encode(n.to_integral(f.decode(a & c), m)))
one("s_fmaak_f32", "f32 f32 k", lambda state, a, b, k: F32.encode(n.fma(F32.decode(a), F32.decode(b), F32.decode(k))))
one("s_fmamk_f32", "f32 k f32", lambda state, a, k, b: F32.encode(n.fma(F32.decode(a), F32.decode(k), F32.decode(b))))
one("s_cvt_f32_i32", "i32", lambda state, a: F32.encode(n.of(s(a, 32))))
one("s_cvt_f32_u32", "i32", lambda state, a: F32.encode(n.of(a)))
one("s_cvt_i32_f32", "f32", lambda state, a: n.to_int(F32.decode(a), 32, True))
one("s_cvt_u32_f32", "f32", lambda state, a: n.to_int(F32.decode(a), 32, False))
one("s_cvt_f16_f32", "f32", lambda state, a: F16.encode(F32.decode(a)))
one("s_cvt_f32_f16", "f16", lambda state, a: F32.encode(F16.decode(low(a))))
one("s_cvt_hi_f32_f16", "f16", lambda state, a: F32.encode(F16.decode(high(a))))
one("s_cvt_pk_rtz_f16_f32", "f32 f32", lambda state, a, b: pair(F16.encode(F32.decode(a), True), F16.encode(F32.decode(b), True)))

COUNT = 14


def values(kind, slot):
    """COUNT operands of a kind."""
    step = (1, 5)[slot % 2]
    turn = lambda items: [items[(i * step + slot * 3) % len(items)] for i in range(COUNT - 4)]
    equal = lambda items: items[1:5]
    if kind == "shift":
        return [SMALL_SHIFTS[(i * (slot + 1)) % 12] for i in range(COUNT)]
    if kind == "k16":
        return [0, 1, 0x7fff, 0x8000, 0xffff, 5, 0x1234, 0xff00, 31, 2, 0x8001, 0, 0x7fff, 0x5678]
    if kind in ("field32", "field64"):
        width = 31 if kind == "field32" else 63
        return [(splitmix(i) % (width + 1)) | (splitmix(i + 99) % (width - 1) + int(i != 3)) << 16 for i in range(COUNT)]
    if kind == "f16":
        items = [e | EDGES16[(i * 7 + 3) % len(EDGES16)] << 16 for i, e in enumerate(EDGES16)]
        return turn(items + EDGES16[:1]) + equal(items)
    edges = {"i32": I32, "i64": I64, "f32": EDGES32}[kind]
    return turn(edges + [splitmix(slot * 31 + 5) >> (0 if kind == "i64" else 32)]) + equal(edges)


def cases(name):
    """(operands, settings, results) of every case of a mnemonic."""
    kinds, function = SCALARS[name]
    out = []
    for index in range(COUNT):
        slot, operands, tokens = 0, [], []
        wide_old = splitmix(index * 3 + 1)
        for kind in kinds:
            if kind == "k":
                operands.append(0x3fc03e00)
                tokens.append("k:3fc03e00")
                continue
            value = values(kind, slot)[index]
            slot += 1
            operands.append(value)
            if kind == "k16":
                tokens.append(f"i:{value}")
            elif kind == "i64":
                tokens.append(f"s:{value & MASK:x}+{value >> 32:x}")
            else:
                tokens.append(f"s:{value:x}")
        out.append((index, operands, tokens, wide_old))
    return out, function
