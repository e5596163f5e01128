// Checks, run one by one for every client. Not a test framework: it prints each and counts what failed.

export const BASE_URL = process.env.BASE_URL;
export const KEY = process.env.KEY;

export async function run(checks, clients) {
  let failed = 0;
  let total = 0;
  for (const [name, client] of Object.entries(clients)) {
    for (const check of checks) {
      const title = `${name}: ${check.name}`;
      total += 1;
      try {
        await check(client);
        console.log(`ok    ${title}`);
      } catch (error) {
        failed += 1;
        console.log(`FAIL  ${title}\n${error.stack}`);
      }
    }
  }
  console.log(`${total - failed} of ${total} checks passed`);
  process.exit(failed ? 1 : 0);
}
