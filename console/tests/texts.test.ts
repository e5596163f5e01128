// What is made of numbers, times and texts.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { ApiError } from '../src/client.ts';
import { merged, pauseAfter } from '../src/pages/requests.tsx';
import { curl } from '../src/curl.ts';
import { diff } from '../src/diff.ts';
import { EventReader, pieceOf } from '../src/events.ts';
import { NONE, bytes, cents, csv, dollars, milliseconds, quoted } from '../src/format.ts';
import { ERROR_STATUSES, UUID, meant, priceNote, unpricedOf } from '../src/judged.ts';
import { limitBody, limitInput } from '../src/limit_form.tsx';
import { projected, query, rangeParams, rangeTimes } from '../src/ranges.ts';
import { places, ticks } from '../src/scale.ts';

test('what is not there is shown as such, and never as 0', () => {
  for (const show of [bytes, cents, dollars, milliseconds]) {
    assert.equal(show(null), NONE);
    assert.equal(show(undefined), NONE);
  }
  assert.notEqual(cents(0), NONE);
});

test('small amounts keep the digits that count', () => {
  assert.match(cents(0.0123), /0[.,]000123$/);
  assert.match(cents(123.4), /1[.,]23/);
  assert.equal(milliseconds(1234).replace(',', '.'), '1.23 s');
  assert.equal(bytes(1536).replace(',', '.'), '1.5 KiB');
});

test('a live list that is refused stops, and one that fails is begun again more and more slowly', () => {
  assert.equal(pauseAfter(null, 0), 2000);
  assert.equal(pauseAfter(new Error('cut'), 1), 4000);
  assert.equal(pauseAfter(new ApiError(503, 'full'), 3), 16_000);
  assert.equal(pauseAfter(new ApiError(503, 'full'), 30), 60_000);
  for (const status of [400, 403, 404]) assert.equal(pauseAfter(new ApiError(status, 'refused'), 1), null);
  // After another sign-in it goes on.
  assert.equal(pauseAfter(new ApiError(401, 'over'), 1), 4000);
});

