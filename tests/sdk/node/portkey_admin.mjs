// Administration with the `portkey-ai` SDK for Node: base URL and key alone, the calls it offers for what the gateway keeps.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { Portkey } from "portkey-ai";

const { BASE_URL, KEY, EMULATOR } = process.env;
const MODEL = "gpt-4o-mini";
const HELLO = [{ role: "user", content: "Say hello." }];
const portkey = new Portkey({ baseURL: BASE_URL, apiKey: KEY });

const own = (name) => `${name}-${randomUUID().slice(0, 8)}`;

/** A provider with the emulator behind it: its slug. */
async function provider() {
  const account = { name: own("account"), ai_provider_id: "openai", key: "sk-secret-1" };
  const made = await portkey.integrations.create({ ...account, configurations: { custom_host: EMULATOR } });
  assert.ok(made.id && made.slug);
  return made.slug;
}

async function chats(options) {
  const other = new Portkey({ baseURL: BASE_URL, apiKey: KEY, ...options });
  const whole = await other.chat.completions.create({ model: MODEL, messages: HELLO });
  assert.ok(whole.choices[0].message.content);
}

async function gone(call) {
  await assert.rejects(call, (error) => error.status === 404 || error.statusCode === 404 || /404/.test(String(error)));
}

async function configs() {
  const target = { provider: `@${await provider()}`, override_params: { model: MODEL } };
  const made = await portkey.configs.create({ name: own("config"), config: target });
  assert.ok(made.slug.startsWith("pc-") && made.version_id);
  await chats({ config: made.slug });
  const changed = await portkey.configs.update({ slug: made.slug, name: "renamed", config: { ...target, retry: { attempts: 1 } } });
  assert.ok(changed.version_id && changed.version_id !== made.version_id);
  const read = await portkey.configs.retrieve({ slug: made.slug });
  assert.equal(read.name, "renamed");
  const listed = await portkey.configs.list({});
  assert.ok(listed.data.some((config) => config.slug === made.slug));
  await portkey.configs.delete({ slug: made.slug });
  await gone(portkey.configs.retrieve({ slug: made.slug }));
}

async function integrationsAndProviders() {
  const integration = await provider();
  await portkey.integrations.update({ slug: integration, description: "changed" });
  assert.equal((await portkey.integrations.retrieve({ slug: integration })).description, "changed");
  const made = await portkey.providers.create({ name: own("provider"), integration_id: integration });
  await chats({ provider: `@${made.slug}` });
  await portkey.providers.update({ slug: made.slug, note: "a note" });
  assert.equal((await portkey.providers.retrieve({ slug: made.slug })).note, "a note");
  assert.ok((await portkey.providers.list()).data.some((item) => item.slug === made.slug));
  await portkey.providers.delete({ slug: made.slug });
  await portkey.integrations.delete({ slug: integration });
}

async function virtualKeys() {
  const made = await portkey.virtualKeys.create({ name: own("key"), provider: "openai", key: "sk-secret-1", note: "a note" });
  assert.ok(made.slug);
  await portkey.virtualKeys.update({ slug: made.slug, note: "another" });
  const read = await portkey.virtualKeys.retrieve({ slug: made.slug });
  assert.equal(read.note, "another");
  assert.ok(!JSON.stringify(read).includes("sk-secret-1"));
  assert.ok((await portkey.virtualKeys.list({})).total > 0);
  await portkey.virtualKeys.delete({ slug: made.slug });
  await chats({ virtualKey: await provider() });
}

async function apiKeys() {
  const key = { type: "workspace", "sub-type": "service", name: own("key"), scopes: ["completions.write"] };
  const made = await portkey.apiKeys.create(key);
  assert.ok(made.id && made.key.startsWith("gk_"));
  await chats({ apiKey: made.key, provider: "@emulator" });
  assert.equal((await portkey.apiKeys.retrieve({ id: made.id })).status, "active");
  await portkey.apiKeys.update({ id: made.id, name: "renamed" });
  assert.ok((await portkey.apiKeys.list({})).data.some((item) => item.name === "renamed"));
  await portkey.apiKeys.delete({ id: made.id });
  await assert.rejects(chats({ apiKey: made.key, provider: "@emulator" }));
}

// This library repeats what it has put into the path: `workspaceId`, `inviteId`, `userId`.
async function workspacesAndInvites() {
  const name = own("team");
  const { workspaces, users } = portkey.admin;
  const made = await workspaces.create({ name, description: "d" });
  assert.equal((await workspaces.retrieve({ workspaceId: made.slug })).id, made.id);
  assert.equal((await workspaces.update({ workspaceId: made.id, description: "e" })).description, "e");
  assert.ok((await workspaces.list({})).data.some((item) => item.id === made.id));
  const email = `${own("ann")}@example.com`;
  const invited = await users.invites.create({ email, role: "member", workspaces: [{ id: made.slug, role: "member" }] });
  assert.equal((await users.invites.retrieve({ inviteId: invited.id })).email, email);
  await users.invites.resend({ inviteId: invited.id });
  await users.invites.delete({ inviteId: invited.id });
  assert.equal((await users.list({})).object, "list");
  assert.equal((await workspaces.users.list({ workspaceId: made.id })).object, "list");
  await workspaces.delete({ workspaceId: made.id, name });
}

let failed = 0;
for (const check of [configs, integrationsAndProviders, apiKeys, virtualKeys, workspacesAndInvites]) {
  try {
    await check();
    console.log(`ok    ${check.name}`);
  } catch (error) {
    failed += 1;
    console.log(`FAIL  ${check.name}\n${error.stack ?? error}`);
  }
}
process.exitCode = failed ? 1 : 0;
