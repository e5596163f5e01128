// Providers' accounts and the state of targets: credentials' masked form, errors, latencies, circuits.
import { useMemo, useState } from 'preact/hooks';
import { type Free, type Item, call, may, self } from '../client.ts';
import { cents, integer, milliseconds, percent } from '../format.ts';
import { notify, rowsOf, useBusy, useFilters, useGet } from '../hooks.ts';
import { query, rangeParams } from '../ranges.ts';
import { Ago, Area, Badge, Confirm, Dialog, Page, Problem, Range, Section, Table, TextField, type Tone } from '../ui.tsx';

type Provider = Item<'/v1/providers'>;
const STATES: Record<string, Tone> = { closed: 'good', open: 'bad', half_open: 'warn' };

export function Providers() {
  const [filters, setFilters] = useFilters();
  const range = filters.range ?? '24h';
  const [isAdding, setAdding] = useState(false);
  const [removing, setRemoving] = useState<Provider | null>(null);
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
  const remove = async (): Promise<void> => {
    await call('DELETE', `/v1/providers/${encodeURIComponent(removing?.id ?? '')}`);
    notify('Taken out of use.');
    providers.reload();
  };
  return (
    <Page
      title="Providers and targets"
      lead="A provider is an account at a vendor, named @slug. A target is a provider in a config; its circuit opens when it fails too often."
      actions={
        <>
          <Range value={range} onChange={(range) => setFilters({ range })} />
          {may('virtual_keys.create') && <button type="button" class="primary" onClick={() => setAdding(true)}>Add a provider</button>}
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
            empty="No provider yet. Add one with its key, or write it into the settings file."
            columns={[
              { name: 'Slug', isLong: true, cell: (provider) => <a href={`/console/requests${query({ provider: provider.slug, workspace: self.value?.workspace_id ? '' : provider.workspace_id, range })}`}>@{provider.slug}</a> },
              { name: 'Name', isLong: true, cell: (provider) => provider.name },
              { name: 'Vendor', cell: (provider) => provider.provider },
              { name: 'Key', cell: (provider) => (provider.masked_key ? <code>{provider.masked_key}</code> : provider.origin === 'settings' ? <span class="muted">in the settings file</span> : '–') },
              { name: 'Status', cell: (provider) => <Badge tone={provider.status === 'active' ? 'good' : 'bad'}>{provider.status}</Badge> },
              { name: 'Requests', isNumber: true, cell: (provider) => integer(sum(provider.slug)?.requests ?? 0) },
              { name: 'Errors', isNumber: true, cell: (provider) => { const group = sum(provider.slug); return group ? percent((100 * group.error_count) / group.requests) : '–'; } },
              { name: 'Latency, p95', isNumber: true, cell: (provider) => milliseconds(sum(provider.slug)?.p95_latency) },
              { name: 'Cost', isNumber: true, cell: (provider) => cents(sum(provider.slug)?.cost) },
              { name: 'Models', isLong: true, cell: (provider) => provider.allowed_models?.join(', ') ?? 'all' },
              { name: 'Change', cell: (provider) => (provider.origin === 'store' && may('providers.delete') ? <button type="button" class="link" onClick={() => setRemoving(provider)}>Take out of use</button> : '') },
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
      {isAdding && <Add onClose={() => { setAdding(false); providers.reload(); }} />}
      {closing && (
        <Confirm title="Close circuits?" action="Close" onConfirm={() => reset(closing.body)} onClose={() => setClosing(null)}>
          <p>
            Closes <bdi>{closing.what}</bdi>: requests are sent there again, whether the target has recovered or not.
          </p>
        </Confirm>
      )}
      {removing && (
        <Confirm title="Take this provider out of use?" action="Take out of use" onConfirm={remove} onClose={() => setRemoving(null)}>
          <p>
            Requests and configs that name <code>@{removing.slug}</code> are refused from then on.
          </p>
        </Confirm>
      )}
    </Page>
  );
}

function Add({ onClose }: { onClose: () => void }) {
  const [name, setName] = useState('');
  const [slug, setSlug] = useState('');
  const [vendor, setVendor] = useState('openai');
  const [key, setKey] = useState('');
  const [more, setMore] = useState('');
  const [error, setError] = useState<Error | null>(null);
  const [isBusy, run] = useBusy();
  const add = async (): Promise<void> => {
    setError(null);
    try {
      const configurations = more.trim() ? { configurations: JSON.parse(more) as unknown } : {};
      await call('POST', '/v1/virtual-keys', { name, provider: vendor, ...(slug ? { slug } : {}), ...(key ? { key } : {}), ...configurations });
      notify('Added: requests can name it now.');
      onClose();
    } catch (why) {
      setError(why as Error);
    }
  };
  const submit = (event: Event): void => {
    event.preventDefault();
    void run(add);
  };
  return (
    <Dialog title="Add a provider" onClose={onClose}>
      <form class="form" onSubmit={submit}>
        <div class="row">
          <TextField label="Name" value={name} onInput={setName} required autofocus />
          <TextField label="Slug" value={slug} onInput={setSlug} placeholder="made of the name" />
        </div>
        <TextField label="Vendor" value={vendor} onInput={setVendor} required help="As in docs/providers.md: openai, anthropic, vertex-ai, bedrock, azure-openai …" />
        <TextField label="Key" type="password" autocomplete="off" value={key} onInput={setKey} help="The provider's key. It is kept encrypted and never shown." />
        <Area label="What else the account has, JSON" isCode rows={4} value={more} onInput={setMore} help={'Such as {"custom_host": "https://…"} or {"aws_region": "eu-central-1"}.'} />
        <Problem error={error} />
        <div class="actions end">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" class="primary" disabled={isBusy}>
            Add
          </button>
        </div>
      </form>
    </Dialog>
  );
}
