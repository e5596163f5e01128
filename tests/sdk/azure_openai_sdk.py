"""OpenAI's SDK as its users on Azure have it (`AzureOpenAI`), with the gateway as its endpoint: any provider serves a deployment.
Chats, responses and errors of every provider are in `matrix/openai_all.py azure`.

Environment: BASE_URL (with /v1), KEY (a service key). The deployment is the model, with or without the slug of a provider.
"""

import os

import openai
from both import refused, run, value

ENDPOINT, KEY = os.environ["BASE_URL"].removesuffix("/v1"), os.environ["KEY"]
TOLD = {"azure_endpoint": ENDPOINT, "api_key": KEY, "api_version": "2024-10-21"}
HELLO = [{"role": "user", "content": "Say hello."}]
EMBEDDERS = ["@emulator/text-embedding-3-small", "@google-emulator/gemini-embedding-001"]
MODEL = "@emulator/gpt-4o-mini"


async def embeddings(client):
    for model in EMBEDDERS:
        found = await value(client.embeddings.create(model=model, input=["a", "b"]))
        assert len(found.data) == 2 and len(found.data[0].embedding) > 0


async def the_deployment_counts_before_the_model(client):
    other = type(client)(azure_deployment=MODEL, **TOLD)
    answer = await value(other.chat.completions.create(model="whatever", messages=HELLO))
    assert answer.model == MODEL.split("/", 1)[1]


async def an_unknown_provider_is_a_bad_request(client):
    ask = client.with_options(max_retries=0).chat.completions.create
    await refused(openai.BadRequestError, lambda: ask(model="@nobody/x", messages=HELLO))


CHECKS = [embeddings, the_deployment_counts_before_the_model, an_unknown_provider_is_a_bad_request]

if __name__ == "__main__":
    run(CHECKS, {"sync": lambda: openai.AzureOpenAI(**TOLD), "async": lambda: openai.AsyncAzureOpenAI(**TOLD)})
