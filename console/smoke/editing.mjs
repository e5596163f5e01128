// What operators edit: policies, providers, workspaces, people, names of models, prompts; by mouse and by keyboard; and what a key that may
// only read sees of it.
import assert from 'node:assert/strict';
import { api, key, problemsOf, ready, settled, signIn, url } from './common.mjs';

const LISTS = ['limits', 'workspaces', 'users', 'models', 'prompts', 'configs', 'guardrails', 'mcp', 'batches', 'providers', 'cache', 'my-key', 'nodes', 'node'];

async function opened(browser, as = key, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, baseURL: url, ...options });
  const page = await context.newPage();
  await ready(page);
  const problems = problemsOf(page);
  await signIn(page, as);
  return { context, page, problems };
}

/** A store in which nothing was made yet: each list says what to do. */
export async function fresh(browser) {
  const { context, page, problems } = await opened(browser);
  for (const path of LISTS) {
    await page.goto(`/console/${path}`);
    await page.locator('h1').waitFor();
    await settled(page);
    assert.equal(await page.getByRole('alert').count(), 0, path);
    for (const text of await page.locator('.empty').allInnerTexts()) assert.ok(text.length > 12, `${path}: ${text}`);
  }
  assert.deepEqual(problems, []);
  await context.close();
}

/** A key that may read everything and change nothing. */
export async function viewer(browser, pages) {
  const { scopes } = await api('GET', '/v1/api-keys/self');
  const reading = scopes.filter((scope) => /\.(list|read|view)$/.test(scope));
  const made = await api('POST', '/v1/api-keys/organisation/service', { name: 'viewer', scopes: reading });
  const { context, page, problems } = await opened(browser, made.key, { viewport: { width: 390, height: 844 } });
  const changes = [];
  page.on('request', (request) => {
    if (!['GET', 'HEAD'].includes(request.method())) changes.push(`${request.method()} ${request.url()}`);
  });
  for (const path of pages) {
    await page.goto(`/console/${path}`);
    await page.locator('h1').waitFor();
    await settled(page);
    const offered = await page.locator('main :is(button, a.button)').filter({ hasText: /^(Save($| and| as a v)|Publish|New |Make |Revoke|Rotate|Archive|Take out|Remove|Raise|Delete|Cancel|Accept|Good for|Roll back|Label|Add$|Count from|Empty|Close)/ }).allInnerTexts();
    assert.deepEqual(offered, [], `${path}: a key that may only read is offered a change`);
    assert.equal(await page.getByLabel(/^(Role of|Give it a label)/).count(), 0, `${path}: a choice that changes something`);
    const width = await page.evaluate(() => [document.documentElement.scrollWidth, window.innerWidth]);
    assert.ok(width[0] <= width[1], `${path}: ${width[0]} px wide in ${width[1]}`);
  }
  assert.deepEqual([problems, changes], [[], []]);
  await context.close();
}

