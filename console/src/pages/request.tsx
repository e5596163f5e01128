// One request: its attempts on a line of time, tokens and cost, headers, and the bodies where they were kept.
import { useState } from 'preact/hooks';
import { useRoute } from 'preact-iso';
import { type Free, may } from '../client.ts';
import { curl, dataBase } from '../curl.ts';
import { bytes, cents, integer, milliseconds } from '../format.ts';
import { useGet } from '../hooks.ts';
import { query } from '../ranges.ts';
import { handOver } from '../given.ts';
import { Badge, Code, Copy, Facts, Page, Problem, Section, Status, Table, Time } from '../ui.tsx';

export function RequestPage() {
  const { params } = useRoute();
  const log = useGet(`/v1/logs/${encodeURIComponent(params.id ?? '')}`);
  const data = log.data;
  const metrics: Free = data?.metrics ?? {};
  return (
    <Page
      title="Request"
      lead={data && <><code>{data.trace_id}</code> · <Time at={data.created_at} /></>}
      actions={data && <Actions log={data} />}
    >
      <Problem error={log.error} retry={log.reload} />
      {!data && !log.error && <p class="loading" role="status">Loading …</p>}
      {data && (
        <>
          <div class="card">
            <Facts
              pairs={[
                ['Status', <><Status code={metrics.response_status_code} /> {metrics.error_code && <Badge tone="bad">{metrics.error_code}</Badge>}</>],
                ['Operation', `${metrics.request_method} ${metrics.request_url}`],
                ['Requested model', metrics.requested_model],
                ['Model', metrics.ai_model],
                ['Model of the response', metrics.response_model],
                ['Provider', metrics.virtual_key ? `${metrics.virtual_key} (${metrics.ai_org})` : metrics.ai_org],
                ['Config', metrics.config && (may('configs.read') && !metrics.config.startsWith('inline-') ? <a href={`/console/configs/${encodeURIComponent(metrics.config)}${query({ workspace: metrics.workspace_slug })}`}>{metrics.config}</a> : metrics.config)],
                ['Target', metrics.last_used_option_index],
                ['Key', metrics.api_key_id ? <a href={`/console/requests${query({ key: metrics.api_key_id })}`}>{metrics.api_key_name ?? metrics.api_key_id}</a> : metrics.api_key_name],
                ['Workspace', metrics.workspace_slug],
                ['User', metrics.user],
                ['Prompt', metrics.prompt_slug],
                ['Latency', milliseconds(metrics.response_time)],
                ['Time to first token', metrics.time_to_first_token === null ? null : milliseconds(metrics.time_to_first_token)],
                ['Of it in the gateway', milliseconds(metrics.gateway_processing_time)],
                ['Streamed', metrics.stream_mode ? 'yes' : 'no'],
                ['Guardrails that failed', metrics.guardrails?.join(', ')],
                ['Cache', [metrics.cache_status?.toLowerCase().replaceAll('_', ' '), metrics.cache_type].filter(Boolean).join(', ')],
                ['Request, response', `${bytes(metrics.bytes_in)}, ${bytes(metrics.bytes_out)}`],
                ['Trace', <a href={`/console/requests${query({ trace: data.trace_id, range: '90d' })}`}>all requests of this trace</a>],
              ]}
            />
          </div>
          <Section title="Attempts">
            <Attempts attempts={data.attempts} whole={metrics} />
          </Section>
          <Section title="Tokens and cost">
            <Costs attempts={data.attempts} whole={metrics} />
          </Section>
          {metrics.metadata && (
            <Section title="Metadata">
              <div class="card">
                <Facts pairs={Object.entries(metrics.metadata).map(([name, value]) => [name, String(value)])} />
              </div>
            </Section>
          )}
          <Bodies log={data} />
        </>
      )}
    </Page>
  );
}

function Actions({ log }: { log: Free }) {
  const body = log.request.body ?? undefined;
  const headers: Record<string, string> = {};
  if (log.metrics.config && !log.metrics.config.startsWith('inline-')) headers['x-gateway-config'] = log.metrics.config;
  else if (log.metrics.virtual_key) headers['x-gateway-provider'] = `@${log.metrics.virtual_key}`;
  const text = curl(dataBase(), log.request.url, log.request.method, headers, body ?? (log.request.method === 'POST' ? {} : undefined));
  const described = { method: log.request.method, path: log.request.url, headers, ...(body === undefined ? { body: { model: log.metrics.requested_model ?? log.metrics.ai_model, messages: [{ role: 'user', content: 'Hello' }] } } : { body }) };
  const isChat = /\/chat\/completions$/.test(log.request.url) && typeof body === 'object';
  return (
    <>
      <Copy text={text} label="Copy as curl" />
      {isChat && may('completions.write') && (
        <a class="button" href="/console/playground?two=1" onClick={() => handOver('playground', { body, target: headers['x-gateway-config'] ?? headers['x-gateway-provider'] ?? '' })}>
          Send it again
        </a>
      )}
      {may('explain.read') && (
        <a class="button" href="/console/explain" onClick={() => handOver('explain', described)}>
          Explain
        </a>
      )}
    </>
  );
}

