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
    (r"test_infill.*test_infill_with", "the tiny model has no tokens for filling in"),
    ("test_stream", "no streams that are taken up again"),
    ("test_kv_keep_only_active", "pages are shared; there is no copy of a slot to keep or drop"),
    (r"test_security.*local_media_file", "no images"),
    (r"test_security.*cors_(proxy|origins_defaults)", "no proxy, no tools run in the server"),
    (r"test_security.*cors_origins_localhost_rejects", "pages of strangers are refused with 403, by intent"),
    (r"test_security.*static_assets", "the page is one file"),
    (r"test_basic.*multiple_addresses", "one address per process"),
    (r"test_basic.*split_model", "a model from the network"),
    (r"test_basic.*no_ui", "the page is always there"),
    (r"test_basic.*aliases_and_tags", "a model has one name"),
    (r"test_basic.*test_server_slots", "/slots is always there"),
    (r"test_metrics.*disabled", "/metrics is always there"),
    (r"test_metrics.*processed_and_cached", "its prompt has fewer tokens than a page, which is what is cached"),
    (r"test_ctx_shift.*enabled", "contexts do not shift"),
    (r"test_compat_oai_responses.*telemetry", "an answer that a limit cuts ends with response.incomplete, as OpenAI's"),
    (r"test_slot_save.*(test_slot_save_restore|test_slot_erase)$", "counts the tokens of its own model, fewer than a page has"),
    (r"test_slot_save.*legacy", "llama.cpp's older file format"),
    (r"test_slot_save.*(image|mmproj)", "no images"),
    (r"test_chat_completion.*(test_chat_template$|test_apply_chat_template)", "no templates by name"),
    (r"test_chat_completion.*cached_tokens", "counts the tokens of its own model"),
    (r"test_completion.*response_fields.*32", "wants the text of its own model's first token"),
    (r"test_completion.*prompt_cache|test_tokenize_with_bos", "counts the tokens of its own model"),
    (r"test_embedding.*usage_multiple", "counts the tokens of its own model"),
    (r"test_embedding.*mixed_input\[-False", "the tiny model makes no token of an empty text"),
    (r"test_embedding.*pooling_none", "the mean of a text's states is what there is"),
    (r"test_compat_anthropic.*(vision|image)", "no images"),
    ("test_.*slow", "marked as slow: models from the network"),
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
            "PYTHONPATH": str(tests), "DOORBELL": str(pathlib.Path(program).resolve()), "DOORBELL_MODEL": str(pathlib.Path(model).resolve()),
        }
        # whole files that do not apply need not run
        ignored = [f"--ignore=unit/{name}.py" for name, _ in NOT_APPLICABLE if (tests / f"unit/{name}.py").is_file()]
        shutil.copy(here / "translate.py", tests)
        options = ["-q", "-rA", "--tb=line", "--show-capture=no", "-p", "no:cacheprovider", "-p", "translate"]
        options += ["-m", "not slow"]
        command = [sys.executable, "-m", "pytest", *options, *ignored, "unit", *rest]
        run = subprocess.run(command, cwd=tests, env=environment, text=True, stdout=subprocess.PIPE)
        if "--verbose" in rest:
            print(run.stdout)
    outcomes = dict((name, word) for word, name in re.findall(r"^(PASSED|FAILED|ERROR) (unit/.+?)(?: - .*)?$", run.stdout, re.M))
    if not outcomes:
        sys.exit(f"no test ran: pytest ended with {run.returncode}\n{run.stdout}")
    reasons = lambda name: next((why for pattern, why in NOT_APPLICABLE if re.search(pattern, name)), None)
    applicable = {name: word for name, word in outcomes.items() if not reasons(name)}
    files = sorted({name.split("::")[0] for name in applicable})
    for file in files:
        words = [word for name, word in applicable.items() if name.startswith(file)]
        print(f"{file.removeprefix('unit/'):34} {words.count('PASSED'):3} of {len(words):3}")
    for name, word in sorted(applicable.items()):
        if word != "PASSED":
            print(f"{word:6} {name}")
    for name, reason in NOT_APPLICABLE:
        print(f"not applicable: {name}: {reason}")
    passed = list(applicable.values()).count("PASSED")
    print(f"passed {passed} of {len(applicable)} that apply ({100 * passed / max(len(applicable), 1):.0f} %)")


main()
