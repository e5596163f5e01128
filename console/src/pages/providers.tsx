// Providers' accounts and the state of targets: credentials' masked form, errors, latencies, circuits.
import { useMemo, useState } from 'preact/hooks';
import { type Free, type Item, call, may, self } from '../client.ts';
import { cents, integer, milliseconds, percent } from '../format.ts';
import { notify, rowsOf, useBusy, useFilters, useGet } from '../hooks.ts';
import { query, rangeParams } from '../ranges.ts';
import { Ago, Badge, Confirm, Facts, Page, Problem, Range, Section, Table, TextField, type Tone } from '../ui.tsx';

type Provider = Item<'/v1/providers'>;
const STATES: Record<string, Tone> = { closed: 'good', open: 'bad', half_open: 'warn' };

const requestsOf = (provider: Free, range = '24h'): string => `/console/requests${query({ provider: provider.slug, workspace: self.value?.workspace_id ? '' : provider.workspace_id, range })}`;

/** What is to be known of one provider besides its fields; whether it responds is tried by a request. */
export function ProviderState({ data }: { data: Free }) {
  const account = useGet(data.origin === 'store' && may('virtual_keys.read') ? `/v1/virtual-keys/${data.id}` : null);
  const targets = useGet<{ targets: Free[] }>(may('targets.read') ? '/v1/targets' : null, 5);
  const own = (targets.data?.targets ?? []).filter((target) => target.slug === data.slug && target.state);
  return (
    <Section
      title="How it is now"
      actions={
        <>
          {may('completions.write') && <a class="button" href={`/console/playground${query({ target: `@${data.slug}` })}`}>Playground</a>}
          {may('logs.list') && <a class="button" href={requestsOf(data)}>Its requests</a>}
        </>
      }
    >
      <div class="card">
        <Facts
          pairs={[
            ['Status', <Badge tone={data.status === 'active' ? 'good' : 'bad'}>{data.status}</Badge>],
            ['Key', data.masked_key && <code>{data.masked_key}</code>],
            ['Changed', <Ago at={data.last_updated_at} />],
            ['Integration', data.integration_id],
            ['What else the account has', account.data && JSON.stringify(account.data.model_config)],
            ['Circuits', own.map((target) => `${target.config} ${target.index}: ${target.state.replace('_', ' ')}`).join(', ') || (targets.data ? 'none is kept' : '')],
          ]}
        />
      </div>
      {may('completions.write') && <Trial provider={data.id ?? data.slug} />}
    </Section>
  );
}

/** Sends a small chat now. Models are those that the vendor lists, where it does. */
function Trial({ provider }: { provider: string }) {
  const path = `/v1/providers/${encodeURIComponent(provider)}`;
  // A request to the vendor: only when somebody wants it.
  const [isListed, setListed] = useState(false);
  const models = useGet<Free>(isListed ? `${path}/models` : null);
  const names: Free[] = models.data?.data ?? [];
  const [model, setModel] = useState('');
  const [tested, setTested] = useState<Free | null>(null);
  const [isBusy, run] = useBusy();
  const test = (event: Event): void => {
    event.preventDefault();
    void run(async () => setTested(await call('POST', `${path}/test`, model ? { model } : {}).catch((error) => ({ message: error.message }))));
  };
  return (
    <form class="card" onSubmit={test}>
      <div class="row">
        <TextField label={models.data?.is_success ? `Model, of ${integer(names.length)}` : 'Model'} value={model} onInput={setModel} list="models" spellcheck={false} />
        <datalist id="models">{names.map((one) => <option key={one.id} value={one.id} />)}</datalist>
        <button type="button" disabled={models.isLoading} onClick={() => (isListed ? models.reload() : setListed(true))}>
          List models
        </button>
        <button type="submit" disabled={isBusy}>
          Test now
        </button>
      </div>
      <Problem error={models.error} />
      {models.data && !models.data.is_success && <p class="note" role="status">No list of models: {models.data.status} {models.data.message}</p>}
      <p class="help" role="status">
        {!tested ? 'Sends a small chat with your key, which costs what it costs.' : tested.is_success ? <><Badge tone="good">responds</Badge> in {milliseconds(tested.latency_ms)}</> : <><Badge tone="bad">{tested.status ?? 'refused'}</Badge> {tested.message}</>}
        {tested?.trace_id && may('logs.view') && <> <a href={`/console/requests/${tested.trace_id}`}>The request</a></>}
      </p>
    </form>
  );
}