test('an argument of a shell is the text itself, whatever is in it', () => {
  assert.equal(quoted('a/b:c'), 'a/b:c');
  assert.equal(quoted("it's $HOME `id`"), "'it'\\''s $HOME `id`'");
  const text = curl('http://h:8787', '/v1/chat', 'POST', { 'x-a': "'; rm -rf / #" }, { model: "a'b" });
  assert.match(text, /-H 'x-a: '\\''; rm -rf \/ #'/);
  assert.match(text, /--data-raw '\{"model":"a'\\''b"\}'/);
  assert.ok(!text.includes('-X'));
});

test('what was logged makes curl read no file and no pattern', () => {
  const text = curl('http://h:8787', '/v1/files/{a,b}/[1-9]?x=[]', 'POST', {}, '@/etc/passwd');
  assert.match(text, /^curl -g 'http:\/\/h:8787\/v1\/files\/\{a,b\}\/\[1-9\]\?x=\[\]' /);
  assert.match(text, /--data-raw @\/etc\/passwd$/);
  assert.ok(!/ (-d|--data|--data-binary|--data-ascii) /.test(text));
  // Of zsh, `=name` is the path of a program.
  assert.equal(quoted('=ls'), "'=ls'");
  const line = `printf '%s\\n' ${[`@/etc/passwd`, "it's", '{a,b}', '=ls', '$HOME'].map(quoted).join(' ')}`;
  assert.equal(execFileSync('sh', ['-c', line]).toString(), "@/etc/passwd\nit's\n{a,b}\n=ls\n$HOME\n");
});

test('every status of an error is in the filter of errors, within the bounds of the API', () => {
  const all = ERROR_STATUSES.split(',');
  for (const status of [400, 432, 446, 451, 499, 500, 513, 529, 599]) assert.ok(all.includes(String(status)), String(status));
  assert.ok(!all.includes('200') && !all.includes('246') && !all.includes('600'));
  assert.ok(all.length <= 500 && new Set(all).size === all.length && ERROR_STATUSES.length <= 4096);
});

test('nothing is said of prices that were not summed up', () => {
  assert.equal(unpricedOf(null), null);
  assert.equal(unpricedOf(undefined), null);
  assert.equal(priceNote(unpricedOf(null)), '');
  assert.equal(unpricedOf({ total: 5, avg: 1 }), 0);
  assert.equal(priceNote(unpricedOf({ total: 0 })), 'every one has a price');
  assert.match(priceNote(unpricedOf({ total: 0, unpriced_requests: 3 })), /No budget/);
});

test('a slug means one object of one workspace, or asks which', () => {
  const row = (id: string | null, workspace_id: string | null, slug = 'main') => ({ id, slug, workspace_id });
  const rows = [row('1', 'a'), row('2', 'b'), row('3', null), row('4', 'a', 'main-2')];
  assert.deepEqual(meant(rows, 'main', false).map((one) => one.id), ['1', '2', '3']);
  assert.deepEqual(meant([row('1', 'a'), row('3', null)], 'main', true).map((one) => one.id), ['1']);
  assert.deepEqual(meant([row('3', null)], 'main', true).map((one) => one.id), ['3']);
  assert.deepEqual(meant([...rows, row(null, null)], 'main', false).map((one) => one.id), [null]);
  assert.deepEqual(meant(rows, 'mai', false), []);
  assert.ok(UUID.test('0192d3a4-0000-7000-8000-00000000abcd') && !UUID.test('main'));
});

test('a key keeps its expiry, to the second, unless it is changed', () => {
  const before = limitInput({ expires_at: '2020-01-02T03:04:05Z' });
  assert.ok(!('expires_at' in limitBody({ ...before, budget: '5' }, true, before)));
  assert.equal(limitBody({ ...before, expires: '' }, true, before).expires_at, null);
  assert.equal(limitBody({ ...before, expires: '2030-01-02T03:04' }, false, before).expires_at, new Date('2030-01-02T03:04').toISOString());
});

test('a field of a CSV file is no formula and breaks no line', () => {
  assert.equal(csv([['=1+1', 'a,b', 'c"d', 'x\ny', -5, null]]), "'=1+1,\"a,b\",\"c\"\"d\",\"x\ny\",-5,\r\n");
  assert.equal(csv([['@SUM(A1)', '+1', '\t=1']]), "'@SUM(A1),'+1,'\t=1\r\n");
});

test('a range is read from the URL, and nonsense is the default', () => {
  const now = Date.UTC(2026, 10, 29, 12);
  assert.deepEqual(rangeTimes('1h', '24h', now), [now - 3_600_000, now]);
  for (const nonsense of [undefined, '', '1y', 'x/y', '2026-11-29/2026-11-28', '9'.repeat(40)]) assert.deepEqual(rangeTimes(nonsense, '24h', now), [now - 86_400_000, now]);
  assert.deepEqual(rangeParams('2026-11-01T00:00:00Z/2026-11-02T00:00:00Z', '24h', now), { time_of_generation_min: '2026-11-01T00:00:00.000Z', time_of_generation_max: '2026-11-02T00:00:00.000Z' });
  assert.equal(query({ a: 'b&c', d: '', e: null, f: 0 }), '?a=b%26c&f=0');
});

test('spend goes on at the rate of the month so far', () => {
  assert.equal(Math.round(projected(100, new Date(2026, 3, 16))), 200);
});

test('an event is read whole, wherever the chunks end', () => {
  const stream = 'data: {"choices":[{"delta":{"content":"He"}}]}\r\n\r\ndata: {"choices":[{"delta":{"content":"y"}}],"usage":{"prompt_tokens":1}}\n\n: ping\n\ndata: [DONE]\n\n';
  for (let cut = 1; cut < 9; cut += 1) {
    const reader = new EventReader();
    const found = [];
    for (let at = 0; at < stream.length; at += cut) found.push(...reader.push(stream.slice(at, at + cut)));
    const pieces = found.map(pieceOf);
    assert.equal(pieces.map((piece) => piece.text).join(''), 'Hey');
    assert.equal(pieces.at(-1)?.isEnd, true);
  }
  assert.equal(pieceOf('{"error":{"message":"no"}}').error, 'no');
  assert.equal(pieceOf('{"choices":[{"message":{"content":"all"}}]}').text, 'all');
  assert.equal(pieceOf('<script>').text, '');
});

test('a difference has every line of both texts, once', () => {
  const lines = diff('a\nb\nc', 'a\nx\nc\nd');
  assert.deepEqual(lines.map((line) => line.sign + line.text), [' a', '-b', '+x', ' c', '+d']);
  assert.equal(lines.filter((line) => line.sign !== '+').map((line) => line.text).join('\n'), 'a\nb\nc');
  assert.equal(diff('', '').length, 1);
});

test('axes have round values up to the largest', () => {
  for (const max of [0.0003, 1, 3, 7.2, 99, 100, 12_345]) {
    const all = ticks(max);
    assert.ok((all.at(-1) ?? 0) >= max && all.length >= 3 && all.length <= 6, `${max}: ${all.join(' ')}`);
  }
  assert.deepEqual(ticks(0), [0, 1]);
  assert.deepEqual(places(10, 3), [0, 4, 8]);
});

test('what arrives is shown once, the newest first, and no more than a page', () => {
  const logs = (...ids: string[]) => ids.map((id) => ({ id }));
  assert.deepEqual(merged(logs('d', 'b'), logs('c', 'b', 'a')), logs('d', 'c', 'b', 'a'));
  const many = Array.from({ length: 80 }, (_, at) => String(at).padStart(3, '0'));
  assert.equal(merged(logs(...many), logs('099')).length, 50);
  assert.equal(merged(logs(...many), logs('099'))[0]?.id, '099');
});
