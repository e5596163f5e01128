// Builds the console into built/: one script, one style sheet, one page. With --check it only compares, so that what is committed is what
// the sources make. Not here: the types (tsc) and the tests.
import { build } from 'esbuild';
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { gunzipSync, gzipSync } from 'node:zlib';

const MAX_GZIP = 60 << 10;
const here = new URL('.', import.meta.url).pathname;
const result = await build({
  entryPoints: [`${here}src/main.tsx`],
  outdir: `${here}built`,
  entryNames: 'app',
  bundle: true,
  minify: true,
  write: false,
  target: ['es2022'],
  jsx: 'automatic',
  jsxImportSource: 'preact',
  format: 'iife',
  legalComments: 'none',
  charset: 'utf8',
});
const output = (end) => Buffer.from(result.outputFiles.find((file) => file.path.endsWith(end)).contents);
const script = output('.js');
const style = output('.css');
const version = createHash('sha256').update(script).update(style).digest('hex').slice(0, 16);
const page = readFileSync(`${here}src/index.html`, 'utf8').replaceAll('VERSION', version);
const files = {
  'index.html': Buffer.from(page),
  'version.txt': Buffer.from(version),
  'app.js.gz': gzipSync(script, { level: 9 }),
  'app.css.gz': gzipSync(style, { level: 9 }),
};
const size = Object.values(files).reduce((sum, bytes) => sum + bytes.length, 0);
console.log(`${size} bytes with gzip (script ${files['app.js.gz'].length}, style ${files['app.css.gz'].length}), version ${version}`);
if (size > MAX_GZIP) throw new Error(`more than ${MAX_GZIP} bytes`);

// Node's zlib differs from one version to the next: the unpacked bytes count.
const plain = (name, bytes) => (name.endsWith('.gz') ? gunzipSync(bytes) : bytes);
mkdirSync(`${here}built`, { recursive: true });
for (const [name, bytes] of Object.entries(files)) {
  const path = `${here}built/${name}`;
  if (!process.argv.includes('--check')) writeFileSync(path, bytes);
  else if (!plain(name, readFileSync(path)).equals(plain(name, bytes))) {
    throw new Error(`console/built/${name} is not what the sources make: run npm ci && npm run build in console/`);
  }
}
