// Stored prompts: made and changed by versions, rendered, tried.
import { useState } from 'preact/hooks';
import { useLocation, useRoute } from 'preact-iso';
import { type Free, call, may } from '../client.ts';
import type { FieldSpec } from '../fields.ts';
import { Form } from '../form.tsx';
import { notify, put, useGet } from '../hooks.ts';
import { Named } from '../named.tsx';
import { handOver } from '../given.ts';
import { Area, Code, Confirm, Facts, Loading, Page, Problem, Section } from '../ui.tsx';
import { Versions } from './versions.tsx';

const FIELDS: FieldSpec[] = [
  { name: 'name', label: 'Name', required: true },
  { name: 'string', label: 'Template', kind: 'code', required: true, first: '[\n  {"role": "system", "content": "Be brief."},\n  {"role": "user", "content": "{{question}}"}\n]', help: 'A JSON array of messages, or the text of a completion, with {{variables}}.' },
  { name: 'model', label: 'Model', first: 'gpt-4o-mini' },
  { name: 'virtual_key', label: 'Provider', kind: 'choice', required: true, from: { path: '/v1/providers?page_size=1000', scope: 'providers.list', value: 'slug' } },
  { name: 'parameters', label: 'Parameters, JSON', kind: 'json', first: '{}' },
  { name: 'tools', label: 'Tools, JSON', kind: 'json' },
  { name: 'tool_choice', label: 'Choice of tools', kind: 'either' },
  { name: 'strict_variables', label: 'A request without one of the variables is refused', kind: 'flag' },
  { name: 'version_description', label: 'What this version is for', of: 'string' },
  { name: 'slug', label: 'Slug', only: 'make', placeholder: 'made of the name' },
  { name: 'workspace_id', label: 'Workspace', kind: 'choice', only: 'make', placeholder: 'the default one, or that of your key', from: { path: '/v1/workspaces?page_size=1000', scope: 'workspaces.list', value: 'id' } },
];
const PUBLISH = 'Save and publish';
/** All that a version is: what an update does not name is taken from the newest version, which need not be the one that is shown. */
const CONTENT = ['string', 'parameters', 'model', 'virtual_key', 'functions', 'tools', 'tool_choice', 'template_metadata', 'strict_variables'];

export function PromptPage() {
  const named = useRoute().params.slug ?? '';
  return (
    <Named list="/v1/prompts" here="/console/prompts" named={named} mayList={may('prompts.list')}>
      {(id) => (id === 'new' ? <NewPrompt /> : <OnePrompt key={id} id={id} />)}
    </Named>
  );
}

function NewPrompt() {
  const { route } = useLocation();
  const save = async (body: Free): Promise<void> => {
    const made = await call('POST', '/v1/prompts', { parameters: {}, ...body });
    notify('Saved and published: requests can name it now.');
    route(`/console/prompts/${made.id}`);
  };
  return (
    <Page title="New prompt" lead="Checked by the gateway when it is saved. Its first version is published at once.">
      <Form fields={FIELDS} before={null} buttons={['Save']} save={save} />
    </Page>
  );
}

function OnePrompt({ id }: { id: string }) {
  const { route } = useLocation();
  const path = `/v1/prompts/${encodeURIComponent(id)}`;
  const prompt = useGet(path);
  const [round, setRound] = useState(0);
  const [isRemoving, setRemoving] = useState(false);
  const { data } = prompt;
  const slug: string = data?.slug ?? id;
  const save = async (body: Free, button: string): Promise<void> => {
    const isVersion = Object.keys(body).some((name) => name !== 'name');
    const content = Object.fromEntries(CONTENT.map((name) => [name, data?.[name] ?? null]));
    const saved = await put(path, prompt, isVersion ? { ...content, is_raw_template: Boolean(data?.is_raw_template), ...body, patch: true } : body);
    let done = isVersion ? 'Saved as a version, which is not published.' : 'Saved.';
    let isError = false;
    if (isVersion && button === PUBLISH) {
      // It is saved whatever becomes of its publication: a second try would make a second version.
      try {
        const { data: all } = await call<{ data: Free[] }>('GET', `${path}/versions?page_size=100`);
        await call('PUT', `${path}/makeDefault`, { version: all.find((one) => one.prompt_version_id === saved.prompt_version_id)?.prompt_version });
        done = 'Published: requests that name no version use it.';
      } catch (why) {
        isError = true;
        done = `Saved as a version, and not published: ${(why as Error).message}`;
      }
    }
    notify(done, isError);
    setRound((round) => round + 1);
    await prompt.reload();
  };
  const remove = async (): Promise<void> => {
    await call('DELETE', path);
    notify('Taken out of use.');
    route('/console/prompts');
  };
  return (
    <Page title={data?.name ?? slug} lead={<code>{slug}</code>} actions={data && may('prompts.delete') && <button type="button" class="danger" onClick={() => setRemoving(true)}>Take out of use</button>}>
      <Problem error={prompt.error} retry={prompt.reload} />
      {!data && !prompt.error && <Loading />}
      {data && (
        <>
          {may('prompts.update') ? (
            <Section title={`Version ${data.prompt_version}, which is published`}>
              <Form fields={FIELDS} before={data} buttons={['Save as a version', ...(may('prompts.publish') ? [PUBLISH] : [])]} save={save} />
            </Section>
          ) : (
            <div class="card">
              <Facts pairs={[['Model', data.model], ['Provider', data.virtual_key], ['Published version', data.prompt_version], ['What it is for', data.prompt_version_description], ['Parameters', JSON.stringify(data.parameters)]]} />
              <Code label="Template" text={data.string} />
            </div>
          )}
          {may('prompts.render') && <Render path={path} variables={data.variable_components?.variables ?? []} isChat={data.string.trim().startsWith('[')} target={data.virtual_key} />}
          <Versions key={round} path={path} current={data} number="prompt_version" hasLabels reload={prompt.reload} />
        </>
      )}
      {isRemoving && (
        <Confirm title="Take this prompt out of use?" action="Take out of use" onConfirm={remove} onClose={() => setRemoving(false)}>
          <p>Requests that name it are refused from then on.</p>
        </Confirm>
      )}
    </Page>
  );
}

function Render({ path, variables, isChat, target }: { path: string; variables: (string | Free)[]; isChat: boolean; target: string | null }) {
  const { route } = useLocation();
  const names = variables.map((variable) => (typeof variable === 'string' ? variable : variable.name));
  const [text, setText] = useState(() => JSON.stringify(Object.fromEntries(names.map((name) => [name, ''])), null, 2));
  const [rendered, setRendered] = useState<Free | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const run = async (then?: (body: Free) => void): Promise<void> => {
    setError(null);
    try {
      const { data } = await call('POST', `${path}/render`, { variables: JSON.parse(text) as unknown });
      setRendered(data);
      then?.(data);
    } catch (why) {
      setRendered(null);
      setError(why as Error);
    }
  };
  const play = (body: Free): void => {
    handOver('playground', { body, target: target ? `@${target}` : '' });
    route('/console/playground');
  };
  return (
    <Section title="Try it">
      <Area label="Variables, JSON" isCode rows={Math.min(12, names.length + 3)} value={text} onInput={setText} />
      <div class="actions">
        <button type="button" onClick={() => run()}>
          Render
        </button>
        {isChat && may('completions.write') && (
          <button type="button" onClick={() => run(play)}>
            Send it in the playground
          </button>
        )}
      </div>
      <Problem error={error} />
      {rendered && <Code label="Rendered request" text={JSON.stringify(rendered, null, 2)} />}
    </Section>
  );
}
