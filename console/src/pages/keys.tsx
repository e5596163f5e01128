// Service keys: made (and shown once), changed, rotated, revoked.
import { useState } from 'preact/hooks';
import { useLocation, useRoute } from 'preact-iso';
import { type Free, type Item, call, may, self } from '../client.ts';
import { fullTime, integer } from '../format.ts';
import type { FieldSpec } from '../fields.ts';
import { Form } from '../form.tsx';
import { type Loaded, notify, put, rowsOf, useBusy, useFilters, useGet } from '../hooks.ts';
import { LimitFields, limitBody, limitInput } from '../limit_form.tsx';
import { Raise } from '../raise.tsx';
import { Workspace } from '../names.tsx';
import { query } from '../ranges.ts';
import { Nearest, Usage } from '../usage.tsx';
import { Ago, Area, Badge, Choice, Confirm, Dialog, Facts, Page, Pager, Problem, Secret, Section, Table, TextField } from '../ui.tsx';

type Key = Item<'/v1/api-keys'>;
const SIZE = 50;
const can = (action: string): boolean => may(...['organisation_service', 'workspace_service', 'workspace_user'].map((kind) => `${kind}_api_keys.${action}`));
const tone = (status: string) => (status === 'active' ? 'good' : status === 'expired' ? 'quiet' : 'bad');

/** What most keys are for. */
const PRESETS: [string, string, string[]][] = [
  ['client', 'Clients: sends requests', ['completions.write', 'prompts.render', 'feedbacks.write']],
  ['reader', 'Reader: sees requests and spend', ['logs.list', 'logs.view', 'analytics.view']],
  ['same', 'All that your key may do', []],
  ['own', 'Others', []],
];

export function Keys() {
  const [filters, setFilters] = useFilters();
  const [isMaking, setMaking] = useState(filters.make === '1' && can('create'));
  const page = Number(filters.page ?? 0) || 0;
  const keys = useGet<{ data: Key[]; total: number }>(`/v1/api-keys${query({ search: filters.search, workspace_id: filters.workspace, current_page: page, page_size: SIZE })}`);
  return (
    <Page title="Keys" lead="Service keys of clients and operators." actions={can('create') && <button type="button" class="primary" onClick={() => setMaking(true)}>Make a key</button>}>
      <div class="filters" role="search">
        <TextField label="Name has" value={filters.search ?? ''} onInput={(search) => setFilters({ search, page: '' }, true)} />
        {may('workspaces.list') && <TextField label="Workspace" value={filters.workspace ?? ''} onInput={(workspace) => setFilters({ workspace, page: '' }, true)} placeholder="slug" />}
      </div>
      <Problem error={keys.error} retry={keys.reload} />
      <Table
        label="Keys"
        rows={rowsOf(keys, 'data')}
        id={(key, index) => key.id ?? `${key.name} ${index}`}
        empty="No key matches. Make one for each client, so that each has its own limits and its own line in the spend."
        columns={[
          { name: 'Name', isLong: true, cell: (key) => (key.id ? <a href={`/console/keys/${key.id}`}>{key.name}</a> : key.name) },
          { name: 'Key', cell: (key) => <code>{key.key}</code> },
          { name: 'Status', cell: (key) => <Badge tone={tone(key.status)}>{key.status}</Badge> },
          { name: 'Kind', cell: (key) => (key.origin === 'settings' ? 'settings file' : key.type) },
          { name: 'Workspace', isLong: true, cell: (key) => <Workspace id={key.workspace_id} /> },
          { name: 'Budget', cell: (key) => <Nearest usage={key.usage} /> },
          { name: 'Expires', cell: (key) => (key.expires_at ? <Ago at={key.expires_at} /> : 'never') },
          { name: 'Last used', cell: (key) => <Ago at={key.last_used_at} /> },
          { name: 'Made', cell: (key) => <Ago at={key.created_at} /> },
        ]}
      />
      {keys.data && <Pager page={page} size={SIZE} total={keys.data.total} onPage={(page) => setFilters({ page: page ? String(page) : '' })} />}
      {isMaking && <Make onClose={() => { setMaking(false); if (filters.make) setFilters({ make: '' }, true); keys.reload(); }} />}
    </Page>
  );
}

