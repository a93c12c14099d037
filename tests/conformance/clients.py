"""Python clients against the scripted model: the text between [[ and ]] is the answer.

Usage: clients.py PATH_OF_SCRIPTED_SERVER. Prints one line per check and fails with the first that doesn't hold.
Not here: the shapes on the wire, which tests/server checks.
"""

import json
import os
import subprocess
import sys
import tempfile

import anthropic
import ollama
import openai
from pydantic import BaseModel

CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Köln"}}\n</tool_call>'
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": PARAMETERS}}]
TEXT = "Grüße aus 北京 🚀"

# what a model that reasons has in its template
REASONING = """{# </think> #}{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}\
{% endfor %}{{ '<|im_start|>assistant\\n' }}"""
THOUGHT = f"[[<think>Hm, 北京?</think>\n{TEXT}]]"


class Day(BaseModel):
    name: str
    degrees: float | None


class Forecast(BaseModel):
    """Pydantic writes this with `$defs` and `$ref`."""
    days: list[Day]


FORECAST = Forecast(days=[Day(name="Köln", degrees=21.5), Day(name="x", degrees=None)])
JSON = FORECAST.model_dump_json()


def user(text):
    return [{"role": "user", "content": text}]


def openai_chat(url):
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="none")
    assert [model.id for model in client.models.list()] == ["scripted"]
    assert client.models.retrieve("scripted").id == "scripted"
    answer = client.chat.completions.create(model="scripted", messages=user(f"[[{TEXT}]]"), temperature=0)
    assert answer.choices[0].message.content == TEXT
    assert answer.usage.completion_tokens == len(TEXT.encode())
    stream = client.chat.completions.create(
        model="scripted", messages=user(f"[[{TEXT}]]"), temperature=0, stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == TEXT
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == len(TEXT.encode())
    stopped = client.chat.completions.create(
        model="scripted", messages=user("[[A B O P Q]]"), temperature=0, stop=["O P Q"], n=2, seed=1
    )
    assert [choice.message.content for choice in stopped.choices] == ["A B ", "A B "]


def openai_helpers(url):
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="none")
    with client.chat.completions.stream(
        model="scripted", messages=user(f"[[I ask.\n{CALL}]]"), tools=TOOLS, temperature=0
    ) as stream:
        for _ in stream:
            pass
        message = stream.get_final_completion().choices[0].message
    assert message.content == "I ask."
    assert json.loads(message.tool_calls[0].function.arguments) == {"city": "Köln"}
    answer = client.chat.completions.parse(
        model="scripted", messages=user(f"[[{JSON}]]"), temperature=0, response_format=Forecast
    )
    assert answer.choices[0].message.parsed == FORECAST
    with client.chat.completions.stream(
        model="scripted", messages=user(f"[[{JSON}]]"), temperature=0, response_format=Forecast
    ) as stream:
        assert stream.get_final_completion().choices[0].message.parsed == FORECAST
    schema = {"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"], "additionalProperties": False}
    answer = client.chat.completions.create(
        model="scripted", messages=user("[[no]]"), temperature=0, max_tokens=500,
        response_format={"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": schema}},
    )
    assert json.loads(answer.choices[0].message.content)["a"] in (1, 2)
    logprobs = client.chat.completions.create(
        model="scripted", messages=user("[[ab]]"), temperature=0, logprobs=True, top_logprobs=3
    )
    assert [entry.token for entry in logprobs.choices[0].logprobs.content] == ["a", "b"]


