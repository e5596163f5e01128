// Who changed what, and which changes were refused.
import { type Free, may } from '../client.ts';
import { rowsOf, useFilters, useGet } from '../hooks.ts';
import { query, rangeTimes } from '../ranges.ts';
import { Choice, Code, Dialog, Page, Pager, Problem, Range, Status, Table, TextField, Time } from '../ui.tsx';

const SIZE = 50;
const RESOURCES = ['api-keys', 'configs', 'guardrails', 'providers', 'virtual-keys', 'integrations', 'prompts', 'workspaces', 'invites', 'usage-limits-policies', 'rate-limits-policies', 'mcp-servers', 'batches', 'console-sessions'];

export function Audit() {
  const [filters, setFilters] = useFilters();
  const page = Number(filters.page ?? 0) || 0;
  const minute = Math.floor(Date.now() / 60_000);
  const [from] = rangeTimes(filters.range, '30d', minute * 60_000);
  const set = (name: string) => (value: string): void => setFilters({ [name]: value, page: '' }, name !== 'range');
  const log = useGet<{ records: Free[]; total: number }>(`/v1/audit-logs${query({ start_time: new Date(from).toISOString(), resource_type: filters.resource, action: filters.action, method: filters.method, response_status_code: filters.status, user_id: filters.user, client_ip: filters.address, current_page: page, page_size: SIZE })}`);
  const keys = useGet<{ data: Free[] }>(may('organisation_service_api_keys.list', 'workspace_service_api_keys.list', 'workspace_user_api_keys.list') ? '/v1/api-keys?page_size=1000' : null);
  const { data: shown, error } = useGet<Free>(filters.entry ? `/v1/audit-logs/${encodeURIComponent(filters.entry)}` : null);
  const named = (id: string): string => keys.data?.data.find((key) => key.id === id)?.name ?? id;
  return (
    <Page title="Audit log" lead="Changes, and those that were refused. Secrets are masked.">
      <div class="filters" role="search">
        <Range value={filters.range ?? '30d'} onChange={set('range')} />
        <TextField label="Resource" value={filters.resource ?? ''} onInput={set('resource')} list="resources" />
        <datalist id="resources">
          {RESOURCES.map((resource) => (
            <option key={resource} value={resource} />
          ))}
        </datalist>
        <TextField label="Action" value={filters.action ?? ''} onInput={set('action')} placeholder="update" />
        <Choice label="Method" value={filters.method ?? ''} options={[['', 'All'], ['POST', 'POST'], ['PUT', 'PUT'], ['DELETE', 'DELETE']]} onChange={set('method')} />
        <TextField label="Status" value={filters.status ?? ''} onInput={set('status')} placeholder="403" />
        <TextField label="By, id" value={filters.user ?? ''} onInput={set('user')} />
        <TextField label="From address" value={filters.address ?? ''} onInput={set('address')} />
      </div>
      <Problem error={log.error ?? error} retry={log.reload} />
      <Table
        label="Audit log"
        rows={rowsOf(log, 'records')}
        id={(entry, index) => entry.request_id ?? String(index)}
        empty="No change in this time matches."
        columns={[
          { name: 'Time', cell: (entry) => <button type="button" class="link" onClick={() => setFilters({ entry: entry.request_id })}><Time at={entry.timestamp} /></button> },
          { name: 'Resource', cell: (entry) => entry.resource_type },
          { name: 'Action', cell: (entry) => entry.action },
          { name: 'Status', cell: (entry) => <Status code={entry.response_status_code} /> },
          { name: 'By', isLong: true, cell: (entry) => (entry.user_id ? named(entry.user_id) : 'no good key') },
          { name: 'Path', isLong: true, cell: (entry) => `${entry.method} ${entry.uri}` },
          { name: 'From', cell: (entry) => entry.client_ip },
        ]}
      />
      {log.data && <Pager page={page} size={SIZE} total={log.data.total} onPage={(page) => setFilters({ page: page ? String(page) : '' })} />}
      {filters.entry && shown && (
        <Dialog title="Entry of the audit log" onClose={() => setFilters({ entry: '' }, true)}>
          <Code label="Entry" text={JSON.stringify(shown, null, 2)} />
        </Dialog>
      )}
    </Page>
  );
}
