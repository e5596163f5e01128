"""Google's SDK (google-genai) against the gateway, told nothing but the base URL and a key: any provider answers.

Environment: BASE_URL (with /v1), KEY (a service key). The slug of a provider stands before the model, and behind each is the
built-in emulator, which speaks that provider's dialect. Not a test of the SDK: each check is something callers do.
"""

import asyncio
import os
import sys
import traceback

import httpx2 as httpx
import pydantic
from google import genai
from google.genai import errors, types

ENDPOINT, KEY = os.environ["BASE_URL"].removesuffix("/v1"), os.environ["KEY"]
MODELS = [
    "@google-emulator/gemini-2.5-flash",
    "@emulator/gpt-4o-mini",
    "@anthropic-emulator/claude-sonnet-4-5",
    "@together-emulator/openai/gpt-oss-120b",
    "@bedrock-emulator/anthropic.claude-sonnet-4-5-20250929-v1:0",
    "@cohere-emulator/command-a-03-2025",
]
EMBEDDERS = ["@google-emulator/gemini-embedding-001", "@emulator/text-embedding-3-small"]
CALL_THE_TOOL = "Please call the tool."


class Place(pydantic.BaseModel):
    city: str
    people: int


CALLS = []


def get_weather(city: str) -> str:
    """The weather in a city.

    Args:
        city: The city's name.
    """
    CALLS.append(city)
    return f"sunny in {city}"


def generate(client, model):
    answer = client.models.generate_content(model=model, contents="Say hello.")
    assert answer.text and answer.candidates[0].finish_reason == types.FinishReason.STOP
    usage = answer.usage_metadata
    assert usage.total_token_count >= usage.prompt_token_count + usage.candidates_token_count > 0
    assert answer.response_id and answer.model_version


def stream(client, model):
    whole = client.models.generate_content(model=model, contents="Say hello.").text
    chunks = list(client.models.generate_content_stream(model=model, contents="Say hello."))
    assert len(chunks) > 1 and "".join(chunk.text or "" for chunk in chunks) == whole
    assert [bool(chunk.candidates[0].finish_reason) for chunk in chunks].count(True) == 1
    assert chunks[-1].candidates[0].finish_reason == types.FinishReason.STOP
    assert chunks[-1].usage_metadata.total_token_count > 0


def parameters(client, model):
    config = types.GenerateContentConfig(
        system_instruction="Be brief.", temperature=0.5, top_p=0.9, max_output_tokens=3, stop_sequences=["zzz"]
    )
    answer = client.models.generate_content(model=model, contents=["Say", "hello."], config=config)
    assert answer.candidates[0].finish_reason == types.FinishReason.MAX_TOKENS


def pictures(client, model):
    # The beginning of a PNG is enough: the emulator looks at nothing more.
    picture = types.Part.from_bytes(data=b"\x89PNG\r\n\x1a\n\xff\xfe", mime_type="image/png")
    if "gpt-oss" in model or "cohere" in model:
        return
    assert client.models.generate_content(model=model, contents=[picture, "What is this?"]).text


def tools_called_by_the_sdk(client, model):
    CALLS.clear()
    config = types.GenerateContentConfig(
        tools=[get_weather], automatic_function_calling=types.AutomaticFunctionCallingConfig(maximum_remote_calls=3)
    )
    answer = client.models.generate_content(model=model, contents=CALL_THE_TOOL, config=config)
    assert CALLS and answer.text, (CALLS, answer)
    history = answer.automatic_function_calling_history
    assert [content.role for content in history] == ["user", "model", "user"]


def tools_called_by_hand(client, model):
    declaration = types.FunctionDeclaration(
        name="get_weather",
        description="The weather in a city.",
        parameters=types.Schema(type="OBJECT", properties={"city": types.Schema(type="STRING")}, required=["city"]),
    )
    config = types.GenerateContentConfig(
        tools=[types.Tool(function_declarations=[declaration])],
        tool_config=types.ToolConfig(function_calling_config=types.FunctionCallingConfig(mode="AUTO")),
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
    )
    asked = types.Content(role="user", parts=[types.Part(text=CALL_THE_TOOL)])
    chunks = list(client.models.generate_content_stream(model=model, contents=[asked], config=config))
    parts = [part for chunk in chunks for part in chunk.candidates[0].content.parts]
    calls = [part.function_call for part in parts if part.function_call]
    assert calls[0].name == "get_weather" and isinstance(calls[0].args, dict)
    result = types.Part.from_function_response(name=calls[0].name, response={"result": "sunny"})
    turn = [asked, types.Content(role="model", parts=parts), types.Content(role="user", parts=[result])]
    assert client.models.generate_content(model=model, contents=turn, config=config).text


def thinking_over_two_turns(client, model):
    config = types.GenerateContentConfig(
        thinking_config=types.ThinkingConfig(include_thoughts=True, thinking_budget=2000),
        max_output_tokens=6000,
        tools=[get_weather],
    )
    if "gpt-4o" in model or "command-a-03" in model:
        return
    CALLS.clear()
    answer = client.models.generate_content(model=model, contents=CALL_THE_TOOL, config=config)
    assert CALLS and answer.text
    # The emulator thinks aloud as Anthropic only.
    if model.startswith("@anthropic"):
        parts = answer.automatic_function_calling_history[1].parts
        assert any(part.thought for part in parts) and any(part.thought_signature for part in parts), parts


