// The official OpenAI SDK for Node against the gateway, told nothing but `baseURL` and headers.
//
// Environment: BASE_URL (with /v1), KEY (a service key). Behind the slugs is the built-in emulator, as OpenAI, Anthropic and Together.

import assert from "node:assert/strict";
import OpenAI from "openai";
import { zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";
import { BASE_URL, KEY, run } from "./each.mjs";

const HELLO = [{ role: "user", content: "Say hello." }];
const Place = z.object({ city: z.string(), people: z.number() });
const PARAMETERS = {
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
  additionalProperties: false,
};
const FUNCTION = { name: "get_weather", description: "The weather in a city.", parameters: PARAMETERS, strict: true };

async function chat({ openai, model }) {
  const answer = await openai.chat.completions.create({ model, messages: HELLO });
  assert.equal(answer.object, "chat.completion");
  assert.equal(answer.choices[0].finish_reason, "stop");
  assert.ok(answer.choices[0].message.content && answer.usage.total_tokens > 0);
}

async function chatStreamedWithTheHelper({ openai, model }) {
  const stream = openai.chat.completions.stream({ model, messages: HELLO, stream_options: { include_usage: true } });
  const pieces = [];
  stream.on("content", (piece) => pieces.push(piece));
  const final = await stream.finalChatCompletion();
  assert.ok(pieces.length > 1);
  assert.equal(pieces.join(""), final.choices[0].message.content);
  assert.ok(final.usage.completion_tokens > 0);
}

async function chatWithToolsRunByTheHelper({ openai, model }) {
  const asked = [];
  const tool = { ...FUNCTION, parse: JSON.parse, function: ({ city }) => (asked.push(city), "sunny") };
  const messages = [{ role: "user", content: "Please call the tool." }];
  for (const stream of [false, true]) {
    const runner = openai.chat.completions.runTools({ model, messages, stream, tools: [{ type: "function", function: tool }] });
    assert.ok(await runner.finalContent());
  }
  assert.equal(asked.length, 2);
  assert.ok(asked.every((city) => typeof city === "string"));
}

async function chatParsed({ openai, model }) {
  const response_format = zodResponseFormat(Place, "place");
  const answer = await openai.chat.completions.parse({ model, messages: HELLO, response_format });
  assert.deepEqual(Place.parse(answer.choices[0].message.parsed), answer.choices[0].message.parsed);
}

async function responses({ openai, model }) {
  const made = await openai.responses.create({ model, input: "Say hello." });
  assert.equal(made.status, "completed");
  assert.ok(made.output_text && made.usage.total_tokens > 0);
  const events = [];
  for await (const event of await openai.responses.create({ model, input: "Say hello.", stream: true })) events.push(event);
  assert.deepEqual(events.map((event) => event.sequence_number), events.map((_, index) => index));
  const text = events.filter((event) => event.type === "response.output_text.delta").map((event) => event.delta);
  assert.equal(text.join(""), made.output_text);
  assert.equal(events.at(-1).type, "response.completed");
}

async function responsesStreamedWithTheHelper({ openai, model }) {
  const stream = openai.responses.stream({ model, input: "Say hello.", text: { format: zodTextFormat(Place, "place") } });
  const final = await stream.finalResponse();
  assert.deepEqual(Place.parse(final.output_parsed), final.output_parsed);
}

async function responsesParsed({ openai, model }) {
  const made = await openai.responses.parse({ model, input: "Hello.", text: { format: zodTextFormat(Place, "place") } });
  assert.deepEqual(Place.parse(made.output_parsed), made.output_parsed);
}

async function responsesWithAToolStreamed({ openai, model }) {
  const tools = [{ type: "function", ...FUNCTION }];
  const input = [{ role: "user", content: "Please call the tool." }];
  const made = await openai.responses.stream({ model, input, tools }).finalResponse();
  const call = made.output.find((item) => item.type === "function_call");
  assert.equal(call.name, "get_weather");
  assert.equal(typeof call.parsed_arguments.city, "string");
  for (const { parsed_arguments, ...item } of made.output) input.push(item);
  input.push({ type: "function_call_output", call_id: call.call_id, output: "sunny" });
  const end = await openai.responses.stream({ model, input, tools }).finalResponse();
  assert.ok(end.output_text);
}

async function aBrokenStreamThrows({ openai, model }) {
  const broken = `${model}?fault=cut&after=4`;
  const once = openai.withOptions({ maxRetries: 0 });
  await assert.rejects(once.responses.stream({ model: broken, input: "Say hello." }).finalResponse(), OpenAI.OpenAIError);
  await assert.rejects(once.chat.completions.stream({ model: broken, messages: HELLO }).finalMessage(), OpenAI.OpenAIError);
}

async function errorsHaveTheirKind({ openai, model }) {
  const once = openai.withOptions({ maxRetries: 0 });
  const bad = once.chat.completions.create({ model: `${model}?status=429`, messages: HELLO });
  await assert.rejects(bad, OpenAI.RateLimitError);
  await assert.rejects(once.responses.create({ model: `${model}?status=429`, input: "Hello." }), OpenAI.RateLimitError);
}

async function embeddings({ openai, provider }) {
  if (provider === "@anthropic-emulator") return;
  const answer = await openai.embeddings.create({ model: "text-embedding-3-small", input: ["one", "two"] });
  assert.deepEqual(answer.data.map((item) => item.index), [0, 1]);
  assert.ok(answer.data.every((item) => item.embedding.length > 0 && typeof item.embedding[0] === "number"));
}

async function managedBatches({ openai, model, provider }) {
  // Files are the gateway's where no provider is named; the lines go to the provider of the batch's own headers.
  const own = new OpenAI({ baseURL: BASE_URL, apiKey: KEY });
  const body = { model, messages: HELLO, max_tokens: 5 };
  const lines = ["a", "b", "c"].map((custom_id) => JSON.stringify({ custom_id, method: "POST", url: "/v1/chat/completions", body }));
  const file = await own.files.create({ file: await OpenAI.toFile(Buffer.from(lines.join("\n")), "lines.jsonl"), purpose: "batch" });
  assert.deepEqual([file.filename, file.purpose, file.status], ["lines.jsonl", "batch", "processed"]);
  const endpoint = "/v1/chat/completions";
  const create = { input_file_id: file.id, endpoint, completion_window: "24h", metadata: { provider } };
  let batch = await openai.batches.create(create);
  const ends = ["completed", "failed", "cancelled", "expired"];
  for (let polls = 0; !ends.includes(batch.status) && polls < 1200; polls += 1) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    batch = await openai.batches.retrieve(batch.id);
  }
  assert.equal(batch.status, "completed", JSON.stringify(batch));
  assert.deepEqual(batch.request_counts, { total: 3, completed: 3, failed: 0 });
  assert.deepEqual(batch.metadata, { provider });
  const output = await (await own.files.content(batch.output_file_id)).text();
  const results = output.trimEnd().split("\n").map((line) => JSON.parse(line));
  assert.deepEqual(results.map((result) => result.custom_id).sort(), ["a", "b", "c"]);
  for (const { response, error } of results) {
    assert.equal(error, null);
    assert.equal(response.body.object, "chat.completion");
    assert.ok(response.body.choices[0].message.content);
  }
  const listed = [];
  for await (const each of own.batches.list({ limit: 1 })) listed.push(each.id);
  assert.ok(listed.includes(batch.id) && new Set(listed).size === listed.length);
  await assert.rejects(openai.batches.cancel(batch.id, { maxRetries: 0 }), OpenAI.ConflictError);
  for (const id of [file.id, batch.output_file_id]) assert.ok((await own.files.delete(id)).deleted);
  await assert.rejects(own.files.content(batch.output_file_id), OpenAI.NotFoundError);
}

