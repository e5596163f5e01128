// The kinds of objects that lists and forms are made for: a table each.
import type { Free } from './client.ts';
import type { FieldSpec } from './fields.ts';
import { ago, integer } from './format.ts';
import type { Kind } from './objects.tsx';
import { Workspace } from './names.tsx';
import { isRaised } from './raise.tsx';
import { RATE_UNITS, amount, unitOf } from './usage.tsx';
import { Ago, Badge, type Column, type Tone } from './ui.tsx';
import { Buckets } from './pages/buckets.tsx';
import { McpServer } from './pages/mcp.tsx';
import { InviteState, Members } from './pages/people.tsx';
import { ProviderState } from './pages/providers.tsx';
import { Versions } from './pages/versions.tsx';

const keysOf = (list: Free[] | null): string => (list ?? []).map((one) => (typeof one === 'string' ? one : one.key)).join(', ') || 'all together';
const conditions = (list: Free[] | null): string => (list ?? []).map((one) => `${one.key} ${one.excludes ? 'is not' : 'is'} ${[one.value ?? one.excludes].flat().join(' or ')}`).join(', ') || 'every request';
const ofWorkspace = { name: 'Workspace', isLong: true, cell: (row: Free) => <Workspace id={row.workspace_id} /> };
const changed = { name: 'Changed', cell: (row: Free) => <Ago at={row.last_updated_at} /> };

const NAMED: Column<Free>[] = [
  { name: 'Name', isLong: true, cell: (row) => row.name },
  { name: 'Slug', isLong: true, cell: (row) => <code>{row.slug}</code> },
];

const NAME: FieldSpec = { name: 'name', label: 'Name', required: true };
const SLUG: FieldSpec = { name: 'slug', label: 'Slug', only: 'make', placeholder: 'made of the name' };
const DESCRIPTION: FieldSpec = { name: 'description', label: 'Description' };
const WORKSPACE: FieldSpec = { name: 'workspace_id', label: 'Workspace', kind: 'choice', only: 'make', placeholder: 'the default one, or that of your key', from: { path: '/v1/workspaces?page_size=1000', scope: 'workspaces.list', value: 'id' } };
const ANY_WORKSPACE: FieldSpec = { ...WORKSPACE, all: 'every one' };
const MISSING: FieldSpec = { name: 'on_missing', label: 'A request without a value to group by', kind: 'choice', required: true, first: 'skip', options: [['skip', 'is not limited'], ['shared', 'shares one bucket with all such'], ['deny', 'is refused']] };
const WHOSE: FieldSpec[] = [
  { name: 'conditions', label: 'Requests that it limits', kind: 'conditions', required: true, first: 'api_key = *', help: 'One condition a line, and all must be met: api_key = *, metadata.team = a, b, or model != @openai/*. Keys: api_key, workspace_id, metadata.…, config, prompt, endpoint_type, model, provider, virtual_key.' },
  { name: 'group_by', label: 'A bucket for each', kind: 'keys', required: true, only: 'make', first: 'api_key', help: 'The same keys, with commas. Cannot be changed later.' },
];

export const BUDGETS: Kind = {
  one: 'budget',
  several: 'Budgets',
  here: 'limits/usage',
  api: '/v1/policies/usage-limits',
  scope: 'policies',
  search: 'search',
  params: { status: 'active' },
  empty: 'No budget policy. A new one limits what each key, user, model or value of the metadata may spend.',
  columns: [
    { name: 'Name', isLong: true, cell: (policy) => policy.name ?? policy.slug },
    { name: 'Limit', isNumber: true, cell: (policy) => <>{amount(policy.type, policy.credit_limit) + (policy.type === 'cost' ? '' : ` ${policy.type}`)} {isRaised(policy.raise) && <Badge tone="warn">raised</Badge>}</> },
    { name: 'For each', cell: (policy) => keysOf(policy.group_by) },
    { name: 'Of', isLong: true, cell: (policy) => conditions(policy.conditions) },
    { name: 'Starts anew', cell: (policy) => (policy.next_usage_reset_at ? ago(policy.next_usage_reset_at) : policy.reset_after_idle_minutes ? `after ${policy.reset_after_idle_minutes} idle minutes` : 'never') },
    { name: 'Hard', cell: (policy) => (policy.hard ? 'yes' : 'no') },
    ofWorkspace,
  ],
  fields: [
    NAME,
    { name: 'type', label: 'Counts', kind: 'choice', required: true, only: 'make', first: 'cost', options: [['cost', 'dollars'], ['tokens', 'tokens'], ['requests', 'requests']] },
    { name: 'credit_limit', label: 'Limit', kind: 'number', required: true },
    ...WHOSE,
    { name: 'periodic_reset', label: 'Starts anew', kind: 'choice', placeholder: 'never', options: [['weekly', 'weekly'], ['monthly', 'monthly']] },
    { name: 'periodic_reset_days', label: 'or every so many days', kind: 'number' },
    { name: 'alert_threshold', label: 'Alert at', kind: 'number', placeholder: 'none' },
    { name: 'hard', label: 'Hard: never more than the limit, also of requests under way', kind: 'flag' },
    { name: 'fit', label: 'Outputs are shortened to what is left', kind: 'flag' },
    MISSING,
    DESCRIPTION,
    SLUG,
    ANY_WORKSPACE,
  ],
  isBudget: true,
  end: { action: 'Archive', text: 'it limits nothing from then on. Its id can be read later, by API.' },
  More: ({ data }) => <Buckets policy={data} />,
};

