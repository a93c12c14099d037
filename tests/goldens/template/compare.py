"""Compares our renderings with Jinja2's, byte for byte, on all templates of a folder.

    python3 compare.py [-v] FOLDER...

Needs the `jinja2` package. Our side is the example `render_template` of hosts/runtime.
"""

import json
import pathlib
import subprocess
import sys

import jinja

# what is added to a text marked by the filter `safe` comes out HTML-escaped in Python; nobody wants that
KNOWN = {
    "meetkai-functionary-medium-v3.1.jinja": "text joined to |safe is escaped by Jinja2",
    "deepseek-ai-DeepSeek-R1-Distill-Llama-8B.jinja": "calls beside an empty content are told as beside none",
}

here = pathlib.Path(__file__).parent
cases = json.loads((here / "cases.json").read_text())
paths = [path for folder in sys.argv[1:] if folder != "-v" for path in sorted(pathlib.Path(folder).glob("*.jinja"))]
requests, expected = [], []
for path in paths:
    source = path.read_text()
    for case in cases:
        requests.append(json.dumps({"template": source, "case": case}))
        expected.append((path.name, case["name"], *jinja.render(source, case)))
command = ["cargo", "run", "-q", "--release", "-p", "doorbell-runtime", "--example", "render_template"]
run = subprocess.run(command, cwd=here, input="\n".join(requests) + "\n", capture_output=True, text=True, check=True)
equal = both_fail = lenient = different = 0
for (name, case, text, reason), line in zip(expected, run.stdout.split("\n")[:-1], strict=True):
    ours = json.loads(line)
    if text is not None and ours.get("text") == text:
        equal += 1
    elif text is None and "error" in ours:
        both_fail += 1
        if "-v" in sys.argv:
            print(f"both refuse: {name}, {case}: {reason} / {ours['error']}")
    elif text is None:
        # Python refuses to iterate None and to serialise a generator; we go on
        lenient += 1
        print(f"only Jinja2 refuses: {name}, {case}: {reason}")
    elif name in KNOWN:
        print(f"known to differ: {name}, {case}: {KNOWN[name]}")
    else:
        different += 1
        print(f"--- {name}, {case}\nJinja2: {text!r} {reason or ''}\nours:   {ours!r}")
print(f"{equal} equal, {both_fail} refused by both, {lenient} only by Jinja2, {different} different, of {len(expected)}")
sys.exit(different != 0)