function Attempts({ attempts, whole }: { attempts: Free[]; whole: Free }) {
  if (attempts.length === 0) return <div class="empty">No provider was called: {/hit/i.test(whole.cache_status ?? '') ? 'the response came from the cache.' : whole.error_code ? `the gateway refused it (${whole.error_code}).` : 'the gateway responded itself.'}</div>;
  const begin = new Date(whole.created_at).getTime();
  const end = Math.max(whole.response_time, ...attempts.map((attempt) => new Date(attempt.created_at).getTime() - begin + attempt.response_time), 1);
  return (
    <ol class="attempts card">
      {attempts.map((attempt, index) => {
        const from = Math.max(0, new Date(attempt.created_at).getTime() - begin);
        const isGood = Boolean(attempt.is_success);
        return (
          <li class="attempt" key={attempt.id ?? index}>
            <span class="what">
              <strong>{attempt.virtual_key ?? attempt.ai_org}</strong> {attempt.ai_model}
              <br />
              <span class="muted">{attempt.last_used_option_index}</span>
            </span>
            <svg viewBox="0 0 1000 14" preserveAspectRatio="none" role="img" aria-label={`from ${milliseconds(from)}, for ${milliseconds(attempt.response_time)}`}>
              <rect class={isGood ? 'ok' : 'failed'} x={(1000 * from) / end} width={Math.max(4, (1000 * attempt.response_time) / end)} height="14" />
            </svg>
            <span>
              <Status code={attempt.response_status_code} /> {milliseconds(attempt.response_time)} {attempt.error_code && <Badge tone="bad">{attempt.error_code}</Badge>} {attempt.responded ? <Badge tone="good">responded</Badge> : null}
            </span>
          </li>
        );
      })}
    </ol>
  );
}

function Costs({ attempts, whole }: { attempts: Free[]; whole: Free }) {
  const rows = [...attempts.map((attempt, index) => ({ name: `Attempt ${index + 1}: ${attempt.ai_model ?? attempt.ai_org}`, ...attempt })), { name: 'Request', ...whole }] as Free[];
  const number = (name: string, of: string) => ({ name, isNumber: true, cell: (row: Free) => integer(row[of]) });
  return (
    <Table
      label="Tokens and cost"
      rows={rows}
      id={(row) => row.name}
      empty=""
      columns={[
        { name: '', isLong: true, cell: (row) => row.name },
        number('Input', 'req_units'),
        number('of it cached', 'cached_units'),
        number('written to the cache', 'cache_write_units'),
        number('Output', 'res_units'),
        number('of it reasoning', 'reasoning_units'),
        { name: 'Counted by', cell: (row) => row.usage_source ?? '–' },
        { name: 'Cost', isNumber: true, cell: (row) => cents(row.cost) },
        { name: 'Price', cell: (row) => <>{row.cost_status ?? '–'}{row.price_version ? ` (${row.price_version})` : ''}</> },
      ]}
    />
  );
}

/** Hidden until somebody asks: they may have what people wrote. */
function Bodies({ log }: { log: Free }) {
  const [isShown, setShown] = useState(false);
  const all: [string, unknown][] = [
    ['Request', log.request.body],
    ['Request as it was sent to the provider', log.transformedRequest],
    ['Response of the provider', log.originalResponse],
    ['Response', log.response.body],
  ];
  const kept = all.filter(([, body]) => body !== null && body !== undefined);
  return (
    <Section title="Bodies" actions={kept.length > 0 && <button type="button" aria-expanded={isShown} onClick={() => setShown(!isShown)}>{isShown ? 'Hide' : 'Show'}</button>}>
      {kept.length === 0 && (
        <div class="empty">
          No body was kept. <code>logs.payloads</code> in the settings, or <code>log_payloads</code> of a key, says whose are.
        </div>
      )}
      {isShown && kept.map(([name, body]) => (
        <div key={name}>
          <h3>{name}</h3>
          <Code label={name} text={typeof body === 'string' ? body : JSON.stringify(body, null, 2)} />
        </div>
      ))}
      {!isShown && kept.length > 0 && <p class="muted">{kept.map(([name]) => name).join(', ')}: hidden until you show them.</p>}
    </Section>
  );
}
