"""Writes ../rows.txt: for every row of the instruction table inputs and the results that AMD's documents give.

Reads names, operand kinds and flags from kernels/isa/src/table/*.rs; everything that computes lives beside this file and shares
nothing with the software GPU. No arguments, nothing but Python 3.10.

    pool NAME | 32 words
    MNEMONIC CHIPS | operands | settings | results

Chips are letters: a gfx1100, b gfx1151, c gfx1200. Operands in text order: p:POOL+POOL vector registers, s:WORD+WORD scalar
registers, k:WORD literal, i:N constant, m:WORD lane mask, b base of memory, d:BYTES buffer of that size, o none, n zero.
Settings: mode, exec, vcc, scc, m0, neg, opsel, opselhi, clamp, offset, mem (its pools), old (the destination before), from, to, ret, dual.
Results: v:WORDS per dword of the destination, s:WORDS, m:WORD, vcc:, exec:, scc:, r:WORDS the first source afterwards,
mem:INDEX=WORD,.... What is not named stays as it was.
"""
import os, re, sys

import integer, lanes, matrix, memory, number, scalar, vector
from memory import ADDRESSES, SMALL
from pools import LANES, MASK, column, splitmix, words
from vector import FUNCTIONS, Lane

HERE = os.path.dirname(os.path.abspath(__file__))
TABLE = os.path.join(HERE, "../../../../kernels/isa/src/table")
ROW = re.compile(r"^\s+(\w+)(?: as (\w+))?\s*\[\s*(\S+)\s+(\S+)\s+(\S+)\]\s*([\w ]*?)\s*=\s*([\w ]*?)\s*,\s*\{([\w ]*)\},\s*(\w+);")
WIDTH = {"B64": 2, "F64": 2, "I64": 2, "U64": 2, "B96": 3, "B128": 4, "B256": 8, "B512": 16, "V64": 2, "V128": 4, "V256": 8}
HALVES = ("F16", "BF16", "I16", "U16", "B16")
EXEC, VCC = 0x7fffffff, 0x5a5aa5c3
OLD = [0xd0d00000 + 0x101 * lane for lane in range(LANES)]
# Rows whose effect is not a value: what they do is tested by programs (tests/soft/behaviour.rs).
BEHAVIOUR = re.compile(r"s_(getpc|setpc|swappc|call|sendmsg|barrier|sleep|getreg|setreg|wait|gl1_inv|dcache|icache|prefetch|"
                       r"buffer_prefetch|rfe|sethalt)|v_nop|ds_nop|global_(inv|wb)|buffer_gl")


class Row:
    def __init__(self, match, form):
        self.constant, text, *codes = match.groups()[:5]
        self.name, self.form = text or self.constant, form
        self.chips = "".join(letter for letter, code in zip("abc", codes) if code != "-")
        self.dst, self.src = match[6].split(), match[7].split()
        self.flags = match[8].split()
        self.exec = MASK if "MATRIX" in self.flags else EXEC

    def active(self, lane):
        return self.exec >> lane & 1


def table():
    for name in "sop1 sop2 sopc sopk sopp smem vop1 vop2 vopc vop3 vop3sd vop3p vopd ds global scratch flat mubuf".split():
        for line in open(os.path.join(TABLE, name + ".rs")):
            match = ROW.match(line)
            if match:
                yield Row(match, name)


POOLS, LINES = {}, []


def emit(row, tokens, settings, results, pools):
    for name, values in pools.items():
        assert POOLS.setdefault(name, values) == values, name
    def written(key, value):
        if isinstance(value, list):
            return f"{key}:" + ",".join(f"{v:x}" for v in value)
        return f"{key}:{value}" if isinstance(value, str) else f"{key}:{value:x}"
    setting = " ".join(f"{k}={v}" if isinstance(v, str) else f"{k}={v:x}" for k, v in settings.items())
    LINES.append(f"{row.name} {row.chips} | {' '.join(tokens)} | {setting} | {' '.join(written(k, v) for k, v in results)}")


