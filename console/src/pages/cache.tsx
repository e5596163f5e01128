// What the cache holds and has done, and taking entries out of it.
import { useMemo, useState } from 'preact/hooks';
import { ApiError, call, may } from '../client.ts';
import { bytes, cents, integer, milliseconds, percent } from '../format.ts';
import { notify, useFilters, useGet } from '../hooks.ts';
import { query, rangeParams } from '../ranges.ts';
import { Choice, Confirm, Page, Problem, Range, Section, Stat, TextField } from '../ui.tsx';

const WHAT: [string, string][] = [['namespace', 'A namespace'], ['workspace_id', 'A workspace'], ['key', 'One entry, by its key'], ['all', 'Everything']];

export function Cache() {
  const [filters, setFilters] = useFilters();
  const range = filters.range ?? '24h';
  const held = useGet('/v1/cache', 10);
  const params = useMemo(() => query(rangeParams(filters.range, '24h')), [filters.range]);
  const done = useGet(may('analytics.view') ? `/v1/analytics/summary/cache${params}` : null, 30);
  const [what, setWhat] = useState('namespace');
  const [value, setValue] = useState('');
  const [isAsking, setAsking] = useState(false);
  const summary = done.data?.summary;
  const purge = async (): Promise<void> => {
    const { purged } = await call('POST', '/v1/cache/purge', what === 'all' ? { all: true } : { [what]: value });
    notify(`${integer(purged)} entries were removed.`);
    held.reload();
  };
  const isOfWorkspace = held.error instanceof ApiError && held.error.status === 403;
  return (
    <Page title="Cache" lead="Responses that are kept for equal requests and for similar ones." actions={<Range value={range} onChange={(range) => setFilters({ range })} />}>
      {!isOfWorkspace && <Problem error={held.error ?? done.error} retry={held.reload} />}
      <div class="stats">
        {held.data && <Stat name="Entries here" value={integer(held.data.entries)} note={bytes(held.data.bytes)} />}
        {held.data && <Stat name="Texts found by meaning" value={integer(held.data.vectors)} note={bytes(held.data.vector_bytes)} />}
        {summary && <Stat name="Hits" value={integer(summary.hits)} note={summary.total_requests ? `${percent((100 * summary.hits) / summary.total_requests)} of ${integer(summary.total_requests)} requests` : ''} />}
        {summary && <Stat name="Saved" value={cents(summary.saved_cost)} />}
        {summary && <Stat name="Latency of hits" value={milliseconds(summary.hits ? summary.avg_latency : null)} note={summary.cache_speedup ? `other requests take ${integer(Math.round(summary.cache_speedup))} times as long` : ''} />}
      </div>
      {isOfWorkspace && <p class="note">What the cache holds is of all workspaces: only keys of the organisation see it.</p>}
      {may('configs.update') && (
        <Section title="Remove entries">
          <form class="form card" onSubmit={(event) => { event.preventDefault(); setAsking(true); }}>
            <div class="row">
              <Choice label="What" value={what} options={WHAT} onChange={setWhat} />
              {what !== 'all' && <TextField label={what === 'key' ? 'cache.key of an access line' : what === 'namespace' ? 'Namespace' : 'Id or slug'} value={value} onInput={setValue} required />}
            </div>
            <div class="actions">
              <button type="submit" class="danger">
                Remove
              </button>
            </div>
          </form>
        </Section>
      )}
      {isAsking && (
        <Confirm title="Remove cached responses?" action="Remove" onConfirm={purge} onClose={() => setAsking(false)}>
          <p>{what === 'all' ? 'All responses that are kept are removed, in all workspaces.' : <bdi>{value}</bdi>} Requests are sent to providers again.</p>
        </Confirm>
      )}
    </Page>
  );
}