export async function editing(browser) {
  const { context, page, problems } = await opened(browser);
  const field = (name) => page.locator('main').getByLabel(name, { exact: true });
  const press = (name) => page.locator('main').getByRole('button', { name, exact: true }).click();
  /** Until the gateway has responded to it. */
  const save = async (name = 'Save') => Promise.all([page.waitForResponse((response) => response.request().method() !== 'GET'), press(name)]);
  const title = (name) => page.getByRole('heading', { level: 1, name, exact: true }).waitFor();
  const idOf = () => decodeURIComponent(new URL(page.url()).pathname.split('/').pop());

  // By the keyboard alone: to the limits, a new budget, saved from within its last field.
  await page.getByRole('link', { name: 'Limits', exact: true }).waitFor();
  await page.keyboard.press('g');
  await page.keyboard.press('l');
  await title('Limits');
  await page.getByRole('link', { name: 'New budget' }).waitFor();
  await page.keyboard.press('n');
  await title('New budget');
  await field('Name').focus();
  await page.keyboard.type('each team');
  await field('Limit').fill('20');
  await field('Requests that it limits').fill('metadata.team = *\nmodel != gpt-5, o3');
  await field('A bucket for each').fill('metadata.team');
  await page.keyboard.press('Control+Enter');
  await title('each team');
  const budget = `/v1/policies/usage-limits/${idOf()}`;
  const kept = await api('GET', budget);
  assert.deepEqual([kept.conditions, kept.group_by, kept.credit_limit], [[{ key: 'metadata.team', value: '*' }, { key: 'model', excludes: ['gpt-5', 'o3'] }], [{ key: 'metadata.team' }], 20]);

  // Refused: what was written stays, and the field that is wrong has the focus. A session that ends takes nothing.
  await field('Requests that it limits').fill('colour = red');
  await save();
  await page.getByRole('alert').waitFor();
  assert.equal(await field('Requests that it limits').inputValue(), 'colour = red');
  assert.equal(await field('Requests that it limits').evaluate((area) => area === document.activeElement), true);
  await field('Requests that it limits').fill('metadata.team = a');
  await field('Limit').fill('25');
  await context.clearCookies();
  await press('Save');
  await page.getByText('The session has ended: sign in again.').waitFor();
  await page.getByLabel('Service key').fill(key);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  assert.equal(await field('Limit').inputValue(), '25');
  await save();
  assert.equal((await api('GET', budget)).credit_limit, 25);
  // What is written and not saved stays when something else is done, and is asked for before the page is left.
  await field('Description').fill('not saved yet');
  await page.getByRole('button', { name: 'Raise for some days' }).click();
  await page.getByRole('dialog').getByLabel('So much more than the limit').fill('5');
  await page.getByRole('dialog').getByRole('button', { name: 'Raise' }).click();
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  const { raise } = await api('GET', budget);
  assert.equal(raise.amount, 5);
  assert.ok(Math.abs(new Date(raise.until) - Date.now() - 7 * 86_400_000) < 3_600_000, raise.until);
  await page.getByText('raised', { exact: false }).first().waitFor();
  await settled(page);
  assert.equal(await field('Description').inputValue(), 'not saved yet');
  const asked = [];
  const stay = (dialog) => asked.push(dialog.message()) && dialog.dismiss();
  page.on('dialog', stay);
  await page.getByRole('link', { name: 'Requests', exact: true }).click();
  await page.goBack();
  await page.locator('h1').click();
  await page.keyboard.press('g');
  await page.keyboard.press('r');
  assert.equal(asked.length, 3);
  await title('each team');
  assert.equal(await field('Description').inputValue(), 'not saved yet');
  page.off('dialog', stay);
  // Somebody else's change is neither lost nor unseen.
  await api('PUT', budget, { name: 'every team' });
  await press('Save');
  await page.getByText(/^It was changed meanwhile/).waitFor();
  assert.equal(await field('Name').inputValue(), 'every team');
  await save();
  await page.getByText('Saved: it is in force.').waitFor();
  const both = await api('GET', budget);
  assert.deepEqual([both.name, both.description], ['every team', 'not saved yet']);
  await page.getByRole('button', { name: 'Archive' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Archive' }).click();
  await title('Limits');
  assert.equal((await api('GET', '/v1/policies/usage-limits?status=active&name=every%20team')).total, 0);

  // A provider, whose new key is sent and never shown.
  await page.goto('/console/providers/new');
  await field('Name').fill('Second account');
  await field('Slug').fill('second');
  await field('Key').fill('sk-first-0123456789');
  await save();
  await title('Second account');
  await field('Key').fill('sk-other-0123456xyz');
  await field('Models').fill('gpt-4o-mini, gpt-4o');
  await save();
  await page.getByText('sk*****xyz').waitFor();
  assert.equal(await field('Key').inputValue(), '');
  assert.ok(!(await page.content()).includes('sk-other'), 'the page keeps a credential');
  assert.deepEqual((await api('GET', '/v1/providers/second')).allowed_models, ['gpt-4o-mini', 'gpt-4o']);

  // A workspace with a limit and a member, who was invited.
  await page.goto('/console/users');
  await page.getByRole('link', { name: 'New invite' }).waitFor();
  assert.equal(await page.getByRole('link', { name: 'New user' }).count(), 0);
  await page.goto('/console/users/invites/new');
  await field('Address').fill('ann@example.com');
  await save();
  await page.getByRole('button', { name: 'Accept for the person' }).click();
  await title('ann@example.com');
  await page.goto('/console/workspaces/new');
  await field('Name').fill('Research');
  await field('Budget, $').fill('9');
  await save();
  await title('Research');
  const workspace = idOf();
  await page.getByLabel('User', { exact: true }).selectOption({ label: 'ann@example.com' });
  await page.getByRole('button', { name: 'Add', exact: true }).click();
  await page.getByLabel('Role of ann@example.com').selectOption('manager');
  await page.getByRole('row', { name: /ann@example.com/ }).getByRole('button', { name: 'Save' }).click();
  await page.getByText('Saved.').waitFor();
  assert.equal((await api('GET', `/v1/admin/workspaces/${workspace}/users`)).data[0].role, 'manager');
  assert.equal([(await api('GET', `/v1/admin/workspaces/${workspace}`)).usage_limits].flat()[0].credit_limit, 9);

  // Limits that the short form has no fields for.
  await field('Budget, $').fill('11');
  await page.getByRole('button', { name: 'Limits of tokens, hard or several limits' }).click();
  assert.match(await field('Budgets, JSON').inputValue(), /"credit_limit": 11/);
  await field('Budgets, JSON').fill('[{"credit_limit": 9}, {"type": "tokens", "credit_limit": 1000}]');
  await save();
  assert.deepEqual((await api('GET', `/v1/admin/workspaces/${workspace}`)).usage_limits.map((limit) => limit.credit_limit), [9, 1000]);
  await page.reload();
  await field('Budgets, JSON').waitFor();

  // It is not deleted with what is in it, unless its name is written.
  await api('POST', '/v1/configs', { name: 'of it', config: { provider: '@emulator' }, workspace_id: workspace });
  const archived = page.getByRole('dialog').getByRole('button', { name: 'Archive' });
  await page.getByRole('button', { name: 'Archive' }).click();
  await archived.click();
  await page.getByRole('dialog').getByText(/The workspace has objects/).waitFor();
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click();
  assert.equal((await api('GET', `/v1/admin/workspaces/${workspace}`)).status, 'active');

  // A name of models: a text, then a config.
  await page.goto('/console/models/new');
  await field('Name').fill('fast');
  await field('Stands for').fill('@emulator/gpt-4o-mini');
  await save();
  await title('fast');
  await field('Stands for').fill('{"provider": "@emulator"');
  await press('Save');
  await page.getByText(/^Stands for, line 1:/).waitFor();
  await field('Stands for').fill('{"provider": "@emulator"}');
  await save();
  assert.deepEqual((await api('GET', `/v1/model-names/${idOf()}`)).to, { provider: '@emulator' });

  // A prompt: made, a version that is not published, one that is, a label, and what it becomes.
  await page.goto('/console/prompts/new');
  await field('Name').fill('Greeting');
  await field('Provider').selectOption('emulator');
  await save();
  await title('Greeting');
  const prompt = `/v1/prompts/${idOf()}`;
  await field('Template').fill('[{"role": "user", "content": "Hello {{who}}"}]');
  await save('Save as a version');
  await page.getByText('Saved as a version, which is not published.').waitFor();
  assert.equal((await api('GET', prompt)).prompt_version, 1);
  // The form has the published one again.
  await page.waitForFunction(() => [...document.querySelectorAll('main textarea')].some((area) => area.value.includes('{{question}}')));
  await field('Template').fill('[{"role": "user", "content": "Good day {{who}}"}]');
  await save('Save and publish');
  await page.getByRole('heading', { name: 'Version 3, which is published' }).waitFor();
  assert.ok((await api('GET', prompt)).string.includes('Good day'));
  await page.getByRole('row', { name: /^2 / }).getByRole('button', { name: 'Show' }).click();
  await page.getByLabel('Give it a label').selectOption({ label: 'staging' });
  await press('Label');
  await page.getByRole('dialog').getByRole('button', { name: 'Label' }).click();
  await page.getByRole('row', { name: /^2 .*staging/ }).waitFor();
  // A draft that is newer is no part of what is published for another model.
  await api('PUT', prompt, { string: '[{"role": "user", "content": "A draft"}]', patch: true });
  await page.reload();
  await field('Model').fill('gpt-4o');
  await save('Save and publish');
  await page.getByRole('heading', { name: 'Version 5, which is published' }).waitFor();
  const fifth = await api('GET', prompt);
  assert.deepEqual([fifth.model, fifth.string.includes('Good day')], ['gpt-4o', true]);
  // Enter publishes nothing. Where nothing was changed, no key sends anything.
  await field('Model').fill('gpt-4.1');
  await field('Model').press('Enter');
  await page.getByText('Saved as a version, which is not published.').waitFor();
  await page.waitForFunction(() => [...document.querySelectorAll('main button')].some((button) => button.textContent === 'Save as a version' && button.disabled));
  const { total } = await api('GET', `${prompt}/versions`);
  assert.deepEqual([total, (await api('GET', prompt)).model], [6, 'gpt-4o']);
  await field('Model').press('Control+Enter');
  await field('Model').press('Enter');
  // Nor is a dialog, or what is below it, confirmed by it.
  await page.getByRole('button', { name: 'Take out of use' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).press('Control+Enter');
  await page.keyboard.press('Escape');
  await settled(page);
  assert.equal((await api('GET', `${prompt}/versions`)).total, 6);
  const address = page.url();

  // A partial: its text becomes a version at once, and is in force when that is published.
  await page.goto('/console/prompts/partials/new');
  await field('Name').fill('Tone');
  await field('Text').fill('Be kind.');
  await save();
  await title('Tone');
  const partial = `/v1/prompts/partials/${idOf()}`;
  await field('Text').fill('Be brief.');
  await field('What this version is for').fill('shorter');
  await save();
  await page.getByRole('row', { name: /^2 / }).getByRole('button', { name: 'Publish' }).click();
  assert.equal((await api('GET', partial)).string, 'Be kind.');
  await page.getByRole('dialog').getByRole('button', { name: 'Publish' }).click();
  await page.getByText('Version 2 is published.').waitFor();
  const published = await api('GET', partial);
  assert.deepEqual([published.string, published.version_description], ['Be brief.', 'shorter']);

  // A guardrail that is written and not saved is asked for, and kept.
  await page.goto('/console/guardrails/new');
  await field('Name').fill('half written');
  const [question] = await Promise.all([page.waitForEvent('dialog').then((dialog) => dialog.dismiss().then(() => dialog.message())), page.getByRole('link', { name: 'Requests', exact: true }).click()]);
  assert.match(question, /is not saved/);
  assert.equal(await field('Name').inputValue(), 'half written');
  await press('Save');
  await title('half written');
  await field('Name').fill('written');
  await press('Save');
  await title('written');
  await page.getByRole('link', { name: 'Requests', exact: true }).click();
  await title('Requests');

  // A key of the workspace renders it, and sends it.
  const client = await api('POST', '/v1/api-keys/workspace/service', { name: 'of prompts', scopes: ['prompts.list', 'prompts.read', 'prompts.render', 'completions.write', 'logs.list', 'logs.view'] });
  const second = await opened(browser, client.key);
  await second.page.goto(address);
  await second.page.getByLabel('Variables, JSON').fill('{"who": "Ann"}');
  await second.page.getByRole('button', { name: 'Render' }).click();
  await second.page.getByLabel('Rendered request').getByText('Good day Ann').waitFor();
  await second.page.getByRole('button', { name: 'Send it in the playground' }).click();
  await second.page.getByRole('heading', { level: 1, name: 'Playground' }).waitFor();
  assert.match(await second.page.getByLabel('Body, JSON').inputValue(), /Good day Ann/);
  await second.page.getByRole('button', { name: 'Send', exact: true }).click();
  await second.page.locator('.answer', { hasText: 'quick brown fox' }).waitFor();

  // The request that was sent, again, at two targets.
  await second.page.getByRole('link', { name: 'The request' }).click();
  await second.page.getByRole('link', { name: 'Send it again' }).click();
  await second.page.getByLabel('Config or @provider, 2').fill('@emulator');
  assert.match(await second.page.getByLabel('Body, JSON').inputValue(), /Good day Ann/);
  await second.page.getByRole('button', { name: 'Send', exact: true }).click();
  await second.page.locator('.answer', { hasText: 'quick brown fox' }).nth(1).waitFor();
  // Live: what arrives is shown, and counted.
  await second.page.goto('/console/requests?live=1');
  // Rows of the requests just sent may arrive at once.
  await second.page.getByText(/^Live: [0-9]+ new/).waitFor();
  await second.page.locator('main tbody tr').nth(2).waitFor();
  const sent = await fetch(`${url}/console/chat/completions?provider=@emulator`, { method: 'POST', headers: { 'x-gateway-api-key': client.key, 'content-type': 'application/json' }, body: JSON.stringify({ model: 'just-now', messages: [{ role: 'user', content: 'Hello' }] }) });
  assert.equal(sent.status, 200);
  await second.page.getByText(/^Live: [1-9]/).waitFor();
  await second.page.getByRole('row', { name: /just-now/ }).waitFor();
  // Other filters show others, which are not new.
  const filtered = () => second.page.waitForResponse(/status_code=200/);
  await Promise.all([filtered(), second.page.getByLabel('Status', { exact: true }).selectOption('200')]);
  await second.page.getByText('Live: 0 new').waitFor();
  await second.page.goto('/console/my-key');
  await second.page.locator('main tbody tr').nth(2).waitFor();
  assert.deepEqual(second.problems, []);
  await second.context.close();

  // Rows by the keyboard, and the list of its keys.
  await page.goto('/console/workspaces');
  await page.getByRole('link', { name: 'Research' }).waitFor();
  await page.keyboard.press('j');
  await page.keyboard.press('Enter');
  await page.waitForURL(/\/workspaces\/[0-9a-f-]{36}$/);
  // With its name written a workspace ends with all that is in it.
  await page.goto(`/console/workspaces/${workspace}`);
  await page.getByRole('button', { name: 'Archive' }).click();
  await page.getByRole('dialog').getByLabel('Its name, to archive what is in it too').fill('Research');
  await page.getByRole('dialog').getByRole('button', { name: 'Archive' }).click();
  await title('Workspaces');
  assert.equal((await api('GET', '/v1/admin/workspaces?name=Research')).total, 0);
  await page.keyboard.press('?');
  await page.getByRole('dialog', { name: 'Keys of the keyboard' }).waitFor();
  assert.deepEqual(problems, []);
  await context.close();
}

/** Another build behind an open page: the page says so, and takes nothing away. */
export async function upgraded(browser) {
  const { context, page, problems } = await opened(browser);
  await page.clock.install();
  await page.goto('/console/workspaces/new');
  await page.getByLabel('Name', { exact: true }).fill('half written');
  await page.route(/\/console\/$/, (route) => route.fulfill({ contentType: 'text/html', body: '<script src="/console/app-other.js"></script>' }));
  await page.clock.fastForward(61_000);
  await page.getByText('The gateway was upgraded.').waitFor();
  assert.equal(await page.getByLabel('Name', { exact: true }).inputValue(), 'half written');
  assert.deepEqual(problems, []);
  await context.close();
}
