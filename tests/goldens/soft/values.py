"""Writes values.txt: short instruction sequences and the register state they leave, as facts from tinygrad's tests.

The expectations of those tests were checked on gfx1100 hardware. This script runs each test, notes the machine code between
the harness's own set-up and read-out, and keeps the state that the test then asserted on, if the test passed. Needs a checkout
of tinygrad (first argument) and its emulator's requirements; cargo test needs neither.

A line: name | lanes | code dwords | v<register>:<lane values> ... | s<register>=value ... | vcc | scc | exec; zeroes are left out.
"""
import importlib, sys, unittest

sys.path.insert(0, sys.argv[1])
from test.amd.hw import helpers

MODULES = ["sop", "smem", "vop1", "vop2", "vop3", "vop3p", "vopc", "vopd", "ds", "flat", "global", "scratch", "dpp"]
calls, original = [], helpers.run_program_emu


def record(instructions, n_lanes=1):
    state = original(instructions, n_lanes)
    calls.append((instructions, n_lanes, state))
    return state


helpers.run_program_emu = record


def line(name, instructions, n_lanes, state):
    code = helpers.assemble(instructions)
    words = [f"{int.from_bytes(code[i:i + 4], 'little'):x}" for i in range(0, len(code), 4)]
    vector = []
    for register in range(16):
        lanes = [state.vgpr[lane][register] for lane in range(n_lanes)]
        if any(lanes):
            same = all(value == lanes[0] for value in lanes)
            vector.append(f"v{register}:" + (f"{lanes[0]:x}*" if same else ",".join(f"{value:x}" for value in lanes)))
    scalar = [f"s{i}={value:x}" for i, value in enumerate(state.sgpr[:16]) if value]
    return " | ".join([name, str(n_lanes), " ".join(words), " ".join(vector), " ".join(scalar), f"{state.vcc:x}",
                       f"{state.scc:x}", f"{state.sgpr[helpers.EXEC_LO.offset]:x}"])


class Keep(unittest.TextTestResult):
    def startTest(self, test):
        calls.clear()
        super().startTest(test)

    def addSuccess(self, test):
        name = test.id().split(".", 3)[3].replace("test_", "", 1)
        for index, call in enumerate(calls):
            lines.append(line(f"{name}#{index}" if index else name, *call))
        super().addSuccess(test)


lines = []
loader, suite = unittest.TestLoader(), unittest.TestSuite()
for module in MODULES:
    suite.addTests(loader.loadTestsFromModule(importlib.import_module(f"test.amd.hw.test_{module}")))
result = unittest.TextTestRunner(resultclass=Keep, verbosity=0).run(suite)
with open("values.txt", "w") as out:
    out.write("\n".join(sorted(set(lines))) + "\n")
print(len(lines), "programs,", len(result.failures) + len(result.errors), "tests left out")