export const RATES: Kind = {
  one: 'rate',
  several: 'Rates',
  here: 'limits/rates',
  api: '/v1/policies/rate-limits',
  scope: 'policies',
  search: 'search',
  params: { status: 'active' },
  empty: 'No rate policy. A new one limits requests or tokens a second, minute, hour, day or week.',
  columns: [
    { name: 'Name', isLong: true, cell: (policy) => policy.name ?? policy.slug },
    { name: 'Limit', isNumber: true, cell: (policy) => `${integer(policy.value)} ${policy.type} ${unitOf(policy.unit)}` },
    { name: 'For each', cell: (policy) => keysOf(policy.group_by) },
    { name: 'Of', isLong: true, cell: (policy) => conditions(policy.conditions) },
    ofWorkspace,
  ],
  fields: [
    NAME,
    { name: 'type', label: 'Counts', kind: 'choice', required: true, only: 'make', first: 'requests', options: [['requests', 'requests'], ['tokens', 'tokens']] },
    { name: 'value', label: 'Limit', kind: 'number', required: true },
    { name: 'unit', label: 'in', kind: 'choice', required: true, first: 'rpm', options: RATE_UNITS },
    ...WHOSE,
    { name: 'smooth', label: 'Smooth: the window before counts in part', kind: 'flag' },
    MISSING,
    DESCRIPTION,
    SLUG,
    ANY_WORKSPACE,
  ],
  end: { action: 'Archive', text: 'it limits nothing from then on.' },
};

const ofFile = (row: Free): string | null => (row.origin === 'settings' ? 'It is of the settings file, which a reload reads: it cannot be changed here.' : null);

export const PROVIDERS: Kind = {
  one: 'provider',
  several: 'Providers',
  here: 'providers',
  api: '/v1/providers',
  scope: 'providers',
  empty: 'No provider yet.',
  columns: [],
  hasLimits: true,
  isReadOnly: ofFile,
  fields: [
    NAME,
    { name: 'provider', label: 'Vendor', only: 'make', required: true, first: 'openai', help: 'As in docs/providers.md: openai, anthropic, vertex-ai, bedrock, azure-openai …' },
    SLUG,
    { name: 'key', label: 'Key', kind: 'secret', help: "The provider's key. It is kept encrypted and never shown. Empty: it stays as it is." },
    { name: 'configurations', label: 'What else the account has, JSON', kind: 'json', help: 'Such as {"custom_host": "https://…"} or {"aws_region": "eu-central-1"}. What it does not name stays; null takes it away.' },
    { name: 'allowed_models', label: 'Models', kind: 'list', placeholder: 'all', help: 'With commas.' },
    { name: 'expires_at', label: 'Expires', kind: 'time' },
    { name: 'note', label: 'Note' },
    WORKSPACE,
  ],
  end: { action: 'Take out of use', text: 'requests and configs that name it are refused from then on.' },
  More: ProviderState,
};

export const MODEL_NAMES: Kind = {
  one: 'name',
  several: 'Model names',
  here: 'models',
  api: '/v1/model-names',
  scope: 'configs',
  search: 'search',
  empty: 'No name. With one, clients write a name of yours in model, and you say what it stands for.',
  isReadOnly: ofFile,
  columns: [
    { name: 'Name', isLong: true, cell: (row) => row.name },
    { name: 'Stands for', isLong: true, cell: (row) => <code>{typeof row.to === 'string' ? row.to : row.to ? JSON.stringify(row.to) : '–'}</code> },
    { name: 'Model', isLong: true, cell: (row) => row.model ?? '–' },
    { name: 'Kept in', cell: (row) => (row.origin === 'settings' ? 'settings file' : 'store') },
    changed,
  ],
  fields: [
    { ...NAME, help: 'As clients write it in model; one * stands for any text.' },
    { name: 'to', label: 'Stands for', kind: 'either', required: true, first: '@', help: '@slug, @slug/model, the id of a saved config, or a config as JSON.' },
    { name: 'model', label: 'Model', placeholder: 'the name that the client used' },
    { name: 'operations', label: 'For these operations only', kind: 'list', placeholder: 'all', help: 'Such as chat, responses.' },
    { name: 'keys', label: 'For these keys only', kind: 'list', placeholder: 'all', help: 'Ids of keys, with commas; keys of the settings by name.' },
    { name: 'workspaces', label: 'For these workspaces only', kind: 'list', placeholder: 'all' },
    DESCRIPTION,
    SLUG,
    ANY_WORKSPACE,
  ],
  end: { action: 'Delete', text: 'requests for it are those for any other model from then on.' },
};

