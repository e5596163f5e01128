"""The official OpenAI SDK against a provider that speaks another dialect: a program must not be able to tell.

Environment: BASE_URL (with /v1), KEY (a service key). Behind the slugs is the built-in emulator: as Anthropic, which has neither
chat completions nor responses, and as Together, which has no responses.
"""

import json

import openai
import openai_sdk as plain
import pydantic
from both import entered, items, refused, run, value

PROVIDERS = {
    "@anthropic-emulator": "claude-sonnet-4-5",
    "@together-emulator": "openai/gpt-oss-120b",
    "@google-emulator": "gemini-2.5-flash",
    "@bedrock-emulator": "anthropic.claude-sonnet-4-5-20250929-v1:0",
    "@cohere-emulator": "command-a-03-2025",
}
FUNCTION = {"type": "function", **plain.WEATHER["function"]}
CALL_THE_TOOL = "Please call the tool."


class Place(pydantic.BaseModel):
    city: str
    people: int


def thinks():
    """Whether the provider asked thinks aloud."""
    return plain.MODEL.startswith("claude")


async def chat_parsed(client):
    answer = await value(client.chat.completions.parse(model=plain.MODEL, messages=plain.HELLO, response_format=Place))
    assert isinstance(answer.choices[0].message.parsed, Place)
    async with entered(
        client.chat.completions.stream(model=plain.MODEL, messages=plain.HELLO, response_format=Place)
    ) as stream:
        await items(stream)
        final = await value(stream.get_final_completion())
    assert isinstance(final.choices[0].message.parsed, Place)


async def chat_with_thinking_over_two_turns(client):
    asked = {"model": plain.MODEL, "tools": [plain.WEATHER], "reasoning_effort": "low", "max_completion_tokens": 4000}
    answer = await value(client.chat.completions.create(messages=plain.CALL_THE_TOOL, **asked))
    assert not hasattr(answer.choices[0].message, "reasoning_content") or not thinks()
    asked["extra_headers"] = {"x-gateway-strict-std-compliance": "false"}
    answer = await value(client.chat.completions.create(messages=plain.CALL_THE_TOOL, **asked))
    message = answer.choices[0].message
    assert message.tool_calls and (message.reasoning_content if thinks() else True)
    said = {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "sunny"}
    turn = [*plain.CALL_THE_TOOL, message.model_dump(exclude_none=True), said]
    answer = await value(client.chat.completions.create(messages=turn, **asked))
    assert answer.choices[0].message.content and answer.choices[0].finish_reason == "stop"


async def responses(client):
    made = await value(client.responses.create(model=plain.MODEL, input="Say hello.", instructions="Be brief."))
    assert made.object == "response" and made.status == "completed" and made.output_text
    assert made.instructions == "Be brief." and made.model == plain.MODEL
    assert made.usage.total_tokens == made.usage.input_tokens + made.usage.output_tokens > 0
    await refused(openai.BadRequestError, lambda: client.responses.retrieve(made.id))


