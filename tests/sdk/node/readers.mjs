// What the official SDKs of OpenAI and Anthropic for Node make of a stream that waits, and of one that breaks: heartbeats are no events,
// errors are errors.
//
// Environment: BASE_URL (with /v1), KEY (a service key). Behind the slugs is the built-in emulator, as OpenAI, Anthropic and Together.

import assert from "node:assert/strict";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { BASE_URL, KEY, run } from "./each.mjs";

const HELLO = [{ role: "user", content: "Say hello." }];
const SLOW = "?ttft=450&gap=150&tokens=4";
const CUT = "?fault=cut&after=5";
const REASON = /Retry your request/;

// Options of a call with heartbeats before its events and between them.
function waiting(slug) {
  const config = { provider: slug, time_limits: { heartbeat_ms: 100, early_heartbeat: true } };
  return { headers: { "x-gateway-config": JSON.stringify(config) } };
}

async function all(stream) {
  const items = [];
  for await (const item of await stream) items.push(item);
  return items;
}

async function heartbeatsAreNoEventsOfChats({ openai, slug, name }) {
  const asked = { messages: HELLO, stream: true };
  const quick = await all(openai.chat.completions.create({ model: `${slug}/${name}?tokens=4`, ...asked }));
  const slow = await all(openai.chat.completions.create({ model: name + SLOW, ...asked }, waiting(slug)));
  const text = (chunks) => chunks.map((chunk) => chunk.choices[0]?.delta.content ?? "").join("");
  assert.equal(text(slow), text(quick));
  assert.ok(text(slow));
  assert.equal(slow.length, quick.length);
}

async function heartbeatsAreNoEventsOfResponses({ openai, slug, name }) {
  const asked = { model: name + SLOW, input: "Say hello." };
  const events = await all(openai.responses.create({ ...asked, stream: true }, waiting(slug)));
  const told = events.filter((event) => event.type !== "keepalive");
  assert.deepEqual(told.map((event) => event.sequence_number), [...told.keys()]);
  assert.equal(told.at(-1).type, "response.completed");
  const final = await openai.responses.stream(asked, waiting(slug)).finalResponse();
  assert.equal(final.status, "completed");
}

async function heartbeatsAreNoEventsOfMessages({ anthropic, slug, name }) {
  const asked = { max_tokens: 100, messages: HELLO };
  const quick = await anthropic.messages.stream({ model: `${slug}/${name}?tokens=4`, ...asked }).finalText();
  const slow = await anthropic.messages.stream({ model: name + SLOW, ...asked }, waiting(slug)).finalText();
  assert.equal(slow, quick);
  assert.ok(slow);
}

async function brokenStreamsThrowTheirReason({ openai, anthropic, slug, name }) {
  const model = `${slug}/${name}${CUT}`;
  const asked = { model, messages: HELLO, stream: true };
  await assert.rejects(all(openai.chat.completions.create(asked)), REASON);
  await assert.rejects(all(openai.responses.create({ model, input: "Hello.", stream: true })), REASON);
  await assert.rejects(openai.responses.stream({ model, input: "Hello." }).finalResponse(), REASON);
  await assert.rejects(all(anthropic.messages.create({ ...asked, max_tokens: 100 })), REASON);
}

const MODELS = { "@emulator": "gpt-4o-mini", "@anthropic-emulator": "claude-sonnet-4-5", "@together-emulator": "openai/gpt-oss-120b" };
const openai = new OpenAI({ baseURL: BASE_URL, apiKey: KEY, maxRetries: 0 });
const anthropic = new Anthropic({ baseURL: BASE_URL.replace(/\/v1$/, ""), authToken: KEY, maxRetries: 0 });
const clients = Object.entries(MODELS).map(([slug, name]) => [slug, { openai, anthropic, slug, name }]);

await run(
  [
    heartbeatsAreNoEventsOfChats,
    heartbeatsAreNoEventsOfResponses,
    heartbeatsAreNoEventsOfMessages,
    brokenStreamsThrowTheirReason,
  ],
  Object.fromEntries(clients),
);