function Make({ onClose }: { onClose: () => void }) {
  const workspaces = useGet(may('workspaces.list') && !self.value?.workspace_id ? '/v1/workspaces?page_size=200' : null);
  const isOfOrganisation = !self.value?.workspace_id && may('organisation_service_api_keys.create');
  const [name, setName] = useState('');
  const [owner, setOwner] = useState('workspace');
  const [preset, setPreset] = useState('client');
  const [scopes, setScopes] = useState('');
  const [limits, setLimits] = useState(limitInput({}));
  const [error, setError] = useState<Error | null>(null);
  const [secret, setSecret] = useState<string | null>(null);
  const [isBusy, run] = useBusy();
  const submit = (event: Event): void => {
    event.preventDefault();
    void run(make);
  };
  const make = async (): Promise<void> => {
    setError(null);
    const own = (self.value?.scopes ?? []) as string[];
    const wanted = preset === 'same' ? own : preset === 'own' ? scopes.split(/[\s,]+/).filter(Boolean) : (PRESETS.find(([id]) => id === preset)?.[2] ?? []);
    const body: Free = { name, scopes: wanted, ...limitBody(limits, true, limitInput({})) };
    for (const member of Object.keys(body)) if (body[member] === null) delete body[member];
    if (owner !== 'organisation' && owner !== 'workspace') body.workspace_id = owner;
    try {
      const path = owner === 'organisation' ? '/v1/api-keys/organisation/service' : '/v1/api-keys/workspace/service';
      setSecret((await call('POST', path, body)).key);
    } catch (why) {
      setError(why as Error);
    }
  };
  const others = ((workspaces.data?.data ?? []) as Free[]).filter((workspace) => !workspace.is_default);
  const owners: [string, string][] = [['workspace', self.value?.workspace_id ? 'The workspace of your key' : 'The default workspace'], ...others.map((workspace): [string, string] => [workspace.id, workspace.name]), ...(isOfOrganisation ? [['organisation', 'The organisation, for operators'] as [string, string]] : [])];
  return (
    <Dialog title={secret ? 'The new key' : 'Make a key'} isKept={isBusy || secret !== null} onClose={onClose}>
      {secret ? (
        <Secret text={secret} onDone={() => { setSecret(null); onClose(); }} />
      ) : (
        <form class="form" onSubmit={submit}>
          <TextField label="Name" value={name} onInput={setName} required autofocus help="Whose key it is: it is in the logs and the spend." />
          <Choice label="It belongs to" value={owner} options={owners} onChange={setOwner} />
          <Choice label="It may" value={preset} options={PRESETS.map(([id, text]) => [id, text])} onChange={setPreset} />
          {preset === 'own' && <Area label="Scopes" rows={4} isCode value={scopes} onInput={setScopes} help="With spaces or commas: docs/keys.md lists them." />}
          <LimitFields input={limits} set={setLimits} />
          <Problem error={error} />
          <div class="actions end">
            <button type="button" onClick={onClose}>
              Cancel
            </button>
            <button type="submit" class="primary" disabled={isBusy}>
              Make the key
            </button>
          </div>
        </form>
      )}
    </Dialog>
  );
}

export function KeyPage() {
  const { params } = useRoute();
  const { route } = useLocation();
  const path = `/v1/api-keys/${encodeURIComponent(params.id ?? '')}`;
  const key = useGet(path);
  const [asks, setAsks] = useState<'rotate' | 'revoke' | 'reset' | 'raise' | null>(null);
  const data = key.data;
  // Of one budget; of several the API is told which.
  const budgets: Free[] = [data?.usage_limits ?? []].flat();
  const budget = budgets.length === 1 ? budgets[0] : null;
  const reset = async (): Promise<void> => {
    await call('PUT', path, { reset_usage: true });
    notify('Counted from 0 again.');
    key.reload();
  };
  const revoke = async (): Promise<void> => {
    await call('DELETE', path);
    notify('Revoked: it is refused from now on.');
    route('/console/keys');
  };
  return (
    <Page
      title={data?.name ?? 'Key'}
      lead={data && <code>{data.key}</code>}
      actions={
        data && (
          <>
            {may('logs.list') && <a class="button" href={`/console/requests${query({ key: data.id })}`}>Its requests</a>}
            {can('rotate') && <button type="button" onClick={() => setAsks('rotate')}>Rotate</button>}
            {can('delete') && <button type="button" class="danger" onClick={() => setAsks('revoke')}>Revoke</button>}
          </>
        )
      }
    >
      <Problem error={key.error} retry={key.reload} />
      {data && (
        <>
          <div class="card">
            <Facts
              pairs={[
                ['Status', <Badge tone={tone(data.status)}>{data.status}</Badge>],
                ['Kind', data.type],
                ['Workspace', <Workspace id={data.workspace_id} />],
                ['User', data.user_id && may('organisation_users.read') ? <a href={`/console/users/${data.user_id}`}>{data.user_id}</a> : data.user_id],
                ['Made', fullTime(data.created_at)],
                ['Expires', data.expires_at ? fullTime(data.expires_at) : 'never'],
                ['Last used', <Ago at={data.last_used_at} />],
                ['Models', data.allowed_models ? data.allowed_models.join(', ') : 'all'],
                ['Default config', data.defaults?.config_id],
                ['Scopes', `${integer(data.scopes?.length)}: ${(data.scopes ?? []).slice(0, 6).join(', ')}${(data.scopes?.length ?? 0) > 6 ? ' …' : ''}`],
              ]}
            />
          </div>
          <Section title="Limits" actions={can('update') && data.usage?.length > 0 && <>{budget && <button type="button" onClick={() => setAsks('raise')}>Raise for some days</button>} <button type="button" onClick={() => setAsks('reset')}>Count from 0</button></>}>
            <Usage usage={data.usage} />
          </Section>
          {can('update') && <Change data={data} path={path} loaded={key} />}
        </>
      )}
      {asks === 'rotate' && <Rotate path={path} onClose={() => { setAsks(null); key.reload(); }} />}
      {asks === 'raise' && budget && <Raise current={budget.raise} save={(raise) => call('PUT', path, { usage_limits: { raise } })} onClose={() => { setAsks(null); key.reload(); }} />}
      {asks === 'reset' && (
        <Confirm title="Count this key's usage from 0?" action="Count from 0" onConfirm={reset} onClose={() => setAsks(null)}>
          <p>
            <bdi>{data?.name}</bdi> may spend its whole budget again. This cannot be undone.
          </p>
        </Confirm>
      )}
      {asks === 'revoke' && (
        <Confirm title="Revoke this key?" action="Revoke" onConfirm={revoke} onClose={() => setAsks(null)}>
          <p>
            Clients with <bdi>{data?.name}</bdi> are refused at once. This cannot be undone.
          </p>
        </Confirm>
      )}
    </Page>
  );
}

