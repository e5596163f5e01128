"""The `portkey-ai` SDK, written for another gateway of this family, with nothing changed but its base URL.

Environment: BASE_URL (with /v1), KEY (a service key). The gateway takes `x-portkey-` as a header prefix. Behind the slugs is the
built-in emulator. Chats, tools and errors of every provider are in `matrix/portkey_all.py`.
"""

import json
import os

import portkey_ai
from both import items, refused, run, value

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


async def prompts(client):
    folders = await value(client.collections.list())
    (folder,) = [item for item in folders.data if item["is_default"]]
    partial = await value(client.prompts.partials.create(name="Tone", string="Be {{how}}."))
    template = [{"role": "system", "content": "{{>%s}}" % partial.slug}, {"role": "user", "content": "Greet {{name}}"}]
    made = await value(
        client.prompts.create(
            name="Greeting",
            collection_id=folder["id"],
            string=json.dumps(template),
            parameters={"temperature": 0.5},
            virtual_key="emulator",
            model=MODEL,
        )
    )
    variables = {"how": 'very "kind"', "name": "Ann"}
    rendered = await value(client.prompts.render(prompt_id=made.slug, variables=variables, max_tokens=40))
    assert [message.content for message in rendered.data.messages] == ['Be very "kind".', "Greet Ann"]
    assert (rendered.data.temperature, rendered.data.max_tokens) == (0.5, 40)
    answer = await value(client.prompts.completions.create(prompt_id=made.slug, variables=variables))
    assert answer.choices[0].message.content
    chunks = await items(
        await value(client.prompts.completions.create(prompt_id=made.slug, variables=variables, stream=True))
    )
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == answer.choices[0].message.content
    second = json.dumps(template[1:])
    parts = {"string": second, "parameters": {}, "model": MODEL, "virtual_key": "emulator"}
    await value(client.prompts.update(made.slug, **parts))
    await value(client.prompts.publish(made.slug, version=2))
    assert (await value(client.prompts.retrieve(made.slug))).string == second
    versions = await value(client.prompts.versions.list(made.slug))
    assert [version["prompt_version"] for version in versions.data] == [2, 1]
    labels = await value(client.labels.list())
    (staging,) = [label for label in labels.data if label["name"] == "staging"]
    await value(client.prompts.versions.update(made.slug, versions.data[1]["prompt_version_id"], label_id=staging["id"]))
    older = await value(client.prompts.render(prompt_id=made.slug + "@staging", variables=variables))
    assert len(older.data.messages) == 2
    await value(client.prompts.partials.update(partial.slug, string="Be quick."))
    await value(client.prompts.partials.publish(partial.slug, version=2))
    older = await value(client.prompts.render(prompt_id=made.slug + "@1", variables=variables))
    assert older.data.messages[0].content == "Be quick."
    assert made.slug in [prompt["slug"] for prompt in (await value(client.prompts.list(search="greet"))).data]
    await value(client.prompts.delete(made.slug))
    await refused(
        portkey_ai.api_resources.exceptions.NotFoundError,
        lambda: client.prompts.completions.create(prompt_id=made.slug, variables=variables),
    )


CHECKS = [prompts, embeddings, a_config_with_a_fallback, a_config_with_vendor_spellings]

if __name__ == "__main__":
    told = {"base_url": BASE_URL, "api_key": KEY, "provider": "@emulator"}
    run(CHECKS, {"sync": lambda: portkey_ai.Portkey(**told), "async": lambda: portkey_ai.AsyncPortkey(**told)})