def written_words(row, values):
    """Destination registers after per-lane results; halves keep the upper one, inactive lanes everything."""
    count = WIDTH.get(row.dst[0], 1)
    half = row.dst[0] in HALVES and "fma_mix" not in row.name
    out = []
    for part in range(count):
        register = []
        for lane in range(LANES):
            old = row.old[part][lane]
            new = values[lane] >> 32 * part & MASK
            register.append((old & 0xffff0000 | new & 0xffff if half else new) if row.active(lane) else old)
        out.append(register)
    return out


# Modifiers that show operand signs and saturation, beyond the plain case.
ROUNDED = ("v_add_f32 v_sub_f32 v_mul_f32 v_fma_f32 v_fmac_f32 v_fmaak_f32 v_add_f16 v_mul_f16 v_fma_f16 v_add_f64 v_mul_f64 "
           "v_fma_f64 v_cvt_f32_i32 v_cvt_f32_u32 v_cvt_f16_f32 v_cvt_f32_f64 v_ldexp_f32 v_ldexp_f64 v_pk_add_f16 v_pk_mul_f16 v_pk_fma_f16 "
           "v_cvt_f16_u16 v_cvt_f16_i16 v_fma_mix_f32 v_dual_fmac_f32 v_dual_add_f32 v_dual_mul_f32").split()
FLUSHED = ("v_add_f32 v_sub_f32 v_mul_f32 v_fma_f32 v_fmac_f32 v_add_f16 v_mul_f16 v_fma_f16 v_add_f64 v_mul_f64 v_fma_f64 "
           "v_dual_add_f32 v_dual_mul_f32 v_pk_add_f16 v_pk_fma_f16").split()
EXTRA = {"v_dot4_i32_iu8": [{"neg": 1}, {"neg": 2}, {"neg": 3}, {"neg": 3, "clamp": 1}], "v_dot8_i32_iu4": [{"neg": 1}, {"neg": 3}],
         "v_dot4_u32_u8": [{"clamp": 1}], "v_dot8_u32_u4": [{"clamp": 1}], "v_fma_mix_f32": [{"opselhi": 2}, {"opselhi": 2, "opsel": 2}],
         "v_fma_mixlo_f16": [{"opselhi": 2}], "v_fma_mixhi_f16": [{"opselhi": 2, "opsel": 2}],
         "v_cvt_pk_fp8_f32": [{"opsel": 8}], "v_cvt_pk_bf8_f32": [{"opsel": 8}],
         **{f"v_{x}_nc_{t}": [{"clamp": 1}] for x in ("add", "sub") for t in ("u32", "i32", "u16", "i16")},
         **{x: [{"clamp": 1}] for x in ("v_mad_u16", "v_mad_i16", "v_mad_u32_u24", "v_mad_i32_i24", "v_mad_u32_u16", "v_mad_i32_i16",
                                        "v_sad_u8", "v_sad_u16", "v_sad_u32", "v_sad_hi_u8", "v_msad_u8", "v_qsad_pk_u16_u8",
                                        "v_mqsad_pk_u16_u8", "v_mqsad_u32_u8", "v_pk_add_u16", "v_pk_sub_i16", "v_pk_mad_i16",
                                        "v_mad_u64_u32", "v_mad_i64_i32", "v_mad_co_u64_u32", "v_mad_co_i64_i32", "v_add_co_u32",
                                        "v_sub_co_u32", "v_subrev_co_u32")}}
SLOTS = {"v_cvt_f32_fp8": 8, "v_cvt_f32_bf8": 8, "v_cvt_pk_f32_fp8": 8, "v_cvt_pk_f32_bf8": 8}


