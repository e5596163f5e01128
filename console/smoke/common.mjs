// What the parts of the smoke have in common: the API, the page in a browser, signing in.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';

export const url = process.env.CONSOLE_URL;
export const key = process.env.CONSOLE_KEY;

export const api = async (method, path, body) => {
  const response = await fetch(url + path, { method, headers: { 'x-gateway-api-key': key, 'content-type': 'application/json' }, body: body && JSON.stringify(body) });
  const read = await response.json();
  assert.ok(response.ok, `${method} ${path}: ${response.status} ${JSON.stringify(read)}`);
  return read;
};

/** For pictures and fixes while developing: files from the folder in place of those of the binary. */
export async function ready(page) {
  if (!process.env.FILES) return;
  const { gunzipSync } = await import('node:zlib');
  const file = (name) => readFileSync(`${process.env.FILES}/${name}`);
  const version = file('version.txt').toString();
  await page.route(/\/console\//, async (route) => {
    const path = new URL(route.request().url()).pathname;
    if (/^\/console\/(session|chat)/.test(path)) return route.continue();
    if (path.endsWith('.js')) return route.fulfill({ contentType: 'text/javascript', body: gunzipSync(file('app.js.gz')) });
    if (path.endsWith('.css')) return route.fulfill({ contentType: 'text/css', body: gunzipSync(file('app.css.gz')) });
    const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'self'";
    return route.fulfill({ contentType: 'text/html', headers: { 'content-security-policy': policy }, body: file('index.html').toString().replaceAll('VERSION', version) });
  });
}

export async function settled(page) {
  await page.waitForLoadState('networkidle');
  await page.waitForFunction(() => !document.querySelector('.loading'), undefined, { timeout: 10_000 });
}

export async function signIn(page, as = key) {
  await page.goto('/console/');
  await page.getByLabel('Service key').fill(as);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('heading', { level: 1, name: 'Turnpike console' }).waitFor({ state: 'detached' });
}

/** What the page says wrongly of itself, gathered from now on. */
export function problemsOf(page) {
  const problems = [];
  page.on('pageerror', (error) => problems.push(`${page.url()}: ${error.message}`));
  page.on('console', (message) => {
    if (message.type() === 'error' && !/status of 40[0-9]/.test(message.text())) problems.push(`${page.url()}: ${message.text()} (${message.location().url})`);
  });
  return problems;
}
