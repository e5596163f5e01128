// The `portkey-ai` SDK for Node with its own defaults at every provider.

import assert from "node:assert/strict";
import { Portkey } from "portkey-ai";
import { BASE_URL, CALL_THE_TOOL, HELLO, KEY, SCHEMA, grid, refused } from "./grid.mjs";

const MESSAGES = [{ role: "user", content: HELLO }];
const FUNCTION = { name: "get_weather", description: "The weather in a city.", parameters: SCHEMA };

async function chat(portkey, model) {
  const whole = await portkey.chat.completions.create({ model, messages: MESSAGES });
  assert.ok(whole.choices[0].message.content && whole.usage.total_tokens > 0);
  let text = "";
  for await (const chunk of await portkey.chat.completions.create({ model, messages: MESSAGES, stream: true })) {
    text += chunk.choices[0]?.delta?.content ?? "";
  }
  assert.equal(text, whole.choices[0].message.content);
}

async function aTool(portkey, model) {
  const tools = [{ type: "function", function: FUNCTION }];
  const messages = [{ role: "user", content: CALL_THE_TOOL }];
  const { message } = (await portkey.chat.completions.create({ model, messages, tools })).choices[0];
  assert.equal(typeof JSON.parse(message.tool_calls[0].function.arguments).city, "string");
  messages.push(message, { role: "tool", tool_call_id: message.tool_calls[0].id, content: "sunny" });
  assert.ok((await portkey.chat.completions.create({ model, messages, tools })).choices[0].message.content);
}

async function errors(portkey, model) {
  await refused(400, portkey.chat.completions.create({ model, messages: [] }));
}

await grid("portkey", [chat, aTool, errors], new Portkey({ baseURL: BASE_URL, apiKey: KEY }));