async function managedBatchesAreCancelled({ openai, model }) {
  const own = new OpenAI({ baseURL: BASE_URL, apiKey: KEY });
  const body = { model: `${model}?ttft=60000`, messages: HELLO };
  const line = JSON.stringify({ custom_id: "slow", method: "POST", url: "/v1/chat/completions", body });
  const file = await own.files.create({ file: await OpenAI.toFile(Buffer.from(line), "slow.jsonl"), purpose: "batch" });
  const create = { input_file_id: file.id, endpoint: "/v1/chat/completions", completion_window: "24h" };
  let batch = await openai.batches.cancel((await openai.batches.create(create)).id);
  for (let polls = 0; batch.status === "cancelling" && polls < 1200; polls += 1) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    batch = await openai.batches.retrieve(batch.id);
  }
  assert.equal(batch.status, "cancelled");
  assert.ok(batch.cancelled_at >= batch.cancelling_at);
  await own.files.delete(file.id);
}

const PROVIDERS = {
  "@emulator": "gpt-4o-mini",
  "@anthropic-emulator": "claude-sonnet-4-5",
  "@together-emulator": "openai/gpt-oss-120b",
};
const clients = Object.entries(PROVIDERS).map(([provider, model]) => {
  const defaultHeaders = { "x-gateway-provider": provider };
  return [provider, { openai: new OpenAI({ baseURL: BASE_URL, apiKey: KEY, defaultHeaders }), model, provider }];
});
const checks = [
  chat,
  chatStreamedWithTheHelper,
  chatWithToolsRunByTheHelper,
  chatParsed,
  responses,
  responsesStreamedWithTheHelper,
  responsesParsed,
  responsesWithAToolStreamed,
  aBrokenStreamThrows,
  errorsHaveTheirKind,
  embeddings,
  managedBatches,
  managedBatchesAreCancelled,
];
await run(checks, Object.fromEntries(clients));
