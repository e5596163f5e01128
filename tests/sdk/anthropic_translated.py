"""The official Anthropic SDK against providers that speak OpenAI's chat: a program must not be able to tell.

Environment: BASE_URL (with /v1), KEY (a service key). Behind the slugs is the built-in emulator, as OpenAI and as Together.
"""

import anthropic
import anthropic_sdk as plain
from both import entered, items, refused, run, value

PROVIDERS = {
    "@emulator": "gpt-4o-mini",
    "@together-emulator": "openai/gpt-oss-120b",
    "@google-emulator": "gemini-2.5-flash",
    "@bedrock-emulator": "anthropic.claude-sonnet-4-5-20250929-v1:0",
    "@cohere-emulator": "command-a-03-2025",
}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"name": "get_weather", "description": "The weather in a city.", "input_schema": SCHEMA}
TIME = {**WEATHER, "name": "get_time", "description": "The time in a city."}


def asked(said, **more):
    return {"model": plain.MODEL, "max_tokens": 500, "messages": [{"role": "user", "content": said}], **more}


async def tools(client):
    first = asked("Please call the tool.", tools=[WEATHER], system="Be brief.")
    message = await value(client.messages.create(**first))
    assert message.stop_reason == "tool_use"
    call = message.content[-1]
    assert call.type == "tool_use" and call.name == "get_weather" and "city" in call.input and call.id
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "sunny"}
    first["messages"] += [
        {"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in message.content]},
        {"role": "user", "content": [result]},
    ]
    message = await value(client.messages.create(**first))
    assert message.stop_reason == "end_turn" and plain.text(message)


async def tools_streamed(client):
    async with entered(client.messages.stream(**asked("Please call the tools.", tools=[WEATHER, TIME]))) as stream:
        events = await items(stream)
        final = await value(stream.get_final_message())
    calls = [block for block in final.content if block.type == "tool_use"]
    assert [call.name for call in calls] == ["get_weather", "get_time"] and final.stop_reason == "tool_use"
    assert all(isinstance(call.input, dict) and "city" in call.input for call in calls)
    # Blocks are told one after the other, each with its end.
    places = [(event.type, event.index) for event in events if event.type in STARTS_AND_STOPS]
    wanted = [(kind, at) for at in range(len(final.content)) for kind in STARTS_AND_STOPS]
    assert places == wanted, places


STARTS_AND_STOPS = ["content_block_start", "content_block_stop"]


async def a_choice_of_tools(client):
    chosen = {"type": "tool", "name": "get_time"}
    message = await value(client.messages.create(**asked("Hello.", tools=[WEATHER, TIME], tool_choice=chosen)))
    assert [block.name for block in message.content if block.type == "tool_use"] == ["get_time"]


async def a_limit_is_told(client):
    message = await value(client.messages.create(**asked("Hello.") | {"max_tokens": 3}))
    assert message.stop_reason == "max_tokens" and message.usage.output_tokens == 3


async def a_broken_stream_raises(client):
    broken = asked("Hello.") | {"model": f"{plain.MODEL}?fault=cut&after=3"}
    try:
        await items(client.with_options(max_retries=0).messages.create(stream=True, **broken))
    except anthropic.APIError as error:
        assert error.message
    else:
        raise AssertionError("the stream ended as if it were whole")


async def errors_keep_their_status(client):
    other = client.with_options(max_retries=0)
    for script, kind in [("status=429", anthropic.RateLimitError), ("status=500", anthropic.InternalServerError)]:
        failing = asked("Hello.") | {"model": f"{plain.MODEL}?{script}"}
        for stream in (False, True):
            error = await refused(kind, lambda: other.messages.create(stream=stream, **failing))
            assert error.body["type"] == "error" and error.body["error"]["message"]


CHECKS = [
    plain.messages,
    plain.messages_streamed,
    plain.messages_streamed_with_the_helper,
    plain.tokens_are_counted,
    plain.an_unknown_key_is_told_in_its_dialect,
    tools,
    tools_streamed,
    a_choice_of_tools,
    a_limit_is_told,
    a_broken_stream_raises,
    errors_keep_their_status,
]


def made(kind, provider):
    """How a client is made; the checks then ask for the provider's model."""

    def make():
        plain.MODEL = PROVIDERS[provider]
        headers = {"x-gateway-api-key": plain.KEY, "x-gateway-provider": provider}
        return kind(base_url=plain.BASE_URL, api_key="not-used-by-the-gateway", default_headers=headers)

    return make


if __name__ == "__main__":
    kinds = {"sync": anthropic.Anthropic, "async": anthropic.AsyncAnthropic}
    run(CHECKS, {f"{name} {slug}": made(kind, slug) for slug in PROVIDERS for name, kind in kinds.items()})
