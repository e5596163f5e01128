// How it goes now: rates, errors, latencies, spend, and what needs attention.
import type { ComponentChildren } from 'preact';
import { useMemo } from 'preact/hooks';
import { Chart } from '../chart.tsx';
import { type Free, type Item, may, self } from '../client.ts';
import { ago, cents, dollars, integer, milliseconds, percent, short } from '../format.ts';
import { useFilters, useGet } from '../hooks.ts';
import { unpricedOf } from '../judged.ts';
import { projected, query, rangeParams, rangeTimes, startOf } from '../ranges.ts';
import { Badge, Page, Problem, Range, Section, Stat, type Tone } from '../ui.tsx';

type Key = Item<'/v1/api-keys'>;
const EVERY = 15;

interface Attention {
  tone: Tone;
  what: string;
  text: ComponentChildren;
  to: string;
}

/** Limits of which four fifths are used. */
export function nearLimits(keys: Key[]): { key: Key; used: number; limit: number; text: string }[] {
  return keys.flatMap((key) =>
    (key.usage ?? []).flatMap((usage) => {
      const limit = usage.limit;
      if (usage.kind !== 'usage' || limit === null || usage.current_usage < 0.8 * limit) return [];
      const amount = (value: number): string => (usage.type === 'cost' ? dollars(value) : integer(value));
      return [{ key, used: usage.current_usage, limit, text: `${amount(usage.current_usage)} of ${amount(limit)}` }];
    }),
  );
}

function ofKeys(keys: Key[]): Attention[] {
  const soon = Date.now() + 7 * 86_400_000;
  const link = (key: Key): string => (key.id ? `/console/keys/${key.id}` : '/console/keys');
  const near = nearLimits(keys).map(({ key, used, limit, text }): Attention => ({ tone: used >= limit ? 'bad' : 'warn', what: used >= limit ? 'spent' : 'near its limit', text: <><bdi>{key.name}</bdi>: {text}</>, to: link(key) }));
  const ending = keys.filter((key) => key.expires_at && new Date(key.expires_at).getTime() < soon);
  return [...near, ...ending.map((key): Attention => ({ tone: 'warn', what: key.status === 'expired' ? 'expired' : 'expires', text: <><bdi>{key.name}</bdi> {ago(key.expires_at)}</>, to: link(key) }))];
}

function ofNode(ready: Free): Attention[] {
  const found: Attention[] = [];
  const add = (is: boolean, tone: Tone, what: string, text: string): void => void (is && found.push({ tone, what, text, to: '/console/node' }));
  add(ready.status !== 'ready', 'bad', ready.status, 'The gateway takes no new requests.');
  add(ready.store?.available === false, 'bad', 'store', 'The store does not respond: nothing can be changed.');
  add(ready.ledger?.available === false, 'bad', 'log store', 'Rows wait in the spool until it responds.');
  add((ready.ledger?.rows_dropped ?? 0) > 0, 'bad', 'log', `${integer(ready.ledger?.rows_dropped)} rows were dropped since the start.`);
  add(ready.limits?.available === false, 'bad', 'counters', 'The counters of limits do not respond.');
  add(ready.waiting_for_restart?.length > 0, 'warn', 'restart', `Changed settings wait for one: ${ready.waiting_for_restart?.join(', ')}`);
  return found;
}

const Unseen = () => (
  <Page title="Overview">
    <div class="empty">
      The key you have signed in with lacks the scope <code>analytics.view</code>, with which requests are summed up. What it may do is on <a href="/console/my-key">its page</a>, and in the menu.
    </div>
  </Page>
);

