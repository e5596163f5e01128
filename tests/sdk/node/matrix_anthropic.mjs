// Anthropic's SDK for Node at every provider: messages, tools and errors.

import Anthropic from "@anthropic-ai/sdk";
import assert from "node:assert/strict";
import { CALL_THE_TOOL, HELLO, KEY, ROOT, SCHEMA, WRONG_KEY, grid, refused } from "./grid.mjs";

const text = (message) => message.content.filter((block) => block.type === "text").map((block) => block.text).join("");
const asked = (model, content) => ({ model, max_tokens: 500, messages: [{ role: "user", content }] });

async function messages(anthropic, model) {
  const whole = await anthropic.messages.create(asked(model, HELLO));
  assert.equal(whole.stop_reason, "end_turn");
  assert.ok(text(whole) && whole.usage.output_tokens > 0);
  const final = await anthropic.messages.stream(asked(model, HELLO)).finalMessage();
  assert.equal(text(final), text(whole));
}

async function aTool(anthropic, model) {
  const tools = [{ name: "get_weather", description: "The weather in a city.", input_schema: SCHEMA }];
  for (const streamed of [false, true]) {
    const first = { ...asked(model, CALL_THE_TOOL), tools };
    const message = streamed ? await anthropic.messages.stream(first).finalMessage() : await anthropic.messages.create(first);
    assert.equal(message.stop_reason, "tool_use");
    const call = message.content.find((block) => block.type === "tool_use");
    assert.equal(typeof call.input.city, "string");
    const result = { type: "tool_result", tool_use_id: call.id, content: "sunny" };
    const turns = [{ role: "assistant", content: message.content }, { role: "user", content: [result] }];
    assert.ok(text(await anthropic.messages.create({ ...first, messages: [...first.messages, ...turns] })));
  }
}

async function errors(anthropic, model) {
  const once = anthropic.withOptions({ maxRetries: 0 });
  await refused(429, once.messages.create(asked(`${model}?status=429`, HELLO)));
  await refused(400, once.messages.create({ ...asked(model, HELLO), messages: [] }));
  const broken = once.messages.stream(asked(`${model}?fault=cut&after=3`, HELLO));
  await assert.rejects(broken.finalMessage(), Anthropic.AnthropicError);
  const other = new Anthropic({ baseURL: ROOT, apiKey: WRONG_KEY, maxRetries: 0 });
  await assert.rejects(other.messages.create(asked(model, HELLO)), Anthropic.AuthenticationError);
}

await grid("anthropic", [messages, aTool, errors], new Anthropic({ baseURL: ROOT, apiKey: KEY }));
