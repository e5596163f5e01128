// Calls of the control routes, with the session's cookie. The page holds no key: only the sign-in form has one, until it is sent.
import { Shared } from './shared.ts';
import type { paths } from './schema';
import { query } from './ranges.ts';

/** What a GET of the document responds. */
export type Got<P extends keyof paths> = paths[P] extends { get: { responses: { 200: { content: { 'application/json': infer B } } } } } ? B : never;
/** An item of such a list. */
export type Item<P extends keyof paths> = Got<P> extends { data: (infer I)[] } ? I : never;
/** An object whose members the document leaves open. */
export type Free = Record<string, any>;

export interface Detail {
  path: string;
  message: string;
}

export class ApiError extends Error {
  constructor(readonly status: number, message: string, readonly details: Detail[] = []) {
    super(message);
  }
}

export type Self = Got<'/v1/api-keys/self'>;
/** `null`: signed out; `undefined`: not clear yet. */
export const self = new Shared<Self | null | undefined>(undefined);
export const signedOutWhy = new Shared('');
/** The session is over while pages are open: they stay as they are below a dialog to sign in again. */
export const isOver = new Shared(false);
/** Changes when another key signs in: the pages begin anew. */
export const seat = new Shared(0);

export const may = (...scopes: string[]): boolean => scopes.some((scope) => (self.value?.scopes as string[] | undefined)?.includes(scope));

/** A call this long after the reader's last key, click or turn of the wheel is one that the page makes by itself. */
const ASKED = 60_000;
let lastInput = Date.now();
for (const kind of ['keydown', 'pointerdown', 'wheel']) globalThis.addEventListener?.(kind, () => (lastInput = Date.now()), { capture: true, passive: true });

interface Options {
  signal?: AbortSignal;
  key?: string;
}

async function send(method: string, path: string, body: unknown, options: Options): Promise<Response> {
  // What the page refreshes by itself keeps no session alive.
  const isAsked = Date.now() - lastInput < ASKED;
  const headers: Record<string, string> = { 'x-turnpike-console': isAsked ? '1' : 'poll', accept: 'application/json' };
  if (body !== undefined) headers['content-type'] = 'application/json';
  if (options.key !== undefined) headers.authorization = `Bearer ${options.key}`;
  const init: RequestInit = { method, headers, credentials: 'same-origin', cache: 'no-store' };
  if (body !== undefined) init.body = JSON.stringify(body);
  if (options.signal) init.signal = options.signal;
  try {
    return await fetch(path, init);
  } catch (why) {
    if (options.signal?.aborted) throw why;
    throw new ApiError(0, 'The gateway does not respond. Is it running, and is this address still its control port?');
  }
}

async function failure(response: Response): Promise<ApiError> {
  const body = (await response.json().catch(() => null)) as Free | null;
  const message = body?.error?.message ?? body?.data?.message ?? `The gateway responded with status ${response.status}.`;
  return new ApiError(response.status, message, body?.error?.details ?? []);
}

/** Sends a call and reads its JSON. */
export async function call<T = Free>(method: string, path: string, body?: unknown, options: Options = {}): Promise<T> {
  const response = await send(method, path, body, options);
  if (response.status === 401 && options.key === undefined && endSession()) throw new ApiError(401, 'The session had ended, and nothing was done. Do it again.');
  // Of a gateway that is not ready, what it says of itself is the content.
  const isContent = response.ok || (response.status === 503 && path.startsWith('/readyz'));
  if (!isContent) throw await failure(response);
  return (await response.json()) as T;
}

export const get = <T = Free>(path: string, params: Parameters<typeof query>[0] = {}, options: Options = {}): Promise<T> => call<T>('GET', path + query(params), undefined, options);

export async function text(path: string): Promise<string> {
  const response = await send('GET', path, undefined, {});
  if (response.status === 401) endSession();
  if (!response.ok) throw await failure(response);
  return response.text();
}

/** A response that is read while it arrives. A 401 may be the provider's: whether it is the session's, another call tells. */
export async function stream(method: string, path: string, body: unknown, signal: AbortSignal): Promise<Response> {
  const response = await send(method, path, body, { signal });
  if (response.status === 401) void get('/v1/api-keys/self').catch(() => undefined);
  if (!response.ok) throw await failure(response);
  return response;
}

/** Whether pages are open, which stay. */
function endSession(): boolean {
  if (!self.value) {
    self.value = null;
    return false;
  }
  signedOutWhy.value = 'The session has ended: sign in again.';
  isOver.value = true;
  return true;
}

/** Closes the pages, with what was written there. */
export function leave(why: string): void {
  signedOutWhy.value = why;
  self.value = null;
  isOver.value = false;
  seat.value += 1;
}

/** Whose session it is. A key that was rotated is the same. */
const identity = (of: Self): string => JSON.stringify([of.id ?? of.name, of.organisation_id, of.workspace_id, of.user_id]);

export async function whoAmI(): Promise<void> {
  try {
    self.value = await get<Self>('/v1/api-keys/self');
  } catch (why) {
    if (!(why instanceof ApiError) || why.status !== 401) signedOutWhy.value = (why as Error).message;
    self.value = null;
  }
}

/** Goes on where a session has begun: in this tab, or in another one. */
function enter(found: Self): void {
  signedOutWhy.value = '';
  if (self.value && identity(self.value) !== identity(found)) seat.value += 1;
  self.value = found;
  isOver.value = false;
}

export async function signIn(key: string): Promise<void> {
  await call('POST', '/console/session', undefined, { key });
  enter(
    await get<Self>('/v1/api-keys/self').catch((why: ApiError) => {
      if (why.status !== 401) throw why;
      throw new ApiError(401, 'The key is good, but this browser did not keep the session: see the note below.');
    }),
  );
}

/** Whether a session has begun in another tab meanwhile. */
export const comeBack = (): Promise<void> => get<Self>('/v1/api-keys/self').then(enter, () => undefined);

export async function signOut(): Promise<void> {
  await call('DELETE', '/console/session');
  leave('You have signed out.');
}
