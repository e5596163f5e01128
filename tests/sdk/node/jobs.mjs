// The official OpenAI SDK for Node with every provider that has batches or fine-tuning jobs of its own.
//
// Environment: BASE_URL (with /v1), KEY (a service key). The slugs are those of `JOBS` (tests/support/settings.rs): the emulator plays
// each provider.

import assert from "node:assert/strict";
import OpenAI from "openai";
import { BASE_URL, KEY, run } from "./each.mjs";

const ENDS = ["completed", "failed", "cancelled", "expired", "succeeded"];
const CHATS = "/v1/chat/completions";

async function ended(object, retrieve) {
  for (let polls = 0; !ENDS.includes(object.status) && polls < 1200; polls += 1) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    object = await retrieve(object.id);
  }
  return object;
}

async function aBatchRunsToItsFiles({ openai, batch }) {
  if (!batch) return;
  const { provider, model, lines: count } = batch;
  const body = { model, messages: [{ role: "user", content: "Say hello." }], max_tokens: 5 };
  const ids = Array.from({ length: count }, (_, number) => `line-${number}`);
  const lines = ids.map((custom_id) => JSON.stringify({ custom_id, method: "POST", url: CHATS, body }));
  const file = await openai.files.create({ file: await OpenAI.toFile(Buffer.from(lines.join("\n")), "lines.jsonl"), purpose: "batch" });
  assert.ok(file.id.startsWith(`file-turnpike-${provider}-`), file.id);
  const made = await openai.batches.create({ input_file_id: file.id, endpoint: CHATS, completion_window: "24h" });
  const done = await ended(made, (id) => openai.batches.retrieve(id));
  assert.equal(done.status, "completed", JSON.stringify(done));
  assert.deepEqual(done.request_counts, { total: count, completed: count, failed: 0 });
  const output = await (await openai.files.content(done.output_file_id)).text();
  const results = output.trimEnd().split("\n").map((line) => JSON.parse(line));
  assert.deepEqual(results.map((result) => result.custom_id).sort(), ids.sort());
  assert.ok(results.every(({ response }) => response.body.choices[0].message.content));
}

async function aModelIsFineTuned({ openai, tuning }) {
  if (!tuning) return;
  const { file, checkpoints, more } = tuning;
  const method = { type: "supervised", supervised: { hyperparameters: { n_epochs: 2 } } };
  const made = await openai.fineTuning.jobs.create({ model: "base-model", training_file: file, suffix: "acme-node", method, ...more });
  assert.equal(made.object, "fine_tuning.job");
  const job = await ended(made, (id) => openai.fineTuning.jobs.retrieve(id));
  assert.equal(job.status, "succeeded", JSON.stringify(job));
  assert.ok(job.fine_tuned_model && job.finished_at >= job.created_at);
  const events = [];
  for await (const event of openai.fineTuning.jobs.listEvents(job.id, { limit: 1 })) events.push(event.id);
  assert.ok(events.length > 0 && new Set(events).size === events.length);
  const listed = [];
  for await (const each of openai.fineTuning.jobs.list({ limit: 2 })) listed.push(each.id);
  assert.ok(listed.includes(job.id));
  if (checkpoints) {
    const page = await openai.fineTuning.jobs.checkpoints.list(job.id);
    assert.equal(page.data[0].fine_tuning_job_id, job.id);
  }
}

const batch = (provider, model, lines = 3) => ({ provider, model, lines });
const tuning = (file, checkpoints, more = {}) => ({ file, checkpoints, more });
const PROVIDERS = {
  "@openai": { tuning: tuning("file-train", true) },
  "@anthropic": { batch: batch("anthropic", "claude-3-5-haiku-20241022") },
  "@google": { batch: batch("google", "gemini-2.5-flash") },
  "@mistral": { batch: batch("mistral-ai", "mistral-small-latest") },
  "@mistral-tuning": { tuning: tuning("file-train", true) },
  "@together": { batch: batch("together-ai", "meta-llama/Llama-3.3-70B-Instruct-Turbo") },
  "@together-tuning": { tuning: tuning("file-train", true) },
  "@bedrock": {
    batch: batch("bedrock", "anthropic.claude-3-5-haiku-20241022-v1:0", 100),
    tuning: tuning("s3://bucket/train.jsonl", false, { role_arn: "arn:aws:iam::123456789012:role/tuner" }),
  },
  "@vertex": { batch: batch("vertex-ai", "gemini-2.5-flash"), tuning: tuning("gs://bucket/train.jsonl", true) },
  "@fireworks": { batch: batch("fireworks-ai", "accounts/fireworks/models/llama-v3p1-8b-instruct") },
  "@fireworks-tuning": { tuning: tuning("train", false) },
};
const clients = Object.entries(PROVIDERS).map(([slug, provider]) => {
  const defaultHeaders = { "x-gateway-provider": slug };
  return [slug, { openai: new OpenAI({ baseURL: BASE_URL, apiKey: KEY, defaultHeaders }), ...provider }];
});
await run([aBatchRunsToItsFiles, aModelIsFineTuned], Object.fromEntries(clients));
