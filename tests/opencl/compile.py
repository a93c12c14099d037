"""Compiles textual LLVM IR for an AMD GPU with the LLVM that the `llvmlite` package carries.

    python3 compile.py CHIP IN.ll OUT.o [IN.ll OUT.o ...]

The code generator optimizes unless the name of the input contains `.O0.`. Its hazard pass of gfx12 is newer than that
of the LLVM that Debian has: the instruction checker is held against what it makes.
"""

import sys

import llvmlite.binding as llvm


def main():
    chip, files = sys.argv[1], sys.argv[2:]
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple("amdgcn-amd-amdhsa")
    for source, out in zip(files[::2], files[1::2]):
        level = 0 if ".O0." in source else 2
        machine = target.create_target_machine(cpu=chip, opt=level, reloc="pic", codemodel="default")
        with open(source, encoding="utf-8") as file:
            module = llvm.parse_assembly(file.read())
        with open(out, "wb") as file:
            file.write(machine.emit_object(module))
    print("LLVM", ".".join(map(str, llvm.llvm_version_info)))


if __name__ == "__main__":
    main()
