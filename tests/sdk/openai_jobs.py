"""The official OpenAI SDK with every provider that runs batches in jobs of its own: a program must not be able to tell.

Environment: BASE_URL (with /v1), KEY (a service key). The slugs are those of `JOBS` (tests/support/settings.rs): the emulator plays
each provider.
"""

import json

import openai
import openai_sdk as plain
from both import items, refused, run, value

# A slug: the provider's id, a model, and how many lines a batch has there at the least.
BATCHES = {
    "@anthropic": ("anthropic", "claude-3-5-haiku-20241022", 3),
    "@google": ("google", "gemini-2.5-flash", 3),
    "@mistral": ("mistral-ai", "mistral-small-latest", 3),
    "@together": ("together-ai", "meta-llama/Llama-3.3-70B-Instruct-Turbo", 3),
    "@bedrock": ("bedrock", "anthropic.claude-3-5-haiku-20241022-v1:0", 100),
    "@vertex": ("vertex-ai", "gemini-2.5-flash", 3),
    "@fireworks": ("fireworks-ai", "accounts/fireworks/models/llama-v3p1-8b-instruct", 3),
}
CREATE = {"endpoint": "/v1/chat/completions", "metadata": {"job": "nightly"}}


async def uploaded(client):
    provider, model, count = BATCHES[client.default_headers["x-gateway-provider"]]
    content = plain.batch_lines(count, model)
    file = await value(client.files.create(file=("lines.jsonl", content), purpose="batch"))
    assert file.id.startswith(f"file-turnpike-{provider}-") and plain.checked(file, openai.types.FileObject).purpose == "batch"
    return provider, count, file


async def a_batch_runs_to_its_files(client):
    provider, count, file = await uploaded(client)
    made = await value(client.batches.create(**CREATE, input_file_id=file.id, completion_window="24h"))
    assert made.id.startswith(f"batch_turnpike_{provider}_") and made.metadata == CREATE["metadata"]
    batch = plain.checked(await plain.finished(client, made), openai.types.Batch)
    assert batch.status == "completed" and batch.created_at <= batch.in_progress_at <= batch.completed_at, batch
    counts = (batch.request_counts.total, batch.request_counts.completed, batch.request_counts.failed)
    assert counts == (count, count, 0), batch
    output = await value(client.files.content(batch.output_file_id))
    results = [json.loads(line) for line in (await value(output.read())).splitlines()]
    assert sorted(result["custom_id"] for result in results) == sorted(f"line-{n}" for n in range(count))
    for result in results:
        answer = openai.types.chat.ChatCompletion.model_validate(result["response"]["body"])
        assert answer.usage.completion_tokens > 0 and result["response"]["status_code"] == 200
    assert made.id in [item.id for item in await items(client.batches.list(limit=2))]
    assert file.id in [item.id for item in await items(client.files.list(purpose="batch"))]
    assert (await value(client.files.delete(file.id))).deleted


async def a_batch_is_cancelled(client):
    _, _, file = await uploaded(client)
    made = await value(client.batches.create(**CREATE, input_file_id=file.id, completion_window="24h"))
    cancelled = await value(client.batches.cancel(made.id))
    assert cancelled.status in ("cancelling", "cancelled") and cancelled.cancelling_at
    assert (await plain.finished(client, cancelled)).status == "cancelled"


async def an_immediate_batch_is_refused(client):
    _, _, file = await uploaded(client)
    body = {**CREATE, "input_file_id": file.id, "extra_body": {"completion_window": "immediate"}}
    error = await refused(openai.BadRequestError, lambda: client.batches.create(**body, completion_window="24h"))
    assert error.param == "completion_window", error.body


CHECKS = [a_batch_runs_to_its_files, a_batch_is_cancelled, an_immediate_batch_is_refused]


def made(kind, slug):
    return lambda: kind(base_url=plain.BASE_URL, api_key=plain.KEY, default_headers={"x-gateway-provider": slug})


if __name__ == "__main__":
    kinds = {"sync": openai.OpenAI, "async": openai.AsyncOpenAI}
    run(CHECKS, {f"{name} {slug}": made(kind, slug) for slug in BATCHES for name, kind in kinds.items()})
