"""Writes table.txt: what every arithmetic instruction gives for fixed inputs, by tinygrad's emulator of AMD's pseudo-code.

Arguments: a tinygrad checkout, and the output of `cargo run -p doorbell-soft --example rows`. The emulator needs clang.
Registers v2 to v25 and s2 to s9 hold word(number) before, VCC a mixed mask, SCC 1, everything else zero.

A line: chip name | dwords | v16 to v23 of lanes 0 to 15 | s16 s17 s20 vcc scc
"""
import ctypes, sys

sys.path.insert(0, sys.argv[1])
from test.mockgpu.amd.emu import run_asm
from tinygrad.runtime.autogen.amd.rdna3 import ins as three
from tinygrad.runtime.autogen.amd.rdna4 import ins as four

LANES, VGPRS = 16, range(16, 24)
EDGES = [0, 0x80000000, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000, 0x3c003c00, 0xbc004000, 0x7fffffff, 0xffffffff,
         0x00010001, 0x80008000, 0x40490fdb, 0x0000ffff, 0x00000005, 0x4b000001]


def word(number):
    z = (number + 1) * 0x9e3779b97f4a7c15 % 2**64
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9 % 2**64
    z = (z ^ z >> 27) * 0x94d049bb133111eb % 2**64
    z = (z ^ z >> 31) % 2**64
    return EDGES[z >> 8 & 15] if z & 3 == 0 else z >> 32


def program(ins, chip, code):
    s, v = ins.s, ins.v
    null = ins.NULL
    at = lambda offset: {"offset" if chip == "gfx1100" else "ioffset": offset, "soffset": null}
    out = [ins.s_load_b64(s[92:93], s[0:1], **at(0)), ins.s_load_b64(s[94:95], s[0:1], **at(8))]
    wait = [ins.s_waitcnt(0)] if chip == "gfx1100" else [ins.s_wait_kmcnt(0), ins.s_wait_loadcnt(0)]
    store = ins.global_store_b32
    if chip == "gfx1100":
        load = lambda reg, offset: ins.global_load_b32(vdst=v[reg], addr=v[240], saddr=s[92:93], offset=offset)
        put = lambda reg, offset: store(addr=v[240], data=v[reg], saddr=s[94:95], offset=offset)
    else:
        load = lambda reg, offset: ins.global_load_b32(vdst=v[reg], vaddr=v[240:241], saddr=s[92:93], ioffset=offset)
        put = lambda reg, offset: store(vaddr=v[240:241], vsrc=v[reg], saddr=s[94:95], ioffset=offset)
    out += wait + [ins.v_lshlrev_b32_e32(v[240], 2, v[0])]
    for reg in range(2, 26):
        out += [load(reg, (reg - 2) * LANES * 4)]
    for reg in range(2, 10):
        out += [ins.s_load_b32(s[reg], s[92:93], **at(24 * LANES * 4 + (reg - 2) * 4))]
    out += wait + [ins.s_mov_b32(ins.VCC_LO, 0x0000a5c3)]
    for reg in (16, 17, 20):
        out += [ins.s_mov_b32(s[reg], 0)]
    out += [ins.s_cmp_eq_u32(s[0], s[0])]
    tail = [ins.s_cselect_b32(s[90], 1, 0), ins.s_mov_b32(s[91], ins.VCC_LO), ins.s_mov_b32(ins.EXEC_LO, 0xffff)]
    tail += wait
    for index, reg in enumerate(VGPRS):
        tail += [put(reg, index * LANES * 4)]
    for index, value in enumerate((s[16], s[17], s[20], s[91], s[90])):
        tail += [ins.v_mov_b32_e32(v[243], value), put(243, (8 + index) * LANES * 4)]
    tail += [ins.s_endpgm()]
    raw = lambda list_: b"".join(one.to_bytes() for one in list_)
    return raw(out) + code + raw(tail)


inputs = (ctypes.c_uint32 * (24 * LANES + 8))(*[word(i) for i in range(24 * LANES + 8)])
lines, failed = [], []
for row in open(sys.argv[2]):
    chip, name, *words = row.split()
    code = b"".join(int(w, 16).to_bytes(4, "little") for w in words)
    result = (ctypes.c_uint32 * (13 * LANES))()
    args = (ctypes.c_uint64 * 2)(ctypes.addressof(inputs), ctypes.addressof(result))
    try:
        text = program(three if chip == "gfx1100" else four, chip, code)
        buffer = (ctypes.c_char * len(text)).from_buffer_copy(text)
        arch = "rdna3" if chip == "gfx1100" else "rdna4"
        assert run_asm(ctypes.addressof(buffer), len(text), 1, 1, 1, LANES, 1, 1, ctypes.addressof(args), 0x19c, 0, arch) == 0
    except Exception as error:
        failed.append(f"{chip} {name}: {type(error).__name__} {str(error)[:80]}")
        continue
    vector = [result[i] for i in range(8 * LANES)]
    used = max([i // LANES + 1 for i, value in enumerate(vector) if value != inputs[(14 * LANES) + i] if i // LANES < 8] or [0])
    scalar = [result[(8 + i) * LANES] for i in range(5)]
    lines.append(f"{chip} {name} | {' '.join(words)} | {' '.join(f'{x:x}' for x in vector[:used * LANES])} | {' '.join(f'{x:x}' for x in scalar)}")
open("table.txt", "w").write("\n".join(lines) + "\n")
print(len(lines), "rows,", len(failed), "not run:")
print("\n".join(failed))
