"""Makes expected.json: what Jinja2 renders of the templates here for the conversations of cases.json.

    python3 make.py

Needs the `jinja2` package (made with 3.1.6).
"""

import json
import pathlib

import jinja

here = pathlib.Path(__file__).parent
cases = json.loads((here / "cases.json").read_text())
renderings = []
for path in sorted(here.glob("*.jinja")):
    for index, case in enumerate(cases):
        text, reason = jinja.render(path.read_text(), case)
        if text is None:
            reason = reason.split(": ", 1)[1] if reason.startswith("TemplateError") else None
        renderings.append({"template": path.name, "case": index, "text": text, "raised": reason})
(here / "expected.json").write_text(json.dumps(renderings, indent=1, ensure_ascii=False) + "\n")