const FIELDS: FieldSpec[] = [
  { name: 'name', label: 'Name', required: true },
  { name: 'description', label: 'Description' },
  { name: 'expires_at', label: 'Expires', kind: 'time', help: "Empty: never. Times are your own zone's." },
  { name: 'allowed_models', label: 'Models', kind: 'list', placeholder: 'all', help: 'With commas; * stands for any text.' },
  { name: 'defaults.config_id', label: 'Config of requests that name none', placeholder: 'slug' },
  { name: 'defaults.metadata', label: 'Metadata of its requests, JSON', kind: 'json' },
  { name: 'defaults.log_payloads', label: 'Bodies that are kept', kind: 'choice', placeholder: 'as the settings say', options: [['off', 'none'], ['errors', 'of errors'], ['all', 'all']] },
  { name: 'defaults.priority', label: 'Priority', kind: 'choice', placeholder: 'as configs say', options: [['low', 'low'], ['normal', 'normal'], ['high', 'high']] },
  { name: 'alert_emails', label: 'Addresses for its alerts', kind: 'list' },
  { name: 'scopes', label: 'Scopes', kind: 'list', required: true, help: 'docs/keys.md lists them.' },
];

function Change({ data, path, loaded }: { data: Free; path: string; loaded: Loaded<Free> }) {
  const save = async (body: Free): Promise<void> => {
    await put(path, loaded, body);
    notify('Saved.');
    await loaded.reload();
  };
  return (
    <Section title="Change">
      <Form fields={FIELDS} before={data} hasLimits buttons={['Save']} save={save} />
    </Section>
  );
}

function Rotate({ path, onClose }: { path: string; onClose: () => void }) {
  const [transition, setTransition] = useState('1800000');
  const [secret, setSecret] = useState<string | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const [isBusy, run] = useBusy();
  const rotate = async (): Promise<void> => {
    try {
      setSecret((await call('POST', `${path}/rotate`, { key_transition_period_ms: Number(transition) })).key);
    } catch (why) {
      setError(why as Error);
    }
  };
  return (
    <Dialog title={secret ? 'The new secret' : 'Give the key another secret'} isKept={isBusy || secret !== null} onClose={onClose}>
      {secret ? (
        <Secret text={secret} onDone={() => { setSecret(null); onClose(); }} />
      ) : (
        <>
          <Choice label="The old one stays good for" value={transition} onChange={setTransition} options={[['0', 'no time: it ends now'], ['1800000', '30 minutes'], ['86400000', 'a day'], ['604800000', '7 days'], ['2592000000', '30 days']]} />
          <Problem error={error} />
          <div class="actions end">
            <button type="button" onClick={onClose}>
              Cancel
            </button>
            <button type="button" class="primary" disabled={isBusy} onClick={() => run(rotate)}>
              Rotate
            </button>
          </div>
        </>
      )}
    </Dialog>
  );
}
