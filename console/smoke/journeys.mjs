// What an operator does: requests, keys, configs, the playground.
import assert from 'node:assert/strict';
import { api, key, ready, signIn, url } from './common.mjs';

/** What an operator does, from the first to the last step. */
export async function journeys(browser) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, baseURL: url });
  const page = await context.newPage();
  await ready(page);

  await page.goto('/console/requests?status=200');
  await page.getByLabel('Service key').fill('tp-not-a-key');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('alert').waitFor();
  await page.getByLabel('Service key').fill(key);
  await page.getByRole('button', { name: 'Sign in' }).click();
  // The page that was wanted, with its filters.
  await page.getByRole('heading', { name: 'Requests' }).waitFor();
  assert.equal(await page.getByLabel('Status').inputValue(), '200');
  const cookie = (await context.cookies()).find((one) => one.name === '__Host-turnpike-console');
  assert.ok(cookie.httpOnly && cookie.secure && cookie.sameSite === 'Strict', JSON.stringify(cookie));
  assert.ok(!(await page.evaluate(() => document.cookie + JSON.stringify(localStorage) + document.documentElement.outerHTML)).includes(key), 'the page keeps the key');

  await page.getByLabel('Model').fill('none-such');
  await page.getByText('No request matches these filters.').waitFor();
  await page.getByLabel('Cache').selectOption('miss');
  await page.goBack();
  assert.equal(new URL(page.url()).searchParams.get('model'), 'none-such');

  // A key: made and shown once, raised, refused, rotated, revoked.
  await page.goto('/console/keys');
  await page.getByRole('button', { name: 'Make a key' }).click();
  await page.getByLabel('Name', { exact: true }).fill('made in the console');
  await page.getByLabel('It may').selectOption('reader');
  await page.getByLabel('Budget, $').fill('5');
  await page.getByRole('button', { name: 'Make the key' }).click();
  const secret = await page.locator('.secret-text').innerText();
  assert.match(secret, /^gk_/);
  // No key closes the dialog before somebody has said that the secret is kept.
  for (let round = 0; round < 3; round += 1) await page.keyboard.press('Escape');
  assert.equal(await page.locator('.secret-text').innerText(), secret);
  await page.getByRole('button', { name: 'I have it' }).click();
  assert.ok(!(await page.content()).includes(secret), 'the secret is gone from the page');
  await page.getByRole('link', { name: 'made in the console' }).first().click();
  await page.getByLabel('Budget, $').fill('7');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('Saved.').waitFor();
  const changed = (await api('GET', '/v1/api-keys?name=made%20in%20the%20console')).data[0];
  assert.equal(changed.usage_limits.credit_limit, 7);
  await page.getByRole('button', { name: 'Rotate' }).click();
  await page.getByLabel('The old one stays good for').selectOption('0');
  await page.getByRole('dialog').getByRole('button', { name: 'Rotate' }).click();
  const rotated = await page.locator('.secret-text').innerText();
  assert.notEqual(rotated, secret);
  await page.getByRole('button', { name: 'I have it' }).click();

  // A key with few scopes sees what it may, and no more; when it is revoked, its session is over.
  const reader = await browser.newContext({ baseURL: url });
  const second = await reader.newPage();
  await ready(second);
  await signIn(second, rotated);
  assert.equal(await second.getByRole('link', { name: 'Configs' }).count(), 0);
  await second.goto('/console/requests');
  await second.getByRole('heading', { name: 'Requests' }).waitFor();
  await page.getByRole('button', { name: 'Revoke' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click();
  await page.getByRole('heading', { name: 'Keys' }).waitFor();
  await second.getByRole('button', { name: 'Refresh' }).click();
  await second.getByText('The session has ended: sign in again.').waitFor();
  await reader.close();

  // A config: refused with marks, saved, published, rolled back.
  await page.goto('/console/configs/new');
  await page.getByLabel('Name').fill('from the console');
  await page.getByLabel('Config, JSON').fill('{\n  "provider": "@emulator",\n  "retry": {"attempts": -1}\n}');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('button', { name: 'Line 3' }).waitFor();
  await page.getByLabel('Config, JSON').fill('{"provider": "@emulator", "retry": {"attempts": 1}}');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('in use').waitFor();
  const edited = '{"provider": "@emulator", "retry": {"attempts": 2}}';
  await page.getByLabel('Config, JSON').fill(edited);
  // A session that ends takes nothing that was written with it.
  await context.clearCookies();
  await page.getByRole('button', { name: 'Check' }).click();
  await page.getByText('The session has ended: sign in again.').waitFor();
  for (let round = 0; round < 3; round += 1) await page.keyboard.press('Escape');
  if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/session-over.png` });
  await page.getByLabel('Service key').fill(key);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  assert.equal(await page.getByLabel('Config, JSON').inputValue(), edited);
  await page.getByRole('button', { name: 'Publish' }).click();
  await page.getByRole('button', { name: 'Roll back to it' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Roll back' }).click();
  await page.getByText('Rolled back').waitFor();
  const slug = decodeURIComponent(page.url().split('/').pop());
  assert.equal(JSON.parse((await api('GET', `/v1/configs/${slug}`)).config).retry.attempts, 1);
  await page.getByRole('link', { name: 'Explain a request with it' }).click();
  await page.getByRole('heading', { level: 1, name: 'Explain' }).waitFor();
  assert.ok((await page.getByLabel('Request, JSON').inputValue()).includes(slug), 'Explain has the request that it was given');
  await page.getByRole('button', { name: 'Explain', exact: true }).click();
  await page.getByText('First target').waitFor();
  assert.equal(new URL(page.url()).search, '', 'the address has the request');

  // A slug that two workspaces have: the page is of the one that was meant.
  const other = await api('POST', '/v1/admin/workspaces', { name: 'Other team' });
  const two = [await api('POST', '/v1/configs', { name: 'of the first', slug: 'twice', config: { provider: '@emulator' } }), await api('POST', '/v1/configs', { name: 'of the other', slug: 'twice', workspace_id: other.id, config: { provider: '@emulator' } })];
  await page.goto('/console/configs/twice');
  await page.getByRole('link', { name: 'of the other' }).click();
  await page.getByLabel('Name').fill('renamed');
  await page.getByRole('button', { name: 'Publish' }).click();
  await page.getByText('Published').waitFor();
  assert.deepEqual(await Promise.all(two.map(async ({ id }) => (await api('GET', `/v1/configs/${id}`)).name)), ['of the first', 'renamed']);
  await page.goto(`/console/configs/twice?workspace=${other.slug ?? other.id}`);
  await page.getByRole('heading', { level: 1, name: 'renamed' }).waitFor();

  // A chat, streamed, with a key that may send one.
  const client = await api('POST', '/v1/api-keys/workspace/service', { name: 'player', scopes: ['completions.write', 'logs.view', 'logs.list'] });
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByText('You have signed out.').waitFor();
  assert.equal((await context.cookies()).length, 0);
  await signIn(page, client.key);
  await page.goto('/console/playground');
  await page.getByLabel('Config or @provider').fill('@emulator');
  await page.getByRole('button', { name: 'Send' }).click();
  await page.locator('.answer', { hasText: 'quick brown fox' }).waitFor();
  await page.getByRole('link', { name: 'The request' }).waitFor();
  await context.close();
}
