// Forms: what stands in a field for an object, and what is sent for what was written.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type FieldSpec, bodyOf, conditionsOf, conditionsText, inputOf, merged, textOf, valueOf } from '../src/fields.ts';
import { limitChanges, limitInput } from '../src/limit_form.tsx';
import { isRaised } from '../src/raise.tsx';

const FIELDS: FieldSpec[] = [
  { name: 'name', label: 'Name' },
  { name: 'limit', label: 'Limit', kind: 'number' },
  { name: 'hard', label: 'Hard', kind: 'flag' },
  { name: 'models', label: 'Models', kind: 'list' },
  { name: 'defaults.config', label: 'Config' },
  { name: 'defaults.metadata', label: 'Metadata', kind: 'json' },
  { name: 'key', label: 'Key', kind: 'secret' },
  { name: 'until', label: 'Until', kind: 'time' },
];
const OBJECT = { name: 'a', limit: 0, hard: true, models: ['x', 'y'], defaults: { config: 'main', metadata: { team: 'a' }, other: 1 }, key: 'sk*****abc', until: '2030-01-02T03:04:05.678Z' };

test('nothing is sent of what nobody has changed, whatever its form cannot show', () => {
  assert.deepEqual(bodyOf(FIELDS, inputOf(FIELDS, OBJECT), OBJECT), {});
});

test('what is changed is sent, and what is emptied is null', () => {
  const input = { ...inputOf(FIELDS, OBJECT), limit: '2.5', hard: '', models: '', key: 'sk-new', until: '' };
  assert.deepEqual(bodyOf(FIELDS, input, OBJECT), { limit: 2.5, hard: false, models: null, key: 'sk-new', until: null });
  assert.deepEqual(bodyOf(FIELDS, { ...inputOf(FIELDS, OBJECT), limit: '' }, OBJECT), { limit: null });
});

test('the members of an object in it that were not changed are sent with those that were', () => {
  const input = { ...inputOf(FIELDS, OBJECT), 'defaults.config': 'other', 'defaults.metadata': '' };
  assert.deepEqual(bodyOf(FIELDS, input, OBJECT), { defaults: { config: 'other', metadata: null, other: 1 } });
});

test('of a new object what was written is sent, and zero is written', () => {
  const input = { ...inputOf(FIELDS, null), name: '<script>', limit: '0', 'defaults.config': 'main' };
  assert.deepEqual(bodyOf(FIELDS, input, null), { name: '<script>', limit: 0, defaults: { config: 'main' } });
});

test('every one is null, and nothing is not sent', () => {
  const field: FieldSpec = { name: 'workspace_id', label: 'Workspace', kind: 'choice', all: 'every one' };
  assert.deepEqual(bodyOf([field], { workspace_id: '*' }, null), { workspace_id: null });
  assert.deepEqual(bodyOf([field], { workspace_id: '' }, null), {});
});

test('a secret stands in no field', () => {
  assert.equal(textOf({ name: 'key', label: 'Key', kind: 'secret' }, OBJECT), '');
});

test('what was written since is not lost when the object is loaded again', () => {
  const shown = { name: 'a', limit: '5' };
  const now = { name: 'by another', limit: '6' };
  assert.deepEqual(merged(shown, shown, now, null), now);
  assert.deepEqual(merged({ name: 'a', limit: '7' }, shown, now, null), { name: 'by another', limit: '7' });
  // What was saved is as the gateway has it; what was written while it was saved stays.
  assert.deepEqual(merged({ name: 'mine', limit: '8' }, shown, now, { name: 'mine', limit: '7' }), { name: 'by another', limit: '8' });
  assert.deepEqual(merged({ name: 'a' }, { name: 'a' }, { name: 'a', limit: '6' }, null), { name: 'a', limit: '6' });
});

test('lists are read as they are shown, with commas and blanks in them too', () => {
  const field: FieldSpec = { name: 'a', label: 'A', kind: 'list' };
  for (const list of [['x'], ['x', '@slug/y'], ['a,b', 'c'], [' a'], ['[1]'], ['a\nb'], ['']]) assert.deepEqual(valueOf(field, textOf(field, { a: list })), list);
});

test('conditions are read as they are shown', () => {
  const all = [
    [{ key: 'api_key', value: '*' }],
    [{ key: 'metadata.team', value: ['a', 'b'] }, { key: 'model', excludes: '@openai/*' }],
    [{ key: 'metadata.x', value: 'a,b' }],
    [{ key: 'metadata.a=b', value: 'c' }],
    [{ key: 'metadata.x', value: 'a = b' }],
    [{ key: 'metadata.x', value: 'a', excludes: 'b' }],
    [{ key: 'metadata.x', value: '' }],
  ];
  for (const conditions of all) assert.deepEqual(conditionsOf(conditionsText(conditions)), conditions);
  assert.equal(conditionsText([{ key: 'model', excludes: ['a', 'b'] }]), 'model != a, b');
  assert.throws(() => conditionsOf('nonsense'), /is no condition/);
});

test('what is no JSON is refused with its field and line', () => {
  assert.throws(() => valueOf({ name: 'a', label: 'Headers', kind: 'json' }, '{\n"a": 1,\n}'), /^Error: Headers, line 3:/);
  assert.equal(valueOf({ name: 'to', label: 'To', kind: 'either' }, '@slug'), '@slug');
  assert.deepEqual(valueOf({ name: 'to', label: 'To', kind: 'either' }, '{"provider":"@a"}'), { provider: '@a' });
});

test('only limits that were changed are sent', () => {
  const before = limitInput({ usage_limits: [{ credit_limit: 5, periodic_reset: 'monthly' }], rate_limits: [{ unit: 'rpm', value: 3 }], expires_at: '2030-01-02T03:04:05Z' });
  assert.deepEqual(limitChanges(before, before), {});
  assert.deepEqual(Object.keys(limitChanges({ ...before, budget: '7' }, before)), ['usage_limits']);
  assert.deepEqual(limitChanges({ ...before, rate: '' }, before), { rate_limits: null });
});

test('what smooths a rate is not taken away with its value', () => {
  const before = limitInput({ rate_limits: [{ type: 'requests', unit: 'rpm', value: 3, smooth: true }] });
  // One object changes the one limit there is, and a list replaces it.
  assert.deepEqual(limitChanges({ ...before, rate: '4', unit: 'rph' }, before), { rate_limits: { type: 'requests', unit: 'rph', value: 4 } });
});

test('what describes a text begins empty, and is sent with the text', () => {
  const fields: FieldSpec[] = [{ name: 'string', label: 'Text' }, { name: 'about', label: 'About', of: 'string' }];
  const before = { string: 'a', about: 'first' };
  const begun = inputOf(fields, before);
  assert.deepEqual(begun, { string: 'a', about: '' });
  assert.deepEqual(bodyOf(fields, begun, before), {});
  assert.deepEqual(bodyOf(fields, { ...begun, about: 'second' }, before), { string: 'a', about: 'second' });
  assert.deepEqual(bodyOf(fields, { string: 'b', about: 'second' }, before), { string: 'b', about: 'second' });
});

test('a raise that is over does nothing', () => {
  assert.equal(isRaised({ amount: 5, until: '2020-01-01T00:00:00Z' }), false);
  assert.equal(isRaised({ amount: 5, until: '2999-01-01T00:00:00Z' }), true);
  assert.equal(isRaised(null), false);
});
