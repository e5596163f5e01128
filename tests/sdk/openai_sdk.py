"""The official OpenAI SDK against the gateway, told nothing but `base_url` and headers.

Environment: BASE_URL (with /v1), KEY (a service key). The provider behind is the built-in emulator, whose scripts stand
behind a `?` in the model's name. Not a test of the SDK: each check is something callers do.
"""

import asyncio
import json
import os
import uuid

import openai
from both import entered, items, refused, run, value

BASE_URL, KEY = os.environ["BASE_URL"], os.environ["KEY"]
HEADERS = {"x-gateway-provider": "@emulator"}
MODEL = "gpt-4o-mini"
HELLO = [{"role": "user", "content": "Say hello."}]
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
            "additionalProperties": False,
        },
        "strict": True,
    },
}
CALL_THE_TOOL = [{"role": "user", "content": "Please call the tool."}]


def script(text):
    return f"{MODEL}?{text}"


async def chat(client):
    answer = await value(client.chat.completions.create(model=MODEL, messages=HELLO))
    assert answer.object == "chat.completion"
    assert answer.choices[0].message.content and answer.choices[0].finish_reason == "stop"
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


async def chat_with_the_key_in_our_own_header(client):
    other = client.with_options(api_key="not-a-service-key", default_headers={"x-gateway-api-key": KEY})
    answer = await value(other.chat.completions.create(model=MODEL, messages=HELLO))
    assert answer.choices[0].message.content


async def chat_with_an_inline_config(client):
    config = json.dumps({"provider": "@emulator", "override_params": {"max_tokens": 3}, "retry": {"attempts": 1}})
    other = client.with_options(set_default_headers={"x-gateway-config": config})
    answer = await value(other.chat.completions.create(model=MODEL, messages=HELLO))
    assert answer.choices[0].finish_reason == "length" and answer.usage.completion_tokens == 3


async def chat_with_the_provider_in_the_model(client):
    other = client.with_options(set_default_headers={})
    answer = await value(other.chat.completions.create(model=f"@emulator/{MODEL}", messages=HELLO))
    assert answer.choices[0].message.content


async def gateway_headers_can_be_read(client):
    answer = await value(client.chat.completions.with_raw_response.create(model=MODEL, messages=HELLO))
    assert answer.headers["x-gateway-trace-id"]
    assert answer.headers["x-gateway-provider"] == "openai"


async def chat_streamed(client):
    whole = await value(client.chat.completions.create(model=MODEL, messages=HELLO))
    options = {"include_usage": True}
    chunks = await items(
        client.chat.completions.create(model=MODEL, messages=HELLO, stream=True, stream_options=options)
    )
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == whole.choices[0].message.content
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    assert chunks[-1].usage.completion_tokens > 0 and not chunks[-1].choices


async def chat_streamed_with_the_helper(client):
    async with entered(client.chat.completions.stream(model=MODEL, messages=HELLO)) as stream:
        events = await items(stream)
        final = await value(stream.get_final_completion())
    deltas = [event.delta for event in events if event.type == "content.delta"]
    assert len(deltas) > 1 and "".join(deltas) == final.choices[0].message.content


async def tools(client):
    answer = await value(client.chat.completions.create(model=MODEL, messages=CALL_THE_TOOL, tools=[WEATHER]))
    choice = answer.choices[0]
    assert choice.finish_reason == "tool_calls" and choice.message.tool_calls[0].id
    call = choice.message.tool_calls[0].function
    assert call.name == "get_weather" and isinstance(json.loads(call.arguments), dict)
    said = {"role": "tool", "tool_call_id": choice.message.tool_calls[0].id, "content": "sunny"}
    turn = [*HELLO, choice.message.model_dump(exclude_none=True), said]
    answer = await value(client.chat.completions.create(model=MODEL, messages=turn, tools=[WEATHER]))
    assert answer.choices[0].message.content


async def tools_streamed(client):
    async with entered(
        client.chat.completions.stream(model=MODEL, messages=CALL_THE_TOOL, tools=[WEATHER])
    ) as stream:
        await items(stream)
        final = await value(stream.get_final_completion())
    call = final.choices[0].message.tool_calls[0].function
    assert call.name == "get_weather" and isinstance(json.loads(call.arguments), dict)


