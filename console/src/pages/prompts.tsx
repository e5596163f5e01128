// Stored prompts: their versions, what a version renders to, and which one is published.
import { useState } from 'preact/hooks';
import { useRoute } from 'preact-iso';
import { type Free, type Item, call, may } from '../client.ts';
import { Diff } from '../editor.tsx';
import { integer } from '../format.ts';
import { notify, rowsOf, useFilters, useGet } from '../hooks.ts';
import { Named } from '../named.tsx';
import { query } from '../ranges.ts';
import { Ago, Area, Badge, Code, Confirm, Facts, Page, Pager, Problem, Section, Table, TextField } from '../ui.tsx';

type Prompt = Item<'/v1/prompts'>;
const SIZE = 50;

export function Prompts() {
  const [filters, setFilters] = useFilters();
  const page = Number(filters.page ?? 0) || 0;
  const prompts = useGet<{ data: Prompt[]; total: number }>(`/v1/prompts${query({ search: filters.search, current_page: page, page_size: SIZE })}`);
  return (
    <Page title="Prompts" lead="Stored prompts with variables and versions. Clients render them by slug.">
      <div class="filters" role="search">
        <TextField label="Name or slug has" value={filters.search ?? ''} onInput={(search) => setFilters({ search, page: '' }, true)} />
      </div>
      <Problem error={prompts.error} retry={prompts.reload} />
      <Table
        label="Prompts"
        rows={rowsOf(prompts, 'data')}
        id={(prompt) => prompt.id}
        empty="No stored prompt. POST /v1/prompts makes one: docs/prompts.md."
        columns={[
          { name: 'Name', isLong: true, cell: (prompt) => <a href={`/console/prompts/${prompt.id}`}>{prompt.name}</a> },
          { name: 'Slug', isLong: true, cell: (prompt) => <code>{prompt.slug}</code> },
          { name: 'Model', isLong: true, cell: (prompt) => prompt.model ?? '–' },
          { name: 'Changed', cell: (prompt) => <Ago at={prompt.last_updated_at} /> },
        ]}
      />
      {prompts.data && <Pager page={page} size={SIZE} total={prompts.data.total} onPage={(page) => setFilters({ page: page ? String(page) : '' })} />}
    </Page>
  );
}

export function PromptPage() {
  const named = useRoute().params.slug ?? '';
  return (
    <Named list="/v1/prompts" here="/console/prompts" named={named} mayList={may('prompts.list')}>
      {(id) => <OnePrompt key={id} id={id} />}
    </Named>
  );
}

function OnePrompt({ id }: { id: string }) {
  const path = `/v1/prompts/${encodeURIComponent(id)}`;
  const prompt = useGet(path);
  const versions = useGet<{ data: Free[] }>(`${path}/versions?page_size=100`);
  const [shown, setShown] = useState<number | null>(null);
  const data = prompt.data;
  const slug: string = data?.slug ?? id;
  const [publishing, setPublishing] = useState<Free | null>(null);
  const all = versions.data?.data ?? null;
  const viewed = all?.find((version) => version.prompt_version === shown);
  const publish = async (version: Free): Promise<void> => {
    await call('PUT', `${path}/makeDefault`, { version: version.prompt_version });
    notify(`Version ${version.prompt_version} is published: requests that name no version use it.`);
    prompt.reload();
    versions.reload();
  };
  return (
    <Page title={data?.name ?? slug} lead={<code>{slug}</code>}>
      <Problem error={prompt.error ?? versions.error} retry={prompt.reload} />
      {data && (
        <>
          <div class="card">
            <Facts pairs={[['Model', data.model], ['Provider', data.virtual_key], ['Published version', integer(data.prompt_version)], ['What it is for', data.prompt_version_description], ['Parameters', JSON.stringify(data.parameters)]]} />
          </div>
          <Section title="Versions">
            <Table
              label="Versions"
              rows={all}
              id={(version) => String(version.prompt_version)}
              empty="No version."
              columns={[
                { name: 'Version', isNumber: true, cell: (version) => integer(version.prompt_version) },
                { name: '', cell: (version) => (version.prompt_version_status === 'active' ? <Badge tone="good">published</Badge> : '') },
                { name: 'Labels', cell: (version) => (version.prompt_version_labels ?? []).join(', ') || '–' },
                { name: 'What it is for', isLong: true, cell: (version) => version.prompt_version_description ?? '–' },
                { name: 'Made', cell: (version) => <Ago at={version.created_at} /> },
                { name: 'Template', cell: (version) => <button type="button" class="link" aria-expanded={shown === version.prompt_version} onClick={() => setShown(shown === version.prompt_version ? null : version.prompt_version)}>Show</button> },
                { name: 'Change', cell: (version) => (may('prompts.publish') && version.prompt_version_status !== 'active' ? <button type="button" class="link" onClick={() => setPublishing(version)}>Publish</button> : '') },
              ]}
            />
            {viewed && <Code label={`Template of version ${viewed.prompt_version}`} text={viewed.string} />}
            {viewed && viewed.prompt_version_status !== 'active' && (
              <>
                <h3>Difference to the published version</h3>
                <Diff label="Difference" before={data.string} after={viewed.string} />
              </>
            )}
          </Section>
          {publishing && (
            <Confirm title={`Publish version ${publishing.prompt_version}?`} action="Publish" onConfirm={() => publish(publishing)} onClose={() => setPublishing(null)}>
              <p>Requests that name no version use it from then on.</p>
            </Confirm>
          )}
          {may('prompts.render') && <Render path={path} variables={data.variable_components?.variables ?? []} />}
        </>
      )}
    </Page>
  );
}

function Render({ path, variables }: { path: string; variables: (string | Free)[] }) {
  const names = variables.map((variable) => (typeof variable === 'string' ? variable : variable.name));
  const [text, setText] = useState(() => JSON.stringify(Object.fromEntries(names.map((name) => [name, ''])), null, 2));
  const [rendered, setRendered] = useState<Free | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const run = async (): Promise<void> => {
    setError(null);
    try {
      setRendered((await call('POST', `${path}/render`, { variables: JSON.parse(text) as unknown })).data);
    } catch (why) {
      setRendered(null);
      setError(why as Error);
    }
  };
  return (
    <Section title="Render">
      <Area label="Variables, JSON" isCode rows={Math.min(12, names.length + 3)} value={text} onInput={setText} />
      <div class="actions">
        <button type="button" onClick={run}>
          Render
        </button>
      </div>
      <Problem error={error} />
      {rendered && <Code label="Rendered request" text={JSON.stringify(rendered, null, 2)} />}
    </Section>
  );
}
