"""Clients against the program with a real model, whose words are unknown but must obey rules and be the same for all.

Usage: model.py PROGRAM MODEL [DIRECTORY], where node finds model.mjs and its clients in the directory. Prints one line per
check and fails with the first that doesn't hold. Not here: known answers, which clients.py checks with the scripted model.
"""

import json
import os
import re
import signal
import subprocess
import sys

import openai

QUESTION = [{"role": "user", "content": "Name three colors."}]


def client_of(url):
    return openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)


def streams_say_the_same(url):
    client = client_of(url)
    common = {"model": "smollm2", "messages": QUESTION, "max_tokens": 24, "temperature": 0}
    whole = client.chat.completions.create(**common)
    stream = client.chat.completions.create(**common, stream=True, stream_options={"include_usage": True})
    chunks = list(stream)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == whole.choices[0].message.content and text, text
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens <= 24
    # the second time the prompt was known, all but what fills no page
    assert chunks[-1].usage.prompt_tokens_details.cached_tokens > 0


def seeds_decide(url):
    client = client_of(url)
    ask = lambda seed: client.chat.completions.create(
        model="smollm2", messages=QUESTION, max_tokens=16, temperature=1.5, seed=seed
    ).choices[0].message.content
    assert ask(1) == ask(1)
    assert len({ask(seed) for seed in range(4)}) > 1


def schemas_hold(url):
    client = client_of(url)
    schema = {
        "type": "object", "required": ["color", "wheels"], "additionalProperties": False,
        "properties": {"color": {"enum": ["red", "green"]}, "wheels": {"type": "integer", "minimum": 2, "maximum": 9}},
    }
    answer = client.chat.completions.create(
        model="smollm2", messages=[{"role": "user", "content": "Describe a car."}], max_tokens=60, temperature=1,
        seed=3, response_format={"type": "json_schema", "json_schema": {"name": "car", "strict": True, "schema": schema}},
    )
    car = json.loads(answer.choices[0].message.content)
    assert car["color"] in ("red", "green") and 2 <= car["wheels"] <= 9, car


def calls_can_be_forced(url):
    client = client_of(url)
    parameters = {
        "type": "object", "required": ["city"], "additionalProperties": False,
        "properties": {"city": {"enum": ["Paris", "Rome"]}},
    }
    answer = client.chat.completions.create(
        model="smollm2", messages=[{"role": "user", "content": "The weather in Rome?"}], max_tokens=60, temperature=0,
        tools=[{"type": "function", "function": {"name": "weather", "parameters": parameters}}], tool_choice="required",
        parallel_tool_calls=False,
    )
    call = answer.choices[0].message.tool_calls[0]
    assert call.function.name == "weather" and json.loads(call.function.arguments)["city"] in ("Paris", "Rome")
    assert answer.choices[0].finish_reason == "tool_calls"


def embeddings_have_meaning(url):
    client = client_of(url)
    texts = ["The cat sleeps on the sofa.", "A kitten is lying on the couch.", "Interest rates rose in March."]
    cat, kitten, rates = (entry.embedding for entry in client.embeddings.create(model="smollm2", input=texts).data)
    product = lambda a, b: sum(x * y for x, y in zip(a, b))
    assert abs(product(cat, cat) - 1) < 1e-4
    assert product(cat, kitten) > product(cat, rates)


def every_client_is_told_the_same(url):
    """Greedily, whole and streamed, by every protocol."""
    import anthropic
    import ollama

    # its list of prices would come from the network otherwise
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    import litellm

    common = {"model": "smollm2", "messages": QUESTION, "max_tokens": 24}
    expected = client_of(url).chat.completions.create(**common, temperature=0).choices[0].message.content
    assert len(expected) > 20, expected
    told = {}
    client = anthropic.Anthropic(base_url=url, api_key="none")
    told["anthropic"] = [client.messages.create(**common, extra_body={"temperature": 0}).content[0].text]
    with client.messages.stream(**common, extra_body={"temperature": 0}) as stream:
        told["anthropic"].append("".join(stream.text_stream))
    client = ollama.Client(host=url)
    request = {"model": "smollm2", "messages": QUESTION, "options": {"temperature": 0, "num_predict": 24}}
    told["ollama"] = [client.chat(**request).message.content]
    told["ollama"].append("".join(part.message.content for part in client.chat(**request, stream=True)))
    common |= {"model": "openai/smollm2", "api_base": f"{url}/v1", "api_key": "none", "temperature": 0}
    told["litellm"] = [litellm.completion(**common).choices[0].message.content]
    chunks = litellm.completion(**common, stream=True)
    told["litellm"].append("".join(chunk.choices[0].delta.content or "" for chunk in chunks))
    response = client_of(url).responses.create(
        model="smollm2", input=QUESTION[0]["content"], max_output_tokens=24, temperature=0
    )
    told["responses"] = [response.output_text]
    if len(sys.argv) > 3:
        arguments = ["node", "model.mjs", url, "smollm2", QUESTION[0]["content"], "24"]
        told |= json.loads(subprocess.run(arguments, cwd=sys.argv[3], check=True, stdout=subprocess.PIPE).stdout)
    for name, texts in told.items():
        assert all(text == expected for text in texts), (name, texts, expected)
    print("    " + ", ".join(told))


CHECKS = [every_client_is_told_the_same, embeddings_have_meaning, streams_say_the_same, seeds_decide, schemas_hold, calls_can_be_forced]


def main():
    arguments = ["serve", sys.argv[2], "--port", "0", "--name", "smollm2", "--ctx", "1024", "--device", "cpu"]
    server = subprocess.Popen([sys.argv[1], *arguments], stderr=subprocess.PIPE, text=True)
    try:
        line = ""
        while not (found := re.search(r"http://\S+", line)):
            line = server.stderr.readline()
            assert line, "the program ended before it served"
        for check in CHECKS:
            check(found.group())
            print(f"ok  {check.__name__}")
    finally:
        server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=120) == 0


main()