export const MCP_SERVERS: Kind = {
  one: 'server',
  several: 'MCP servers',
  here: 'mcp',
  api: '/v1/mcp-servers',
  scope: 'mcp_servers',
  search: 'search',
  empty: 'No MCP server. A new one is looked at, and shown with its tools.',
  columns: [
    ...NAMED,
    { name: 'Address', isLong: true, cell: (row) => row.url },
    { name: 'Signs in by', cell: (row) => row.auth_type },
    changed,
  ],
  fields: [
    NAME,
    { name: 'url', label: 'Address', required: true, placeholder: 'https://tools.example.com/mcp', help: 'Where it speaks streamable HTTP. Another host needs the headers again.' },
    { name: 'configurations.custom_headers', label: 'Headers, JSON', kind: 'json', help: 'Sent with each call, such as {"authorization": "Bearer …"}. They are kept encrypted: ***** stays as it is.' },
    DESCRIPTION,
    SLUG,
    WORKSPACE,
  ],
  end: { action: 'Take out of use', text: 'it is called and listed no more.' },
  More: McpServer,
};

export const WORKSPACES: Kind = {
  one: 'workspace',
  several: 'Workspaces',
  here: 'workspaces',
  api: '/v1/admin/workspaces',
  scope: 'workspaces',
  search: 'name',
  empty: 'No workspace.',
  hasLimits: true,
  columns: [
    ...NAMED,
    { name: 'Status', cell: (row) => <><Badge tone={row.status === 'active' ? 'good' : 'bad'}>{row.status}</Badge> {row.is_default === 1 && <Badge>default</Badge>}</> },
    { name: 'Made', cell: (row) => <Ago at={row.created_at} /> },
  ],
  fields: [
    NAME,
    SLUG,
    DESCRIPTION,
    { name: 'defaults.metadata', label: 'Metadata of its requests, JSON', kind: 'json', placeholder: '{"team": "search"}' },
    { name: 'defaults.input_guardrails', label: 'Guardrails of its requests', kind: 'list', help: 'Slugs, with commas.' },
    { name: 'defaults.output_guardrails', label: 'Guardrails of its responses', kind: 'list' },
  ],
  end: { action: 'Archive', text: 'its keys are refused, and its providers and configs are out of use, from then on.', hasContent: true },
  More: ({ path }) => <Members path={`${path}/users`} />,
};

const ROLES: [string, string][] = [['member', 'member'], ['admin', 'admin']];

export const USERS: Kind = {
  one: 'user',
  several: 'Users',
  here: 'users',
  api: '/v1/admin/users',
  scope: 'organisation_users',
  search: 'email',
  isMadeOtherwise: true,
  empty: 'No user. Invite one below.',
  columns: [
    { name: 'Address', isLong: true, cell: (row) => row.email },
    { name: 'Name', isLong: true, cell: (row) => [row.first_name, row.last_name].filter(Boolean).join(' ') || '–' },
    { name: 'Role', cell: (row) => row.role },
    { name: 'Workspaces', isNumber: true, cell: (row) => integer(row.workspace_ids?.length ?? 0) },
    { name: 'Made', cell: (row) => <Ago at={row.created_at} /> },
  ],
  fields: [
    { name: 'first_name', label: 'First name' },
    { name: 'last_name', label: 'Last name' },
    { name: 'role', label: 'Role', kind: 'choice', required: true, options: [...ROLES, ['owner', 'owner']] },
  ],
  end: { action: 'Remove', text: 'the keys of this user are refused from then on.' },
};

const STATES: Record<string, Tone> = { pending: 'warn', accepted: 'good' };

