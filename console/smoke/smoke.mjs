// Every page of the console in Chromium, against a gateway that runs: no error of the page, nothing that the policy has blocked, no serious
// finding of axe, in light, dark and 390 px; and texts that clients control are shown as texts.
//
// CONSOLE_URL, CONSOLE_KEY: the control port and an administrator's key. CHROMIUM: the browser. SHOTS: a folder for pictures.
// FULL=1: all pages in all forms, not each in one. FILES: a folder of built files that are shown in place of the gateway's own.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { chromium } from 'playwright-core';
import { api, key, problemsOf, ready, settled, signIn, url } from './common.mjs';
import { editing, fresh, upgraded, viewer } from './editing.mjs';
import { journeys } from './journeys.mjs';

const isFull = process.env.FULL === '1';
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const HOSTILE = ['<script>window.hacked=1</script>', '<img src=x onerror="window.hacked=1">', 'gpt://a//b', 'javascript:window.hacked=1', '\u202Eright to left \u05D0\u05D1', 'x'.repeat(240)];

const FORMS = [
  { name: 'light', colorScheme: 'light', viewport: { width: 1440, height: 900 } },
  { name: 'dark', colorScheme: 'dark', viewport: { width: 1440, height: 900 } },
  { name: 'narrow', colorScheme: 'light', viewport: { width: 390, height: 844 } },
  { name: 'wide', colorScheme: 'dark', viewport: { width: 3840, height: 2160 } },
];

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ['--no-sandbox', '--disable-dev-shm-usage'] });
try {
  await fresh(browser);
  const made = {};
  for (const name of HOSTILE) {
    const make = async (kind, path, body) => ((made[kind] ??= {})[name] = (await api('POST', path, { name, ...body })).id);
    await make('budget', '/v1/policies/usage-limits', { description: 'y'.repeat(500), type: 'cost', credit_limit: 5, conditions: [{ key: 'metadata.team', value: name }], group_by: [{ key: 'metadata._user' }] });
    await make('rate', '/v1/policies/rate-limits', { type: 'requests', unit: 'rpm', value: 5, conditions: [{ key: 'metadata.team', value: [name, 'b'] }], group_by: [{ key: 'api_key' }] });
    await make('workspace', '/v1/admin/workspaces', { description: name });
    await make('provider', '/v1/providers', { provider: 'openai', key: 'sk-0123456789', note: name });
    await make('prompt', '/v1/prompts', { string: JSON.stringify([{ role: 'user', content: name + 'z'.repeat(500) }]), parameters: {}, model: 'gpt-4o-mini', virtual_key: 'emulator', version_description: name });
    await make('partial', '/v1/prompts/partials', { string: name });
    await make('server', '/v1/mcp-servers', { url: `${url}/mcp`, description: name });
    await api('POST', '/v1/api-keys/organisation/service', { name, description: name, scopes: ['logs.list'] });
    await api('POST', '/v1/configs', { name, config: { provider: '@emulator' } });
    await api('POST', '/v1/guardrails', { name, checks: [{ id: 'default.contains', parameters: { operator: 'none', words: [name] } }], actions: { deny: true } });
  }
  const first = (await api('GET', '/v1/logs?page_size=50')).data.find((log) => log.total_units > 0);
  const config = (await api('GET', '/v1/configs')).data.find((config) => config.name === HOSTILE[0]);
  const guardrail = (await api('GET', '/v1/guardrails')).data.find((guardrail) => guardrail.name === HOSTILE[0]);
  const named = (await api('GET', '/v1/api-keys')).data.find((one) => one.name === HOSTILE[0]);
  const [hostile] = HOSTILE;
  const ones = ['limits/usage/budget', 'limits/rates/rate', 'workspaces/workspace', 'providers/provider', 'prompts/prompt', 'prompts/partials/partial', 'mcp/server'].map((path) => path.replace(/[^/]+$/, (kind) => made[kind][hostile]));
  const news = ['limits/usage', 'limits/rates', 'workspaces', 'providers', 'prompts', 'prompts/partials', 'prompts/labels', 'mcp', 'models', 'users/invites'].map((path) => `${path}/new`);
  const pages = ['', 'requests', `requests/${first.id}`, 'spend', 'my-key', 'keys', `keys/${named.id}`, 'limits', 'clients', 'providers', 'configs', `configs/${config.slug}`, 'configs/new', 'guardrails', `guardrails/${guardrail.slug}`, 'prompts', 'cache', 'playground?two=1', 'explain', 'batches', 'audit', 'node', 'none', 'workspaces', 'users', 'models', 'mcp', 'nodes', 'batches/none', ...ones, ...news];

  for (const form of FORMS) {
    const context = await browser.newContext({ ...form, baseURL: url });
    const page = await context.newPage();
    await ready(page);
    const problems = problemsOf(page);
    await signIn(page);
    // Each page in one form, and all of them in all forms where there is time.
    const shown = pages.filter((_, at) => isFull || at % FORMS.length === FORMS.indexOf(form));
    for (const path of shown) {
      await page.goto(`/console/${path}`);
      await page.locator('h1').waitFor();
      await settled(page);
      if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/${form.name}-${path.split(/[/?]/)[0] || 'overview'}${path.includes('/') ? '-one' : ''}.png` });
      const width = await page.evaluate(() => [document.documentElement.scrollWidth, window.innerWidth]);
      if (width[0] > width[1]) problems.push(`${form.name} ${path}: ${width[0]} px wide in ${width[1]}`);
      if (await page.evaluate(() => window.hacked)) problems.push(`${path}: a text of a client ran`);
      // The policy of the page allows no inline script: axe is given to the debugger, not to the page.
      await page.evaluate(axe);
      const found = await page.evaluate(async () => (await window.axe.run(document, { resultTypes: ['violations'] })).violations.filter((one) => ['serious', 'critical'].includes(one.impact)).map((one) => `${one.id}: ${one.nodes.map((node) => node.html).slice(0, 3).join(' | ')}`));
      problems.push(...found.map((one) => `${form.name} ${path}: ${one}`));
    }
    assert.deepEqual(problems, []);
    await context.close();
  }
  await viewer(browser, isFull ? pages.filter((path) => !path.endsWith('new') && path !== 'none') : [...ones, 'limits', 'prompts', 'users', 'providers', `keys/${named.id}`, `configs/${config.slug}`, 'cache', 'nodes']);
  await journeys(browser);
  await editing(browser);
  await upgraded(browser);
  console.log(`the console: ${isFull ? 'every page in every form' : 'every page'}, and its journeys`);
} finally {
  await browser.close();
}
