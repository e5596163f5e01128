// The Vercel AI SDK against the gateway: by chat completions and by responses, told nothing but `baseURL` and headers.
//
// Environment: BASE_URL (with /v1), KEY (a service key). Behind the slugs is the built-in emulator, as OpenAI, Anthropic and Together.

import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { Output, generateText, stepCountIs, streamText, tool } from "ai";
import assert from "node:assert/strict";
import { z } from "zod";
import { BASE_URL, KEY, run } from "./each.mjs";

const Place = z.object({ city: z.string(), people: z.number() });

async function text({ model }) {
  const made = await generateText({ model, prompt: "Say hello." });
  assert.equal(made.finishReason, "stop");
  assert.ok(made.text && made.usage.outputTokens > 0);
}

async function aStreamedRoundTripWithATool({ model, providerOptions, thinks }) {
  const asked = [];
  const get_weather = tool({
    description: "The weather in a city.",
    inputSchema: z.object({ city: z.string() }),
    execute: async ({ city }) => (asked.push(city), { weather: "sunny" }),
  });
  const errors = [];
  const stream = streamText({
    model,
    providerOptions,
    prompt: "Please call the tool.",
    tools: { get_weather },
    stopWhen: stepCountIs(3),
    onError: ({ error }) => errors.push(error),
  });
  const kinds = [];
  for await (const part of stream.fullStream) kinds.push(part.type);
  assert.deepEqual(errors, []);
  assert.equal(asked.length, 1);
  assert.equal((await stream.steps).length, 2);
  assert.ok(await stream.text);
  assert.equal(await stream.finishReason, "stop");
  assert.ok(kinds.includes("tool-call") && kinds.includes("tool-result"));
  assert.equal(kinds.includes("reasoning-delta"), thinks, kinds.join(" "));
}

// What the model said before reaches it again, also where the SDK only refers to it.
async function aConversation({ model, providerOptions, isTranslated }) {
  if (!isTranslated) return;
  const get_weather = tool({ description: "The weather.", inputSchema: z.object({ city: z.string() }), execute: async () => "sunny" });
  const messages = [{ role: "user", content: "Please call the tool." }];
  for (const next of ["Thank you. Please call the tool.", "Goodbye.", null]) {
    const made = await generateText({ model, providerOptions, messages, tools: { get_weather }, stopWhen: stepCountIs(3) });
    assert.ok(made.text);
    const warnings = made.steps.map((step) => step.response.headers["x-gateway-warnings"] ?? "");
    assert.ok(!warnings.join().includes("left out"), warnings.join());
    messages.push(...made.response.messages, { role: "user", content: next ?? "" });
  }
}

async function structuredOutput({ model }) {
  const made = await generateText({ model, prompt: "Say hello.", output: Output.object({ schema: Place }) });
  assert.deepEqual(Place.parse(made.output), made.output);
}

async function aBrokenStreamIsAnError({ broken }) {
  const errors = [];
  const stream = streamText({ model: broken, prompt: "Say hello.", maxRetries: 0, onError: ({ error }) => errors.push(error) });
  for await (const part of stream.fullStream) assert.notEqual(part.finishReason, "stop");
  assert.ok(errors.length > 0);
}

const PROVIDERS = {
  "@emulator": "gpt-4o-mini",
  "@anthropic-emulator": "claude-sonnet-4-5",
  "@together-emulator": "openai/gpt-oss-120b",
};
const clients = {};
for (const [slug, name] of Object.entries(PROVIDERS)) {
  const headers = { "x-gateway-provider": slug };
  const told = { baseURL: BASE_URL, apiKey: KEY, headers };
  const chat = createOpenAICompatible({ name: "gateway", includeUsage: true, supportsStructuredOutputs: true, ...told });
  const broken = `${name}?fault=cut&after=4`;
  clients[`chat ${slug}`] = { model: chat(name), broken: chat(broken), thinks: false };
  // Nothing is kept by a provider that only chats: the SDK must send everything back itself.
  const openai = createOpenAI(told);
  const providerOptions = { openai: { store: false } };
  clients[`responses ${slug}`] = { model: openai.responses(name), broken: openai.responses(broken), providerOptions, thinks: false };
}
const headers = { "x-gateway-provider": "@anthropic-emulator" };
const thinker = createOpenAI({ baseURL: BASE_URL, apiKey: KEY, headers });
clients["responses with thinking"] = {
  model: thinker.responses("claude-sonnet-4-5"),
  broken: thinker.responses("claude-sonnet-4-5?fault=cut&after=4"),
  providerOptions: { openai: { store: false, forceReasoning: true, reasoningEffort: "low", reasoningSummary: "auto" } },
  thinks: true,
};
// With base URL and key alone, as a newcomer would write it: the SDK believes its responses stored and sends references to
// their items.
const plain = createOpenAI({ baseURL: BASE_URL, apiKey: KEY });
const thinking = { openai: { forceReasoning: true, reasoningEffort: "low", reasoningSummary: "auto" } };
for (const [name, thinks] of [["@emulator/gpt-4o-mini", false], ["@anthropic-emulator/claude-sonnet-4-5", false], ["@google-emulator/gemini-2.5-flash", false], ["@anthropic-emulator/claude-sonnet-4-5", true]]) {
  clients[`openai("${name}")${thinks ? " with thinking" : ""}`] = {
    model: plain(name),
    broken: plain(`${name}?fault=cut&after=4`),
    providerOptions: thinks ? thinking : undefined,
    thinks,
    isTranslated: !name.startsWith("@emulator"),
  };
}
await run([text, aStreamedRoundTripWithATool, aConversation, structuredOutput, aBrokenStreamIsAnError], clients);
