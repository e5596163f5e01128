// Saved guardrails: their checks, changed under the server's own check, and tried on a text.
import { useEffect, useRef, useState } from 'preact/hooks';
import { useLocation, useRoute } from 'preact-iso';
import { ApiError, type Free, call, may } from '../client.ts';
import { Editor } from '../editor.tsx';
import { milliseconds } from '../format.ts';
import { useKept } from '../form.tsx';
import { notify, put, useBusy, useGet } from '../hooks.ts';
import { type Mark, marks, syntaxMark } from '../json_place.ts';
import { Named } from '../named.tsx';
import { Area, Badge, Choice, Code, Confirm, Page, Problem, Section, Table, TextField } from '../ui.tsx';

const START = { checks: [{ id: 'default.contains', parameters: { operator: 'none', words: ['secret'] } }], actions: { deny: true } };
const textOf = ({ name = '', checks, actions }: Free): { name: string; text: string } => ({ name, text: JSON.stringify({ checks, actions }, null, 2) });
const can = (action: string): boolean => may(`guardrails.${action}`, `organisation_guardrails.${action}`);

export function GuardrailPage() {
  const named = useRoute().params.slug ?? '';
  return (
    <Named list="/v1/guardrails" here="/console/guardrails" named={named} mayList={can('list')}>
      {(id) => <OneGuardrail key={id} id={id} />}
    </Named>
  );
}

function OneGuardrail({ id }: { id: string }) {
  const { route } = useLocation();
  const isNew = id === 'new';
  const path = `/v1/guardrails/${encodeURIComponent(id)}`;
  const saved = useGet(isNew ? null : path);
  const slug: string = saved.data?.slug ?? id;
  const [isBusy, once] = useBusy();
  const [name, setName] = useState('');
  const [text, setText] = useState(textOf(START).text);
  const shown = useRef(textOf(START));
  const [found, setFound] = useState<Mark[]>([]);
  const [error, setError] = useState<Error | null>(null);
  const [isRemoving, setRemoving] = useState(false);
  useEffect(() => {
    if (!saved.data) return;
    const { current: last } = shown;
    const now = textOf(saved.data);
    shown.current = now;
    // What was written since stays.
    setName((name) => (name === last.name ? now.name : name));
    setText((text) => (text === last.text ? now.text : text));
  }, [saved.data]);
  useKept(!isBusy && (isNew || saved.data !== null) && (name !== shown.current.name || text !== shown.current.text));
  const save = async (): Promise<void> => {
    setError(null);
    const wrong = syntaxMark(text);
    setFound(wrong ? [wrong] : []);
    if (wrong) return;
    try {
      const body = { name, ...(JSON.parse(text) as Free) };
      const made = await (isNew ? call('POST', '/v1/guardrails', body) : put(path, saved, body));
      notify('Saved: requests are judged by it from now on.');
      if (isNew) route(`/console/guardrails/${made.id}`);
      else {
        shown.current = { name, text };
        await saved.reload();
      }
    } catch (why) {
      const details = why instanceof ApiError ? why.details.filter((detail) => /^(checks|actions)/.test(detail.path)) : [];
      if (details.length > 0) setFound(marks(text, details, ''));
      else setError(why as Error);
    }
  };
  const remove = async (): Promise<void> => {
    await call('DELETE', path);
    notify('Taken out of use.');
    route('/console/guardrails');
  };
  const canSave = isNew ? can('create') : can('update');
  return (
    <Page title={isNew ? 'New guardrail' : (saved.data?.name ?? slug)} lead={!isNew && <code>{slug}</code>} actions={!isNew && <>{may('logs.list') && <a class="button" href={`/console/requests?range=7d&guardrail=${encodeURIComponent(slug)}`}>Requests where it failed</a>} {can('delete') && <button type="button" class="danger" onClick={() => setRemoving(true)}>Take out of use</button>}</>}>
      <Problem error={saved.error} retry={saved.reload} />
      {(isNew || saved.data) && (
        <>
          {canSave ? (
            <Section title="Checks and actions">
              <TextField label="Name" value={name} onInput={setName} required />
              <div>
                <Editor label="Checks and actions, JSON" value={text} onInput={setText} marks={found} rows={14} />
              </div>
              <p class="help">A secret that is shown as ***** stays as it is.</p>
              <Problem error={error} />
              <div class="actions">
                <button type="button" class="primary" disabled={isBusy || !name} onClick={() => once(save)}>
                  Save
                </button>
              </div>
            </Section>
          ) : (
            <Code label="Guardrail" text={text} />
          )}
          {!isNew && may('guardrails.invoke', 'guardrails.update', 'organisation_guardrails.update') && <Try path={path} />}
        </>
      )}
      {isRemoving && (
        <Confirm title="Take this guardrail out of use?" action="Take out of use" onConfirm={remove} onClose={() => setRemoving(false)}>
          <p>Requests by configs that name it are refused from then on.</p>
        </Confirm>
      )}
    </Page>
  );
}

function Try({ path }: { path: string }) {
  const [text, setText] = useState('');
  const [phase, setPhase] = useState('');
  const [result, setResult] = useState<Free | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const run = async (): Promise<void> => {
    setError(null);
    try {
      setResult(await call('POST', `${path}/test`, { text, ...(phase ? { phase } : {}) }));
    } catch (why) {
      setResult(null);
      setError(why as Error);
    }
  };
  return (
    <Section title="Try it">
      <Area label="Text" value={text} onInput={setText} rows={4} />
      <div class="actions">
        <Choice label="The text is" value={phase} onChange={setPhase} options={[['', 'as the checks say'], ['before', 'a request'], ['after', 'a response']]} />
        <button type="button" disabled={!text} onClick={run}>
          Try
        </button>
      </div>
      <Problem error={error} />
      {result && (
        <>
          <p role="status">
            <Badge tone={result.deny ? 'bad' : result.verdict ? 'good' : 'warn'}>{result.deny ? 'denied' : result.verdict ? 'passes' : 'fails, and is passed on'}</Badge> {milliseconds(result.execution_time)}
          </p>
          {result.transformed && <Code label="The changed text" text={result.text ?? ''} />}
          <Table label="Results of checks" rows={result.checks as Free[]} id={(check, index) => `${check.id} ${index}`} empty="No check ran." columns={[{ name: 'Check', cell: (check) => check.id }, { name: 'Verdict', cell: (check) => <Badge tone={check.error ? 'warn' : check.verdict ? 'good' : 'bad'}>{check.error ? 'error' : check.verdict ? 'passes' : 'fails'}</Badge> }, { name: 'Why', isLong: true, cell: (check) => check.error?.message ?? check.data?.explanation ?? '–' }]} />
          <Code label="Result" text={JSON.stringify(result, null, 2)} />
        </>
      )}
    </Section>
  );
}
