// What requests cost, by any property: a chart, a table, and the table as CSV.
import { useMemo } from 'preact/hooks';
import { Chart } from '../chart.tsx';
import { type Free } from '../client.ts';
import { cents, csv, integer, percent, short } from '../format.ts';
import { useFilters, useGet } from '../hooks.ts';
import { priceNote, unpricedOf } from '../judged.ts';
import { query, rangeParams } from '../ranges.ts';
import { Badge, Choice, type Column, Page, Problem, Range, Section, Stat, Table, TextField } from '../ui.tsx';

const SIZE = 1000;
const BY: [string, string][] = [['model', 'Model'], ['requested_model', 'Requested model'], ['ai_service', 'Vendor'], ['provider', 'Provider'], ['api_key', 'Key'], ['workspace', 'Workspace'], ['config', 'Config'], ['prompt', 'Prompt'], ['status_code', 'Status'], ['users', 'User'], ['metadata', 'Metadata']];
const COLUMNS = 'cost,total_tokens,avg_tokens,error_count,success_rate,cache_hit_rate';
/** The filter of the requests page for a group. */
const FILTERS: Record<string, string> = { model: 'model', provider: 'provider', api_key: 'key', workspace: 'workspace', config: 'config', status_code: 'status' };

export function Spend() {
  const [filters, setFilters] = useFilters();
  const by = filters.by ?? 'model';
  const range = filters.range ?? '30d';
  const params = useMemo(() => query({ ...rangeParams(filters.range, '30d'), workspace_slug: filters.workspace }), [filters.range, filters.workspace]);
  const isOwn = by === 'users' || by === 'metadata';
  const name = by === 'metadata' ? `metadata/${encodeURIComponent(filters.name ?? '')}` : by;
  const isReady = by !== 'metadata' || Boolean(filters.name);
  const groups = useGet(isReady ? `/v1/analytics/groups/${name}${params}${isOwn ? '' : `&columns=${COLUMNS}&order_by=cost`}&page_size=${SIZE}` : null);
  const cost = useGet(`/v1/analytics/graphs/cost${params}&timezone=${encodeURIComponent(Intl.DateTimeFormat().resolvedOptions().timeZone)}`);
  const member = by === 'users' ? 'user' : by === 'metadata' ? 'metadata_value' : by;
  const rows: Free[] | null | undefined = groups.data?.data ?? (groups.error ? undefined : isReady ? null : []);
  const isPart = Boolean(rows && groups.data && groups.data.total > rows.length);
  const points: Free[] = cost.data?.data_points ?? [];
  const hasAny = rows && isReady ? rows.length > 0 : Boolean(cost.data?.summary.total);
  const times = useMemo(() => (hasAny ? points.map((point) => new Date(point.timestamp).getTime() / 1000) : []), [cost.data, hasAny]);
  const series = useMemo(() => [{ name: 'Cost', values: points.map((point) => (point.total ?? null) as number | null), color: 'accent' as const, isFilled: true }], [cost.data]);
  const all = rows?.reduce((sum, row) => sum + (Number(row.cost) || 0), 0) ?? 0;
  const unpriced = unpricedOf(cost.data?.summary);
  const label = (row: Free): string => row.name ?? row[member] ?? 'none';
  const link = (row: Free) => {
    const filter = FILTERS[by];
    const value = row[member];
    return filter && value !== null ? <a href={`/console/requests${query({ range, workspace: filters.workspace, [filter]: value })}`}>{label(row)}</a> : label(row);
  };
  const columns: Column<Free>[] = [
    { name: BY.find(([value]) => value === by)?.[1] ?? by, isLong: true, cell: link, by: label },
    { name: 'Cost', isNumber: true, cell: (row) => <>{cents(row.cost === undefined || row.cost === null ? null : Number(row.cost))} {row.unpriced_requests > 0 && <Badge tone="warn">{integer(row.unpriced_requests)} without a price</Badge>}</>, by: (row) => Number(row.cost) || 0 },
    { name: 'Share', isNumber: true, cell: (row) => percent(all ? (100 * (Number(row.cost) || 0)) / all : null), by: (row) => Number(row.cost) || 0 },
    { name: 'Requests', isNumber: true, cell: (row) => integer(Number(row.requests)), by: (row) => Number(row.requests) },
    ...(isOwn
      ? []
      : ([
          { name: 'Tokens', isNumber: true, cell: (row) => short(row.total_tokens), by: (row) => row.total_tokens ?? 0 },
          { name: 'Tokens a request', isNumber: true, cell: (row) => short(row.avg_tokens), by: (row) => row.avg_tokens ?? 0 },
          { name: 'Errors', isNumber: true, cell: (row) => integer(row.error_count), by: (row) => row.error_count ?? 0 },
          { name: 'From the cache', isNumber: true, cell: (row) => percent(row.cache_hit_rate), by: (row) => row.cache_hit_rate ?? 0 },
        ] as Column<Free>[])),
  ];
  const save = (): void => {
    const head = [by, 'name', 'cost_usd', 'requests', 'unpriced_requests', 'total_tokens', 'error_count'];
    const lines = (rows ?? []).map((row) => [row[member], row.name, row.cost === null || row.cost === undefined ? null : Number(row.cost) / 100, Number(row.requests), row.unpriced_requests ?? 0, row.total_tokens, row.error_count]);
    const link = document.createElement('a');
    link.href = URL.createObjectURL(new Blob([csv([head, ...lines])], { type: 'text/csv' }));
    link.download = `spend-by-${by}.csv`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };
  return (
    <Page
      title="Spend"
      lead="What requests cost at their providers, retries and fallbacks included. Amounts are US dollars."
      actions={
        <>
          <Choice label="By" value={by} options={BY} onChange={(by) => setFilters({ by, order: '' })} />
          {by === 'metadata' && <TextField label="Name of the metadata" value={filters.name ?? ''} onInput={(name) => setFilters({ name }, true)} placeholder="team" />}
          <Range value={range} onChange={(range) => setFilters({ range })} />
          <button type="button" onClick={save} disabled={!rows?.length}>
            {isPart ? `Save the first ${integer(rows?.length)} as CSV` : 'Save as CSV'}
          </button>
        </>
      }
    >
      <Problem error={groups.error ?? cost.error} retry={groups.reload} />
      <div class="stats">
        <Stat name="Cost" value={cents(cost.data?.summary.total)} />
        <Stat name="Average of a request" value={cents(cost.data?.summary.avg)} />
        <Stat name="Requests without a price" value={integer(unpriced)} tone={unpriced ? 'warn' : undefined} note={priceNote(unpriced)} />
      </div>
      <div class="card">
        {cost.data && <Chart label="Cost in time" times={times} series={series} format={cents} />}
        {!cost.data && !cost.error && <p class="loading" role="status">Loading …</p>}
      </div>
      <Section title={`By ${BY.find(([value]) => value === by)?.[1]?.toLowerCase() ?? by}`}>
        <Table label="Spend" columns={columns} rows={rows} id={(row) => String(row[member])} order={filters.order ?? 'Cost:desc'} onOrder={(order) => setFilters({ order }, true)} empty={isReady ? 'Nothing was requested in this time.' : 'Write the name of the metadata to group by, such as team.'} />
        {isPart && <p class="muted">The first {integer(rows?.length)} of {integer(groups.data?.total)} are shown, and saved as CSV.</p>}
      </Section>
    </Page>
  );
}
