// Saved configs: what they are, checked by the gateway itself before they are saved, and their versions.
import { useEffect, useRef, useState } from 'preact/hooks';
import { useLocation, useRoute } from 'preact-iso';
import { ApiError, type Free, call, may } from '../client.ts';
import { Diff, Editor, pretty } from '../editor.tsx';
import { useKept } from '../form.tsx';
import { notify, put, useBusy, useGet } from '../hooks.ts';
import { type Mark, marks, syntaxMark } from '../json_place.ts';
import { Named } from '../named.tsx';
import { handOver } from '../given.ts';
import { Badge, Code, Confirm, Page, Problem, Section, Table, TextField } from '../ui.tsx';

const START = '{\n  "strategy": { "mode": "fallback" },\n  "targets": [\n    { "provider": "@first" },\n    { "provider": "@second" }\n  ]\n}\n';

/** What the gateway says of a config without saving it. */
async function check(text: string): Promise<Mark[]> {
  const explained = await call('POST', '/v1/explain', { headers: { 'x-gateway-config': text }, body: { model: 'any', messages: [{ role: 'user', content: 'Hello' }] } });
  return marks(text, (explained.problems ?? []) as { path: string; message: string }[], 'config');
}

export function ConfigPage() {
  const named = useRoute().params.slug ?? '';
  return (
    <Named list="/v1/configs" here="/console/configs" named={named} mayList={may('configs.list')}>
      {(id) => <OneConfig key={id} id={id} />}
    </Named>
  );
}