export function Providers() {
  const [filters, setFilters] = useFilters();
  const range = filters.range ?? '24h';
  const minute = Math.floor(Date.now() / 60_000);
  const params = useMemo(() => query(rangeParams(filters.range, '24h')), [filters.range, minute]);
  const providers = useGet<{ data: Provider[] }>(may('providers.list') ? `/v1/providers${query({ page_size: 1000 })}` : null);
  const sums = useGet(may('analytics.view') ? `/v1/analytics/groups/provider${params}&columns=cost,p95_latency,error_count,success_rate&page_size=1000` : null, 30);
  const targets = useGet<{ targets: Free[] }>(may('targets.read') ? '/v1/targets' : null, 5);
  const sum = (slug: string): Free | undefined => sums.data?.data.find((group: Free) => group.provider === slug);
  const [closing, setClosing] = useState<{ what: string; body: Free } | null>(null);
  const reset = async (body: Free): Promise<void> => {
    const { reset } = await call('POST', '/v1/targets/reset', body);
    notify(reset === 1 ? 'One circuit is closed again.' : `${integer(reset)} circuits are closed again.`);
    targets.reload();
  };
  return (
    <Page
      title="Providers and targets"
      lead="A provider is an account at a vendor, named @slug. A target is a provider in a config; its circuit opens when it fails too often."
      actions={
        <>
          <Range value={range} onChange={(range) => setFilters({ range })} />
          {may('providers.create') && <a class="button primary" href="/console/providers/new">New provider</a>}
        </>
      }
    >
      <Problem error={providers.error ?? targets.error} retry={providers.reload} />
      {may('providers.list') && (
        <Section title="Providers">
          <Table
            label="Providers"
            rows={rowsOf(providers, 'data')}
            id={(provider) => provider.id ?? provider.slug}
            empty="No provider yet. Make one with its key, or write it into the settings file."
            columns={[
              { name: 'Slug', isLong: true, cell: (provider) => <a href={`/console/providers/${provider.id ?? encodeURIComponent(provider.slug)}`}>@{provider.slug}</a> },
              { name: 'Name', isLong: true, cell: (provider) => provider.name },
              { name: 'Vendor', cell: (provider) => provider.provider },
              { name: 'Key', cell: (provider) => (provider.masked_key ? <code>{provider.masked_key}</code> : provider.origin === 'settings' ? <span class="muted">in the settings file</span> : '–') },
              { name: 'Status', cell: (provider) => <Badge tone={provider.status === 'active' ? 'good' : 'bad'}>{provider.status}</Badge> },
              { name: 'Requests', isNumber: true, cell: (provider) => <a href={requestsOf(provider, range)}>{integer(sum(provider.slug)?.requests ?? 0)}</a> },
              { name: 'Errors', isNumber: true, cell: (provider) => { const group = sum(provider.slug); return group ? percent((100 * group.error_count) / group.requests) : '–'; } },
              { name: 'Latency, p95', isNumber: true, cell: (provider) => milliseconds(sum(provider.slug)?.p95_latency) },
              { name: 'Cost', isNumber: true, cell: (provider) => cents(sum(provider.slug)?.cost) },
              { name: 'Models', isLong: true, cell: (provider) => provider.allowed_models?.join(', ') ?? 'all' },
            ]}
          />
        </Section>
      )}
      {may('targets.read') && (
        <Section title="Targets of this gateway" actions={may('targets.update') && (targets.data?.targets ?? []).some((target) => target.state !== 'closed' && target.state) && <button type="button" onClick={() => setClosing({ what: 'all circuits', body: {} })}>Close all circuits</button>}>
          <Table
            label="Targets"
            rows={rowsOf(targets, 'targets')}
            id={(target, index) => `${target.config} ${target.index} ${index}`}
            empty="No target was tried that has a cb_config or is balanced by latency."
            columns={[
              { name: 'Provider', isLong: true, cell: (target) => target.slug ?? target.provider },
              { name: 'Model', isLong: true, cell: (target) => target.model ?? 'as requested' },
              { name: 'Config', isLong: true, cell: (target) => target.config },
              { name: 'Target', cell: (target) => <code>{target.index}</code> },
              { name: 'Circuit', cell: (target) => (target.state ? <Badge tone={STATES[target.state] ?? 'quiet'}>{target.state.replace('_', ' ')}</Badge> : '–') },
              { name: 'Failures', isNumber: true, cell: (target) => integer(target.failures) },
              { name: 'Opened', cell: (target) => <Ago at={target.since} /> },
              { name: 'Next try', isNumber: true, cell: (target) => (target.next_try_seconds === null ? '–' : `in ${integer(Math.ceil(target.next_try_seconds))} s`) },
              { name: 'In flight', isNumber: true, cell: (target) => integer(target.in_flight) },
              { name: 'First token', isNumber: true, cell: (target) => milliseconds(target.latency_ms) },
              { name: 'Change', cell: (target) => (may('targets.update') && target.state && target.state !== 'closed' ? <button type="button" class="link" onClick={() => setClosing({ what: `the circuit of ${target.index} of ${target.config}`, body: { config: target.config, index: target.index } })}>Close</button> : '') },
            ]}
          />
        </Section>
      )}
      {closing && (
        <Confirm title="Close circuits?" action="Close" onConfirm={() => reset(closing.body)} onClose={() => setClosing(null)}>
          <p>
            Closes <bdi>{closing.what}</bdi>: requests are sent there again, whether the target has recovered or not.
          </p>
        </Confirm>
      )}
    </Page>
  );
}

