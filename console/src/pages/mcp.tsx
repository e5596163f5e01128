// What an MCP server is by its own account, and whether it responds now.
import { useState } from 'preact/hooks';
import { type Free, call } from '../client.ts';
import { fullTime, milliseconds } from '../format.ts';
import { useBusy, useGet } from '../hooks.ts';
import { Badge, Facts, Loading, Problem, Section } from '../ui.tsx';

export function McpServer({ path }: { path: string }) {
  const found = useGet(`${path}/metadata`, (data) => (data?.sync_status === 'pending' ? 3 : 0));
  const [result, setResult] = useState<Free | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const [isBusy, run] = useBusy();
  const test = (): Promise<void> => call('POST', `${path}/test`, {}).then(setResult, setError);
  const { data } = found;
  const names = (title: string, all: string[] | undefined) => all && all.length > 0 && <Facts pairs={[[`${title} (${all.length})`, all.join(', ')]]} />;
  return (
    <Section title="What it says of itself" actions={<button type="button" disabled={isBusy} onClick={() => run(test)}>Test now</button>}>
      <Problem error={error ?? found.error} retry={found.reload} />
      {result && (
        <p role="status">
          <Badge tone={result.success ? 'good' : 'bad'}>{result.success ? 'responds' : 'does not respond'}</Badge> {result.status_code} after {milliseconds(result.response_time_ms)} {result.error}
        </p>
      )}
      {!data && !found.error && <Loading />}
      {data && (
        <div class="card">
          <Facts
            pairs={[
              ['State', <Badge tone={data.sync_status === 'synced' ? 'good' : data.sync_status === 'failed' ? 'bad' : 'quiet'}>{data.sync_status}</Badge>],
              ['Why', data.sync_error],
              ['Looked at', data.last_synced_at && fullTime(data.last_synced_at)],
              ['Server', data.server_name && `${data.title ?? data.server_name} ${data.server_version ?? ''}`],
              ['Protocol', data.protocol_version],
              ['About', data.description],
            ]}
          />
          {names('Tools', data.tools)}
          {names('Prompts', data.prompts)}
          {names('Resources', data.resources)}
        </div>
      )}
    </Section>
  );
}
