"""Renders chat templates as `transformers` does: Jinja2's immutable sandbox with its filters and functions."""

import datetime
import json

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

# what strftime_now prints: 2026-08-22 09:05:03, a Saturday
NOW = datetime.datetime(2026, 8, 22, 9, 5, 3)


class Generation(Extension):
    """`{% generation %}` marks the assistant's tokens for training; the text stays as it is."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_keep"), [], [], body).set_lineno(line)

    def _keep(self, caller):
        return caller()


def environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = NOW.strftime
    return env


def with_argument_objects(message):
    message = dict(message)
    if message.get("tool_calls"):
        calls = []
        for call in message["tool_calls"]:
            call = json.loads(json.dumps(call))
            arguments = call.get("function", {}).get("arguments")
            if isinstance(arguments, str):
                try:
                    parsed = json.loads(arguments)
                    if isinstance(parsed, dict):
                        call["function"]["arguments"] = parsed
                except ValueError:
                    pass
            calls.append(call)
        message["tool_calls"] = calls
    return message


def render(source, case):
    """The rendered text, or `None` and the reason."""
    try:
        template = environment().from_string(source)
        text = template.render(
            messages=[with_argument_objects(message) for message in case["messages"]],
            tools=case.get("tools"),
            documents=None,
            add_generation_prompt=case.get("add_generation_prompt", True),
            bos_token=case.get("bos", "<s>"),
            eos_token=case.get("eos", "</s>"),
            **case.get("variables", {}),
        )
        return text, None
    except Exception as error:  # a template may fail in any way
        return None, f"{type(error).__name__}: {error}"