def openai_tools(url):
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="none")
    common = {"model": "scripted", "temperature": 0}
    messages = user(f"[[{CALL}\n{CALL}]]")
    message = client.chat.completions.create(messages=messages, tools=TOOLS, **common).choices[0].message
    assert [json.loads(call.function.arguments) for call in message.tool_calls] == [{"city": "Köln"}] * 2
    results = [{"role": "tool", "tool_call_id": call.id, "content": "[[sunny]]"} for call in message.tool_calls]
    answer = client.chat.completions.create(messages=[*messages, message, *results], tools=TOOLS, **common)
    assert answer.choices[0].message.content == "sunny"
    # a call that must come, with a schema whose parts refer to each other
    tools = [openai.pydantic_function_tool(Day), openai.pydantic_function_tool(Forecast, name="forecast")]
    call = f'[[<tool_call>\n{{"name": "forecast", "arguments": {JSON}}}\n</tool_call>]]'
    for choice in ("required", {"type": "function", "function": {"name": "forecast"}}):
        answer = client.chat.completions.parse(
            messages=user(call), tools=tools, tool_choice=choice, **common
        )
        assert answer.choices[0].message.tool_calls[0].function.parsed_arguments == FORECAST
    never = client.chat.completions.create(messages=user(f"[[{CALL}]]"), tools=TOOLS, tool_choice="none", **common)
    assert never.choices[0].message.tool_calls is None and never.choices[0].finish_reason == "stop"


def openai_completions(url):
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="none")
    answer = client.completions.create(model="scripted", prompt=["[[one]]", "[[two]]"], temperature=0, logprobs=2)
    assert [choice.text for choice in answer.choices] == ["one", "two"]
    assert answer.choices[0].logprobs.tokens == ["o", "n", "e"]
    echo = client.completions.create(model="scripted", prompt="[[ab]]", temperature=0, logprobs=1, echo=True)
    assert echo.choices[0].text == "[[ab]]ab" and len(echo.choices[0].logprobs.token_logprobs) == 8
    stream = client.completions.create(model="scripted", prompt="[[one]]", temperature=0, stream=True, echo=True)
    assert "".join(chunk.choices[0].text for chunk in stream) == "[[one]]one"


def openai_embeddings(url):
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="none")
    # the client asks for base64 and decodes it
    answer = client.embeddings.create(model="scripted", input=["ab", "ba"])
    floats = client.embeddings.create(model="scripted", input="ab", encoding_format="float")
    vectors = [entry.embedding for entry in answer.data]
    assert all(abs(a - b) < 1e-6 for a, b in zip(vectors[0], floats.data[0].embedding, strict=True))
    assert vectors[0] == vectors[1] and abs(sum(x * x for x in vectors[0]) - 1) < 1e-5
    assert answer.usage.prompt_tokens == 4


def openai_responses(url):
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="none")
    answer = client.responses.create(model="scripted", input=f"[[{TEXT}]]", temperature=0)
    assert answer.output_text == TEXT
    tools = [{"type": "function", "name": "weather", "parameters": PARAMETERS, "strict": False}]
    with client.responses.stream(
        model="scripted", input=f"[[I ask.\n{CALL}]]", tools=tools, temperature=0
    ) as stream:
        deltas = [event.delta for event in stream if event.type == "response.output_text.delta"]
        final = stream.get_final_response()
    assert "".join(deltas) == "I ask." == final.output_text
    assert json.loads(final.output[1].arguments) == {"city": "Köln"}
    result = {"type": "function_call_output", "call_id": final.output[1].call_id, "output": "[[sunny]]"}
    conversation = [*user(f"[[I ask.\n{CALL}]]"), *final.output, result]
    with client.responses.stream(model="scripted", input=conversation, tools=tools, temperature=0) as stream:
        assert [event.sequence_number for event in stream][:3] == [0, 1, 2]
        assert stream.get_final_response().output_text == "sunny"
    parsed = client.responses.parse(model="scripted", input=f"[[{JSON}]]", text_format=Forecast, temperature=0)
    assert parsed.output_parsed == FORECAST


def openai_errors(url):
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
    for request, error in [
        (lambda: client.chat.completions.create(model="scripted", messages=[]), openai.BadRequestError),
        (lambda: client.models.retrieve("other"), openai.NotFoundError),
        (lambda: client.completions.create(model="scripted", prompt="word " * 9000), openai.BadRequestError),
        (lambda: client.embeddings.create(model="scripted", input=""), openai.BadRequestError),
    ]:
        try:
            request()
        except error:
            continue
        raise AssertionError(f"{error.__name__} was expected")
    try:
        list(client.chat.completions.create(
            model="scripted", messages=user("[[ab{NaN}]]"), temperature=0, stream=True
        ))
    except openai.APIError as error:
        assert "NaN" in error.message
    else:
        raise AssertionError("an error in the stream was expected")