export const INVITES: Kind = {
  one: 'invite',
  several: 'Invites',
  here: 'users/invites',
  api: '/v1/admin/users/invites',
  scope: 'organisation_users',
  search: 'email',
  empty: 'No invite. Nothing is mailed: an operator accepts an invite for its person, who is a user from then on.',
  columns: [
    { name: 'Address', isLong: true, cell: (row) => row.email },
    { name: 'Status', cell: (row) => <Badge tone={STATES[row.status] ?? 'quiet'}>{row.status}</Badge> },
    { name: 'Role', cell: (row) => row.role },
    { name: 'Ends', cell: (row) => <Ago at={row.expires_at} /> },
    { name: 'By', isLong: true, cell: (row) => row.invited_by },
  ],
  fields: [
    { name: 'email', label: 'Address', required: true, only: 'make' },
    { name: 'role', label: 'Role in the organisation', kind: 'choice', required: true, only: 'make', first: 'member', options: ROLES },
    { name: 'workspaces', label: 'Roles in workspaces', kind: 'roles', only: 'make', help: 'One a line: slug = member. Roles: admin, manager, member.' },
    { name: 'first_name', label: 'First name', only: 'make' },
    { name: 'last_name', label: 'Last name', only: 'make' },
  ],
  facts: (row) => [['Status', row.status], ['By', row.invited_by], ['Ends', <Ago at={row.expires_at} />]],
  end: { action: 'Cancel the invite', text: 'it cannot be accepted from then on.' },
  More: InviteState,
};

export const LABELS: Kind = {
  one: 'label',
  several: 'Labels',
  here: 'prompts/labels',
  api: '/v1/labels',
  scope: 'prompts',
  search: 'search',
  empty: 'No label.',
  isReadOnly: (row) => (row.is_universal ? 'It is there in every workspace, and cannot be changed.' : null),
  columns: [
    { name: 'Name', cell: (row) => row.name },
    { name: 'What it is for', isLong: true, cell: (row) => row.description ?? '–' },
    { name: 'Of', cell: (row) => (row.is_universal ? 'every workspace' : 'its workspace') },
  ],
  fields: [{ ...NAME, help: 'Letters, digits, _ and -. Requests name a version by it: slug@label.' }, DESCRIPTION, WORKSPACE],
  end: { action: 'Delete', text: 'requests that name it are refused from then on.' },
};

export const PARTIALS: Kind = {
  one: 'partial',
  several: 'Partials',
  here: 'prompts/partials',
  api: '/v1/prompts/partials',
  scope: 'prompts',
  search: 'search',
  saved: 'Saved. Another text is a version, which is published below.',
  empty: 'No partial. A text that several prompts include is one: {{>slug}}.',
  columns: [
    ...NAMED,
    changed,
  ],
  fields: [
    NAME,
    { name: 'string', label: 'Text', kind: 'code', required: true, help: 'Another text makes another version, which is published below.' },
    { name: 'version_description', label: 'What this version is for', of: 'string' },
    SLUG,
    WORKSPACE,
  ],
  end: { action: 'Take out of use', text: 'prompts that include it are refused from then on.' },
  More: ({ data, path, reload }) => <Versions path={path} current={data} number="version" reload={reload} />,
};

// Pages of their own make and change these three.

export const PROMPTS: Kind = {
  one: 'prompt',
  several: 'Prompts',
  here: 'prompts',
  api: '/v1/prompts',
  scope: 'prompts',
  search: 'search',
  empty: 'No stored prompt. A new one has variables and versions, and clients name it by slug.',
  columns: [...NAMED, { name: 'Model', isLong: true, cell: (row) => row.model ?? '–' }, ofWorkspace, changed],
  fields: [],
};

export const CONFIGS: Kind = {
  one: 'config',
  several: 'Configs',
  here: 'configs',
  api: '/v1/configs',
  scope: 'configs',
  search: 'search',
  empty: 'No saved config. Requests can carry one in x-gateway-config; a saved one can be changed while clients run.',
  columns: [
    ...NAMED,
    { name: 'Kept in', cell: (config) => (config.origin === 'settings' ? 'settings file' : 'store') },
    { name: '', cell: (config) => (config.is_default ? <Badge tone="good">default of its workspace</Badge> : '') },
    ofWorkspace,
    changed,
    { name: 'By', isLong: true, cell: (config) => config.updated_by ?? '–' },
  ],
  fields: [],
};

export const GUARDRAILS: Kind = {
  one: 'guardrail',
  several: 'Guardrails',
  here: 'guardrails',
  api: '/v1/guardrails',
  scope: ['guardrails', 'organisation_guardrails'],
  search: 'search',
  empty: 'No saved guardrail. A config can also have its own, written in place: docs/guardrails.md.',
  columns: [
    ...NAMED,
    { name: 'Checks', isLong: true, cell: (guardrail) => (guardrail.checks as Free[]).map((check) => check.id).join(', ') },
    { name: 'Denies', cell: (guardrail) => ((guardrail.actions as Free).deny ? <Badge tone="warn">denies</Badge> : 'no') },
    changed,
  ],
  fields: [],
};
