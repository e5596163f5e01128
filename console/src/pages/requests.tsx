// The log: requests by filters that stand in the URL, and live under the same filters.
import { useEffect, useMemo, useState } from 'preact/hooks';
import { ApiError, type Free, isOver, may, stream } from '../client.ts';
import { read } from '../events.ts';
import { cents, integer, milliseconds } from '../format.ts';
import { rowsOf, useFilters, useGet } from '../hooks.ts';
import { ERROR_STATUSES } from '../judged.ts';
import { query, rangeParams } from '../ranges.ts';
import { Badge, Choice, type Column, Page, Pager, Problem, Range, Status, Table, TextField, Time } from '../ui.tsx';

const SIZE = 50;

/** Statuses of a filter; the API takes a list. */
const STATUSES: [string, string][] = [['', 'All'], ['errors', 'Errors, by status'], ['200', '200'], ['246', '246 (guardrail, passed on)'], ['400', '400'], ['401', '401'], ['403', '403'], ['404', '404'], ['412', '412 (limits)'], ['429', '429'], ['446', '446 (guardrail)'], ['499', '499 (client left)'], ['500', '500'], ['502', '502'], ['503', '503'], ['504', '504']];
const CACHE: [string, string][] = [['', 'All'], ['hit', 'Hit'], ['semantic_hit', 'Semantic hit'], ['miss', 'Miss'], ['refresh', 'Refresh'], ['disabled', 'Disabled']];

/** `a=b, c=d` as the JSON object of the API. */
export function metadataFilter(text: string | undefined): string {
  if (!text?.trim()) return '';
  if (text.trim().startsWith('{')) return text;
  const pairs = text.split(',').map((pair) => pair.split('='));
  return JSON.stringify(Object.fromEntries(pairs.map(([name, ...value]) => [(name ?? '').trim(), value.join('=').trim()])));
}

/** The parameters of the API for the filters of the URL. */
export function logParams(filters: Free): Free {
  return {
    ...rangeParams(filters.range, '24h'),
    status_code: filters.status === 'errors' ? ERROR_STATUSES : filters.status,
    ai_model: filters.model,
    virtual_keys: filters.provider,
    api_key_ids: filters.key,
    workspace_slug: filters.workspace,
    configs: filters.config,
    cache_status: filters.cache,
    guardrails: filters.guardrail,
    cost_min: filters.cost ? String(Number(filters.cost) * 100) : '',
    metadata: metadataFilter(filters.metadata),
    trace_id: filters.trace,
    current_page: filters.page ?? '0',
    page_size: String(SIZE),
  };
}

export const COLUMNS: Column<Free>[] = [
  { name: 'Time', cell: (log) => <a href={`/console/requests/${log.id}`}><Time at={log.created_at} /></a> },
  { name: 'Status', cell: (log) => <Status code={log.response_status_code} /> },
  { name: 'Notes', cell: (log) => <>{log.retry_success_count > 0 && <Badge>{integer(log.retry_success_count)} retries</Badge>} {log.mode === 'fallback' && <Badge>fallback</Badge>} {log.error_code && <Badge tone="bad">{log.error_code}</Badge>}</> },
  { name: 'Model', isLong: true, cell: (log) => log.requested_model ?? log.ai_model ?? '–' },
  { name: 'Provider', isLong: true, cell: (log) => log.virtual_key ?? log.ai_org ?? '–' },
  { name: 'Key', isLong: true, cell: (log) => log.api_key_name ?? log.api_key_id ?? '–' },
  { name: 'Operation', cell: (log) => <>{log.operation}{log.stream_mode ? ' · stream' : ''}</> },
  { name: 'Tokens', isNumber: true, cell: (log) => integer(log.total_units) },
  { name: 'Cost', isNumber: true, cell: (log) => (log.cost === null && log.cost_status === 'unknown' ? <Badge tone="warn">no price</Badge> : cents(log.cost)) },
  { name: 'Latency', isNumber: true, cell: (log) => milliseconds(log.response_time) },
  { name: 'Cache', cell: (log) => (log.cache_status && !/disabled/i.test(log.cache_status) ? log.cache_status.toLowerCase().replaceAll('_', ' ') : '–') },
];

interface Arrived {
  /** What ends from now on comes here. */
  isOpen: boolean;
  rows: Free[];
  count: number;
  /** So many the gateway left out, because this page was too slow. */
  dropped: number;
  error: Error | null;
}

const NONE: Arrived = { isOpen: false, rows: [], count: 0, dropped: 0, error: null };

/** Milliseconds before the stream is begun again: 2 s at first, and twice as long after each failure. `null`: it would be refused again. */
export function pauseAfter(error: Error | null, failures: number): number | null {
  const status = error instanceof ApiError ? error.status : 0;
  if (status >= 400 && status < 500 && status !== 401 && status !== 429) return null;
  return Math.min(2000 * 2 ** failures, 60_000);
}

