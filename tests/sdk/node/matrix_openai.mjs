// OpenAI's SDK for Node at every provider: chat completions, responses, tools and errors.

import assert from "node:assert/strict";
import OpenAI from "openai";
import { BASE_URL, CALL_THE_TOOL, HELLO, KEY, SCHEMA, WRONG_KEY, grid, refused } from "./grid.mjs";

const MESSAGES = [{ role: "user", content: HELLO }];
const FUNCTION = { name: "get_weather", description: "The weather in a city.", parameters: SCHEMA, strict: true };

async function chat(openai, model) {
  const whole = await openai.chat.completions.create({ model, messages: MESSAGES });
  assert.equal(whole.choices[0].finish_reason, "stop");
  assert.ok(whole.choices[0].message.content && whole.usage.total_tokens > 0);
  const stream = openai.chat.completions.stream({ model, messages: MESSAGES });
  assert.equal((await stream.finalChatCompletion()).choices[0].message.content, whole.choices[0].message.content);
}

async function chatWithAToolRunByTheHelper(openai, model) {
  const asked = [];
  const tool = { ...FUNCTION, parse: JSON.parse, function: ({ city }) => (asked.push(city), "sunny") };
  const messages = [{ role: "user", content: CALL_THE_TOOL }];
  for (const stream of [false, true]) {
    const tools = [{ type: "function", function: tool }];
    assert.ok(await openai.chat.completions.runTools({ model, messages, stream, tools }).finalContent());
  }
  assert.deepEqual(asked.map((city) => typeof city), ["string", "string"]);
}

async function responsesWithATool(openai, model) {
  const tools = [{ type: "function", ...FUNCTION }];
  const input = [{ role: "user", content: CALL_THE_TOOL }];
  const made = await openai.responses.stream({ model, input, tools, store: false }).finalResponse();
  const call = made.output.find((item) => item.type === "function_call");
  assert.equal(typeof call.parsed_arguments.city, "string");
  for (const { parsed_arguments, ...item } of made.output) input.push(item);
  input.push({ type: "function_call_output", call_id: call.call_id, output: "sunny" });
  assert.ok((await openai.responses.create({ model, input, tools, store: false })).output_text);
}

async function errors(openai, model) {
  const once = openai.withOptions({ maxRetries: 0 });
  await refused(429, once.chat.completions.create({ model: `${model}?status=429`, messages: MESSAGES }));
  await refused(400, once.chat.completions.create({ model, messages: [] }));
  const broken = once.chat.completions.stream({ model: `${model}?fault=cut&after=3`, messages: MESSAGES });
  await assert.rejects(broken.finalChatCompletion(), OpenAI.OpenAIError);
  const other = once.withOptions({ apiKey: WRONG_KEY });
  await assert.rejects(other.chat.completions.create({ model, messages: MESSAGES }), OpenAI.AuthenticationError);
}

const CHECKS = [chat, chatWithAToolRunByTheHelper, responsesWithATool, errors];
await grid("openai", CHECKS, new OpenAI({ baseURL: BASE_URL, apiKey: KEY }));
