"""What memory instructions load, store and return. Memory is a flat list of words: a buffer, LDS, or (scratch) word-major lanes."""
from fractions import Fraction
from pools import LANES, MASK, column, splitmix, words
import number as n
from number import BF16, F16, F32, F64
from vector import high, low, number_of, pair, signed

# Byte offsets of the lanes.
ADDRESSES = {
    "a4": [4 * lane for lane in range(LANES)],
    "a8": [8 * lane for lane in range(LANES)],
    "a16": [16 * lane for lane in range(LANES)],
    "bytes4": [4 * lane + lane % 4 for lane in range(LANES)],
    "halves4": [4 * lane + lane % 2 * 2 for lane in range(LANES)],
    "same": [0] * LANES,
    # Every lane of scratch has its own memory: word lane % 4, and its bytes.
    "lane4": [lane % 4 * 4 for lane in range(LANES)],
    "lanebytes": [lane % 16 for lane in range(LANES)],
    "lanehalves": [lane % 8 * 2 for lane in range(LANES)],
    "lane8": [lane % 2 * 8 for lane in range(LANES)],
}
# Words at 4 * lane + 2 and the next are what atomics meet.
KINDS = {"i32": "i32", "i64": "i64", "f32": "f32n", "f64": "f64n", "pk16": "x16", "pkb16": "xb16"}


def contents(kind):
    """Four pools of memory words; typed values at 4 * lane + 2 (and + 3 for 64 bits)."""
    out = [splitmix(7000 + i) >> 32 for i in range(4 * LANES)]
    names = list(words(KINDS[kind], 3).values())
    for lane in range(LANES):
        for part, pool in enumerate(names):
            out[4 * lane + 2 + part] = pool[lane]
    return {f"mem_{kind}_{i}": out[32 * i:32 * i + 32] for i in range(4)}


def wide_of(pools, lane):
    return sum(pool[lane] << 32 * i for i, pool in enumerate(pools))


# New value of an atomic from the old one, the data and the second data: AMD's text per instruction.


def ints(bits):
    cut = (1 << bits) - 1
    s = lambda x: signed(x, bits)
    return {
        f"add_u{bits}": lambda m, d, e: m + d & cut, f"sub_u{bits}": lambda m, d, e: m - d & cut,
        f"rsub_u{bits}": lambda m, d, e: d - m & cut, f"inc_u{bits}": lambda m, d, e: 0 if m >= d else m + 1,
        f"dec_u{bits}": lambda m, d, e: d if m == 0 or m > d else m - 1,
        f"min_i{bits}": lambda m, d, e: min(m, d, key=s), f"max_i{bits}": lambda m, d, e: max(m, d, key=s),
        f"min_u{bits}": lambda m, d, e: min(m, d), f"max_u{bits}": lambda m, d, e: max(m, d),
        f"and_b{bits}": lambda m, d, e: m & d, f"or_b{bits}": lambda m, d, e: m | d, f"xor_b{bits}": lambda m, d, e: m ^ d,
        f"mskor_b{bits}": lambda m, d, e: m & ~d & cut | e, f"swap_b{bits}": lambda m, d, e: d,
        f"storexchg_b{bits}": lambda m, d, e: d, f"cmpstore_b{bits}": lambda m, d, e: d if m == e else m,
        f"cmpswap_b{bits}": lambda m, d, e: d if m == e else m,
    }


def float_less(form, a, b):
    a, b = form.decode(a), form.decode(b)
    return not n.is_nan(a) and not n.is_nan(b) and n.less(a, b)


def float_equal(form, a, b):
    a, b = form.decode(a), form.decode(b)
    return not n.is_nan(a) and not n.is_nan(b) and n.equal(a, b)


def float_ops(form, kind):
    return {
        f"min_{kind}": lambda m, d, e: d if float_less(form, d, m) else m,
        f"max_{kind}": lambda m, d, e: d if float_less(form, m, d) else m,
        f"min_num_{kind}": lambda m, d, e: form.encode(number_of("min")(form.decode(d), form.decode(m))),
        f"max_num_{kind}": lambda m, d, e: form.encode(number_of("max")(form.decode(d), form.decode(m))),
        f"add_{kind}": lambda m, d, e: form.encode(n.add(form.decode(m), form.decode(d))),
        f"cmpstore_{kind}": lambda m, d, e: d if float_equal(form, m, e) else m,
        f"cmpswap_{kind}": lambda m, d, e: d if float_equal(form, m, e) else m,
    }


