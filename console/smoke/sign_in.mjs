// Sign-in at an OpenID Provider of another project, as a person does it in Chromium: to the provider and back to the page that was asked for,
// and once more when the session has ended under an open page.
//
// CONSOLE_URL: the control port. PROVIDER_URL: the provider, whose own pages ask for a name. CHROMIUM: the browser.
import assert from 'node:assert/strict';
import { chromium } from 'playwright-core';
import { problemsOf, ready, settled, url } from './common.mjs';

const provider = process.env.PROVIDER_URL;
const host = new URL(provider).host;

/** What the provider's own pages want, until they lead back. */
async function throughProvider(page) {
  while (page.url().startsWith(provider)) {
    const login = page.locator('input[name=login]');
    if (await login.count()) {
      await login.fill('ann');
      await page.locator('input[name=password]').fill('any');
    }
    await Promise.all([page.waitForNavigation(), page.locator('button[type=submit]').first().click()]);
  }
}

// The provider's own pages name fonts of another host: no name is looked up.
const args = ['--no-sandbox', '--disable-dev-shm-usage', '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1'];
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args });
try {
  const context = await browser.newContext({ baseURL: url });
  const page = await context.newPage();
  await ready(page);
  const problems = problemsOf(page);
  await page.goto('/console/requests?status=500');
  await page.getByRole('link', { name: `Sign in at ${host}` }).click();
  await page.waitForURL((address) => address.href.startsWith(provider));
  await throughProvider(page);
  await page.getByRole('heading', { level: 1, name: 'Requests' }).waitFor();
  assert.equal(page.url(), `${url}/console/requests?status=500`);
  await settled(page);
  assert.match(await page.locator('.who').innerText(), /ann@example\.test/);
  const cookies = await context.cookies(url);
  const session = cookies.find((cookie) => cookie.name === '__Host-turnpike-console');
  assert.ok(session.httpOnly && session.secure && session.sameSite === 'Strict', JSON.stringify(session));
  assert.ok(!cookies.some((cookie) => cookie.name.endsWith('sign-in')), 'the cookie of the sign-in is gone');
  assert.ok(!(await page.content()).includes('Audit log'), 'the menu has what the claims allow');

  // The session ends under the open page, which stays.
  await page.goto('/console/requests');
  await settled(page);
  await context.clearCookies({ name: '__Host-turnpike-console' });
  await page.getByLabel('Model', { exact: true }).first().fill('some-model');
  await page.getByRole('dialog', { name: 'Sign in again' }).waitFor();
  const [tab] = await Promise.all([context.waitForEvent('page'), page.getByRole('link', { name: `Sign in at ${host}` }).click()]);
  await tab.waitForLoadState();
  await throughProvider(tab);
  await tab.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
  await tab.close();
  await page.bringToFront();
  await page.evaluate(() => window.dispatchEvent(new Event('focus')));
  await page.getByRole('dialog', { name: 'Sign in again' }).waitFor({ state: 'detached' });
  assert.match(page.url(), /some-model/);

  // Signed out here: the page asks for a sign-in, and says so.
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByText('You have signed out.').waitFor();
  await page.goto('/console/requests');
  await page.getByRole('link', { name: `Sign in at ${host}` }).waitFor();
  assert.deepEqual(problems.filter((problem) => !problem.includes(provider)), []);
  console.log('signed in at the provider, in this tab and in another one');
} finally {
  await browser.close();
}
