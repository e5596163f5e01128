"""Anthropic's SDK, of any line since 0.40: messages, tools and errors at every provider."""

import anthropic
import grid
from grid import entered, items, refused, value

WEATHER = {"name": "get_weather", "description": "The weather in a city.", "input_schema": grid.SCHEMA}


def asked(model, text, **more):
    return {"model": model, "max_tokens": 500, "messages": [{"role": "user", "content": text}], **more}


def text(message):
    return "".join(block.text for block in message.content if block.type == "text")


async def messages(client, model):
    message = await value(client.messages.create(**asked(model, grid.HELLO)))
    assert message.type == "message" and text(message) and message.stop_reason == "end_turn", message
    assert message.usage.input_tokens > 0 and message.usage.output_tokens > 0
    async with entered(client.messages.stream(**asked(model, grid.HELLO))) as stream:
        pieces = await items(stream.text_stream)
        final = await value(stream.get_final_message())
    assert len(pieces) > 1 and "".join(pieces) == text(final) == text(message)


async def a_tool(client, model):
    first = asked(model, grid.CALL_THE_TOOL, tools=[WEATHER])
    await finished(client, first, await value(client.messages.create(**first)))


async def a_tool_streamed(client, model):
    first = asked(model, grid.CALL_THE_TOOL, tools=[WEATHER])
    async with entered(client.messages.stream(**first)) as stream:
        await items(stream)
        final = await value(stream.get_final_message())
    await finished(client, first, final)


async def finished(client, first, message):
    """Runs the tool and gets the text that follows."""
    calls = [block for block in message.content if block.type == "tool_use"]
    assert message.stop_reason == "tool_use" and [call.name for call in calls] == ["get_weather"], message
    assert isinstance(calls[0].input["city"], str)
    result = {"type": "tool_result", "tool_use_id": calls[0].id, "content": "sunny"}
    turns = [
        *first["messages"],
        {"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in message.content]},
        {"role": "user", "content": [result]},
    ]
    message = await value(client.messages.create(**{**first, "messages": turns}))
    assert message.stop_reason == "end_turn" and text(message)


async def tokens_are_counted(client, model):
    turns = [{"role": "user", "content": grid.HELLO}]
    assert (await value(client.messages.count_tokens(model=model, messages=turns))).input_tokens > 0


async def errors_are_of_their_kind(client, model):
    create = client.with_options(max_retries=0).messages.create
    limited = asked(grid.script(model, "status=429"), grid.HELLO)
    error = await refused(anthropic.RateLimitError, lambda: create(**limited))
    assert error.body["error"]["type"] == "rate_limit_error", error
    bad = {**asked(model, grid.HELLO), "messages": []}
    await refused(anthropic.BadRequestError, lambda: create(**bad))
    broken = asked(grid.script(model, "fault=cut&after=3"), grid.HELLO, stream=True)
    try:
        await items(create(**broken))
    except anthropic.APIError:
        pass
    else:
        raise AssertionError("a broken stream ended as if it were whole")


async def a_wrong_key_is_an_authentication_error(client, model):
    other = client.with_options(api_key=grid.WRONG_KEY, max_retries=0)
    error = await refused(
        anthropic.AuthenticationError, lambda: other.messages.create(**asked(model, grid.HELLO))
    )
    assert error.body["error"]["type"] == "authentication_error", error


CHECKS = [
    messages,
    a_tool,
    a_tool_streamed,
    tokens_are_counted,
    errors_are_of_their_kind,
    a_wrong_key_is_an_authentication_error,
]

if __name__ == "__main__":
    told = {"base_url": grid.ROOT, "api_key": grid.KEY}
    grid.run(CHECKS, grid.kinds(anthropic.Anthropic, anthropic.AsyncAnthropic, **told))