async def responses_streamed(client):
    whole = await value(client.responses.create(model=plain.MODEL, input="Say hello."))
    events = await items(client.responses.create(model=plain.MODEL, input="Say hello.", stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert events[0].type == "response.created" and events[-1].type == "response.completed"
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert len(deltas) > 1 and "".join(deltas) == events[-1].response.output_text == whole.output_text


async def responses_streamed_with_the_helper(client):
    async with entered(client.responses.stream(model=plain.MODEL, input="Say hello.")) as stream:
        await items(stream)
        assert (await value(stream.get_final_response())).output_text


async def responses_cut_off_are_incomplete(client):
    made = await value(client.responses.create(model=plain.MODEL, input="Say hello.", max_output_tokens=3))
    assert made.status == "incomplete" and made.incomplete_details.reason == "max_output_tokens"
    events = await items(client.responses.create(model=plain.MODEL, input="Hello.", max_output_tokens=3, stream=True))
    assert events[-1].type == "response.incomplete"


async def responses_parsed(client):
    made = await value(client.responses.parse(model=plain.MODEL, input="Say hello.", text_format=Place))
    assert isinstance(made.output_parsed, Place)
    async with entered(client.responses.stream(model=plain.MODEL, input="Say hello.", text_format=Place)) as stream:
        await items(stream)
        final = await value(stream.get_final_response())
    assert isinstance(final.output_parsed, Place)


async def responses_with_tools_and_thinking_over_two_turns(client):
    asked = {"model": plain.MODEL, "tools": [FUNCTION], "reasoning": {"effort": "low"}, "max_output_tokens": 4000}
    said = [{"role": "user", "content": CALL_THE_TOOL}]
    made = await value(client.responses.create(input=said, **asked))
    kinds = [item.type for item in made.output]
    if thinks():
        assert kinds == ["reasoning", "function_call"], kinds
        assert made.output[0].summary[0].text and made.output[0].encrypted_content
    call = made.output[-1]
    assert call.name == "get_weather" and isinstance(json.loads(call.arguments), dict)
    # All of it comes back, as the documentation tells callers to do.
    said += [item.model_dump(exclude_none=True) for item in made.output]
    said.append({"type": "function_call_output", "call_id": call.call_id, "output": "sunny"})
    made = await value(client.responses.create(input=said, **asked))
    assert made.status == "completed" and made.output_text


async def responses_with_tools_streamed(client):
    said = "Please call the tools."
    other = {**FUNCTION, "name": "get_time"}
    async with entered(client.responses.stream(model=plain.MODEL, input=said, tools=[FUNCTION, other])) as stream:
        events = await items(stream)
        final = await value(stream.get_final_response())
    calls = [item for item in final.output if item.type == "function_call"]
    assert [call.name for call in calls] == ["get_weather", "get_time"]
    for at, call in enumerate(final.output):
        if call.type != "function_call":  # Cohere tells its plan first
            continue
        told = [event for event in events if getattr(event, "output_index", None) == at]
        deltas = [event.delta for event in told if event.type == "response.function_call_arguments.delta"]
        assert "".join(deltas) == call.arguments and isinstance(json.loads(call.arguments), dict)


async def a_broken_stream_raises(client):
    other = client.with_options(max_retries=0)
    model = f"{plain.MODEL}?fault=cut&after=6"
    for create in (
        lambda: other.responses.create(model=model, input="Say hello.", stream=True),
        lambda: other.chat.completions.create(model=model, messages=plain.HELLO, stream=True),
    ):
        try:
            await items(create())
        except openai.APIError as error:
            assert error.message
        else:
            raise AssertionError("the stream ended as if it were whole")


async def errors_keep_their_status(client):
    other = client.with_options(max_retries=0)
    for script, kind in [("status=429", openai.RateLimitError), ("status=529", openai.InternalServerError)]:
        for call in (
            lambda model: other.responses.create(model=model, input="Say hello."),
            lambda model: other.responses.create(model=model, input="Say hello.", stream=True),
            lambda model: other.chat.completions.create(model=model, messages=plain.HELLO),
        ):
            error = await refused(kind, lambda: call(f"{plain.MODEL}?{script}"))
            assert error.body["message"] and error.type


async def what_a_provider_does_not_keep_is_refused(client):
    error = await refused(
        openai.BadRequestError,
        lambda: client.responses.create(model=plain.MODEL, input="Go on.", previous_response_id="resp_1"),
    )
    assert error.param == "previous_response_id" and "keeps no responses" in error.message


CHECKS = [
    plain.chat,
    plain.chat_streamed,
    plain.chat_streamed_with_the_helper,
    plain.tools,
    plain.tools_streamed,
    plain.completions,
    chat_parsed,
    chat_with_thinking_over_two_turns,
    responses,
    responses_streamed,
    responses_streamed_with_the_helper,
    responses_cut_off_are_incomplete,
    responses_parsed,
    responses_with_tools_and_thinking_over_two_turns,
    responses_with_tools_streamed,
    a_broken_stream_raises,
    errors_keep_their_status,
    what_a_provider_does_not_keep_is_refused,
]

def made(kind, provider):
    """How a client is made; the checks then ask for the provider's model."""

    def make():
        plain.MODEL = PROVIDERS[provider]
        return kind(base_url=plain.BASE_URL, api_key=plain.KEY, default_headers={"x-gateway-provider": provider})

    return make


if __name__ == "__main__":
    kinds = {"sync": openai.OpenAI, "async": openai.AsyncOpenAI}
    run(CHECKS, {f"{name} {slug}": made(kind, slug) for slug in PROVIDERS for name, kind in kinds.items()})