function OneConfig({ id }: { id: string }) {
  const { route } = useLocation();
  const isNew = id === 'new';
  const path = `/v1/configs/${encodeURIComponent(id)}`;
  const saved = useGet(isNew ? null : path);
  const slug: string = saved.data?.slug ?? id;
  const versions = useGet<{ data: Free[] }>(isNew ? null : `${path}/versions?page_size=50`);
  const [text, setText] = useState(isNew ? START : '');
  const [name, setName] = useState('');
  const [newSlug, setNewSlug] = useState('');
  const [found, setFound] = useState<Mark[]>([]);
  const [error, setError] = useState<Error | null>(null);
  const [isRemoving, setRemoving] = useState(false);
  const [goingBack, setGoingBack] = useState<Free | null>(null);
  const [isBusy, once] = useBusy();
  const before = saved.data ? pretty(saved.data.config) : '';
  const shown = useRef({ text: '', name: '' });
  useEffect(() => {
    if (!saved.data) return;
    const { current: last } = shown;
    const now = { text: before, name: saved.data.name as string };
    shown.current = now;
    // What was written since stays.
    setText((text) => (text === last.text ? now.text : text));
    setName((name) => (name === last.name ? now.name : name));
  }, [saved.data]);
  // Those of the settings file have no id, and no version.
  const isOfFile = !isNew && saved.data !== null && !saved.data.version_id;
  const canWrite = !isOfFile && may(isNew ? 'configs.create' : 'configs.update');

  useKept(canWrite && !isBusy && ((text !== before && text !== START) || name !== (saved.data?.name ?? '')));
  const run = async (what: () => Promise<void>): Promise<void> => {
    setError(null);
    const wrong = syntaxMark(text);
    setFound(wrong ? [wrong] : []);
    if (wrong) return;
    try {
      await what();
    } catch (why) {
      const details = why instanceof ApiError ? why.details.filter((detail) => detail.path.startsWith('config')) : [];
      if (details.length > 0) setFound(marks(text, details, 'config'));
      else setError(why as Error);
    }
  };
  const tryIt = (): Promise<void> =>
    run(async () => {
      const all = await check(JSON.stringify(JSON.parse(text)));
      const problems = marks(text, all, 'config');
      setFound(problems);
      if (problems.length === 0) notify('The gateway finds no mistake in it.');
    });
  const save = (): Promise<void> =>
    run(async () => {
      const config = JSON.parse(text) as unknown;
      if (isNew) {
        const made = await call('POST', '/v1/configs', { name, config, ...(newSlug ? { slug: newSlug } : {}) });
        notify('Saved: requests can name it now.');
        route(`/console/configs/${made.id}`);
      } else {
        await put(path, saved, { name, config });
        notify('Published: requests use it from now on.');
        shown.current = { text, name };
        versions.reload();
        await saved.reload();
      }
    });
  const rollBack = async (version: Free): Promise<void> => {
    await call('PUT', path, { config: JSON.parse(version.config) as unknown });
    notify('Rolled back: that version is in use again, as a new one.');
    shown.current.text = text;
    saved.reload();
    versions.reload();
  };
  const remove = async (): Promise<void> => {
    await call('DELETE', path);
    notify('Taken out of use.');
    route('/console/configs');
  };

  return (
    <Page title={isNew ? 'New config' : (saved.data?.name ?? slug)} lead={isNew ? 'Checked as a whole by the gateway before it is saved.' : <code>{slug}</code>} actions={!isNew && canWrite && may('configs.delete') && <button type="button" class="danger" onClick={() => setRemoving(true)}>Take out of use</button>}>
      <Problem error={saved.error} retry={saved.reload} />
      {(isNew || saved.data) && (
        <Section title="Config">
          {isOfFile && <p class="note">It is of the settings file, which a reload reads: it cannot be changed here.</p>}
          {isOfFile ? (
            <Code label="Config" text={before} />
          ) : (
            <>
              <div class="row">
                <TextField label="Name" value={name} onInput={setName} required />
                {isNew && <TextField label="Slug" value={newSlug} onInput={setNewSlug} placeholder="made of the name" help="How requests name it." />}
              </div>
              <div>
                <Editor label="Config, JSON" value={text} onInput={setText} marks={found} />
              </div>
              <Problem error={error} />
              {canWrite && (
                <div class="actions">
                  <button type="button" class="primary" onClick={() => once(save)} disabled={isBusy || !name || (!isNew && text === before && name === saved.data?.name)}>
                    {isNew ? 'Save' : 'Publish'}
                  </button>
                  {may('explain.read') && (
                    <button type="button" onClick={tryIt}>
                      Check
                    </button>
                  )}
                  {may('explain.read') && (
                    <a class="button" href="/console/explain" onClick={() => handOver('explain', { headers: { 'x-gateway-config': isNew ? text : id }, body: { model: 'gpt-4o-mini', messages: [{ role: 'user', content: 'Hello' }] } })}>
                      Explain a request with it
                    </a>
                  )}
                </div>
              )}
              {!isNew && text !== before && (
                <>
                  <h3>What publishing changes</h3>
                  <Diff label="Changes" before={before} after={text} />
                </>
              )}
            </>
          )}
        </Section>
      )}
      {!isNew && !isOfFile && versions.data && (
        <Section title="Versions">
          <Versions all={versions.data.data} current={saved.data?.version_id} rollBack={may('configs.update') ? setGoingBack : null} />
        </Section>
      )}
      {goingBack && (
        <Confirm title="Roll back to this version?" action="Roll back" onConfirm={() => rollBack(goingBack)} onClose={() => setGoingBack(null)}>
          <p>
            Requests use <code>{goingBack.version_id}</code> from then on.{text !== before && ' What you have changed above and not published is lost.'}
          </p>
        </Confirm>
      )}
      {isRemoving && (
        <Confirm title="Take this config out of use?" action="Take out of use" onConfirm={remove} onClose={() => setRemoving(false)}>
          <p>Requests that name it are refused from then on.</p>
        </Confirm>
      )}
    </Page>
  );
}

function Versions({ all, current, rollBack }: { all: Free[]; current: string | undefined; rollBack: ((version: Free) => void) | null }) {
  const [shown, setShown] = useState<string | null>(null);
  return (
    <>
      <Table
        label="Versions"
        rows={all}
        id={(version, index) => version.version_id ?? String(index)}
        empty="No version yet."
        columns={[
          { name: 'Version', cell: (version) => <code>{version.version_id}</code> },
          { name: '', cell: (version) => (version.version_id === current ? <Badge tone="good">in use</Badge> : '') },
          { name: 'Length', isNumber: true, cell: (version) => `${version.config.length} characters` },
          { name: 'Compare', cell: (version) => <button type="button" class="link" aria-expanded={shown === version.version_id} onClick={() => setShown(shown === version.version_id ? null : version.version_id)}>with the one before</button> },
          { name: 'Change', cell: (version) => (rollBack && version.version_id !== current ? <button type="button" class="link" onClick={() => rollBack(version)}>Roll back to it</button> : '') },
        ]}
      />
      {all.map((version, index) =>
        shown === version.version_id ? <Diff key={version.version_id} label="Difference to the version before" before={all[index + 1] ? pretty(all[index + 1]?.config) : ''} after={pretty(version.config)} /> : null,
      )}
    </>
  );
}
