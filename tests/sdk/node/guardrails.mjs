// The official OpenAI SDK for Node against guardrails: what is denied is an exception with its results, what passes is an ordinary
// response.
//
// Environment: BASE_URL (with /v1), KEY (a service key). Behind the slugs is the built-in emulator, whose text is "The quick brown
// fox jumps over the lazy dog." and the same again.

import assert from "node:assert/strict";
import OpenAI from "openai";
import { BASE_URL, KEY, run } from "./each.mjs";

const HELLO = [{ role: "user", content: "Say hello." }];
const noneOf = (text, more = {}) => ({ id: "g", contains: { operator: "none", words: [text] }, ...more });

// A client whose requests have these guardrails.
function guarded(provider, more) {
  const defaultHeaders = { "x-gateway-config": JSON.stringify({ provider, ...more }) };
  return new OpenAI({ baseURL: BASE_URL, apiKey: KEY, defaultHeaders, maxRetries: 0 });
}

async function denied(call, phase) {
  for (const stream of [false, true]) {
    await assert.rejects(call(stream), (error) => {
      assert.ok(error instanceof OpenAI.APIError, `${error}`);
      assert.equal(error.status, 446);
      assert.equal(error.type, "hooks_failed");
      assert.match(error.message, /guardrail checks/);
      return true;
    });
  }
  // The results are in the body.
  const response = await fetch(`${BASE_URL}/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", "x-gateway-api-key": KEY, ...call.headers },
    body: JSON.stringify({ model: call.model, messages: HELLO }),
  });
  const [hook] = (await response.json()).hook_results[phase];
  assert.deepEqual([hook.id, hook.verdict, hook.deny], ["g", false, true]);
}

function chat(provider, model, more) {
  const openai = guarded(provider, more);
  const call = (stream) => openai.chat.completions.create({ model, messages: HELLO, stream });
  call.headers = { "x-gateway-config": JSON.stringify({ provider, ...more }) };
  call.model = model;
  return call;
}

async function aDeniedRequestThrows({ provider, model }) {
  await denied(chat(provider, model, { input_guardrails: [noneOf("hello", { deny: true })] }), "before_request_hooks");
}

async function aDeniedResponseThrows({ provider, model }) {
  const few = { id: "g", wordCount: { minWords: 0, maxWords: 3 }, deny: true };
  for (const guardrail of [noneOf("The", { deny: true }), few]) {
    await denied(chat(provider, model, { output_guardrails: [guardrail] }), "after_request_hooks");
  }
}

async function aDenialInAStreamThrowsBehindTheTextThatPassed({ provider }) {
  const openai = guarded(provider, { output_guardrails: [noneOf("secret", { deny: true })] });
  // More than the gateway reads at once, so that some of it is sent before the rest has arrived.
  const harmless = "this is sent on ".repeat(1000);
  const messages = [{ role: "user", content: `${harmless}secret never sent` }];
  const pieces = [];
  const stream = openai.chat.completions.stream({ model: "emulator-echo", messages });
  stream.on("content", (piece) => pieces.push(piece));
  await assert.rejects(stream.finalMessage(), (error) => {
    assert.ok(error instanceof OpenAI.OpenAIError, `${error}`);
    assert.match(error.message, /guardrail checks/);
    return true;
  });
  const text = pieces.join("");
  assert.ok(text.length > 0 && harmless.startsWith(text), text.slice(-200));
}

async function whatFailsWithoutADenialIsAResponseWithResults({ provider, model }) {
  const openai = guarded(provider, { input_guardrails: [noneOf("hello")], output_guardrails: [noneOf("fox")] });
  const { data, response } = await openai.chat.completions.create({ model, messages: HELLO }).withResponse();
  assert.equal(response.status, 246);
  assert.ok(data.choices[0].message.content.startsWith("The quick brown fox"));
  for (const phase of ["before_request_hooks", "after_request_hooks"]) {
    const [hook] = data.hook_results[phase];
    assert.deepEqual([hook.id, hook.verdict, hook.deny], ["g", false, false]);
  }
  const made = await openai.responses.create({ model, input: "Say hello." });
  assert.ok(made.output_text.startsWith("The quick brown fox"));
  assert.equal(made.hook_results.after_request_hooks[0].verdict, false);
}

async function redactedTextIsTheSameWholeAndStreamed({ provider, model }) {
  const redaction = { regexReplace: { rule: "fox|lazy dog", redactText: "***" } };
  const openai = guarded(provider, { output_guardrails: [redaction] });
  const whole = (await openai.chat.completions.create({ model, messages: HELLO })).choices[0].message.content;
  assert.ok(whole.startsWith("The quick brown *** jumps over the ***. The quick"), whole);
  const final = await openai.chat.completions.stream({ model, messages: HELLO }).finalMessage();
  assert.equal(final.content, whole);
  const response = await openai.responses.stream({ model, input: "Say hello." }).finalResponse();
  assert.equal(response.output_text, whole);
}

const MODELS = {
  "@emulator": "gpt-4o-mini?tokens=40",
  "@anthropic-emulator": "claude-sonnet-4-5?tokens=40",
};
const clients = Object.entries(MODELS).map(([provider, model]) => [provider, { provider, model }]);
const checks = [
  aDeniedRequestThrows,
  aDeniedResponseThrows,
  aDenialInAStreamThrowsBehindTheTextThatPassed,
  whatFailsWithoutADenialIsAResponseWithResults,
  redactedTextIsTheSameWholeAndStreamed,
];
await run(checks, Object.fromEntries(clients));
