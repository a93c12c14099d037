"""A plugin for pytest: what llama-server is told by flags and doorbell by fields of requests, and words not compared.

A server that is told to be verbose tells the prompt of every answer, and one that is told to reason or not tells every
template; doorbell does either for whom it is asked by. Tests of llama-server know what their own tiny model says: here another
one answers, so an answer's words are not compared, whatever else the test looks at.
"""

import utils


def fields(server, path, data):
    if not isinstance(data, dict):
        return data
    data = dict(data)
    chat = "chat/completions" in path
    if server.debug and chat:
        data.setdefault("verbose", True)
    if server.reasoning is not None and (chat or "apply-template" in path):
        data.setdefault("chat_template_kwargs", {"enable_thinking": server.reasoning != "off"})
    return data


def translated(method):
    def request(self, verb, path, data=None, *rest, **named):
        return method(self, verb, path, fields(self, path, data), *rest, **named)

    return request


for name in ["make_request", "make_stream_request", "make_any_request"]:
    setattr(utils.ServerProcess, name, translated(getattr(utils.ServerProcess, name)))
utils.match_regex = lambda pattern, text: isinstance(text, str)
