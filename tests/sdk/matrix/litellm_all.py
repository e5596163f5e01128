"""LiteLLM as a client at every provider, under the prefixes by which it speaks the API of OpenAI, Anthropic or
Gemini: `litellm_all.py PREFIX...`"""

import json
import sys

import grid
import litellm
from grid import items, refused, value

PREFIXES = {"openai": grid.BASE_URL, "anthropic": grid.ROOT, "gemini": f"{grid.ROOT}/v1beta"}
HELLO = [{"role": "user", "content": grid.HELLO}]
FUNCTION = {"name": "get_weather", "description": "The weather in a city.", "parameters": grid.SCHEMA}
TOOL = {"type": "function", "function": FUNCTION}

litellm.telemetry = False
litellm.suppress_debug_info = True


async def called(client, model, messages, key=grid.KEY, **more):
    """One call; a stream as a list."""
    prefix, kind = client
    told = {
        "model": f"{prefix}/{model}",
        "messages": messages,
        "api_base": PREFIXES[prefix],
        "api_key": key,
        "max_retries": 0,
        "num_retries": 0,
        **more,
    }
    made = await value(litellm.acompletion(**told) if kind == "async" else litellm.completion(**told))
    # A stream of the sync client has both kinds of iterators.
    return (await items(made) if kind == "async" else list(made)) if more.get("stream") else made


async def text(client, model):
    answer = await called(client, model, HELLO)
    assert answer.choices[0].message.content and answer.choices[0].finish_reason == "stop"
    assert answer.usage.completion_tokens > 0
    chunks = await called(client, model, HELLO, stream=True, stream_options={"include_usage": True})
    pieces = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(pieces) == answer.choices[0].message.content


async def a_tool(client, model):
    for stream in (False, True):
        messages = [{"role": "user", "content": grid.CALL_THE_TOOL}]
        answer = await called(client, model, messages, tools=[TOOL], stream=stream)
        if stream:
            answer = litellm.stream_chunk_builder(answer, messages=messages)
        message = answer.choices[0].message
        assert [call.function.name for call in message.tool_calls] == ["get_weather"], answer
        messages.append(message.model_dump(exclude_none=True))
        for call in message.tool_calls:
            assert isinstance(json.loads(call.function.arguments)["city"], str)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": "sunny"})
        answer = await called(client, model, messages, tools=[TOOL])
        assert answer.choices[0].message.content


async def errors_are_of_their_kind(client, model):
    # In a header: LiteLLM writes a Gemini model's name into the path.
    limited = {"x-emulator-script": "status=429"}
    await refused(litellm.RateLimitError, lambda: called(client, model, HELLO, extra_headers=limited))
    await refused(litellm.AuthenticationError, lambda: called(client, model, HELLO, key=grid.WRONG_KEY))


if __name__ == "__main__":
    clients = {
        f"{prefix} {kind}": lambda each=(prefix, kind): each for prefix in sys.argv[1:] for kind in ("sync", "async")
    }
    grid.run([text, a_tool, errors_are_of_their_kind], clients)
