// The official OpenAI SDK for Node puts streams together whose provider numbers and repeats otherwise than OpenAI: deviations.json.
//
// Environment: BASE_URL (with /v1), KEY (a service key). The provider is played here, as Together.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import OpenAI from "openai";
import { BASE_URL, KEY, run } from "./each.mjs";

const DEVIATIONS = JSON.parse(readFileSync(new URL("deviations.json", import.meta.url)));
const TOOL = { type: "function", function: { name: "look", parameters: { type: "object", properties: {} } } };

const server = createServer(async (request, response) => {
  let body = "";
  for await (const piece of request) body += piece;
  const { deltas } = DEVIATIONS[JSON.parse(body).model.replace("deviation-", "")];
  const event = (data) => response.write(`data: ${data}\n\n`);
  response.writeHead(200, { "content-type": "text/event-stream" });
  const choices = deltas.map((delta) => ({ index: 0, delta, finish_reason: null }));
  for (const choice of [...choices, { finish_reason: "stop" }]) {
    event(JSON.stringify({ id: "r", created: 1, model: "m", choices: [choice] }));
  }
  event(JSON.stringify({ id: "r", usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 } }));
  event("[DONE]");
  response.end();
});
await new Promise((listening) => server.listen(0, "127.0.0.1", listening));

const openai = new OpenAI({
  baseURL: BASE_URL,
  apiKey: "k",
  maxRetries: 0,
  defaultHeaders: {
    "x-gateway-api-key": KEY,
    "x-gateway-provider": "together-ai",
    "x-gateway-custom-host": `http://127.0.0.1:${server.address().port}/v1`,
  },
});

const checks = DEVIATIONS.map(({ name }, number) => {
  const check = async () => {
    const asked = { model: `deviation-${number}`, messages: [{ role: "user", content: "x" }], tools: [TOOL] };
    const final = await openai.chat.completions.stream(asked).finalChatCompletion();
    const { message, finish_reason } = final.choices[0];
    assert.equal(finish_reason, "tool_calls");
    assert.equal(message.role, "assistant");
    const calls = message.tool_calls.map(({ function: { name, arguments: text } }) => [name, JSON.parse(text).n]);
    assert.deepEqual(calls, [["look", 1], ["look", 2]]);
    assert.equal(new Set(message.tool_calls.map(({ id }) => id)).size, 2);
  };
  Object.defineProperty(check, "name", { value: name });
  return check;
});
await run(checks, { node: openai });