def chats_keep_their_history(client, model):
    chat = client.chats.create(model=model)
    assert chat.send_message("Say hello.").text
    assert "".join(chunk.text or "" for chunk in chat.send_message_stream("Say it again."))
    roles = [content.role for content in chat.get_history(curated=True)]
    assert roles[:2] == ["user", "model"] and "model" in roles[2:], roles


def json_by_a_schema(client, model):
    for config in (
        {"response_mime_type": "application/json", "response_schema": Place},
        {"response_mime_type": "application/json", "response_json_schema": Place.model_json_schema()},
    ):
        answer = client.models.generate_content(model=model, contents="Where?", config=config)
        assert Place.model_validate_json(answer.text)


def tokens_are_counted(client, model):
    assert client.models.count_tokens(model=model, contents="How many tokens are in this?").total_tokens > 3


def models_are_listed(client, model):
    slug = model.split("/")[0]
    # Bedrock has no list at this address, and the emulator none in Cohere's shape.
    if slug in ("@bedrock-emulator", "@cohere-emulator"):
        return
    other = made({"x-gateway-provider": slug})
    assert any(each.name for each in other.models.list())


def a_bad_request_names_what_is_wrong(client, model):
    try:
        client.models.generate_content(model="@nobody/m", contents="x")
        raise AssertionError("no error")
    except errors.ClientError as error:
        assert error.code == 400 and error.status == "INVALID_ARGUMENT" and "nobody" in error.message


def scripted(script):
    """The script travels in a header: the SDK takes no `?` in a model's name."""
    return types.GenerateContentConfig(http_options=types.HttpOptions(headers={"x-emulator-script": script}))


def a_failing_provider_is_a_server_error(client, model):
    try:
        client.models.generate_content(model=model, contents="x", config=scripted("status=503"))
        raise AssertionError("no error")
    except errors.ServerError as error:
        assert error.code == 503 and error.status == "UNAVAILABLE"


def a_broken_stream_is_not_passed_off_as_finished(client, model):
    chunks = []
    try:
        config = scripted("fault=cut&after=5")
        for chunk in client.models.generate_content_stream(model=model, contents="Say hello.", config=config):
            chunks.append(chunk)
    except (errors.APIError, httpx.RemoteProtocolError) as error:
        broken = error
    assert broken and chunks
    assert not any(chunk.candidates and chunk.candidates[0].finish_reason for chunk in chunks)


def embeddings(client):
    for model in EMBEDDERS:
        one = client.models.embed_content(model=model, contents="a")
        assert len(one.embeddings) == 1 and one.embeddings[0].values
        config = types.EmbedContentConfig(output_dimensionality=8)
        many = client.models.embed_content(model=model, contents=["a", "b"], config=config)
        assert [len(each.values) for each in many.embeddings] == [8, 8]


async def asynchronous(client, model):
    answer = await client.aio.models.generate_content(model=model, contents="Say hello.")
    assert answer.text
    stream = await client.aio.models.generate_content_stream(model=model, contents="Say hello.")
    chunks = [chunk async for chunk in stream]
    assert "".join(chunk.text or "" for chunk in chunks) == answer.text


CHECKS = [
    generate,
    stream,
    parameters,
    pictures,
    tools_called_by_the_sdk,
    tools_called_by_hand,
    thinking_over_two_turns,
    chats_keep_their_history,
    json_by_a_schema,
    tokens_are_counted,
    models_are_listed,
    a_bad_request_names_what_is_wrong,
    a_failing_provider_is_a_server_error,
    a_broken_stream_is_not_passed_off_as_finished,
]


def made(headers=None):
    return genai.Client(api_key=KEY, http_options=types.HttpOptions(base_url=ENDPOINT, headers=headers or {}))


def main():
    failed = total = 0

    def check(title, work):
        nonlocal failed, total
        total += 1
        try:
            work()
            print(f"ok    {title}", flush=True)
        except Exception:
            failed += 1
            print(f"FAIL  {title}\n{traceback.format_exc()}", flush=True)

    client = made()
    for model in MODELS:
        for work in CHECKS:
            check(f"{model}: {work.__name__.replace('_', ' ')}", lambda: work(client, model))
        check(f"{model}: asynchronous", lambda: asyncio.run(asynchronous(made(), model)))
    check("embeddings", lambda: embeddings(client))
    vertex = genai.Client(vertexai=True, api_key=KEY, http_options=types.HttpOptions(base_url=ENDPOINT))
    check("vertex: generate", lambda: generate(vertex, "@google-emulator/gemini-2.5-flash"))
    check("vertex: stream", lambda: stream(vertex, "@anthropic-emulator/claude-sonnet-4-5"))
    print(f"{total - failed} of {total} checks passed", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
