// Bundles each test, because Node runs no TypeScript of its own before version 22, and runs them all.
import { build } from 'esbuild';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const here = new URL('.', import.meta.url).pathname;
const out = mkdtempSync(join(tmpdir(), 'turnpike-console-'));
try {
  const tests = readdirSync(here).filter((name) => name.endsWith('.test.ts'));
  await build({ entryPoints: tests.map((name) => here + name), outdir: out, outExtension: { '.js': '.mjs' }, bundle: true, platform: 'node', format: 'esm', jsx: 'automatic', jsxImportSource: 'preact' });
  const run = spawnSync(process.execPath, ['--test', ...tests.map((name) => join(out, name.replace('.ts', '.mjs')))], { stdio: 'inherit' });
  process.exitCode = run.status ?? 1;
} finally {
  rmSync(out, { recursive: true });
}
