// What pages have in common: data that is loaded again as it ages, and filters that stand in the URL.
import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { Shared } from './shared.ts';
import { useLocation } from 'preact-iso';
import { type ApiError, type Free, call, get, isOver } from './client.ts';
import { query } from './ranges.ts';

export interface Loaded<T> {
  data: T | null;
  error: ApiError | null;
  isLoading: boolean;
  /** Ends when it is there. */
  reload: () => Promise<void>;
}

/** The rows of a table: `null` while they load, `undefined` where they could not be loaded. What was there stays. */
export function rowsOf<P, K extends keyof P>(loaded: Loaded<P>, name: K): P[K] | null | undefined {
  if (loaded.data) return loaded.data[name];
  return loaded.error ? undefined : null;
}

/** Loads a path, again every `seconds`, which can depend on what was loaded. What was there stays until the new is. `null`: nothing to load yet. */
export function useGet<T = Free>(path: string | null, seconds: number | ((data: T | null) => number) = 0): Loaded<T> {
  const [state, setState] = useState<{ data: T | null; error: ApiError | null; isLoading: boolean }>({ data: null, error: null, isLoading: path !== null });
  const [round, setRound] = useState(0);
  const shown = useRef<string | null>(null);
  const waiting = useRef<(() => void)[]>([]);
  useEffect(() => {
    if (path === null) return setState({ data: null, error: null, isLoading: false });
    const aborter = new AbortController();
    let timer = 0;
    const isSame = shown.current?.split('?')[0] === path.split('?')[0];
    setState((before) => ({ data: isSame ? before.data : null, error: null, isLoading: true }));
    shown.current = path;
    const load = async (): Promise<void> => {
      let data: T | null = null;
      try {
        data = await get<T>(path, {}, { signal: aborter.signal });
        setState({ data, error: null, isLoading: false });
      } catch (why) {
        if (aborter.signal.aborted) return;
        // After the next sign-in it is loaded again.
        if (isOver.value) return wait();
        setState((before) => ({ data: before.data, error: why as ApiError, isLoading: false }));
      }
      for (const done of waiting.current.splice(0)) done();
      const pause = typeof seconds === 'number' ? seconds : seconds(data);
      if (pause > 0 && !aborter.signal.aborted) timer = window.setTimeout(proceed, pause * 1000);
    };
    const wait = (): void => {
      timer = window.setTimeout(proceed, 1000);
    };
    const proceed = (): void => void (document.hidden || isOver.value ? wait() : load());
    void load();
    return () => {
      aborter.abort();
      window.clearTimeout(timer);
    };
  }, [path, typeof seconds, Number(seconds) || 0, round]);
  const reload = useCallback((): Promise<void> => {
    setRound((round) => round + 1);
    return new Promise((done) => waiting.current.push(done));
  }, []);
  return { ...state, reload };
}

/** Changes an object, unless it is another one than the page shows: then that one is loaded, and what was written can be sent again. */
export async function put(path: string, { data, reload }: Loaded<Free>, body: Free): Promise<Free> {
  const now = await get(path);
  if (['version_id', 'prompt_version_id', 'last_updated_at'].some((name) => now[name] !== data?.[name])) {
    await reload();
    throw new Error('It was changed meanwhile, and nothing was saved. What you have not written shows what it is now: look at it, and save again.');
  }
  return call('PUT', path, body);
}

/** Runs one thing at a time: a second click does nothing while it runs. */
export function useBusy(): [boolean, (what: () => Promise<unknown>) => Promise<void>] {
  const [isBusy, setBusy] = useState(false);
  const running = useRef(false);
  const run = useCallback(async (what: () => Promise<unknown>): Promise<void> => {
    if (running.current) return;
    running.current = true;
    setBusy(true);
    try {
      await what();
    } finally {
      running.current = false;
      setBusy(false);
    }
  }, []);
  return [isBusy, run];
}

export type Filters = Record<string, string>;

/** The parameters of the URL, and how to change some of them: an empty one goes. Back and forward keep them. */
export function useFilters(): [Filters, (changes: Record<string, string>, replace?: boolean) => void] {
  const location = useLocation();
  const filters = location.query as Filters;
  const change = (changes: Record<string, string>, replace = false): void => location.route(location.path + query({ ...filters, ...changes }), replace);
  return [filters, change];
}

export interface Notice {
  text: string;
  isError: boolean;
}

export const notice = new Shared<Notice | null>(null);
let clearing = 0;

export function notify(text: string, isError = false): void {
  notice.value = { text, isError };
  window.clearTimeout(clearing);
  clearing = window.setTimeout(() => (notice.value = null), isError ? 10_000 : 4000);
}
