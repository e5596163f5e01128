"""OpenAI's SDK: chat completions, responses, tools and errors at every provider. `openai_all.py azure`: AzureOpenAI instead."""

import json
import sys

import grid
import openai
import pydantic
from grid import entered, items, refused, value

HELLO = [{"role": "user", "content": grid.HELLO}]
CALL_THE_TOOL = {"role": "user", "content": grid.CALL_THE_TOOL}
FUNCTION = {"name": "get_weather", "description": "The weather in a city.", "parameters": grid.SCHEMA, "strict": True}
CHAT_TOOL = {"type": "function", "function": FUNCTION}
RESPONSES_TOOL = {"type": "function", **FUNCTION}
USAGE = {"include_usage": True}


class Place(pydantic.BaseModel):
    city: str
    people: int


async def chat(client, model):
    answer = await value(client.chat.completions.create(model=model, messages=HELLO))
    assert answer.choices[0].message.content and answer.choices[0].finish_reason == "stop"
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens > 0
    chunks = await items(
        client.chat.completions.create(model=model, messages=HELLO, stream=True, stream_options=USAGE)
    )
    pieces = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert len(pieces) > 2 and "".join(pieces) == answer.choices[0].message.content
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    # Mistral has no such option and always sends the usage; the emulator does not know that it stands for Mistral.
    assert "mistral" in model or chunks[-1].usage.completion_tokens > 0


async def chat_with_a_tool(client, model):
    messages = [CALL_THE_TOOL]
    answer = await value(client.chat.completions.create(model=model, messages=messages, tools=[CHAT_TOOL]))
    assert answer.choices[0].finish_reason == "tool_calls"
    await finished(client, model, messages, answer.choices[0].message)


async def chat_with_a_tool_streamed(client, model):
    messages = [CALL_THE_TOOL]
    async with entered(client.chat.completions.stream(model=model, messages=messages, tools=[CHAT_TOOL])) as stream:
        await items(stream)
        final = await value(stream.get_final_completion())
    await finished(client, model, messages, final.choices[0].message)


async def finished(client, model, messages, message):
    """Runs the tool and gets the text that follows."""
    assert [call.function.name for call in message.tool_calls] == ["get_weather"], message
    messages.append(message.model_dump(exclude_none=True, exclude={"parsed"}))
    for call in message.tool_calls:
        assert isinstance(json.loads(call.function.arguments)["city"], str)
        messages.append({"role": "tool", "tool_call_id": call.id, "content": "sunny"})
    answer = await value(client.chat.completions.create(model=model, messages=messages, tools=[CHAT_TOOL]))
    assert answer.choices[0].message.content and answer.choices[0].finish_reason == "stop"


async def chat_parsed(client, model):
    # Neither has structured output: Nova is asked in the prompt, DeepSeek has JSON without a schema. The emulator is no model.
    if "nova" in model or "deepseek" in model:
        return
    answer = await value(client.chat.completions.parse(model=model, messages=HELLO, response_format=Place))
    assert isinstance(answer.choices[0].message.parsed, Place)


async def responses(client, model):
    made = await value(client.responses.create(model=model, input=grid.HELLO))
    assert made.status == "completed" and made.output_text and made.usage.total_tokens > 0
    events = await items(client.responses.create(model=model, input=grid.HELLO, stream=True))
    assert events[0].type == "response.created" and events[-1].type == "response.completed"
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert len(deltas) > 1 and "".join(deltas) == made.output_text


async def responses_with_a_tool(client, model):
    given = [CALL_THE_TOOL]
    made = await value(client.responses.create(model=model, input=given, tools=[RESPONSES_TOOL], store=False))
    given += [item.model_dump(exclude_none=True) for item in made.output]
    calls = [item for item in made.output if item.type == "function_call"]
    assert [call.name for call in calls] == ["get_weather"] and "city" in json.loads(calls[0].arguments)
    given.append({"type": "function_call_output", "call_id": calls[0].call_id, "output": "sunny"})
    async with entered(client.responses.stream(model=model, input=given, tools=[RESPONSES_TOOL])) as stream:
        await items(stream)
        assert (await value(stream.get_final_response())).output_text


async def errors_are_of_their_kind(client, model):
    once = client.with_options(max_retries=0)
    create = once.chat.completions.create
    await refused(openai.RateLimitError, lambda: create(model=grid.script(model, "status=429"), messages=HELLO))
    await refused(openai.InternalServerError, lambda: create(model=grid.script(model, "status=503"), messages=HELLO))
    await refused(openai.BadRequestError, lambda: create(model=model, messages=[]))
    broken = grid.script(model, "fault=cut&after=3")
    try:
        await items(create(model=broken, messages=HELLO, stream=True))
    except openai.APIError:
        pass
    else:
        raise AssertionError("a broken stream ended as if it were whole")


async def a_wrong_key_is_an_authentication_error(client, model):
    other = client.with_options(api_key=grid.WRONG_KEY, max_retries=0)
    error = await refused(
        openai.AuthenticationError, lambda: other.chat.completions.create(model=model, messages=HELLO)
    )
    assert error.code == "invalid_api_key", error


CHAT = [chat, chat_with_a_tool, chat_with_a_tool_streamed, chat_parsed]
RESPONSES = [responses, responses_with_a_tool]
ERRORS = [errors_are_of_their_kind, a_wrong_key_is_an_authentication_error]

if __name__ == "__main__":
    if sys.argv[1:] == ["azure"]:
        told = {"azure_endpoint": grid.ROOT, "api_key": grid.KEY, "api_version": "2024-10-21"}
        grid.run(CHAT + RESPONSES + ERRORS, grid.kinds(openai.AzureOpenAI, openai.AsyncAzureOpenAI, **told))
    told = {"base_url": grid.BASE_URL, "api_key": grid.KEY}
    grid.run(CHAT + RESPONSES + ERRORS, grid.kinds(openai.OpenAI, openai.AsyncOpenAI, **told))
