// The gateway that this console is served by: whether it is ready, its stores and counters, and what waits for a restart.
import { useEffect, useState } from 'preact/hooks';
import { type ApiError, type Free, may, text } from '../client.ts';
import { ago, bytes, integer } from '../format.ts';
import { useFilters, useGet } from '../hooks.ts';
import { Badge, Facts, Page, Problem, Section, Table, TextField } from '../ui.tsx';

/** The value of a metric without labels, or the labels of one that has only them. */
export function metric(page: string, name: string): string | null {
  const line = page.split('\n').find((line) => line.startsWith(`${name} `) || line.startsWith(`${name}{`));
  return line ? line.slice(line.lastIndexOf(' ') + 1) : null;
}


const Up = ({ is }: { is: boolean | undefined }) => <Badge tone={is ? 'good' : 'bad'}>{is ? 'responds' : 'does not respond'}</Badge>;

export function Node() {
  const ready = useGet('/readyz?verbose', 5);
  const health = useGet('/v1/health');
  const [metrics, setMetrics] = useState('');
  const [refused, setRefused] = useState<Error | null>(null);
  useEffect(() => void text('/metrics').then(setMetrics, setRefused), []);
  const data = ready.data;
  const memory = Number(metric(metrics, 'process_resident_memory_bytes'));
  const started = Number(metric(metrics, 'process_start_time_seconds'));
  const waiting: string[] = data?.waiting_for_restart ?? [];
  return (
    <Page title="This node, settings" lead="The gateway that serves this page, as it says itself. Settings are changed in their file; SIGHUP reads it again.">
      <Problem error={ready.error} retry={ready.reload} />
      {refused && <p class="note">The settings in force, the start and the memory are read from <code>/metrics</code>, which this key was refused: {refused.message}</p>}
      {data && (
        <>
          <div class="card">
            <Facts
              pairs={[
                ['Status', <Badge tone={data.status === 'ready' ? 'good' : 'bad'}>{data.status}</Badge>],
                ['Version', health.data?.version],
                ['Revision of the store', data.config && `${integer(data.config.revision)}, ${ago(data.config.since)}`],
                ['Configuration is from', data.config?.source?.replaceAll('_', ' ')],
                ['Name and role', data.node && `${data.node.name}, ${data.node.role}`],
                ['Started', started ? ago(new Date(started * 1000).toISOString()) : null],
                ['Memory', memory ? bytes(memory) : null],
                ['Requests in flight', integer(data.requests_in_flight)],
              ]}
            />
          </div>
          <div class="columns">
            <Section title="Store">
              <div class="card">{data.store ? <Facts pairs={[['Kind', data.store.backend], ['State', <Up is={data.store.available} />], ['Since', ago(data.store.since)], ['Read from disk', data.store.from_disk ? 'yes: the database was away at the start' : 'no']]} /> : <p>None: nothing can be changed by API. The log of the process says why.</p>}</div>
            </Section>
            <Section title="Log store">
              <div class="card">{data.ledger ? <Facts pairs={[['Kind', data.ledger.backend], ['State', <Up is={data.ledger.available} />], ['Since', ago(data.ledger.since)], ['In the spool', bytes(data.ledger.spool_bytes)], ['Rows dropped', integer(data.ledger.rows_dropped)]]} /> : <p>None: logs.enabled is false.</p>}</div>
            </Section>
            <Section title="Counters of limits">
              <div class="card">
                <Facts pairs={[['Kept in', data.limits.counters], ['State', <Up is={data.limits.available} />], ['Gateways that share them', integer(data.limits.gateways)], ['When memory is full', data.limits.when_memory_is_full]]} />
              </div>
            </Section>
            <Section title="Waiting for a restart">
              <div class="card">{waiting.length === 0 ? <p class="muted">Nothing: the settings in force are those of the file as it was read last.</p> : <ul>{waiting.map((key) => <li key={key}><code>{key}</code></li>)}</ul>}</div>
            </Section>
          </div>
        </>
      )}
      {may('targets.read') && <Settings />}
    </Page>
  );
}

/** What is in force, from which line. */
function Settings() {
  const settings = useGet<Free>('/v1/settings');
  const [filters, setFilters] = useFilters();
  const part = filters.path ?? '';
  // A key of one workspace sees none.
  if ((settings.error as ApiError | null)?.status === 403) return null;
  return (
    <Section title="Settings in force">
      <Problem error={settings.error} retry={settings.reload} />
      {settings.data && <p class="note">{settings.data.file ?? 'No file'}, {settings.data.hash}</p>}
      <div class="filters" role="search">
        <TextField label="Path has" value={part} onInput={(path) => setFilters({ path }, true)} placeholder="limits." spellcheck={false} />
      </div>
      <Table
        label="Settings in force"
        rows={settings.data && (settings.data.data as Free[]).filter((one) => one.path.includes(part))}
        id={(one) => one.path}
        empty="No setting has this in its path."
        columns={[
          { name: 'Path', isLong: true, cell: (one) => <code>{one.path}</code> },
          { name: 'Value', isLong: true, cell: (one) => <>{JSON.stringify(one.value)} {'waiting' in one && <Badge tone="warn">after a restart: {one.waiting === null ? 'the default' : JSON.stringify(one.waiting)}</Badge>}</> },
          { name: 'From', cell: (one) => (one.line ? `line ${integer(one.line)}` : <span class="muted">default</span>) },
        ]}
      />
    </Section>
  );
}
