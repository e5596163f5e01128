// The Vercel AI SDK at every provider, with the defaults of `openai()` (responses) and `anthropic()`, and with chat completions.

import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { Output, generateText, stepCountIs, streamText, tool } from "ai";
import assert from "node:assert/strict";
import { z } from "zod";
import { BASE_URL, CALL_THE_TOOL, HELLO, KEY, WRONG_KEY, grid, refused } from "./grid.mjs";

// Of models that it has no list entry for, as those of a gateway.
globalThis.AI_SDK_LOG_WARNINGS = false;

const Place = z.object({ city: z.string(), people: z.number() });

async function text(client, name) {
  const made = await generateText({ model: client(name), prompt: HELLO });
  assert.equal(made.finishReason, "stop");
  assert.ok(made.text && made.usage.outputTokens > 0);
}

// Two steps, the second with the tool's result; without a stream and with one.
async function aToolLoop(client, name) {
  const asked = [];
  const get_weather = tool({
    description: "The weather in a city.",
    inputSchema: z.object({ city: z.string() }),
    execute: async ({ city }) => (asked.push(city), { weather: "sunny" }),
  });
  const errors = [];
  const settings = { model: client(name), prompt: CALL_THE_TOOL, tools: { get_weather }, stopWhen: stepCountIs(3) };
  const made = await generateText(settings);
  assert.ok(made.steps.length === 2 && made.text, `${made.steps.length} steps`);
  const stream = streamText({ ...settings, onError: ({ error }) => errors.push(error) });
  await stream.consumeStream();
  assert.deepEqual(errors, []);
  assert.equal((await stream.steps).length, 2);
  assert.ok(await stream.text);
  assert.deepEqual(asked.map((city) => typeof city), ["string", "string"]);
}

async function structuredOutput(client, name) {
  // Neither has structured output: Nova is asked in the prompt, DeepSeek has JSON without a schema. The emulator is no model.
  if (/nova|deepseek/.test(name)) return;
  const made = await generateText({ model: client(name), prompt: HELLO, output: Output.object({ schema: Place }) });
  assert.deepEqual(Place.parse(made.output), made.output);
}

async function errors(client, name) {
  await refused(429, generateText({ model: client(`${name}?status=429`), prompt: HELLO, maxRetries: 0 }));
  await refused(401, generateText({ model: client.with(WRONG_KEY)(name), prompt: HELLO, maxRetries: 0 }));
}

// A function from a model's name to a model, which can be made with another key.
function provider(make) {
  return Object.assign(make(KEY), { with: make });
}

const CHECKS = [text, aToolLoop, structuredOutput, errors];
await grid("vercel openai", CHECKS, provider((apiKey) => createOpenAI({ baseURL: BASE_URL, apiKey })));
const chat = (apiKey) => createOpenAI({ baseURL: BASE_URL, apiKey }).chat;
await grid("vercel openai.chat", CHECKS, provider((apiKey) => (name) => chat(apiKey)(name)));
await grid("vercel anthropic", CHECKS, provider((apiKey) => createAnthropic({ baseURL: BASE_URL, apiKey })));