def anthropic_messages(url):
    client = anthropic.Anthropic(base_url=url, api_key="none")
    answer = client.messages.create(
        model="scripted", max_tokens=100, messages=user(f"[[{TEXT}]]"), extra_body={"temperature": 0}
    )
    assert answer.content[0].text == TEXT and answer.stop_reason == "end_turn"
    count = client.messages.count_tokens(model="scripted", messages=user(f"[[{TEXT}]]"))
    assert count.input_tokens == answer.usage.input_tokens + (answer.usage.cache_read_input_tokens or 0)
    with client.messages.stream(
        model="scripted", max_tokens=200, messages=user(f"[[I ask.\n{CALL}]]"), extra_body={"temperature": 0},
        tools=[{"name": "weather", "input_schema": PARAMETERS}],
    ) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text == "I ask." and final.stop_reason == "tool_use"
    assert final.content[1].input == {"city": "Köln"}
    result = {"type": "tool_result", "tool_use_id": final.content[1].id, "content": "[[sunny O P]]"}
    conversation = [
        *user(f"[[I ask.\n{CALL}]]"), {"role": "assistant", "content": final.content},
        {"role": "user", "content": [result]},
    ]
    answer = client.messages.create(
        model="scripted", max_tokens=100, messages=conversation, stop_sequences=["O P"], extra_body={"temperature": 0},
        tools=[{"name": "weather", "input_schema": PARAMETERS}],
    )
    assert answer.content[0].text == "sunny " and answer.stop_reason == "stop_sequence" and answer.stop_sequence == "O P"
    parsed = client.messages.parse(
        model="scripted", max_tokens=200, messages=user(f"[[{JSON}]]"), output_format=Forecast,
        extra_body={"temperature": 0},
    )
    assert parsed.parsed_output == FORECAST
    try:
        client.messages.create(model="scripted", max_tokens=1, messages=user("x y " * 9000))
    except anthropic.BadRequestError as error:
        assert "prompt is too long" in error.message
    else:
        raise AssertionError("BadRequestError was expected")
    try:
        client.messages.create(model="scripted", max_tokens=1, messages=[])
    except anthropic.BadRequestError:
        pass
    else:
        raise AssertionError("BadRequestError was expected")


def ollama_client(url):
    client = ollama.Client(host=url)
    assert client.list().models[0].model == "scripted"
    assert client.show("scripted").details.family == "qwen3"
    assert client.ps().models[0].name == "scripted"
    options = {"temperature": 0}
    assert client.chat("scripted", messages=user(f"[[{TEXT}]]"), options=options).message.content == TEXT
    parts = client.chat("scripted", messages=user(f"[[{TEXT}]]"), options=options, stream=True)
    assert "".join(part.message.content for part in parts) == TEXT
    message = client.chat("scripted", messages=user(f"[[{CALL}]]"), options=options, tools=TOOLS).message
    assert message.tool_calls[0].function.arguments == {"city": "Köln"}
    conversation = [*user(f"[[{CALL}]]"), message, {"role": "tool", "tool_name": "weather", "content": "[[sunny]]"}]
    assert client.chat("scripted", messages=conversation, options=options, tools=TOOLS).message.content == "sunny"
    schema = Forecast.model_json_schema()
    answer = client.chat("scripted", messages=user(f"[[{JSON}]]"), options=options, format=schema)
    assert Forecast.model_validate_json(answer.message.content) == FORECAST
    first = client.generate("scripted", "[[abc]]", options=options)
    second = client.generate("scripted", "[[def]]", context=first.context, options=options)
    assert (first.response, second.response) == ("abc", "def") and second.context[: len(first.context)] == first.context
    likely = client.chat("scripted", messages=user("[[ab]]"), options=options, logprobs=True, top_logprobs=2).logprobs
    assert [(entry.token, len(entry.top_logprobs)) for entry in likely] == [("a", 2), ("b", 2)]
    for refused in [client.pull, client.delete]:
        try:
            refused("other")
        except ollama.ResponseError as error:
            assert error.status_code in (404, 501)
        else:
            raise AssertionError("ResponseError was expected")
    assert len(client.embed("scripted", ["ab", "c"]).embeddings) == 2


