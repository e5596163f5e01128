"""The `portkey-ai` SDK, written for another gateway of this family, with nothing changed but its base URL.

Environment: BASE_URL (with /v1), KEY (a service key). The gateway takes `x-portkey-` as a header prefix. Behind the slugs is the
built-in emulator.
"""

import json
import os

import portkey_ai
from both import items, refused, run, value

BASE_URL, KEY = os.environ["BASE_URL"], os.environ["KEY"]
MODEL = "gpt-4o-mini"
HELLO = [{"role": "user", "content": "Say hello."}]


async def chat(client):
    answer = await value(client.chat.completions.create(model=MODEL, messages=HELLO))
    assert answer.choices[0].message.content and answer.choices[0].finish_reason == "stop"
    assert answer.usage.total_tokens > 0


async def chat_streamed(client):
    whole = await value(client.chat.completions.create(model=MODEL, messages=HELLO))
    chunks = await items(await value(client.chat.completions.create(model=MODEL, messages=HELLO, stream=True)))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == whole.choices[0].message.content


async def chat_of_a_provider_that_speaks_otherwise(client):
    other = client.with_options(provider="@anthropic-emulator")
    answer = await value(other.chat.completions.create(model="claude-sonnet-4-5", messages=HELLO))
    assert answer.choices[0].message.content and answer.choices[0].finish_reason == "stop"
    chunks = await items(
        await value(other.chat.completions.create(model="claude-sonnet-4-5", messages=HELLO, stream=True))
    )
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == answer.choices[0].message.content


async def embeddings(client):
    answer = await value(client.embeddings.create(model="text-embedding-3-small", input=["one", "two"]))
    assert len(answer.data) == 2 and len(answer.data[0].embedding) > 0


async def a_config_with_a_fallback(client):
    first = {"provider": "@emulator", "override_params": {"model": f"{MODEL}?status=500"}}
    second = {"provider": "@anthropic-emulator", "override_params": {"model": "claude-sonnet-4-5", "max_tokens": 50}}
    strategy = {"mode": "fallback", "on_status_codes": [500]}
    config = {"strategy": strategy, "targets": [first, second]}
    for given in (config, json.dumps(config)):
        other = client.with_options(config=given, provider=None)
        answer = await value(other.chat.completions.create(model=MODEL, messages=HELLO))
        assert answer.choices[0].message.content
        headers = answer.get_headers()
        assert headers["last-used-option-index"] == "config.targets[1]", headers


async def a_refusal_is_an_error_of_its_kind(client):
    error = await refused(
        portkey_ai._vendor.openai.BadRequestError,
        lambda: client.chat.completions.create(model=MODEL, messages=[]),
    )
    assert error.status_code == 400


CHECKS = [
    chat,
    chat_streamed,
    chat_of_a_provider_that_speaks_otherwise,
    embeddings,
    a_config_with_a_fallback,
    a_refusal_is_an_error_of_its_kind,
]

if __name__ == "__main__":
    told = {"base_url": BASE_URL, "api_key": KEY, "provider": "@emulator"}
    run(CHECKS, {"sync": lambda: portkey_ai.Portkey(**told), "async": lambda: portkey_ai.AsyncPortkey(**told)})
