"""Google's SDK (google-genai) against the gateway: what does not depend on the provider's dialect, or which not all have. What every
provider can do is in `matrix/google_genai_all.py`.

Environment: BASE_URL (with /v1), KEY (a service key). The slug of a provider stands before the model, and behind each is the
built-in emulator, which speaks that provider's dialect.
"""

import os

from both import items, run, value
from google import genai
from google.genai import types

ENDPOINT, KEY = os.environ["BASE_URL"].removesuffix("/v1"), os.environ["KEY"]
EMBEDDERS = ["@google-emulator/gemini-embedding-001", "@emulator/text-embedding-3-small"]


def made(headers=None, vertex=False):
    told = {"vertexai": True} if vertex else {}
    return genai.Client(api_key=KEY, http_options=types.HttpOptions(base_url=ENDPOINT, headers=headers or {}), **told)


def picked(client, **more):
    """Another client of the same kind."""
    other = made(**more)
    return other if isinstance(client, genai.Client) else other.aio


async def pictures(client):
    # The beginning of a PNG is enough: the emulator looks at nothing more.
    picture = types.Part.from_bytes(data=b"\x89PNG\r\n\x1a\n\xff\xfe", mime_type="image/png")
    for model in ("@google-emulator/gemini-2.5-flash", "@emulator/gpt-4o-mini", "@anthropic-emulator/claude-sonnet-4-5"):
        answer = await value(client.models.generate_content(model=model, contents=[picture, "What is this?"]))
        assert answer.text


async def embeddings(client):
    for model in EMBEDDERS:
        one = await value(client.models.embed_content(model=model, contents="a"))
        assert len(one.embeddings) == 1 and one.embeddings[0].values
        config = types.EmbedContentConfig(output_dimensionality=8)
        many = await value(client.models.embed_content(model=model, contents=["a", "b"], config=config))
        assert [len(each.values) for each in many.embeddings] == [8, 8]


async def models_of_a_provider_are_listed(client):
    for slug in ("@google-emulator", "@emulator", "@anthropic-emulator", "@together-emulator"):
        other = picked(client, headers={"x-gateway-provider": slug})
        names = [each.name for each in await items(other.models.list())]
        assert names and all(name.startswith("models/") for name in names), names


async def models_of_the_gateway_are_listed(client):
    names = [each.name for each in await items(client.models.list())]
    assert "models/@google-emulator/emulator" in names and "models/@emulator/emulator" in names, names
    one = await value(client.models.get(model="@emulator/emulator"))
    assert one.name == "models/@emulator/emulator"
    assert (await value(client.models.generate_content(model=one.name, contents="Say hello."))).text


async def vertex(client):
    other = picked(client, vertex=True)
    answer = await value(
        other.models.generate_content(model="@google-emulator/gemini-2.5-flash", contents="Say hello.")
    )
    assert answer.text and answer.candidates[0].finish_reason == types.FinishReason.STOP
    model = "@anthropic-emulator/claude-sonnet-4-5"
    chunks = await items(other.models.generate_content_stream(model=model, contents="Say hello."))
    assert len(chunks) > 1 and chunks[-1].candidates[0].finish_reason == types.FinishReason.STOP


CHECKS = [pictures, embeddings, models_of_a_provider_are_listed, models_of_the_gateway_are_listed, vertex]

if __name__ == "__main__":
    run(CHECKS, {"sync": made, "async": lambda: made().aio})
