"""Python clients against the scripted model: the text between [[ and ]] is the answer.

Usage: clients.py PATH_OF_SCRIPTED_SERVER. Prints one line per check and fails with the first that doesn't hold.
Not here: the shapes on the wire, which tests/server checks.
"""

import json
import os
import subprocess
import sys

import anthropic
import ollama
import openai

CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Köln"}}\n</tool_call>'
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": PARAMETERS}}]
TEXT = "Grüße aus 北京 🚀"


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
    calls = client.chat("scripted", messages=user(f"[[{CALL}]]"), options=options, tools=TOOLS).message.tool_calls
    assert calls[0].function.arguments == {"city": "Köln"}
    assert client.generate("scripted", "[[abc]]", options=options).response == "abc"
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


CHECKS = [
    openai_chat, openai_helpers, openai_completions, openai_embeddings, openai_responses, openai_errors,
    anthropic_messages, ollama_client, litellm_client,
]


def main():
    server = subprocess.Popen([sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        url = f"http://{server.stdout.readline().strip()}"
        for check in CHECKS:
            check(url)
            print(f"ok  {check.__name__}")
    finally:
        server.stdin.close()
        server.wait(timeout=120)


main()
