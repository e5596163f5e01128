// Requests as curl, with the key as a variable of the shell: no secret is in what is copied.
import { quoted } from './format.ts';

/** `-g` and `--data-raw`: curl takes neither brackets of the URL nor an `@` of the body for its own signs. The headers are those of the gateway; `base` is the address of the data port. */
export function curl(base: string, path: string, method: string, headers: Record<string, string>, body: unknown): string {
  const lines = [`curl -g ${quoted(base + path)}`];
  if (method !== (body === undefined ? 'GET' : 'POST')) lines.push(`-X ${quoted(method)}`);
  lines.push('-H "x-gateway-api-key: $TURNPIKE_KEY"');
  for (const [name, value] of Object.entries(headers)) lines.push(`-H ${quoted(`${name}: ${value}`)}`);
  if (body !== undefined) {
    if (!Object.keys(headers).some((name) => name.toLowerCase() === 'content-type')) lines.push("-H 'content-type: application/json'");
    lines.push(`--data-raw ${quoted(typeof body === 'string' ? body : JSON.stringify(body))}`);
  }
  return lines.join(' \\\n  ');
}

/** The data port of this host, as far as the page can tell: the settings may have another. */
export const dataBase = (here: Location = location): string => `${here.protocol}//${here.hostname}:8787`;
