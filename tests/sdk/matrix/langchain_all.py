"""LangChain's chat models, OpenAI's (over chat completions and over responses) and Anthropic's, at every provider:
`langchain_all.py openai|responses|anthropic...`

Each needs packages of its own, which is why the import is inside.
"""

import functools
import sys

import grid
from grid import items
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from pydantic import BaseModel


@tool
def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"It is sunny in {city}."


class Place(BaseModel):
    """A place."""

    city: str
    people: int


async def invoked(runnable, messages, kind):
    return await runnable.ainvoke(messages) if kind == "async" else runnable.invoke(messages)


async def streamed(runnable, messages, kind):
    """All chunks of a response put together."""
    chunks = await items(runnable.astream(messages) if kind == "async" else runnable.stream(messages))
    assert len(chunks) > 1
    return functools.reduce(lambda whole, chunk: whole + chunk, chunks)


async def text(client, model):
    make, kind = client
    whole = await invoked(make(model), grid.HELLO, kind)
    parts = await streamed(make(model), grid.HELLO, kind)
    assert whole.text and whole.text == parts.text
    assert whole.usage_metadata["output_tokens"] > 0
    # Mistral has no option for usage and always sends it; the emulator does not know that it stands for Mistral.
    assert "mistral" in model or parts.usage_metadata["output_tokens"] > 0


async def a_tool(client, model):
    make, kind = client
    bound = make(model).bind_tools([get_weather])
    for call in (invoked, streamed):
        messages = [HumanMessage(grid.CALL_THE_TOOL)]
        answer = await call(bound, messages, kind)
        assert [each["name"] for each in answer.tool_calls] == ["get_weather"], answer
        messages.append(answer)
        for each in answer.tool_calls:
            messages.append(ToolMessage(get_weather.invoke(each["args"]), tool_call_id=each["id"]))
        answer = await call(bound, messages, kind)
        assert answer.text and not answer.tool_calls


async def structured_output(client, model):
    # Neither has structured output: Nova is asked in the prompt, DeepSeek has JSON without a schema. The emulator is no model.
    if "nova" in model or "deepseek" in model:
        return
    make, kind = client
    shaped = make(model).with_structured_output(Place)
    assert isinstance(await invoked(shaped, grid.HELLO, kind), Place)


async def thinking_comes_back(client, model):
    """Of OpenAI's two APIs only responses have a place for it; the emulator thinks aloud as Anthropic."""
    make, kind = client
    if make is not responses_model or not model.startswith(("@anthropic/", "@foundry/claude")):
        return
    thinking = {"reasoning": {"effort": "low"}, "output_version": "responses/v1", "max_tokens": 4000}
    bound = make(model, **thinking).bind_tools([get_weather])
    messages = [HumanMessage(grid.CALL_THE_TOOL)]
    answer = await streamed(bound, messages, kind)
    assert [block["type"] for block in answer.content] == ["reasoning", "function_call"], answer.content
    messages.append(answer)
    for each in answer.tool_calls:
        messages.append(ToolMessage("sunny", tool_call_id=each["id"]))
    assert (await streamed(bound, messages, kind)).text


def openai_model(model, **more):
    from langchain_openai import ChatOpenAI

    return ChatOpenAI(model=model, base_url=grid.BASE_URL, api_key=grid.KEY, stream_usage=True, **more)


def responses_model(model, **more):
    return openai_model(model, use_responses_api=True, **more)


def anthropic_model(model):
    from langchain_anthropic import ChatAnthropic

    return ChatAnthropic(model=model, base_url=grid.ROOT, api_key=grid.KEY, max_tokens=500)


if __name__ == "__main__":
    makers = {"openai": openai_model, "responses": responses_model, "anthropic": anthropic_model}
    pairs = [(name, kind) for name in sys.argv[1:] for kind in ("sync", "async")]
    clients = {f"{name} {kind}": lambda made=(makers[name], kind): made for name, kind in pairs}
    grid.run([text, a_tool, structured_output, thinking_comes_back], clients)
