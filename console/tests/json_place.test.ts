// The line that a server's problem is about.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { lineOf, marks, segments, syntaxMark } from '../src/json_place.ts';

const TEXT = `{
  "strategy": {"mode": "fallback"},
  "targets": [
    {"provider": "@a"},
    {
      "provider": "@b",
      "retry": {
        "attempts": 99
      }
    }
  ],
  "name": "a \\"quoted\\" {text}: [1]",
  "last": true
}`;

test('a path has names and places', () => {
  assert.deepEqual(segments('config.targets[1].retry.attempts'), ['config', 'targets', 1, 'retry', 'attempts']);
  assert.deepEqual(segments(''), []);
});

test('a path leads to its line', () => {
  for (const [path, line] of [['', 1], ['strategy.mode', 2], ['targets', 3], ['targets[0].provider', 4], ['targets[1]', 5], ['targets[1].retry.attempts', 8], ['last', 13], ['targets[1].none', 5], ['none', 1]] as [string, number][]) {
    assert.equal(lineOf(TEXT, segments(path)), line, path);
  }
});

test('what is no JSON ends the search and is marked where it breaks', () => {
  for (const text of ['', '{', '{"a": ', '[1, 2', '{a: 1}', '{"a": "', '}{', '"\\']) lineOf(text, ['a', 0]);
  assert.equal(syntaxMark('{"a": 1}'), null);
  assert.equal(syntaxMark('{\n  "a": 1,\n}')?.line, 3);
});

test("the server's root is no part of the text", () => {
  const [first, second] = marks(TEXT, [{ path: 'config.targets[1].retry.attempts', message: 'too many' }, { path: 'strategy.mode', message: 'no' }], 'config');
  assert.equal(first?.line, 8);
  assert.equal(second?.line, 2);
});
