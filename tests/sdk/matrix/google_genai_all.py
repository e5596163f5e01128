"""Google's SDK (google-genai) at every provider, told nothing but the base URL and a key: text, streams, tools, thinking, chats,
structured output, counts and errors.

Scripts for the emulator travel in a header: the SDK takes no `?` in a model's name.
"""

import grid
import httpx2 as httpx
import pydantic
from google import genai
from google.genai import errors, types
from grid import items, refused, value

OK = types.FinishReason.STOP


class Place(pydantic.BaseModel):
    city: str
    people: int


def get_weather(city: str) -> str:
    """The weather in a city.

    Args:
        city: The city's name.
    """
    return f"sunny in {city}"


def generate(client, model, contents=grid.HELLO, **more):
    return value(client.models.generate_content(model=model, contents=contents, **more))


def stream(client, model, contents=grid.HELLO, **more):
    return items(client.models.generate_content_stream(model=model, contents=contents, **more))


def texts(chunks):
    return "".join(chunk.text or "" for chunk in chunks)


async def text(client, model):
    whole = await generate(client, model)
    assert whole.text and whole.candidates[0].finish_reason == OK and whole.response_id and whole.model_version
    usage = whole.usage_metadata
    assert usage.total_token_count >= usage.prompt_token_count + usage.candidates_token_count > 0
    chunks = await stream(client, model)
    assert len(chunks) > 1 and texts(chunks) == whole.text
    finished = [chunk for chunk in chunks if chunk.candidates and chunk.candidates[0].finish_reason]
    assert len(finished) == 1 and finished[0].candidates[0].finish_reason == OK
    # Mistral has no option for usage and always sends it; the emulator does not know that it stands for Mistral.
    assert "mistral" in model or chunks[-1].usage_metadata.total_token_count > 0


async def parameters(client, model):
    config = types.GenerateContentConfig(
        system_instruction="Be brief.", temperature=0.5, top_p=0.9, max_output_tokens=3, stop_sequences=["zzz"]
    )
    answer = await generate(client, model, ["Say", "hello."], config=config)
    assert answer.candidates[0].finish_reason == types.FinishReason.MAX_TOKENS


async def a_tool_called_by_the_sdk(client, model):
    config = types.GenerateContentConfig(
        tools=[get_weather], automatic_function_calling=types.AutomaticFunctionCallingConfig(maximum_remote_calls=3)
    )
    answer = await generate(client, model, grid.CALL_THE_TOOL, config=config)
    history = answer.automatic_function_calling_history
    assert answer.text and [content.role for content in history] == ["user", "model", "user"]


async def a_tool_called_by_hand(client, model):
    declaration = types.FunctionDeclaration(
        name="get_weather",
        description="The weather in a city.",
        parameters=types.Schema(type="OBJECT", properties={"city": types.Schema(type="STRING")}, required=["city"]),
    )
    config = types.GenerateContentConfig(
        tools=[types.Tool(function_declarations=[declaration])],
        tool_config=types.ToolConfig(function_calling_config=types.FunctionCallingConfig(mode="AUTO")),
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
    )
    asked = types.Content(role="user", parts=[types.Part(text=grid.CALL_THE_TOOL)])
    chunks = await stream(client, model, [asked], config=config)
    parts = [part for chunk in chunks for part in chunk.candidates[0].content.parts or []]
    calls = [part.function_call for part in parts if part.function_call]
    assert [call.name for call in calls] == ["get_weather"] and isinstance(calls[0].args["city"], str)
    result = types.Part.from_function_response(name=calls[0].name, response={"result": "sunny"})
    turn = [asked, types.Content(role="model", parts=parts), types.Content(role="user", parts=[result])]
    assert (await generate(client, model, turn, config=config)).text


async def thinking_over_two_turns(client, model):
    # The emulator thinks aloud as these two vendors.
    if not model.startswith(("@anthropic/", "@google/", "@vertex/", "@foundry/claude")):
        return
    config = types.GenerateContentConfig(
        thinking_config=types.ThinkingConfig(include_thoughts=True, thinking_budget=2000),
        max_output_tokens=6000,
        tools=[get_weather],
    )
    answer = await generate(client, model, grid.CALL_THE_TOOL, config=config)
    parts = answer.automatic_function_calling_history[1].parts
    assert answer.text and any(part.thought and part.text for part in parts), parts
    assert any(part.thought_signature for part in parts), parts


async def a_chat_with_its_history(client, model):
    chat = client.chats.create(model=model)
    assert (await value(chat.send_message(grid.HELLO))).text
    assert texts(await items(chat.send_message_stream("Say it again.")))
    roles = [content.role for content in chat.get_history(curated=True)]
    assert roles[:3] == ["user", "model", "user"] and "model" in roles[3:], roles


async def structured_output(client, model):
    # Neither has structured output: Nova is asked in the prompt, DeepSeek has JSON without a schema. The emulator is no model.
    if "nova" in model or "deepseek" in model:
        return
    for schema in ({"response_schema": Place}, {"response_json_schema": Place.model_json_schema()}):
        answer = await generate(client, model, config={"response_mime_type": "application/json", **schema})
        assert Place.model_validate_json(answer.text)


async def tokens_are_counted(client, model):
    counted = await value(client.models.count_tokens(model=model, contents="How many tokens are in this?"))
    assert counted.total_tokens > 3


def scripted(script):
    return types.GenerateContentConfig(http_options=types.HttpOptions(headers={"x-emulator-script": script}))


async def errors_are_of_their_kind(client, model):
    error = await refused(errors.ClientError, lambda: generate(client, model, config=scripted("status=429")))
    assert error.code == 429 and error.status == "RESOURCE_EXHAUSTED"
    error = await refused(errors.ServerError, lambda: generate(client, model, config=scripted("status=503")))
    assert error.code == 503 and error.status == "UNAVAILABLE"
    error = await refused(errors.ClientError, lambda: generate(client, "@nobody/m"))
    assert error.code == 400 and error.status == "INVALID_ARGUMENT" and "nobody" in error.message


async def a_broken_stream_is_not_passed_off_as_finished(client, model):
    chunks = []
    config = scripted("fault=cut&after=5")
    try:
        found = await value(client.models.generate_content_stream(model=model, contents=grid.HELLO, config=config))
        if hasattr(found, "__aiter__"):
            async for chunk in found:
                chunks.append(chunk)
        else:
            for chunk in found:
                chunks.append(chunk)
    except (errors.APIError, httpx.HTTPError, OSError) as error:
        broken = error
    assert broken and chunks
    assert not any(chunk.candidates and chunk.candidates[0].finish_reason for chunk in chunks)


async def a_wrong_key_is_an_authentication_error(_, model):
    other = made(grid.WRONG_KEY)
    error = await refused(errors.ClientError, lambda: generate(other, model))
    assert error.code == 401 and error.status == "UNAUTHENTICATED"


def made(key=grid.KEY):
    return genai.Client(api_key=key, http_options=types.HttpOptions(base_url=grid.ROOT))


CHECKS = [
    text,
    parameters,
    a_tool_called_by_the_sdk,
    a_tool_called_by_hand,
    thinking_over_two_turns,
    a_chat_with_its_history,
    structured_output,
    tokens_are_counted,
    errors_are_of_their_kind,
    a_broken_stream_is_not_passed_off_as_finished,
    a_wrong_key_is_an_authentication_error,
]

if __name__ == "__main__":
    grid.run(CHECKS, {"sync": made, "async": lambda: made().aio})
