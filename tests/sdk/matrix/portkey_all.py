"""The `portkey-ai` SDK with its own defaults at every provider: chat, streams, tools and errors."""

import json

import grid
import portkey_ai
from grid import items, refused, value

HELLO = [{"role": "user", "content": grid.HELLO}]
FUNCTION = {"name": "get_weather", "description": "The weather in a city.", "parameters": grid.SCHEMA}
TOOLS = [{"type": "function", "function": FUNCTION}]
ERRORS = portkey_ai._vendor.openai


async def chat(client, model):
    answer = await value(client.chat.completions.create(model=model, messages=HELLO))
    assert answer.choices[0].message.content and answer.usage.total_tokens > 0
    chunks = await items(await value(client.chat.completions.create(model=model, messages=HELLO, stream=True)))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == answer.choices[0].message.content


async def a_tool(client, model):
    messages = [{"role": "user", "content": grid.CALL_THE_TOOL}]
    answer = await value(client.chat.completions.create(model=model, messages=messages, tools=TOOLS))
    message = answer.choices[0].message
    assert [call.function.name for call in message.tool_calls] == ["get_weather"], message
    messages.append(message.model_dump(exclude_none=True))
    for call in message.tool_calls:
        assert isinstance(json.loads(call.function.arguments)["city"], str)
        messages.append({"role": "tool", "tool_call_id": call.id, "content": "sunny"})
    answer = await value(client.chat.completions.create(model=model, messages=messages, tools=TOOLS))
    assert answer.choices[0].message.content


async def errors_are_of_their_kind(client, model):
    create = client.with_options(max_retries=0).chat.completions.create
    await refused(ERRORS.RateLimitError, lambda: create(model=grid.script(model, "status=429"), messages=HELLO))
    await refused(ERRORS.BadRequestError, lambda: create(model=model, messages=[]))


if __name__ == "__main__":
    told = {"base_url": grid.BASE_URL, "api_key": grid.KEY}
    clients = grid.kinds(portkey_ai.Portkey, portkey_ai.AsyncPortkey, **told)
    grid.run([chat, a_tool, errors_are_of_their_kind], clients)