def vector_row(row):
    if row.name in integer.COMPARE:
        kinds, function = integer.COMPARE[row.name]
    elif row.name in FUNCTIONS:
        kinds, function = FUNCTIONS[row.name]
    else:
        return False
    if row.name.startswith("v_div_scale"):
        form = vector.F32 if row.name.endswith("f32") else vector.F64
        function = lambda lane, *v: vector.div_scale(form, lane, *v)
    modes = [{"mode": 0x3f0 | both} for both in (5, 10, 15)] if row.name in ROUNDED else []
    modes += [{"mode": 0x300}] if row.name in FLUSHED else []
    for settings in [{}] + EXTRA.get(row.name, []) + modes:
        mode = settings.get("mode", 0x3f0)
        number.ROUND.update({32: mode & 3, 64: mode >> 2 & 3})
        number.FLUSH.update({32: not mode & 0x30, 64: not mode & 0xc0})
        for start in range(SLOTS.get(row.name, 1)):
            vector_case(row, kinds, function, dict(settings), start)
        if row.name.startswith("v_div_scale"):
            # The compiler's two uses: the scaled operand is the denominator, or the numerator.
            for same in (1, 2):
                vector_case(row, kinds, function, {}, 0, same)
    number.ROUND.update({32: 0, 64: 0})
    number.FLUSH.update({32: False, 64: False})
    return True


def vector_case(row, kinds, function, settings, start, same=0):
    pools, tokens, operands = {}, [], []
    is_mask = "mask" in kinds
    if is_mask and row.form == "vopd" or "VCC_IN" in row.flags:
        settings["vcc"] = VCC
        is_mask_token = False
    else:
        is_mask_token = is_mask
    slot = start
    for kind in kinds:
        if kind == "mask":
            if is_mask_token:
                tokens.append(f"m:{VCC:x}")
            continue
        if kind == "k":
            constant = 0x3e00 if "K16" in row.src else 0x3fc03e00
            tokens.append(f"k:{constant:x}")
            operands.append([constant] * LANES)
            continue
        used = words(kind, slot)
        slot += 1
        pools.update(used)
        tokens.append("p:" + "+".join(used))
        operands.append([sum(p[lane] << 32 * i for i, p in enumerate(used.values())) for lane in range(LANES)])
    if same:
        tokens[0], operands[0] = tokens[same], operands[same]
    scalar_source = row.src[:1] in (["SF32"], ["SF16"])
    if scalar_source:
        return scalar_float(row, operands[0], function)
    old_kind = {"F32": kinds[0] if kinds[0] in ("f32",) else "x32", "PF16": "f16", "F16": "f16"}.get((row.dst or [""])[0])
    row.old = [OLD] * WIDTH.get((row.dst or [""])[0], 1)
    if "READS_DST" in row.flags and old_kind:
        name, values = next(iter(words(old_kind, 3).items()))
        pools[name] = values
        settings["old"] = name
        row.old = [values]
    row.exec = settings.setdefault("exec", row.exec) if row.exec != MASK else MASK
    results = [function(Lane(lane, row.old[0][lane], VCC >> lane & 1, settings), *[o[lane] for o in operands]) for lane in range(LANES)]
    if row.name in integer.COMPARE:
        mask = sum(bit << lane for lane, bit in enumerate(results) if row.active(lane))
        key = "exec" if row.name.startswith("v_cmpx") else "m"
        return emit(row, tokens, settings, [(key, mask)], pools)
    listed = []
    if isinstance(results[0], tuple):
        listed.append(("m", sum(bit << lane for lane, (_, bit) in enumerate(results) if row.active(lane))))
        results = [value for value, _ in results]
    out = [("v", register) for register in written_words(row, results)] + listed
    if row.form == "vopd":
        settings["dual"] = "1"
    emit(row, tokens, settings, out, pools)


def scalar_float(row, values, function):
    """Transcendental instructions on scalar registers: one value a case."""
    for value in values[:20]:
        result = function(Lane(0, 0, 0, {}), value)
        emit(row, [f"s:{value:x}"], {}, [("s", [result & MASK])], {})


