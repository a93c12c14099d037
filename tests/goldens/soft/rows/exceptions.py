"""Writes ../exceptions.txt: results of ../table.txt's rows that tests/soft/table.rs lists as exceptions, by this folder's functions.

The inputs are those of ../table.py, which see. Rows whose rounding AMD does not document (matrices of floats) are left out; their
values are those of rows.txt, where all sums are exact. With an argument: prints where the two differ, lane by lane.

    CHIP MNEMONIC | dwords | v16 and following of lanes 0 to 15 | s16 s17 s20 vcc scc
"""
import os, re, sys

import integer, make, scalar, vector
from vector import FUNCTIONS, Lane

HERE = os.path.dirname(os.path.abspath(__file__))
LANES, MASK = 16, 0xffffffff
EDGES = [0, 0x80000000, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000, 0x3c003c00, 0xbc004000, 0x7fffffff, 0xffffffff,
         0x00010001, 0x80008000, 0x40490fdb, 0x0000ffff, 0x00000005, 0x4b000001]
VCC = 0xa5c3


def word(number):
    z = (number + 1) * 0x9e3779b97f4a7c15 % 2**64
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9 % 2**64
    z = (z ^ z >> 27) * 0x94d049bb133111eb % 2**64
    z = (z ^ z >> 31) % 2**64
    return EDGES[z >> 8 & 15] if z & 3 == 0 else z >> 32


def vgpr(number, lane):
    return word((number - 2) * LANES + lane)


def sgpr(number):
    return word(24 * LANES + number - 2)


def listed():
    text = open(os.path.join(HERE, "../../../soft/table.rs")).read()
    return re.findall(r'\("(\w+)", ', text.split("static EXCEPTIONS")[1].split("];")[0])


def vector_result(row):
    kinds, function = FUNCTIONS[row.name]
    if row.name.startswith("v_div_scale"):
        form = vector.F32 if row.name.endswith("f32") else vector.F64
        function = lambda lane, *v: vector.div_scale(form, lane, *v)
    count = make.WIDTH.get(row.dst[0], 1)
    long_mask = sgpr(8)
    registers, mask = [[vgpr(16 + part, lane) for lane in range(LANES)] for part in range(count)], 0
    for lane in range(LANES):
        operands, position = [], 0
        for kind in row.src:
            if kind == "MASK":
                position += 1
                continue
            if kind in ("K32", "K16"):
                operands.append(0x3fc03e00)
            else:
                width = make.WIDTH.get(kind, 1)
                first = 2 + (8 if width > 2 else 2) * position
                operands.append(sum(vgpr(first + i, lane) << 32 * i for i in range(width)))
            position += 1
        old = vgpr(16, lane)
        bit = (VCC if "VCC_IN" in row.flags else long_mask) >> lane & 1
        value = function(Lane(lane, old, bit, {"opselhi": 0 if "fma_mix" in row.name else 7}), *operands)
        if isinstance(value, tuple):
            mask |= value[1] << lane
            value = value[0]
        if row.dst[0] in make.HALVES and "fma_mix" not in row.name:
            value = old & 0xffff0000 | value & 0xffff
        for part in range(count):
            registers[part][lane] = value >> 32 * part & MASK
    return [w for register in registers for w in register], [0, 0, mask, VCC, 1]


def scalar_result(row):
    kinds, function = scalar.SCALARS[row.name]
    operands = []
    for position, kind in enumerate(kinds):
        first = 2 + 2 * position
        operands.append(sgpr(first) | sgpr(first + 1) << 32 if kind.endswith("64") else sgpr(first))
    out = function(scalar.State(1, 0xffff, 0), *operands)
    return [], [out["d"] & MASK, out["d"] >> 32 & MASK, 0, VCC, out.get("scc", 1)]


def lane_result(row):
    """The permutations between rows: lanes 16 to 31 are off, so the other row is not read."""
    return [vgpr(16, lane) for lane in range(LANES)], [0, 0, 0, VCC, 1]


def main():
    names, out, rows = set(listed()), [], {}
    for row in make.table():
        rows.setdefault((row.name, "c" in row.chips and "a" not in row.chips), row)
    for line in open(os.path.join(HERE, "../table.txt")):
        head, dwords, values, flags = (part.strip() for part in line.split("|"))
        chip, name = head.split()
        if name not in names:
            continue
        row = rows.get((name, chip == "gfx1200")) or rows[(name, chip != "gfx1200")]
        if name.startswith("v_permlanex16"):
            mine = lane_result(row)
        elif name in FUNCTIONS and "MATRIX" not in row.flags:
            mine = vector_result(row)
        elif name in scalar.SCALARS:
            mine = scalar_result(row)
        else:
            continue
        text = lambda words: " ".join(f"{w:x}" for w in words)
        out.append(f"{chip} {name} | {dwords} | {text(mine[0])} | {text(mine[1])}")
        if len(sys.argv) > 1:
            theirs = [int(w, 16) for w in values.split()]
            theirs += [vgpr(16 + at // LANES, at % LANES) for at in range(len(theirs), len(mine[0]))]
            for at, (a, b) in enumerate(zip(mine[0], theirs)):
                if a != b:
                    print(f"{chip} {name} v{16 + at // LANES} lane {at % LANES}: mine {a:x} theirs {b:x}; "
                          + " ".join(f"{vgpr(r, at % LANES):x}" for r in range(2, 8)))
            if mine[1] != [int(w, 16) for w in flags.split()]:
                print(f"{chip} {name}: scalars mine {text(mine[1])} theirs {flags}; " + " ".join(f"{sgpr(r):x}" for r in range(2, 9)))
    with open(os.path.join(HERE, "../exceptions.txt"), "w") as file:
        file.write("\n".join(out) + "\n")
    print(len(out), "rows of", len(names), "names; without:", sorted(names - {line.split()[1] for line in out}))


main()