export function Overview() {
  const [filters, setFilters] = useFilters();
  const range = filters.range ?? '24h';
  const seen = Math.floor(Date.now() / 60_000);
  const params = useMemo(() => query(rangeParams(filters.range, '24h')), [filters.range, seen]);
  const graph = (name: string): string | null => (may('analytics.view') ? `/v1/analytics/graphs/${name}${params}` : null);
  const requests = useGet(graph('requests'), EVERY);
  const errors = useGet(graph('errors'), EVERY);
  const latency = useGet(graph('latency'), EVERY);
  const cost = useGet(graph('cost'), EVERY);
  const tokens = useGet(graph('tokens'), EVERY);
  const month = useGet(may('analytics.view') ? `/v1/analytics/graphs/cost${query({ time_of_generation_min: startOf('month'), time_of_generation_max: new Date((seen + 1) * 60_000).toISOString(), granularity: 'day', timezone: Intl.DateTimeFormat().resolvedOptions().timeZone })}` : null);
  const models = useGet(may('analytics.view') ? `/v1/analytics/groups/model${params}&columns=cost,p95_latency,error_count&page_size=6` : null, EVERY);
  const streams = useGet(may('logs.list') ? `/v1/logs${params}&page_size=200` : null, EVERY);
  const targets = useGet(may('targets.read') ? '/v1/targets' : null, EVERY);
  const keys = useGet<{ data: Key[]; total: number }>(may('organisation_service_api_keys.list', 'workspace_service_api_keys.list', 'workspace_user_api_keys.list') ? '/v1/api-keys?page_size=1000' : null, 60);
  const ready = useGet('/readyz', EVERY);
  const nodes = useGet<{ data: Free[] }>(may('metrics.read') ? '/v1/nodes?page_size=1000' : null, EVERY);

  const [from, to] = rangeTimes(filters.range, '24h');
  const total: number | undefined = requests.data?.summary.total;
  const failed: number | undefined = errors.data?.summary.total;
  const share = total ? (100 * (failed ?? 0)) / total : 0;
  const points: Free[] = requests.data?.data_points ?? [];
  const times = useMemo(() => points.map((point) => new Date(point.timestamp).getTime() / 1000), [requests.data]);
  const traffic = useMemo(() => [{ name: 'Requests', values: points.map((point) => point.total as number), color: 'accent' as const, isFilled: true }, { name: 'Errors', values: points.map((_, at) => (errors.data?.data_points[at]?.total ?? null) as number | null), color: 'bad' as const }], [requests.data, errors.data]);
  const slow = useMemo(() => ['p50', 'p99'].map((name, at) => ({ name, values: points.map((_, point) => (points[point]?.total ? (latency.data?.data_points[point]?.[name] ?? null) : null) as number | null), color: at === 0 ? ('accent' as const) : ('warn' as const) })), [requests.data, latency.data]);
  const days: Free[] = month.data?.data_points ?? [];
  const first = streams.data?.data.filter((log: Free) => log.stream_mode).map((log: Free) => log.time_to_first_token).filter((value: unknown) => typeof value === 'number').sort((a: number, b: number) => a - b) ?? [];
  const unpriced = unpricedOf(cost.data?.summary);
  const open = (targets.data?.targets ?? []).filter((target: Free) => target.state === 'open' || target.state === 'half_open');
  const spentInMonth: number | undefined = month.data?.summary.total ?? undefined;

  /** What could not be looked at is not well for that. */
  const unread: [string, Error | null, string][] = [['the gateway', ready.error, 'node'], ['errors', errors.error, 'requests'], ['costs', cost.error ?? month.error, 'spend'], ['circuits', targets.error, 'providers'], ['keys', keys.error, 'keys'], ['streams', streams.error, 'requests']];
  const attention: Attention[] = [
    ...(ready.data ? ofNode(ready.data) : []),
    ...open.map((target: Free): Attention => ({ tone: 'bad', what: target.state === 'open' ? 'circuit open' : 'circuit half open', text: <><bdi>{target.slug ?? target.provider}</bdi> {target.model} at {target.index} of {target.config}</>, to: '/console/providers' })),
    ...(nodes.data?.data ?? []).filter((node) => node.status === 'silent' || node.behind > 0).map((node): Attention => ({ tone: 'warn', what: node.status === 'silent' ? 'silent' : 'behind', text: <><bdi>{node.name}</bdi>: heard from {ago(node.reported_at)}, {integer(node.behind)} changes behind</>, to: '/console/nodes' })),
    ...(total && total >= 20 && share > 5 ? [{ tone: 'bad' as Tone, what: 'errors', text: `${percent(share)} of the requests failed. The list has those with a status of an error.`, to: `/console/requests?range=${range}&status=errors` }] : []),
    ...(unpriced ? [{ tone: 'warn' as Tone, what: 'no price', text: `${integer(unpriced)} requests have no known price: no budget counts what they cost.`, to: `/console/spend?range=${range}` }] : []),
    ...ofKeys(keys.data?.data ?? []),
    ...unread.flatMap(([what, error, to]): Attention[] => (error ? [{ tone: 'warn', what: 'not loaded', text: `${what}: ${error.message}`, to: `/console/${to}` }] : [])),
  ];

  if (!may('analytics.view')) return <Unseen />;
  /** What was looked at, which depends on the scopes. */
  const isPart = keys.data && keys.data.total > keys.data.data.length;
  const looked = [...(ready.data ? ['the gateway is well'] : []), ...(errors.data && requests.data ? ['few errors'] : []), ...(unpriced === 0 ? ['every request has a price'] : []), ...(targets.data ? ['no circuit is open'] : []), ...(keys.data ? [`no key ${isPart ? `of the first ${integer(keys.data.data.length)} of ${integer(keys.data.total)} ` : ''}is near a limit or its end`] : [])];
  const isLoading = [requests, errors, cost, targets, keys, ready].some((loaded) => loaded.isLoading && !loaded.data && !loaded.error);

  return (
    <Page title="Overview" lead={self.value?.workspace_id ? 'What this key may see: the requests of its workspace.' : 'All workspaces.'} actions={<Range value={range} onChange={(range) => setFilters({ range })} />}>
      <Problem error={requests.error ?? latency.error ?? tokens.error} retry={requests.reload} />
      <div class="stats">
        <Stat name="Requests" value={integer(total)} note={total === undefined ? '' : `${short(total / Math.max(1, (to - from) / 60_000))} a minute`} />
        <Stat name="Errors" value={percent(total ? share : undefined)} note={<a href={`/console/requests?range=${range}&status=errors`}>{integer(failed)} failed</a>} tone={share > 5 ? 'bad' : undefined} />
        <Stat name="Latency, p50" value={milliseconds(total ? latency.data?.summary.p50 : undefined)} note={`p90 ${milliseconds(total ? latency.data?.summary.p90 : undefined)}, p99 ${milliseconds(total ? latency.data?.summary.p99 : undefined)}`} />
        <Stat name="Time to first token" value={milliseconds(first[Math.floor(first.length / 2)])} note={first.length ? `median of the last ${first.length} streams` : streams.data ? 'no streams in the last 200 requests' : ''} />
        <Stat name="Spend today" value={cents(days.at(-1)?.total)} note={`${cents(cost.data?.summary.total)} in this time`} />
        <Stat name="Spend this month" value={cents(spentInMonth)} note={spentInMonth === undefined ? '' : `${cents(projected(spentInMonth))} by its end at this rate`} />
        <Stat name="Tokens" value={short(tokens.data?.summary.total)} note={ready.data ? `${integer(ready.data.requests_in_flight)} requests in flight` : ''} />
      </div>
      <Section title="What needs attention">
        <div class="card">
          {attention.length === 0 ? (
            <p class="muted">{isLoading ? 'Loading …' : `Nothing: ${looked.join(', ')}.`}</p>
          ) : (
            <ul class="attention">
              {attention.map((item, index) => (
                <li key={index}>
                  <Badge tone={item.tone}>{item.what}</Badge>
                  <a href={item.to}>{item.text}</a>
                </li>
              ))}
            </ul>
          )}
        </div>
      </Section>
      <div class="columns">
        <Section title="Requests and errors">
          <div class="card">
            <Chart label="Requests and errors in time" times={total === 0 ? [] : times} series={traffic} format={short} />
          </div>
        </Section>
        <Section title="Latency">
          <div class="card">
            <Chart label="Latency in time" times={total === 0 ? [] : times} series={slow} format={milliseconds} />
          </div>
        </Section>
      </div>
      <Section title="Models" actions={<a href={`/console/spend${query({ range, by: 'model' })}`}>All of them</a>}>
        <Problem error={models.error} retry={models.reload} />
        {models.data?.data.length === 0 ? (
          <div class="empty">
            No requests in this time. Send one in the <a href="/console/playground">playground</a>, or set up a <a href="/console/clients">client</a>.
          </div>
        ) : (
          <div class="stats">
            {models.data?.data.map((group: Free) => (
              <Stat key={group.model} name={group.model ?? 'no model'} value={<a href={`/console/requests${query({ range, model: group.model })}`}>{short(group.requests)}</a>} note={`p95 ${milliseconds(group.p95_latency)} · ${cents(group.cost)}${group.error_count ? ` · ${integer(group.error_count)} errors` : ''}`} />
            ))}
          </div>
        )}
      </Section>
    </Page>
  );
}