async def completions(client):
    answer = await value(client.completions.create(model=MODEL, prompt="Once upon a time"))
    assert answer.object == "text_completion" and answer.choices[0].text
    chunks = await items(client.completions.create(model=MODEL, prompt="Once upon a time", stream=True))
    assert "".join(chunk.choices[0].text for chunk in chunks if chunk.choices) == answer.choices[0].text


async def embeddings(client):
    texts = ["one", "two"]
    # The SDK asks for base64 by itself and decodes it.
    packed = await value(client.embeddings.create(model="text-embedding-3-small", input=texts))
    plain = await value(
        client.embeddings.create(model="text-embedding-3-small", input=texts, encoding_format="float")
    )
    assert [item.index for item in packed.data] == [0, 1]
    for left, right in zip(packed.data, plain.data, strict=True):
        assert len(left.embedding) == len(right.embedding) > 0
        assert all(abs(a - b) < 1e-6 for a, b in zip(left.embedding, right.embedding))


async def moderations(client):
    answer = await value(client.moderations.create(model="omni-moderation-latest", input="good morning"))
    assert answer.results[0].flagged is False


async def models(client):
    listed = await items(client.models.list())
    assert listed and all(model.id for model in listed)
    one = await value(client.models.retrieve(listed[0].id))
    assert one.id == listed[0].id and one.object == "model"


async def files(client):
    content = b'{"custom_id": "1", "text": "\xc3\xa4"}\n' * 20_000
    made = await value(client.files.create(file=("lines.jsonl", content), purpose="batch"))
    assert made.filename == "lines.jsonl" and made.bytes == len(content) and made.purpose == "batch"
    assert made.id in [file.id for file in await items(client.files.list())]
    assert (await value(client.files.retrieve(made.id))).id == made.id
    received = await value(client.files.content(made.id))
    assert await value(received.read()) == content
    assert (await value(client.files.delete(made.id))).deleted
    await refused(openai.NotFoundError, lambda: client.files.retrieve(made.id))


def batch_lines(count, model=MODEL):
    """The input of a batch: so many chats."""
    body = {"model": model, "messages": HELLO, "max_tokens": 5}
    line = {"method": "POST", "url": "/v1/chat/completions", "body": body}
    return "".join(json.dumps({"custom_id": f"line-{n}", **line}) + "\n" for n in range(count)).encode()


async def finished(client, batch):
    """The batch once it has ended, polled as callers do."""
    for _ in range(1200):
        batch = await value(client.batches.retrieve(batch.id))
        if batch.status in ("completed", "failed", "cancelled", "expired"):
            return batch
        await asyncio.sleep(0.05)
    raise AssertionError(f"it does not end: {batch}")


def checked(model, tp):
    """What the SDK has read holds against the SDK's own types: no member is missing, none has another type."""
    return tp.model_validate_json(model.to_json(exclude_unset=True), strict=True)


async def managed_batches(client):
    """Files and batches of the gateway itself. The provider of the client's default headers is that of the lines."""
    own = client.with_options(default_headers={**HEADERS, "x-gateway-provider": "turnpike"})
    content = batch_lines(3)
    file = await value(own.files.create(file=("lines.jsonl", content), purpose="batch"))
    assert file.id.startswith("file-turnpike-") and checked(file, openai.types.FileObject).bytes == len(content)
    assert (await value(own.files.wait_for_processing(file.id))).status == "processed"
    create = {"input_file_id": file.id, "endpoint": "/v1/chat/completions", "metadata": {"job": "nightly"}}
    # The SDK's types have "24h" alone.
    made = await value(
        client.batches.create(**create, completion_window="24h", extra_body={"completion_window": "immediate"})
    )
    assert made.completion_window == "immediate" and made.metadata == {"job": "nightly"}
    batch = await finished(client, made)
    assert batch.status == "completed", batch
    assert (batch.request_counts.total, batch.request_counts.completed, batch.request_counts.failed) == (3, 3, 0)
    second = await value(client.batches.create(**create, completion_window="24h"))
    second = checked(await finished(client, second), openai.types.Batch)
    assert second.status == "completed" and second.created_at <= second.in_progress_at <= second.completed_at
    output = await value(client.files.content(batch.output_file_id))
    results = [json.loads(line) for line in (await value(output.read())).splitlines()]
    assert sorted(result["custom_id"] for result in results) == ["line-0", "line-1", "line-2"]
    for result in results:
        answer = openai.types.chat.ChatCompletion.model_validate(result["response"]["body"])
        assert answer.usage.completion_tokens > 0 and result["response"]["status_code"] == 200
    # Pages of one, followed by the SDK itself: newest first.
    listed = [item.id for item in await items(own.batches.list(limit=1))]
    assert listed.index(second.id) < listed.index(batch.id)
    assert batch.output_file_id in [item.id for item in await items(own.files.list(limit=2))]
    for unwanted in (file.id, batch.output_file_id, second.output_file_id):
        assert (await value(client.files.delete(unwanted))).deleted
        await refused(openai.NotFoundError, lambda: client.files.retrieve(unwanted))


