"""Compares the layouts of matrix.py with those that AMD's matrix instruction calculator prints. Argument: matrix_calculator.py."""
import csv, io, re, subprocess, sys

import matrix


def table(architecture, instruction, which):
    text = subprocess.run([sys.executable, sys.argv[1], "-a", architecture, "-i", instruction, f"-{which}", "-M", "-c"],
                          capture_output=True, text=True, check=True).stdout
    rows = list(csv.reader(io.StringIO(text.split("\n", 2)[2])))
    return [[re.findall(r"\[(\d+)\]\[(\d+)\]", cell) for cell in row[1:]] for row in rows[1:33]]


def check(instruction, gfx12):
    parts = instruction.split("_")
    sparse, out, depth = parts[1] == "swmmac", parts[2], int(parts[3].split("x")[2])
    kinds = {"A": parts[4], "B": parts[5] if len(parts) > 5 else parts[4]}
    architecture = "rdna4" if gfx12 else "rdna3"
    for which in "AB":
        bits = matrix.BITS[kinds[which]]
        for lane, cells in enumerate(table(architecture, instruction, which)):
            half, line = lane // 16, lane % 16
            for at, cell in enumerate(cells):
                if which == "A" and sparse:
                    group = at if bits == 16 else at
                    want = [matrix.group_k(bits, depth, half, group) + k for k in range(4)]
                    assert [(int(r), int(k)) for r, k in cell] == [(line, k) for k in want], (instruction, which, lane, at)
                else:
                    k = matrix.k_of(gfx12, bits, depth, half, at)
                    want = (line, k) if which == "A" else (k, line)
                    assert [(int(x), int(y)) for x, y in cell] == [want], (instruction, which, lane, at, cell, want)
    for lane, cells in enumerate(table(architecture, instruction, "D")):
        for at, cell in enumerate(cells):
            row, column = map(int, cell[0])
            register, where, shift = matrix.output_place(gfx12, out, row, column)
            packed = gfx12 and out in ("f16", "bf16")
            assert (register, where, shift) == ((at // 2, lane, 16 * (at % 2)) if packed else (at, lane, 0)), (instruction, lane, at)


count = 0
for architecture in ("rdna3", "rdna4"):
    text = subprocess.run([sys.executable, sys.argv[1], "-a", architecture, "-L"], capture_output=True, text=True, check=True).stdout
    for name in re.findall(r"v_\w+", text):
        check(name, architecture == "rdna4")
        count += 1
print(count, "instructions agree")
