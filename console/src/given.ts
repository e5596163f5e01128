// A request that one page gives to the next: not in the address, which is kept in histories and may be shared.
import { type Free, seat } from './client.ts';

let given: { request: Free; seat: number } | null = null;

export function handOver(request: Free): void {
  given = { request, seat: seat.peek() };
}

/** Once, and only for the key that has handed it over. */
export function take(): Free | null {
  const taken = given?.seat === seat.peek() ? given.request : null;
  given = null;
  return taken;
}
