"""OpenAI's SDK as its users on Azure have it (`AzureOpenAI`), with the gateway as its endpoint: any provider serves a deployment.

Environment: BASE_URL (with /v1), KEY (a service key). The deployment is the model, with or without the slug of a provider.
"""

import os

import openai
import openai_sdk as plain
from both import items, refused, run, value

ENDPOINT, KEY = os.environ["BASE_URL"].removesuffix("/v1"), os.environ["KEY"]
TOLD = {"azure_endpoint": ENDPOINT, "api_key": KEY, "api_version": "2024-10-21"}
MODELS = [
    "@emulator/gpt-4o-mini",
    "@anthropic-emulator/claude-sonnet-4-5",
    "@google-emulator/gemini-2.5-flash",
    "@cohere-emulator/command-a-03-2025",
]
EMBEDDERS = ["@emulator/text-embedding-3-small", "@google-emulator/gemini-embedding-001"]
MODEL = MODELS[0]


async def chat(client):
    answer = await value(client.chat.completions.create(model=MODEL, messages=plain.HELLO))
    assert answer.object == "chat.completion" and answer.choices[0].message.content
    assert answer.usage.total_tokens > 0


async def chat_streamed(client):
    chunks = await items(client.chat.completions.create(model=MODEL, messages=plain.HELLO, stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"


async def tools(client):
    ask = {"model": MODEL, "tools": [plain.WEATHER]}
    answer = await value(client.chat.completions.create(messages=plain.CALL_THE_TOOL, **ask))
    message = answer.choices[0].message
    assert message.tool_calls[0].function.name == "get_weather"
    said = {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "sunny"}
    turn = [*plain.CALL_THE_TOOL, message.model_dump(exclude_none=True), said]
    answer = await value(client.chat.completions.create(messages=turn, **ask))
    assert answer.choices[0].message.content


async def embeddings(client):
    for model in EMBEDDERS:
        found = await value(client.embeddings.create(model=model, input=["a", "b"]))
        assert len(found.data) == 2 and len(found.data[0].embedding) > 0


async def responses(client):
    answer = await value(client.responses.create(model=MODEL, input="Say hello."))
    assert answer.output_text


async def the_deployment_counts_before_the_model(client):
    other = type(client)(azure_deployment=MODEL, **TOLD)
    answer = await value(other.chat.completions.create(model="whatever", messages=plain.HELLO))
    assert answer.model == MODEL.split("/", 1)[1]


async def an_unknown_provider_is_a_bad_request(client):
    ask = client.with_options(max_retries=0).chat.completions.create
    await refused(openai.BadRequestError, lambda: ask(model="@nobody/x", messages=plain.HELLO))


CHECKS = [
    chat,
    chat_streamed,
    tools,
    embeddings,
    responses,
    the_deployment_counts_before_the_model,
    an_unknown_provider_is_a_bad_request,
]


def made(kind, model):
    """How a client is made; the checks then ask for the provider's model."""

    def make():
        global MODEL
        MODEL = model
        return kind(**TOLD)

    return make


if __name__ == "__main__":
    kinds = {"sync": openai.AzureOpenAI, "async": openai.AsyncAzureOpenAI}
    run(CHECKS, {f"{name} {model}": made(kind, model) for model in MODELS for name, kind in kinds.items()})