def packed(form):
    add = lambda a, b: form.encode(n.add(form.decode(a), form.decode(b)))
    return lambda m, d, e: pair(add(low(m), low(d)), add(high(m), high(d)))


ATOMICS = {**ints(32), **ints(64), **float_ops(F32, "f32"), **float_ops(F64, "f64"),
           "sub_clamp_u32": lambda m, d, e: max(0, m - d), "cond_sub_u32": lambda m, d, e: m - d if m >= d else m,
           "pk_add_f16": packed(F16), "pk_add_bf16": packed(BF16)}


def atomic_kind(name):
    if "pk_add" in name:
        return "pkb16" if name.endswith("bf16") else "pk16"
    tail = name[-3:]
    return {"f32": "f32", "f64": "f64"}.get(tail, "i64" if tail.endswith("64") else "i32")


def compare_pools(kind, memory, wide):
    """Operands that equal what memory holds in every second lane."""
    flat = [w for pool in memory.values() for w in pool]
    other = list(words(KINDS[kind], 2).values())
    out = {}
    for part in range(2 if wide else 1):
        out[f"cmp_{kind}_{part}"] = [flat[4 * lane + 2 + part] if lane % 2 == 0 else other[part][lane] for lane in range(LANES)]
    return out


def atomic(op, row, returning):
    """Lane L works on the word (or two) at 4L + 2; offset 8 of address 16L."""
    kind = atomic_kind(op)
    wide = kind in ("i64", "f64")
    memory = contents(kind)
    flat = [w for pool in memory.values() for w in pool]
    data = words(KINDS[kind], 1)
    pools = dict(memory)
    pools.update(data)
    second, tokens = None, [f"p:{'+'.join(data)}"]
    if op.startswith(("cmpswap", "cmpstore")):
        second = compare_pools(kind, memory, wide)
    elif op.startswith("mskor"):
        second = words(KINDS[kind], 2)
    if second:
        pools.update(second)
        if op.startswith("cmpswap"):
            tokens = [f"p:{'+'.join([*data, *second])}"]
        else:
            tokens.append(f"p:{'+'.join(second)}")
    changes, before = {}, []
    for lane in range(LANES):
        at = 4 * lane + 2
        count = 2 if wide else 1
        old = sum(flat[at + i] << 32 * i for i in range(count))
        before.append(old)
        if not row.active(lane):
            continue
        new = ATOMICS[op](old, wide_of(list(data.values()), lane), wide_of(list(second.values()), lane) if second else 0)
        for i in range(count):
            changes[at + i] = new >> 32 * i & MASK
    values = before if returning else None
    return pools, memory, "a16", 8, tokens, values, 2 if wide else 1, changes


LOADS = {"load_b32": ("a16", 4, 1), "load_b64": ("a16", 8, 2), "load_b96": ("a16", 0, 3), "load_b128": ("a16", 0, 4)}
SMALL = {"u8": (1, False), "i8": (1, True), "u16": (2, False), "i16": (2, True), "b16": (2, False)}


def small_load(flat, address, size, is_signed):
    value = flat[address // 4] >> 8 * (address % 4) & (1 << 8 * size) - 1
    return signed(value, 8 * size) if is_signed else value


def half_form(op):
    """(size, signed, high) of a load into one half, in either spelling."""
    parts = op.split("_")
    kind = next(p for p in parts if p in SMALL)
    return (*SMALL[kind], "hi" in parts)


def load(op, lanes_private):
    """(address pool, offset, values per lane) of a load; None where a half keeps what it had."""
    if op in LOADS:
        return LOADS[op]
    return None


def place(flat_count, private, lane, address):
    """Index of the word at an address: private memory is word-major over lanes."""
    return address // 4 * LANES + lane if private else address // 4