/** What has come since the list is live, while the page is looked at. `reload`: the list has what came before that, or while the stream was interrupted. */
function useTail(path: string | null, reload: () => void): Arrived {
  const [arrived, setArrived] = useState(NONE);
  useEffect(() => {
    setArrived(NONE);
    if (path === null) return;
    let isGone = false;
    let aborter = new AbortController();
    const follow = async (signal: AbortSignal): Promise<void> => {
      const response = await stream('GET', path, undefined, signal);
      setArrived((before) => ({ ...before, isOpen: true, error: null }));
      reload();
      await read(response, (data) => {
        const events = data.map((text) => JSON.parse(text) as Free);
        const logs = events.filter((event) => event.object === 'log').reverse();
        const total = events.find((event) => event.total)?.total;
        setArrived((before) => ({ ...before, rows: [...logs, ...before.rows].slice(0, SIZE), count: before.count + logs.length, dropped: total ?? before.dropped }));
      });
    };
    const keep = async (): Promise<void> => {
      for (let failures = 0; !isGone; ) {
        // Browsers have six connections for all tabs of a gateway.
        while (!isGone && (isOver.value || document.hidden)) await new Promise((resolve) => setTimeout(resolve, 500));
        aborter = new AbortController();
        const { signal } = aborter;
        const error = isGone ? null : await follow(signal).then(() => null, (error: Error) => error);
        const isStopped = signal.aborted;
        if (!isGone) setArrived((before) => ({ ...before, isOpen: false, error: isStopped ? null : error }));
        failures = error && !isStopped ? failures + 1 : 0;
        const pause = isStopped ? 0 : pauseAfter(error, failures);
        if (pause === null) return;
        await new Promise((resolve) => setTimeout(resolve, pause));
      }
    };
    const hide = (): void => {
      if (document.hidden) aborter.abort();
    };
    document.addEventListener('visibilitychange', hide);
    void keep();
    return () => {
      isGone = true;
      aborter.abort();
      document.removeEventListener('visibilitychange', hide);
    };
  }, [path]);
  return arrived;
}

/** Both lists as one, each log once, the newest first. Ids are in order of time. */
export function merged(arrived: Free[], listed: Free[]): Free[] {
  const all = new Map([...arrived, ...listed].map((log) => [log.id, log]));
  return [...all.values()].sort((one, other) => (one.id < other.id ? 1 : -1)).slice(0, SIZE);
}

export function Requests() {
  const [filters, setFilters] = useFilters();
  const isLive = filters.live === '1';
  const page = Number(filters.page ?? 0) || 0;
  const minute = Math.floor(Date.now() / 60_000);
  // A range that ends now ends in a minute: what arrives meanwhile is in it.
  const path = useMemo(() => {
    const params = logParams(filters);
    const isOpen = !filters.range?.includes('/');
    return `/v1/logs${query({ ...params, ...(isOpen ? { time_of_generation_max: new Date((minute + 2) * 60_000).toISOString(), time_of_generation_min: new Date(Math.floor(new Date(params.time_of_generation_min).getTime() / 60_000) * 60_000).toISOString() } : {}) })}`;
  }, [JSON.stringify(filters), minute]);
  const logs = useGet(path);
  const tail = useMemo(() => {
    const { current_page, page_size, time_of_generation_min, time_of_generation_max, ...params } = logParams(filters);
    return isLive ? `/v1/logs/tail${query({ ...params, ...(filters.range?.includes('/') ? { time_of_generation_min, time_of_generation_max } : {}) })}` : null;
  }, [JSON.stringify(filters)]);
  const arrived = useTail(tail, logs.reload);
  const listed = rowsOf(logs, 'data');
  const set = (name: string) => (value: string): void => setFilters({ [name]: value, page: '' }, ['model', 'provider', 'key', 'metadata', 'trace', 'cost', 'config', 'workspace', 'guardrail'].includes(name));
  const text = (label: string, name: string, placeholder = '') => <TextField label={label} value={filters[name] ?? ''} onInput={set(name)} placeholder={placeholder} spellcheck={false} />;
  const isFiltered = Object.keys(filters).some((name) => !['page', 'live'].includes(name));
  return (
    <Page
      title="Requests"
      lead="The newest first. The address has the filters: share it, or keep it."
      actions={
        <>
          <span class="check">
            <input type="checkbox" id="live" checked={isLive} onChange={(event) => setFilters({ live: event.currentTarget.checked ? '1' : '', page: '' })} />
            <label for="live">Live{isLive && (arrived.isOpen ? `: ${integer(arrived.count)} new` : ' …')}</label>
          </span>
          <button type="button" onClick={logs.reload}>
            Refresh
          </button>
        </>
      }
    >
      <div class="filters" role="search">
        <Range value={filters.range ?? '24h'} onChange={set('range')} />
        <Choice label="Status" value={filters.status ?? ''} options={STATUSES} onChange={set('status')} />
        {text('Model', 'model', 'gpt-4o-mini')}
        {text('Provider', 'provider', 'slug')}
        {text('Key', 'key', 'id or name in the settings')}
        {may('workspaces.list') && text('Workspace', 'workspace', 'slug')}
        {text('Config', 'config', 'slug')}
        <Choice label="Cache" value={filters.cache ?? ''} options={CACHE} onChange={set('cache')} />
        {text('Cost from, $', 'cost', '0.01')}
        {text('Metadata', 'metadata', 'team=search')}
        {text('Failed guardrail', 'guardrail', 'slug')}
        {text('Trace id', 'trace')}
      </div>
      {filters.status === 'errors' && <p class="note">By the status of the response: streams that broke after they had begun with 200 count as errors in sums, and are not in this list.</p>}
      {arrived.dropped > 0 && <p class="note">{integer(arrived.dropped)} requests came too fast for this page: refresh to see them.</p>}
      <Problem error={logs.error ?? arrived.error} retry={logs.reload} />
      <Table
        label="Requests"
        columns={COLUMNS}
        rows={isLive && listed ? merged(arrived.rows, listed) : listed}
        id={(log) => log.id}
        empty={
          isFiltered ? (
            <>
              No request matches these filters. <a href="/console/requests">Without filters</a>
            </>
          ) : (
            <>
              No requests yet. Send one in the <a href="/console/playground">playground</a>, or set up a <a href="/console/clients">client</a>.
            </>
          )
        }
      />
      {logs.data && <Pager page={page} size={SIZE} total={logs.data.total} isExact={logs.data.total_is_exact !== false} onPage={(page) => setFilters({ page: page ? String(page) : '', live: '' })} />}
    </Page>
  );
}
