#!/usr/bin/env python3
"""Takes llama-server's command line and becomes `doorbell serve`, so that llama.cpp's own server tests can run.

The program and the model come from DOORBELL and DOORBELL_MODEL. Every model that the tests name is that one: where a
test depends on the words of its own model, it can't pass. What doorbell has no option for is left out; what it can't
do at all is in run.py.
"""

import os
import sys
import tempfile

# llama-server's options that have a value, and ours
RENAMED = {
    "--port": "--port", "--host": "--host", "--alias": "--name", "--parallel": "--parallel",
    "--api-key": "--api-key", "--threads": "--threads", "--temp": "--temp",
    "--seed": "--seed", "--slot-save-path": "--slot-save-path", "--chat-template-file": "--chat-template-file",
}
WITH_VALUE = {
    "--cors-origins", "--model", "--model-url", "--model-draft", "--hf-repo", "--hf-file", "--models-dir",
    "--models-max", "--models-preset", "--batch-size", "--ubatch-size", "--n-gpu-layers", "--pooling", "--tags",
    "--ctx-size", "-ctk", "-ctv", "-fa", "--n-predict", "--grp-attn-n", "--grp-attn-w", "--lora",
    "--spec-type", "--spec-draft-n-max", "--spec-draft-n-min", "--spec-synth-len", "--spec-synth-rates",
    "--reasoning-format", "--reasoning", "--chat-template", "--mmproj-url", "--media-path",
    "--sleep-idle-seconds", "--cache-ram", "--tools", "--tools-runtime", "--mcp-servers-config", "--mcp-servers-json",
}


def main():
    ours, context, slots = ["serve", os.environ["DOORBELL_MODEL"], "--device", "cpu"], None, 1
    unified = "--kv-unified" in sys.argv
    if "--cors-origins" not in sys.argv:
        # llama-server's pages may come from anywhere, unless it is told "localhost", which is our rule anyway
        ours += ["--origin", "*"]
    arguments = iter(sys.argv[1:])
    for argument in arguments:
        if argument in RENAMED:
            value = next(arguments)
            ours += [RENAMED[argument], value]
            slots = int(value) if argument == "--parallel" else slots
            if argument == "--slot-save-path":
                os.makedirs(value, exist_ok=True)
        elif argument in WITH_VALUE:
            value = next(arguments)
            if argument == "--chat-template" and " " in value:
                # the template itself, not the name of one
                with tempfile.NamedTemporaryFile("w", suffix=".jinja", delete=False) as file:
                    file.write(value)
                ours += ["--chat-template-file", file.name]
            context = int(value) if argument == "--ctx-size" else context
    # llama-server shares its context among the slots, or lets each use all of it
    if context:
        ours += ["--ctx", str(context if unified else context // slots)]
    program = os.environ["DOORBELL"]
    os.execv(program, [program, *ours])


main()
