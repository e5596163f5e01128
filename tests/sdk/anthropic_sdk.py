"""The official Anthropic SDK against the gateway, told nothing but `base_url` and headers.

Environment: BASE_URL (with /v1), KEY (a service key). Behind the slug is the built-in emulator. Not a test of translation: here
the provider speaks the caller's dialect.
"""

import json
import os
import uuid

import anthropic
from both import entered, items, refused, run, value

# This SDK adds /v1 itself.
BASE_URL, KEY = os.environ["BASE_URL"].removesuffix("/v1"), os.environ["KEY"]
MODEL = "claude-sonnet-4-5"
ASK = {"max_tokens": 100, "messages": [{"role": "user", "content": "Say hello."}]}


def text(message):
    return "".join(block.text for block in message.content if block.type == "text")


async def messages(client):
    message = await value(client.messages.create(model=MODEL, **ASK))
    assert message.type == "message" and text(message) and message.stop_reason == "end_turn"
    assert message.usage.output_tokens > 0


async def messages_streamed(client):
    events = await items(client.messages.create(model=MODEL, stream=True, **ASK))
    kinds = [event.type for event in events if event.type != "ping"]
    assert kinds[0] == "message_start" and kinds[-1] == "message_stop"
    assert sum(kind == "content_block_delta" for kind in kinds) > 1


async def messages_streamed_with_the_helper(client):
    async with entered(client.messages.stream(model=MODEL, **ASK)) as stream:
        pieces = await items(stream.text_stream)
        final = await value(stream.get_final_message())
    assert "".join(pieces) == text(final) != ""


async def messages_from_the_cache(client):
    # The namespace is of this run alone: the first call is a miss.
    for streams_first in (False, True):
        config = json.dumps({"provider": "@anthropic-emulator", "cache": {"mode": "simple", "max_age": 600}})
        namespace = {"x-gateway-config": config, "x-gateway-cache-namespace": uuid.uuid4().hex}
        other = client.with_options(set_default_headers={"x-gateway-api-key": KEY, **namespace})

        async def answered(streams):
            answer = await value(other.messages.with_raw_response.create(model=MODEL, stream=streams, **ASK))
            cache, parsed = answer.headers["x-gateway-cache-status"], await value(answer.parse())
            if not streams:
                return cache, text(parsed)
            events = await items(parsed)
            assert events[-1].type == "message_stop"
            deltas = (event.delta for event in events if event.type == "content_block_delta")
            return cache, "".join(delta.text for delta in deltas)

        cache, words = await answered(streams_first)
        assert cache == "MISS" and words
        assert await answered(streams_first) == ("HIT", words)
        assert await answered(not streams_first) == ("HIT", words)


async def tokens_are_counted(client):
    counted = await value(client.messages.count_tokens(model=MODEL, messages=ASK["messages"]))
    assert counted.input_tokens > 0


async def a_bad_request_is_told_in_its_dialect(client):
    error = await refused(
        anthropic.BadRequestError, lambda: client.messages.create(model=MODEL, max_tokens=10, messages=[])
    )
    assert error.body["type"] == "error" and error.body["error"]["type"] == "invalid_request_error"


async def an_unknown_key_is_told_in_its_dialect(client):
    other = client.with_options(default_headers={"x-gateway-api-key": "sk-nobody-0123456789"})
    error = await refused(anthropic.AuthenticationError, lambda: other.messages.create(model=MODEL, **ASK))
    assert error.body["error"]["type"] == "authentication_error"


CHECKS = [
    messages,
    messages_streamed,
    messages_streamed_with_the_helper,
    messages_from_the_cache,
    tokens_are_counted,
    a_bad_request_is_told_in_its_dialect,
    an_unknown_key_is_told_in_its_dialect,
]

if __name__ == "__main__":
    told = {
        "base_url": BASE_URL,
        "api_key": "not-used-by-the-gateway",
        "default_headers": {"x-gateway-api-key": KEY, "x-gateway-provider": "@anthropic-emulator"},
    }
    run(CHECKS, {"sync": lambda: anthropic.Anthropic(**told), "async": lambda: anthropic.AsyncAnthropic(**told)})
