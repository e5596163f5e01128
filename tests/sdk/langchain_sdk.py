"""LangChain's OpenAI chat model against the gateway: streamed round trips with a tool, by chat completions and by responses.

Environment: BASE_URL (with /v1), KEY (a service key). Behind the slugs is the built-in emulator, as OpenAI and as Anthropic.
"""

import functools
import os

from both import items, run
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel

BASE_URL, KEY = os.environ["BASE_URL"], os.environ["KEY"]
PROVIDERS = {"@emulator": "gpt-4o-mini", "@anthropic-emulator": "claude-sonnet-4-5"}


@tool
def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"It is sunny in {city}."


class Place(BaseModel):
    """A place."""

    city: str
    people: int


def model(provider, responses, **more):
    return ChatOpenAI(
        model=PROVIDERS[provider],
        base_url=BASE_URL,
        api_key=KEY,
        default_headers={"x-gateway-provider": provider},
        use_responses_api=responses,
        **more,
    )


async def streamed(runnable, messages, kind):
    """All chunks of an answer put together."""
    chunks = await items(runnable.astream(messages) if kind == "async" else runnable.stream(messages))
    assert len(chunks) > 1
    return functools.reduce(lambda whole, chunk: whole + chunk, chunks)


async def a_streamed_round_trip_with_a_tool(provider, responses, kind):
    bound = model(provider, responses).bind_tools([get_weather])
    messages = [HumanMessage("Please call the tool.")]
    answer = await streamed(bound, messages, kind)
    assert [call["name"] for call in answer.tool_calls] == ["get_weather"], answer
    messages.append(answer)
    for call in answer.tool_calls:
        messages.append(ToolMessage(get_weather.invoke(call["args"]), tool_call_id=call["id"]))
    answer = await streamed(bound, messages, kind)
    assert answer.text and not answer.tool_calls
    assert answer.usage_metadata["output_tokens"] > 0


async def structured_output(provider, responses, kind):
    shaped = model(provider, responses).with_structured_output(Place, method="json_schema")
    made = await shaped.ainvoke("Say hello.") if kind == "async" else shaped.invoke("Say hello.")
    assert isinstance(made, Place)


async def thinking_comes_back(provider, responses, kind):
    """Only responses have a place for it."""
    if not responses or provider == "@emulator":
        return
    bound = model(provider, True, reasoning={"effort": "low"}, output_version="responses/v1", max_tokens=4000)
    bound = bound.bind_tools([get_weather])
    messages = [HumanMessage("Please call the tool.")]
    answer = await streamed(bound, messages, kind)
    kinds = [block["type"] for block in answer.content]
    assert kinds == ["reasoning", "function_call"], kinds
    messages.append(answer)
    for call in answer.tool_calls:
        messages.append(ToolMessage("sunny", tool_call_id=call["id"]))
    answer = await streamed(bound, messages, kind)
    assert answer.text


CHECKS = [a_streamed_round_trip_with_a_tool, structured_output, thinking_comes_back]


def each(check):
    """The check on every provider and both APIs."""

    async def all_of_them(kind):
        for provider in PROVIDERS:
            for responses in (False, True):
                try:
                    await check(provider, responses, kind)
                except Exception as error:
                    raise AssertionError(f"{provider}, responses={responses}") from error

    all_of_them.__name__ = check.__name__
    return all_of_them


if __name__ == "__main__":
    run([each(check) for check in CHECKS], {"sync": lambda: "sync", "async": lambda: "async"})
