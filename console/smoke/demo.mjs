// The console of `turnpike run --demo`: every page is whole and says nothing wrong; the tasks of a new operator, with their clicks and
// seconds; and the pictures of the documentation.
//
// CONSOLE_URL, CONSOLE_KEY: of the demo. CHROMIUM: the browser. PICTURES: the folder of the pictures, docs/img. FILES: as in smoke.mjs.
import assert from 'node:assert/strict';
import { chromium } from 'playwright-core';
import { api, key, problemsOf, ready, settled, signIn, url } from './common.mjs';

const PAGES = ['', 'requests', 'spend', 'my-key', 'keys', 'limits', 'workspaces', 'users', 'clients', 'providers', 'configs', 'models', 'guardrails', 'prompts', 'cache', 'mcp', 'playground', 'explain', 'batches', 'audit', 'nodes', 'node'];

/** A page that counts the clicks of a task, and knows how long it takes. */
class Task {
  constructor(page, name) {
    Object.assign(this, { page, name, clicks: 0, begun: performance.now() });
  }

  async click(locator) {
    this.clicks += 1;
    await locator.click();
  }

  async choose(locator, value) {
    this.clicks += 1;
    await locator.selectOption(value);
  }

  end(clicks, seconds) {
    const took = (performance.now() - this.begun) / 1000;
    assert.ok(this.clicks <= clicks && took <= seconds, `${this.name}: ${this.clicks} clicks, ${took} s`);
    console.log(`${this.name}: ${this.clicks} clicks, ${took.toFixed(1)} s`);
  }
}

/** Why one request failed. */
async function why(page) {
  await page.goto('/console/');
  await settled(page);
  const task = new Task(page, 'why a request failed');
  await task.click(page.getByRole('link', { name: /[1-9][0-9.,]* failed$/ }));
  await page.getByRole('heading', { level: 1, name: 'Requests' }).waitFor();
  await task.click(page.getByRole('row').nth(1).getByRole('link').first());
  await page.getByRole('heading', { level: 1, name: 'Request' }).waitFor();
  await page.locator('main .badge.bad, main .badge.warn').first().waitFor();
  task.end(3, 60);
}

/** Who spent most last week. */
async function who(page) {
  await page.goto('/console/');
  await settled(page);
  const task = new Task(page, 'who spent most last week');
  await task.click(page.getByRole('link', { name: 'Spend', exact: true }));
  await task.choose(page.getByLabel('By', { exact: true }), 'users');
  const people = /^\s*(ann|ben|chloe|dev|eva|farid|grace|hugo|ines)\b/;
  await page.locator('main tbody tr', { hasText: people }).first().waitFor();
  assert.match(await page.locator('main tbody tr').first().innerText(), people);
  task.end(2, 60);
}

/** A key with a budget, and a call with it. */
async function newKey(page) {
  await page.goto('/console/');
  await settled(page);
  const task = new Task(page, 'a key with a budget, and a call with it');
  await task.click(page.getByRole('link', { name: 'Keys', exact: true }));
  await task.click(page.getByRole('button', { name: 'Make a key' }));
  await page.getByLabel('Name', { exact: true }).fill('made in a minute');
  await page.getByLabel('Budget, $').fill('5');
  await task.click(page.getByRole('button', { name: 'Make the key' }));
  const secret = await page.locator('.secret-text').innerText();
  await task.click(page.getByRole('button', { name: 'I have it' }));
  const settings = await api('GET', '/v1/settings');
  const listener = settings.data.find((one) => one.path === 'listen.data').value[0];
  const body = JSON.stringify({ model: 'gpt-4o-mini', messages: [{ role: 'user', content: 'Hello' }] });
  const response = await fetch(`http://${listener}/v1/chat/completions`, { method: 'POST', headers: { 'x-gateway-api-key': secret, 'content-type': 'application/json' }, body });
  assert.equal(response.status, 200, await response.text());
  task.end(10, 60);
}

/** A developer's key tries a provider, and sees the limits over it. */
async function developer(browser) {
  const scopes = ['providers.list', 'providers.read', 'completions.write', 'logs.list', 'logs.view'];
  const made = await api('POST', '/v1/api-keys/workspace/service', { name: 'a developer', workspace_id: 'search', scopes });
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, baseURL: url });
  const page = await context.newPage();
  await ready(page);
  const problems = problemsOf(page);
  await signIn(page, made.key);
  await page.goto('/console/providers');
  await page.getByRole('link', { name: '@openai', exact: true }).click();
  await page.getByRole('button', { name: 'List models' }).click();
  await page.getByLabel(/Model, of [1-9][0-9]*/).fill('gpt-4o-mini');
  await page.getByRole('button', { name: 'Test now' }).click();
  await page.getByText('responds').first().waitFor();
  await page.goto('/console/my-key');
  await page.getByRole('link', { name: 'Requests of each key' }).waitFor();
  await page.getByText('depends on metadata._user').waitFor();
  assert.deepEqual(problems, []);
  await context.close();
}

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ['--no-sandbox', '--disable-dev-shm-usage'] });
try {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, baseURL: url });
  const page = await context.newPage();
  await ready(page);
  const problems = problemsOf(page);
  await signIn(page);
  for (const path of PAGES) {
    const begun = performance.now();
    await page.goto(`/console/${path}`);
    await page.locator('h1').waitFor();
    await settled(page);
    const alerts = await page.getByRole('alert').allInnerTexts();
    problems.push(...alerts.map((text) => `${path}: ${text}`));
    console.log(`${path || 'overview'}: ${Math.round(performance.now() - begun)} ms`);
  }
  // Live: the requests of the demo come by themselves.
  await page.goto('/console/requests?live=1');
  await page.getByText(/Live: [1-9][0-9]* new/).waitFor();
  await why(page);
  await who(page);
  await newKey(page);
  await developer(browser);
  assert.deepEqual(problems, []);
  await context.close();
  for (const [name, path, colorScheme] of process.env.PICTURES ? [['overview', '?range=7d', 'light'], ['requests', 'requests', 'dark']] : []) {
    const shown = await browser.newContext({ viewport: { width: 1280, height: 800 }, baseURL: url, colorScheme });
    const picture = await shown.newPage();
    await ready(picture);
    await signIn(picture);
    await picture.goto(`/console/${path}`);
    await settled(picture);
    await picture.screenshot({ path: `${process.env.PICTURES}/console-${name}.png` });
    await shown.close();
  }
} finally {
  await browser.close();
}