def lane_row(row):
    found = lanes.cases(row.name, OLD)
    for tokens, settings, results, pools in found or []:
        emit(row, tokens, settings, results, pools)
    return bool(found)


def scalar_row(row):
    if row.name not in scalar.SCALARS:
        return False
    cases, function = scalar.cases(row.name)
    wide = row.dst and WIDTH.get(row.dst[0], 1) == 2
    for index, operands, tokens, old in cases:
        exec_mask = [MASK, 0x0000ffff, 0xa5a5a5a5, 1][index % 4]
        old_value = old if wide else old & MASK
        if row.name.startswith(("s_fmac",)):
            old_value = column("f16" if row.name.endswith("f16") else "f32", 2)[index]
        state = scalar.State(index >> 1 & 1, exec_mask, old_value)
        out = function(state, *operands)
        results = []
        if row.dst:
            value = out["d"]
            half = row.dst[0] in HALVES
            results.append(("s", [value & 0xffff] if half else [value & MASK, value >> 32 & MASK] if wide else [value & MASK]))
        for key in ("scc", "exec"):
            if key in out:
                results.append((key, out[key] & MASK))
        settings = {"scc": state.scc, "exec": exec_mask}
        if "READS_DST" in row.flags:
            settings["sold"] = ",".join(f"{w:x}" for w in ([old_value & MASK, old_value >> 32] if wide else [old_value & MASK]))
        emit(row, tokens, settings, results, {})
    return True


def matrix_row(row):
    if "MATRIX" not in row.flags:
        return False
    a, b, c, index, d, settings = matrix.build(row.name, row.chips == "c")
    pools = {}
    def take(letter, registers):
        names = []
        for i, values in enumerate(registers):
            pools[f"{row.constant}_{letter}{i}"] = values
            names.append(f"{row.constant}_{letter}{i}")
        return "+".join(names)
    tokens = [f"p:{take('a', a)}", f"p:{take('b', b)}"]
    if index:
        settings["old"] = take("c", c)
        tokens.append(f"p:{take('i', [index])}")
    else:
        tokens.append(f"p:{take('c', c)}")
    settings["exec"] = MASK
    if row.chips != "c" and row.name.split("_")[2] in ("f16", "bf16"):
        # Only the low halves are written; op_sel would choose the high ones.
        d = [[OLD[lane] & 0xffff0000 | word for lane, word in enumerate(register)] for register in d]
    emit(row, tokens, settings, [("v", register) for register in d], pools)
    return True


def memory_tokens(row, address, data):
    """Operands around address and data, in the row's order."""
    out, left = [], list(data)
    for kind in row.src:
        if kind in ("ADDR32", "ADDR64", "GADDR", "SADDR", "VOFFSET"):
            out.append(f"p:{address}")
        elif kind in ("SBASE", "R64"):
            out.append("b")
        elif kind == "SBASE32":
            out.append("o")
        elif kind == "R128":
            out.append("d:200")
        elif kind == "SOFF32":
            out.append("n")
        else:
            out.append(left.pop(0))
    assert not left, row.name
    return out


def finish_memory(row, pools, mem, address, offset, data, values, count, changes, old=None, settings=None):
    pools[address] = ADDRESSES[address]
    chosen = {"exec": row.exec, "mem": "+".join(mem), "offset": offset, **(settings or {})}
    results = []
    if values is not None:
        row.old = [OLD] * count
        for part in range(count):
            results.append(("v", [values[lane] >> 32 * part & MASK if row.active(lane) else OLD[lane] for lane in range(LANES)]))
    if changes:
        results.append(("mem", ",".join(f"{i:x}={w:x}" for i, w in sorted(changes.items()))))
    emit(row, memory_tokens(row, address, data), chosen, results, pools)