async def managed_batches_with_the_provider_in_each_line(client):
    own = client.with_options(default_headers={**HEADERS, "x-gateway-provider": "turnpike"})
    file = await value(own.files.create(file=("in.jsonl", batch_lines(2, f"@emulator/{MODEL}")), purpose="batch"))
    create = {"input_file_id": file.id, "endpoint": "/v1/chat/completions", "completion_window": "24h"}
    hour = {"anchor": "created_at", "seconds": 3600}
    made = await value(own.batches.create(**create, output_expires_after=hour))
    batch = await finished(own, made)
    assert batch.status == "completed" and batch.request_counts.completed == 2, batch
    output = await value(own.files.retrieve(batch.output_file_id))
    assert output.expires_at - output.created_at == 3600, output
    wrong = {**create, "output_expires_after": {**hour, "seconds": 1}}
    error = await refused(openai.BadRequestError, lambda: own.batches.create(**wrong))
    assert error.param == "output_expires_after", error.body


async def managed_batches_are_cancelled(client):
    own = client.with_options(default_headers={**HEADERS, "x-gateway-provider": "turnpike"})
    content = batch_lines(200, script("ttft=60000"))
    file = await value(own.files.create(file=("slow.jsonl", content), purpose="batch"))
    create = {"input_file_id": file.id, "endpoint": "/v1/chat/completions", "completion_window": "24h"}
    made = await value(client.batches.create(**create))
    await refused(openai.ConflictError, lambda: client.with_options(max_retries=0).files.delete(file.id))
    cancelled = await value(client.batches.cancel(made.id))
    assert cancelled.status in ("cancelling", "cancelled") and cancelled.cancelling_at
    batch = checked(await finished(client, made), openai.types.Batch)
    assert batch.status == "cancelled" and batch.cancelled_at >= batch.cancelling_at
    assert batch.output_file_id is None and batch.request_counts.completed == 0
    assert (await value(client.files.delete(file.id))).deleted


async def managed_batches_name_the_lines_that_are_wrong(client):
    own = client.with_options(default_headers={**HEADERS, "x-gateway-provider": "turnpike"})
    content = batch_lines(1) + b"{no json\n" + batch_lines(1)
    file = await value(own.files.create(file=("wrong.jsonl", content), purpose="batch"))
    create = {"input_file_id": file.id, "endpoint": "/v1/chat/completions", "completion_window": "24h"}
    batch = checked(await finished(client, await value(client.batches.create(**create))), openai.types.Batch)
    found = [(error.line, error.code, error.param) for error in batch.errors.data]
    assert batch.status == "failed" and batch.failed_at and all(error.message for error in batch.errors.data)
    assert found == [(2, "invalid_json_line", None), (3, "duplicate_custom_id", "custom_id")], found
    wrong = {**create, "completion_window": "1h"}
    error = await refused(openai.BadRequestError, lambda: client.batches.create(**wrong))
    assert error.param == "completion_window", error.body


