// The key that is signed in: what it may do, its limits, the policies that count it, what it has used, and how a client uses it.
import { useMemo } from 'preact/hooks';
import { type Free, may, self } from '../client.ts';
import { cents, fullTime, integer } from '../format.ts';
import { rowsOf, useGet } from '../hooks.ts';
import { Workspace } from '../names.tsx';
import { query, rangeParams } from '../ranges.ts';
import { Usage } from '../usage.tsx';
import { Facts, Page, Problem, Section, Stat, Table } from '../ui.tsx';
import { Setup } from './clients.tsx';
import { COLUMNS } from './requests.tsx';

/** Scopes by what they are of. */
function byResource(scopes: string[]): [string, string][] {
  const found = new Map<string, string[]>();
  for (const scope of scopes) {
    const dot = scope.lastIndexOf('.');
    found.set(scope.slice(0, dot), [...(found.get(scope.slice(0, dot)) ?? []), scope.slice(dot + 1)]);
  }
  return [...found].map(([resource, actions]) => [resource, actions.join(', ')]);
}

export function MyKey() {
  const key = useGet('/v1/api-keys/self');
  const limits = useGet<{ data: Free[] }>('/v1/api-keys/self/limits');
  const named = self.value?.id ?? self.value?.name;
  const params = useMemo(() => rangeParams('30d', '30d'), []);
  const sums = (what: string): string | null => (may('analytics.view') ? `/v1/analytics/graphs/${what}${query({ ...params, api_key_ids: named })}` : null);
  const cost = useGet(sums('cost'));
  const requests = useGet(sums('requests'));
  const logs = useGet<{ data: Free[] }>(may('logs.list') ? `/v1/logs${query({ ...params, api_key_ids: named, page_size: 10 })}` : null);
  const data: Free | null = key.data;
  const scopes: string[] = data?.scopes ?? [];
  return (
    <Page title="My key" lead="What the key you have signed in with may do, here and by API." actions={may('logs.list') && <a class="button" href={`/console/requests${query({ key: named })}`}>Its requests</a>}>
      <Problem error={key.error} retry={key.reload} />
      {cost.data && (
        <div class="stats">
          <Stat name="Cost, last 30 days" value={cents(cost.data.summary.total)} />
          <Stat name="Requests, last 30 days" value={integer(requests.data?.summary.total)} />
        </div>
      )}
      {data && (
        <>
          <div class="card">
            <Facts
              pairs={[
                ['Name', data.name],
                ['Key', <code>{data.key}</code>],
                ['Kind', data.type],
                ['Workspace', <Workspace id={data.workspace_id} />],
                ['Expires', data.expires_at ? fullTime(data.expires_at) : 'never'],
                ['Models', data.allowed_models ? data.allowed_models.join(', ') : 'all'],
                ['Config of its requests', data.defaults?.config_id],
                ['Where it is from', data.origin === 'settings' ? 'the settings file' : 'the store'],
              ]}
            />
          </div>
          <Section title="Limits over it">
            <Problem error={limits.error} retry={limits.reload} />
            <Usage usage={limits.data?.data.map((one) => ({ ...one, ...one.used }))} />
          </Section>
          {may('logs.list') && (
            <Section title="Its last requests">
              <Problem error={logs.error} retry={logs.reload} />
              <Table label="Its last requests" rows={rowsOf(logs, 'data')} id={(log) => log.id} columns={COLUMNS} empty={<>None in 30 days. {may('completions.write') ? <>Send one in the <a href="/console/playground">playground</a>.</> : 'This key sends none: it lacks completions.write.'}</>} />
            </Section>
          )}
          {may('completions.write') && (
            <Section title="In a client">
              <Setup />
            </Section>
          )}
          <Section title={`Scopes (${integer(scopes.length)})`}>
            <div class="card">
              <Facts pairs={byResource(scopes)} />
            </div>
          </Section>
        </>
      )}
    </Page>
  );
}