def vector_memory_row(row):
    if row.form not in ("ds", "global", "flat", "scratch", "mubuf"):
        return False
    prefix = {"mubuf": "buffer"}.get(row.form, row.form)
    op = row.name[len(prefix) + 1:]
    private = row.form == "scratch"
    if "ATOMIC" in row.flags or "cmpstore" in op:
        if "2addr" in op:
            return pair_row(row, op)
        bare = op.replace("atomic_", "").replace("_rtn", "")
        forms = [True, False] if row.form in ("global", "flat") else [bool(row.dst)]
        for returning in forms:
            pools, mem, address, offset, data, values, count, changes = memory.atomic(bare, row, returning)
            finish_memory(row, pools, mem, address, offset, data, values, count, changes, settings={"ret": int(returning)}
                          if row.form in ("global", "flat") else None)
        return True
    if "2addr" in op:
        return pair_row(row, op)
    mem = memory.contents("i32")
    flat = [w for pool in mem.values() for w in pool]
    if op.startswith("load_tr"):
        # Every eight lanes exchange rows and columns of their eight elements.
        bits = 16 if op.endswith("128") else 8
        row.exec = MASK
        rows = [[flat[4 * lane + i * bits // 32] >> i * bits % 32 & (1 << bits) - 1 for i in range(8)] for lane in range(LANES)]
        values = [sum(rows[lane // 8 * 8 + i][lane % 8] << bits * i for i in range(8)) for lane in range(LANES)]
        finish_memory(row, dict(mem), mem, "a16", 0, [], values, bits // 4, {})
    elif op.startswith("load") and op in memory.LOADS:
        address, offset, count = memory.LOADS[op]
        address = "lane4" if private and count == 1 else "same" if private else address
        offset = 0 if private else offset
        at = lambda lane, part: memory.place(0, private, lane, ADDRESSES[address][lane] + offset + 4 * part)
        values = [sum(flat[at(lane, part)] << 32 * part for part in range(count)) for lane in range(LANES)]
        finish_memory(row, dict(mem), mem, address, offset, [], values, count, {})
    elif op.startswith("load"):
        is_half = "d16" in op
        size, is_signed, is_high = memory.half_form(op)
        address = ("lanebytes" if size == 1 else "lanehalves") if private else "bytes4" if size == 1 else "halves4"
        values = []
        for lane in range(LANES):
            where = ADDRESSES[address][lane]
            word = flat[memory.place(0, private, lane, where)]
            value = word >> 8 * (where % 4) & (1 << 8 * size) - 1
            value = vector.signed(value, 8 * size) if is_signed else value
            if is_half:
                half = value & 0xffff
                values.append(OLD[lane] & 0xffff | half << 16 if is_high else OLD[lane] & 0xffff0000 | half)
            else:
                values.append(value & MASK)
        finish_memory(row, dict(mem), mem, address, 0, [], values, 1, {})
    else:
        store_row(row, op, private, mem, flat)
    return True


def store_row(row, op, private, mem, flat):
    bits = int(re.search(r"store_(?:d16_hi_)?b(\d+)", op)[1])
    count = max(1, bits // 32)
    data = {}
    for part in range(count):
        data.update(words("i32", part) if bits <= 32 else {f"i32_{part}": column("i32", part)})
    if bits >= 32:
        address = {1: "lane4", 2: "same", 3: "same", 4: "same"}[count] if private else "a16"
        offset = 0 if count > 2 or private else 4
    else:
        offset = 0
        address = ("lanebytes" if bits == 8 else "lanehalves") if private else "bytes4" if bits == 8 else "halves4"
    changes = {}
    for lane in range(LANES):
        if not row.active(lane):
            continue
        where = ADDRESSES[address][lane] + offset
        for part, pool in enumerate(data.values()):
            index = memory.place(0, private, lane, where + 4 * part)
            if bits >= 32:
                changes[index] = pool[lane]
            else:
                value = (pool[lane] >> 16 if "hi" in op.split("_") else pool[lane]) & (1 << bits) - 1
                shift = 8 * (where % 4)
                word = changes.get(index, flat[index])
                changes[index] = word & ~(((1 << bits) - 1) << shift) & MASK | value << shift
    finish_memory(row, {**mem, **data}, mem, address, offset, [f"p:{'+'.join(data)}"], None, 0, changes)


def pair_row(row, op):
    """Two accesses per lane: at offsets in units of the element, or of 64 elements."""
    wide = op.endswith("64") and not op.endswith("stride64")
    unit = (8 if wide else 4) * (64 if "stride64" in op else 1)
    first, second = (0, 1) if "stride64" in op else (1, 0) if wide else (3, 1)
    address = ("a8" if wide else "a4") if "stride64" in op else "a16"
    mem = {**memory.contents("i32")}
    extra = {f"mem_more_{i}": [splitmix(8000 + 32 * i + j) >> 32 for j in range(LANES)] for i in range(4)}
    mem.update(extra)
    flat = [w for pool in mem.values() for w in pool]
    parts = 2 if wide else 1
    at = lambda lane, which, part: (ADDRESSES[address][lane] + which * unit) // 4 + part
    values = None
    if row.dst:
        values = [sum(flat[at(lane, which, part)] << 32 * (part + parts * i) for i, which in enumerate((first, second))
                      for part in range(parts)) for lane in range(LANES)]
    data, changes, pools = [], {}, dict(mem)
    if "load" not in op:
        for i, which in enumerate((first, second)):
            used = words("i64", i) if wide else words("i32", i)
            pools.update(used)
            data.append("p:" + "+".join(used))
            for lane in range(LANES):
                if row.active(lane):
                    for part, pool in enumerate(used.values()):
                        changes[at(lane, which, part)] = pool[lane]
    finish_memory(row, pools, mem, address, first | second << 8, data, values, 2 * parts, changes)
    return True


def scalar_memory_row(row):
    if row.form != "smem":
        return False
    op = row.name.replace("s_buffer_", "").replace("s_", "", 1)
    mem = memory.contents("i32")
    flat = [w for pool in mem.values() for w in pool]
    count = WIDTH.get(row.dst[0], 1)
    buffer = "buffer" in row.name
    for offset, register in ((0, None), (0x44, None), (8, 0x20), (0x1fc, 0) if buffer else (0x100, 4)):
        # Offsets beyond the buffer of 512 bytes read zero.
        tokens = ["d:200" if buffer else "b", "o" if register is None else f"s:{register:x}"]
        where = offset + (register or 0)
        kind = op.split("_")[1]
        if kind in SMALL:
            size, is_signed = SMALL[kind]
            where += 3 if size == 1 else 2
            offset += 3 if size == 1 else 2
            if buffer and where + size > 0x200:
                value = 0
            else:
                value = memory.small_load(flat, where, size, is_signed) & MASK
            result = [value]
        else:
            outside = buffer and where + 4 * count > 0x200
            result = [0 if outside else flat[where // 4 + part] for part in range(count)]
        emit(row, tokens, {"mem": "+".join(mem), "offset": offset}, [("s", result)], dict(mem))
    return True


def main():
    missing = []
    for row in table():
        if row.form == "sopp" or BEHAVIOUR.match(row.name):
            continue
        kinds = [lane_row, matrix_row, vector_row, scalar_row, scalar_memory_row, vector_memory_row]
        if not any(kind(row) for kind in kinds):
            missing.append(row.constant)
    POOLS["default"] = OLD
    with open(os.path.join(HERE, "../rows.txt"), "w") as out:
        for name, values in POOLS.items():
            out.write(f"pool {name} | {' '.join(f'{v:x}' for v in values)}\n")
        out.write("\n".join(LINES) + "\n")
    print(len(LINES), "cases,", len(POOLS), "pools; rows without one:", missing)


if __name__ == "__main__":
    main()
