"""What the official OpenAI SDK makes of a stream that waits, and of one that breaks: heartbeats are no events, errors are errors.

Environment: BASE_URL (with /v1), KEY (a service key). Behind the slugs is the built-in emulator, as OpenAI and as providers that
have another dialect.
"""

import json
import os
import urllib.request

import openai
from both import items, run
from openai.types.responses import ResponseFailedEvent

MODELS = ("@emulator/gpt-4o-mini", "@anthropic-emulator/claude-sonnet-4-5", "@together-emulator/openai/gpt-oss-120b")
HELLO = [{"role": "user", "content": "Say hello."}]
SLOW = "?ttft=450&gap=150&tokens=4"
CUT = "?fault=cut&after=5"
REASON = "Retry your request"


def waiting(model):
    """The model, slow, with heartbeats before its events and between them."""
    slug, name = model.split("/", 1)
    config = {"provider": slug, "time_limits": {"heartbeat_ms": 100, "early_heartbeat": True}}
    return {"model": name + SLOW, "extra_headers": {"x-gateway-config": json.dumps(config)}, "stream": True}


async def raised(call):
    """The SDK's error for a stream that breaks."""
    try:
        await items(call())
    except openai.APIError as error:
        return error
    raise AssertionError("the stream ended as if it were whole")


async def heartbeats_are_no_events_of_chats(client):
    for model in MODELS:
        create = client.chat.completions.create
        quick = await items(create(model=f"{model}?tokens=4", messages=HELLO, stream=True))
        slow = await items(create(messages=HELLO, **waiting(model)))
        texts = ["".join(chunk.choices[0].delta.content or "" for chunk in each if chunk.choices) for each in (quick, slow)]
        assert texts[0] == texts[1] != "" and len(quick) == len(slow), (model, texts)


async def heartbeats_are_no_events_of_responses(client):
    for model in MODELS:
        events = await items(client.responses.create(input="Say hello.", **waiting(model)))
        told = [event for event in events if event.type != "keepalive"]
        assert told[0].type == "response.created" and told[-1].type == "response.completed", model
        assert [event.sequence_number for event in told] == list(range(len(told))), model
        assert told[-1].response.output_text, model


async def heartbeats_are_no_events_of_the_helper(client):
    for model in MODELS:
        asked = waiting(model)
        del asked["stream"]
        manager = client.responses.stream(input="Say hello.", **asked)
        if hasattr(manager, "__aenter__"):
            async with manager as stream:
                await items(stream)
                final = await stream.get_final_response()
        else:
            with manager as stream:
                await items(stream)
                final = stream.get_final_response()
        assert final.status == "completed" and final.output_text, model


async def broken_streams_raise_their_reason(client):
    for model in MODELS:
        chat = await raised(lambda: client.chat.completions.create(model=model + CUT, messages=HELLO, stream=True))
        response = await raised(lambda: client.responses.create(model=model + CUT, input="Hello.", stream=True))
        for error in (chat, response):
            assert REASON in error.message and error.code == "upstream_unreachable", (model, error.message, error.code)


def sent(path, asked, headers):
    """The lines that the gateway sends for a request."""
    headers = {"authorization": f"Bearer {os.environ['KEY']}", "content-type": "application/json", **headers}
    request = urllib.request.Request(f"{os.environ['BASE_URL']}/{path}", json.dumps(asked).encode(), headers)
    with urllib.request.urlopen(request) as response:
        return response.read().decode().splitlines()


async def heartbeats_are_sent(_client):
    """What the other checks read over."""
    for model in MODELS:
        asked = waiting(model)
        headers = asked.pop("extra_headers")
        assert sent("chat/completions", {"messages": HELLO, **asked}, headers).count(": keep-alive") > 3, model
        lines = sent("responses", {"input": "Say hello.", **asked}, headers)
        assert lines.count(": keep-alive") > 1 and lines.count("event: keepalive") > 1, (model, lines)


async def a_broken_response_ends_with_an_event_of_its_type(_client):
    """The SDK stops reading at the event `error`; agents read the one after it."""
    for model in MODELS:
        lines = sent("responses", {"model": model + CUT, "input": "Hello.", "stream": True}, {})
        lines = [line for line in lines if line.startswith("data: ")]
        failed = ResponseFailedEvent.construct(**json.loads(lines[-1].removeprefix("data: ")))
        assert failed.type == "response.failed" and failed.response.status == "failed", lines[-1]
        assert REASON in failed.response.error.message, lines[-1]


CHECKS = [
    heartbeats_are_sent,
    heartbeats_are_no_events_of_chats,
    heartbeats_are_no_events_of_responses,
    heartbeats_are_no_events_of_the_helper,
    broken_streams_raise_their_reason,
    a_broken_response_ends_with_an_event_of_its_type,
]

if __name__ == "__main__":
    told = {"base_url": os.environ["BASE_URL"], "api_key": os.environ["KEY"], "max_retries": 0}
    run(CHECKS, {"sync": lambda: openai.OpenAI(**told), "async": lambda: openai.AsyncOpenAI(**told)})
