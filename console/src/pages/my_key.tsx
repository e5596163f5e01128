// The key that is signed in: what it may do, its limits, and what it has used.
import { type Free, self } from '../client.ts';
import { cents, fullTime, integer } from '../format.ts';
import { useGet } from '../hooks.ts';
import { query, rangeParams } from '../ranges.ts';
import { Usage } from '../usage.tsx';
import { Facts, Page, Problem, Section, Stat } from '../ui.tsx';
import { may } from '../client.ts';
import { useMemo } from 'preact/hooks';

export function MyKey() {
  const key = useGet('/v1/api-keys/self');
  const named = self.value?.id ?? self.value?.name;
  const params = useMemo(() => query({ ...rangeParams('30d', '30d'), api_key_ids: named }), [named]);
  const cost = useGet(may('analytics.view') ? `/v1/analytics/graphs/cost${params}` : null);
  const requests = useGet(may('analytics.view') ? `/v1/analytics/graphs/requests${params}` : null);
  const data: Free | null = key.data;
  const scopes: string[] = data?.scopes ?? [];
  const byResource = new Map<string, string[]>();
  for (const scope of scopes) {
    const dot = scope.lastIndexOf('.');
    byResource.set(scope.slice(0, dot), [...(byResource.get(scope.slice(0, dot)) ?? []), scope.slice(dot + 1)]);
  }
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
                ['Workspace', data.workspace_id ?? 'all of the organisation'],
                ['Expires', data.expires_at ? fullTime(data.expires_at) : 'never'],
                ['Models', data.allowed_models ? data.allowed_models.join(', ') : 'all'],
                ['Where it is from', data.origin === 'settings' ? 'the settings file' : 'the store'],
              ]}
            />
          </div>
          <Section title="Limits">
            <Usage usage={data.usage} />
          </Section>
          <Section title={`Scopes (${integer(scopes.length)})`}>
            <div class="card">
              <Facts pairs={[...byResource].map(([resource, actions]) => [resource, actions.join(', ')])} />
            </div>
          </Section>
        </>
      )}
    </Page>
  );
}