async def responses(client):
    made = await value(client.responses.create(model=MODEL, input="Say hello."))
    assert made.object == "response" and made.status == "completed" and made.output_text
    again = await value(client.responses.retrieve(made.id))
    assert again.id == made.id and again.output_text == made.output_text
    listed = await items(client.responses.input_items.list(made.id))
    assert "Say hello." in listed[0].model_dump_json()
    await value(client.responses.delete(made.id))
    await refused(openai.NotFoundError, lambda: client.responses.retrieve(made.id))


async def responses_streamed(client):
    events = await items(client.responses.create(model=MODEL, input="Say hello.", stream=True))
    assert events[0].type == "response.created" and events[-1].type == "response.completed"
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert "".join(deltas) == events[-1].response.output_text


async def responses_streamed_with_the_helper(client):
    async with entered(client.responses.stream(model=MODEL, input="Say hello.")) as stream:
        await items(stream)
        assert (await value(stream.get_final_response())).output_text


async def a_bad_request_names_the_parameter(client):
    error = await refused(openai.BadRequestError, lambda: client.chat.completions.create(model=MODEL, messages=[]))
    assert error.param == "messages" and error.type == "invalid_request_error" and error.message
    assert error.response.headers["x-gateway-trace-id"]


async def an_unknown_key_is_an_authentication_error(client):
    other = client.with_options(api_key="sk-nobody-0123456789")
    error = await refused(
        openai.AuthenticationError, lambda: other.chat.completions.create(model=MODEL, messages=HELLO)
    )
    assert error.code == "invalid_api_key" and "sk-nobody" not in str(error)


async def a_time_out_is_a_408(client):
    other = client.with_options(max_retries=0, default_headers={"x-gateway-request-timeout": "100"})
    model = script("latency=5000")
    error = await refused(openai.APIStatusError, lambda: other.chat.completions.create(model=model, messages=HELLO))
    assert error.status_code == 408 and "100ms" in error.message


async def the_providers_own_errors_come_through(client):
    other = client.with_options(max_retries=0)
    for model, kind in [
        ("missing-model", openai.NotFoundError),
        (script("status=429&retry_after=7"), openai.RateLimitError),
        (script("status=500"), openai.InternalServerError),
    ]:
        error = await refused(kind, lambda: other.chat.completions.create(model=model, messages=HELLO))
        assert error.body and error.message
        if kind is openai.RateLimitError:
            assert error.response.headers["retry-after"] == "7"


async def the_sdk_retries_what_failed_once(client):
    model = script(f"status=500&retry_after_ms=1&times=1&key={uuid.uuid4()}")
    answer = await value(client.with_options(max_retries=2).chat.completions.create(model=model, messages=HELLO))
    assert answer.choices[0].message.content


async def a_stream_that_breaks_is_not_passed_off_as_finished(client):
    create = client.with_options(max_retries=0).chat.completions.create
    try:
        await items(create(model=script("fault=cut&after=3"), messages=HELLO, stream=True))
    except Exception:
        return
    raise AssertionError("the stream ended as if it were whole")


CHECKS = [
    chat,
    chat_with_the_key_in_our_own_header,
    chat_with_an_inline_config,
    chat_with_the_provider_in_the_model,
    gateway_headers_can_be_read,
    chat_streamed,
    chat_streamed_with_the_helper,
    tools,
    tools_streamed,
    completions,
    embeddings,
    moderations,
    models,
    files,
    managed_batches,
    managed_batches_with_the_provider_in_each_line,
    managed_batches_are_cancelled,
    managed_batches_name_the_lines_that_are_wrong,
    responses,
    responses_streamed,
    responses_streamed_with_the_helper,
    a_bad_request_names_the_parameter,
    an_unknown_key_is_an_authentication_error,
    a_time_out_is_a_408,
    the_providers_own_errors_come_through,
    the_sdk_retries_what_failed_once,
    a_stream_that_breaks_is_not_passed_off_as_finished,
]

if __name__ == "__main__":
    told = {"base_url": BASE_URL, "api_key": KEY, "default_headers": HEADERS}
    run(CHECKS, {"sync": lambda: openai.OpenAI(**told), "async": lambda: openai.AsyncOpenAI(**told)})
