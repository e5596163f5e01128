"""The `portkey-ai` SDK, written for another gateway of this family, with nothing changed but its base URL.

Environment: BASE_URL (with /v1), KEY (a service key). The gateway takes `x-portkey-` as a header prefix. Behind the slugs is the
built-in emulator. Chats, tools and errors of every provider are in `matrix/portkey_all.py`.
"""

import json
import os

import portkey_ai
from both import run, value

BASE_URL, KEY = os.environ["BASE_URL"], os.environ["KEY"]
MODEL = "gpt-4o-mini"
HELLO = [{"role": "user", "content": "Say hello."}]


async def embeddings(client):
    answer = await value(client.embeddings.create(model="text-embedding-3-small", input=["one", "two"]))
    assert len(answer.data) == 2 and len(answer.data[0].embedding) > 0


async def a_config_with_a_fallback(client):
    first = {"provider": "@emulator", "override_params": {"model": f"{MODEL}?status=500"}}
    second = {"provider": "@anthropic-emulator", "override_params": {"model": "claude-sonnet-4-5", "max_tokens": 50}}
    strategy = {"mode": "fallback", "on_status_codes": [500]}
    config = {"strategy": strategy, "targets": [first, second]}
    other = type(client)(base_url=BASE_URL, api_key=KEY, config=config)
    try:
        answer = await value(other.chat.completions.create(model=MODEL, messages=HELLO))
    except portkey_ai._vendor.openai.APIStatusError as error:
        # Read, understood, and not built yet: said by name, with its path.
        assert error.code == "not_implemented" and error.param == "strategy.mode", error
    else:
        assert answer.choices[0].message.content and answer.model == "claude-sonnet-4-5"


async def a_config_with_vendor_spellings(client):
    target = {"provider": "@emulator", "strict_open_ai_compliance": False, "retry": {"attempts": 1}}
    target["retry"]["use_retry_after_header"] = True
    other = type(client)(base_url=BASE_URL, api_key=KEY, config=json.dumps(target), trace_id="portkey-check-1")
    answer = await value(other.chat.completions.create(model=MODEL, messages=HELLO))
    assert answer.choices[0].message.content


CHECKS = [embeddings, a_config_with_a_fallback, a_config_with_vendor_spellings]

if __name__ == "__main__":
    told = {"base_url": BASE_URL, "api_key": KEY, "provider": "@emulator"}
    run(CHECKS, {"sync": lambda: portkey_ai.Portkey(**told), "async": lambda: portkey_ai.AsyncPortkey(**told)})