def litellm_client(url):
    # its list of prices would come from the network otherwise
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    import litellm

    arguments = {"model": "openai/scripted", "api_base": f"{url}/v1", "api_key": "none", "temperature": 0}
    answer = litellm.completion(messages=user(f"[[{TEXT}]]"), **arguments)
    assert answer.choices[0].message.content == TEXT
    chunks = litellm.completion(
        messages=user(f"[[{CALL}]]"), tools=TOOLS, stream=True, stream_options={"include_usage": True}, **arguments
    )
    whole = litellm.stream_chunk_builder(list(chunks))
    assert json.loads(whole.choices[0].message.tool_calls[0].function.arguments) == {"city": "Köln"}
    assert whole.choices[0].finish_reason == "tool_calls"
    # the other dialects, as its proxy speaks them
    for model in ("anthropic/scripted", "ollama_chat/scripted"):
        arguments |= {"model": model, "api_base": url}
        answer = litellm.completion(messages=user(f"[[{CALL}]]"), tools=TOOLS, **arguments).choices[0]
        assert json.loads(answer.message.tool_calls[0].function.arguments) == {"city": "Köln"}
    arguments |= {"model": "openai/scripted", "api_base": f"{url}/v1"}
    assert litellm.responses(input=f"[[{TEXT}]]", **arguments).output[0].content[0].text == TEXT
    del arguments["temperature"]
    assert len(litellm.embedding(input=["ab", "c"], **arguments).data) == 2


def reasoning(url):
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="none")
    common = {"model": "scripted", "temperature": 0}
    message = client.chat.completions.create(messages=user(THOUGHT), **common).choices[0].message
    assert (message.reasoning_content, message.content) == ("Hm, 北京?", TEXT)
    stream = client.chat.completions.create(messages=user(THOUGHT), stream=True, **common)
    deltas = [chunk.choices[0].delta for chunk in stream]
    assert "".join(getattr(delta, "reasoning_content", None) or "" for delta in deltas) == "Hm, 北京?"
    assert "".join(delta.content or "" for delta in deltas) == TEXT
    with client.responses.stream(input=THOUGHT, **common) as stream:
        thought = "".join(event.delta for event in stream if event.type == "response.reasoning_text.delta")
        final = stream.get_final_response()
    assert (thought, final.output_text) == ("Hm, 北京?", TEXT) and final.output[0].type == "reasoning"
    messages = anthropic.Anthropic(base_url=url, api_key="none").messages
    with messages.stream(
        model="scripted", max_tokens=200, messages=user(THOUGHT), extra_body={"temperature": 0},
        thinking={"type": "enabled", "budget_tokens": 1024},
    ) as stream:
        blocks = stream.get_final_message().content
    assert (blocks[0].thinking, blocks[1].text) == ("Hm, 北京?", TEXT)
    parts = ollama.Client(host=url).chat(
        "scripted", messages=user(THOUGHT), options={"temperature": 0}, think=True, stream=True
    )
    told = [(part.message.thinking or "", part.message.content or "") for part in parts]
    assert tuple(map("".join, zip(*told))) == ("Hm, 北京?", TEXT)


CHECKS = [
    openai_chat, openai_helpers, openai_tools, openai_completions, openai_embeddings, openai_responses, openai_errors,
    anthropic_messages, ollama_client, litellm_client,
]


def against(checks, *template):
    """Runs checks against a server, whose model has another chat template if a file with one is named."""
    server = subprocess.Popen([sys.argv[1], *template], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        url = f"http://{server.stdout.readline().strip()}"
        for check in checks:
            check(url)
            print(f"ok  {check.__name__}")
    finally:
        server.stdin.close()
        server.wait(timeout=120)


def main():
    against(CHECKS)
    with tempfile.NamedTemporaryFile("w", suffix=".jinja") as template:
        template.write(REASONING)
        template.flush()
        against([reasoning], template.name)


main()
