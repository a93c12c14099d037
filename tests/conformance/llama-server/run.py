"""Runs llama.cpp's own server tests against doorbell: run.py TREE PROGRAM MODEL [PYTEST ARGUMENTS].

TREE is a llama.cpp tree, of which nothing is kept or changed: its tests are copied to a temporary folder. Needs pytest,
requests, numpy, wget, filelock, openai, aiohttp and prometheus_client. A developer's step. Prints how many tests passed
of those that apply, and what failed; why a test does not apply is in NOT_APPLICABLE.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

# whole files, and single tests by a pattern of their names, with the reason
NOT_APPLICABLE = [
    ("test_lora", "no LoRA adapters"),
    ("test_mcp_servers", "no tools run in the server"),
    ("test_tools_builtin", "no tools run in the server"),
    ("test_proxy", "no proxy"),
    ("test_rerank", "no reranking models"),
    ("test_router", "one model per process"),
    ("test_sleep", "no sleeping"),
    ("test_speculative", "no draft models"),
    ("test_vision_api", "no images"),
    ("test_compat_gcp", "no wrapper of Google's"),
    ("test_kv_keep_only_active", "pages are shared; there is no copy of a slot to keep or drop"),
    ("test_ctx_shift", "contexts do not shift: what is full ends with `length`"),
    ("test_infill", "the model has no tokens for filling in"),
    ("test_tool_call", "needs models of their own from the network"),
    ("test_stream", "no streams that are taken up again"),
    (r"test_basic.*(multiple_addresses|split_model|no_ui|aliases_and_tags)", "no such option"),
    (r"test_basic.*test_server_slots", "/slots is always there"),
    (r"test_slot_save", "needs --slot-save-path"),
]


def main():
    tree, program, model, *rest = sys.argv[1:]
    suite = pathlib.Path(tree) / "tools/server/tests"
    with tempfile.TemporaryDirectory() as folder:
        tests = pathlib.Path(folder) / "tools/server/tests"
        shutil.copytree(suite, tests)
        # some tests read templates by their place in the tree
        templates = pathlib.Path(tree) / "models"
        (pathlib.Path(folder) / "models").symlink_to(templates.resolve())
        here = pathlib.Path(__file__).resolve().parent
        environment = {
            **os.environ, "LLAMA_SERVER_BIN_PATH": str(here / "adapter.py"),
            "DOORBELL": str(pathlib.Path(program).resolve()), "DOORBELL_MODEL": str(pathlib.Path(model).resolve()),
        }
        command = [sys.executable, "-m", "pytest", "-q", "-rA", "--tb=line", "-p", "no:cacheprovider", "unit", *rest]
        run = subprocess.run(command, cwd=tests, env=environment, text=True, stdout=subprocess.PIPE)
    outcomes = dict((name, word) for word, name in re.findall(r"^(PASSED|FAILED|ERROR) (unit/\S+)", run.stdout, re.M))
    reasons = lambda name: next((why for pattern, why in NOT_APPLICABLE if re.search(pattern, name)), None)
    applicable = {name: word for name, word in outcomes.items() if not reasons(name)}
    files = sorted({name.split("::")[0] for name in applicable})
    for file in files:
        words = [word for name, word in applicable.items() if name.startswith(file)]
        print(f"{file.removeprefix('unit/'):34} {words.count('PASSED'):3} of {len(words):3}")
    for name, word in sorted(applicable.items()):
        if word != "PASSED":
            print(f"{word:6} {name}")
    print(f"not applicable: {len(outcomes) - len(applicable)} of {len(outcomes)}")
    passed = list(applicable.values()).count("PASSED")
    print(f"passed {passed} of {len(applicable)} that apply ({100 * passed / max(len(applicable), 1):.0f} %)")


main()
