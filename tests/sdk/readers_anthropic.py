"""What Anthropic's SDK makes of a stream that waits, and of one that breaks: heartbeats are no events of the message, errors are errors.

Environment: BASE_URL (with /v1), KEY (a service key). Behind the slugs is the built-in emulator, as Anthropic and as OpenAI.
"""

import json
import os
import urllib.request

import anthropic
from both import entered, items, run, value

MODELS = ("@anthropic-emulator/claude-sonnet-4-5", "@emulator/gpt-4o-mini", "@google-emulator/gemini-2.5-flash")
ASKED = {"max_tokens": 100, "messages": [{"role": "user", "content": "Say hello."}]}
SLOW = "?ttft=450&gap=150&tokens=4"
CUT = "?fault=cut&after=5"


def waiting(model):
    """The model, slow, with heartbeats before its events and between them."""
    slug, name = model.split("/", 1)
    config = {"provider": slug, "time_limits": {"heartbeat_ms": 100, "early_heartbeat": True}}
    return {"model": name + SLOW, "extra_headers": {"x-gateway-config": json.dumps(config)}, **ASKED}


def text(events):
    return "".join(event.delta.text for event in events if event.type == "content_block_delta")


async def heartbeats_are_no_events_of_messages(client):
    for model in MODELS:
        quick = await items(client.messages.create(model=f"{model}?tokens=4", stream=True, **ASKED))
        slow = await items(client.messages.create(stream=True, **waiting(model)))
        assert text(quick) == text(slow) != "", (model, text(quick), text(slow))
        told = [event.type for event in slow if event.type != "ping"]
        assert told[0] == "message_start" and told[-1] == "message_stop", (model, told)


async def heartbeats_are_no_events_of_the_helper(client):
    for model in MODELS:
        async with entered(client.messages.stream(**waiting(model))) as stream:
            await items(stream)
            final = await value(stream.get_final_message())
        assert final.stop_reason == "end_turn" and final.content[0].text, model


async def heartbeats_are_sent(_client):
    """What the other checks read over."""
    for model in MODELS:
        asked = waiting(model) | {"stream": True}
        headers = {"x-api-key": os.environ["KEY"], "content-type": "application/json", **asked.pop("extra_headers")}
        body = json.dumps(asked).encode()
        request = urllib.request.Request(f"{os.environ['BASE_URL']}/messages", body, headers)
        with urllib.request.urlopen(request) as response:
            lines = response.read().decode().splitlines()
        assert lines.count("event: ping") > 3, (model, lines)


async def broken_streams_raise_their_reason(client):
    for model in MODELS:
        try:
            await items(client.messages.create(model=model + CUT, stream=True, **ASKED))
        except anthropic.APIError as error:
            assert "Retry your request" in str(error) and error.body["error"]["type"] == "api_error", (model, error)
        else:
            raise AssertionError("the stream ended as if it were whole")


CHECKS = [
    heartbeats_are_sent,
    heartbeats_are_no_events_of_messages,
    heartbeats_are_no_events_of_the_helper,
    broken_streams_raise_their_reason,
]

if __name__ == "__main__":
    told = {"base_url": os.environ["BASE_URL"].removesuffix("/v1"), "auth_token": os.environ["KEY"], "max_retries": 0}
    run(CHECKS, {"sync": lambda: anthropic.Anthropic(**told), "async": lambda: anthropic.AsyncAnthropic(**told)})
