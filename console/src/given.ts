// A request that one page gives to the next: not in the address, which is kept in histories and may be shared.
import { type Free, seat } from './client.ts';

let given: { request: Free; page: string; seat: number } | null = null;

/** To a page below /console/. */
export function handOver(page: string, request: Free): void {
  given = { request, page, seat: seat.value };
}

/** Once, and only on its page, for the key that has handed it over. */
export function take(): Free | null {
  const taken = given?.seat === seat.value && location.pathname === `/console/${given.page}` ? given.request : null;
  given = null;
  return taken;
}
