// What would happen to a request, without sending it.
import { useState } from 'preact/hooks';
import { type Free, call } from '../client.ts';
import { take } from '../given.ts';
import { type Mark, syntaxMark } from '../json_place.ts';
import { Editor } from '../editor.tsx';
import { Badge, Code, Facts, Page, Problem, Section, Table } from '../ui.tsx';

const START = { path: '/v1/chat/completions', headers: { 'x-gateway-config': 'main' }, body: { model: 'gpt-4o-mini', messages: [{ role: 'user', content: 'Hello' }] } };

export function Explain() {
  const [text, setText] = useState(() => JSON.stringify(take() ?? START, null, 2));
  const [found, setFound] = useState<Mark[]>([]);
  const [error, setError] = useState<Error | null>(null);
  const [explained, setExplained] = useState<Free | null>(null);
  const run = async (): Promise<void> => {
    const wrong = syntaxMark(text);
    setFound(wrong ? [wrong] : []);
    setError(null);
    if (wrong) return;
    try {
      setExplained(await call('POST', '/v1/explain', JSON.parse(text)));
    } catch (why) {
      setExplained(null);
      setError(why as Error);
    }
  };
  return (
    <Page title="Explain" lead="What would happen to a request: which config and target, what is sent, what follows each kind of failure. Nothing is sent, and nothing is counted.">
      <div>
        <Editor label="Request, JSON: method, path, headers, body" value={text} onInput={setText} marks={found} rows={17} />
      </div>
      <div class="actions">
        <button type="button" class="primary" onClick={run}>
          Explain
        </button>
      </div>
      <Problem error={error} />
      {explained && <Explained all={explained} />}
    </Page>
  );
}

function Explained({ all }: { all: Free }) {
  const problems: Free[] = all.problems ?? [];
  return (
    <>
      {problems.length > 0 && (
        <div class="problem" role="alert">
          <p>It would be refused:</p>
          <ul>
            {problems.map((problem) => (
              <li key={`${problem.path} ${problem.message}`}>
                <Badge tone="bad">{problem.status}</Badge> {problem.path && <code>{problem.path}</code>} {problem.message}
              </li>
            ))}
          </ul>
        </div>
      )}
      {(all.notes ?? []).map((note: string) => (
        <p class="note" key={note}>
          {note}
        </p>
      ))}
      {all.first && (
        <div class="card">
          <Facts
            pairs={[
              ['Client', all.caller],
              ['Operation', all.operation],
              ['Config', all.config],
              ['First target', <code>{all.first.index}</code>],
              ['Why', `${all.first.why}: ${(all.first.because ?? []).join(' ') || 'it is the only one'}`],
              ['Requested model', all.requested_model],
              ['Model that is sent', all.request?.model],
              ['Path at the provider', all.request?.path],
              ['Body', all.request?.body && `${all.request.body}${all.request.translated ? ', translated' : ''}`],
              ['How', all.request?.way],
              ['Cache', all.cache && `${all.cache.mode}: ${all.cache.status}`],
              ['Error', all.request?.error && JSON.stringify(all.request.error)],
            ]}
          />
        </div>
      )}
      {all.then && (
        <Section title="What follows if every attempt fails in this way">
          <Table
            label="What follows a failure"
            rows={all.then as Free[]}
            id={(row) => row.when}
            empty="Nothing."
            columns={[
              { name: 'Failure', cell: (row) => row.when },
              { name: 'Attempts after the first', cell: (row) => (row.tries?.length ? row.tries.map((one: Free) => `${one.index} (${one.why}${one.wait_ms ? `, after ${one.wait_ms.join(' to ')} ms` : ''})`).join(' → ') : 'none: the client gets the failure') },
            ]}
          />
        </Section>
      )}
      {all.hooks && (
        <Section title="Guardrails and hooks">
          <Table label="Hooks" rows={all.hooks as Free[]} id={(row) => `${row.on} ${row.id}`} empty="None." columns={[{ name: 'Id', isLong: true, cell: (row) => row.id }, { name: 'On', cell: (row) => row.on }, { name: 'From', cell: (row) => row.from }, { name: 'Runs', cell: (row) => row.runs }, { name: 'May deny', cell: (row) => (row.deny ? 'yes' : 'no') }, { name: 'Checks', cell: (row) => (row.checks ?? []).map((check: Free) => check.id).join(', ') }]} />
        </Section>
      )}
      {all.limits && (
        <Section title="Limits">
          <Table label="Limits" rows={all.limits as Free[]} id={(_, index) => String(index)} empty="None." columns={[{ name: 'Of', cell: (row) => row.of }, { name: 'Scope', cell: (row) => row.scope }, { name: 'Name', isLong: true, cell: (row) => row.name ?? row.id }, { name: 'Counts', cell: (row) => `${row.type} ${row.unit ?? ''}` }, { name: 'Limit', isNumber: true, cell: (row) => row.limit ?? '–' }, { name: 'Spent', isNumber: true, cell: (row) => row.spent ?? '–' }, { name: 'Would be held', isNumber: true, cell: (row) => row.wanted ?? '–' }, { name: 'Decision', cell: (row) => <Badge tone={row.decision === 'passes' || row.decision === 'reserved' ? 'good' : 'bad'}>{row.decision}</Badge> }]} />
        </Section>
      )}
      <Section title="All of it">
        <Code label="Explanation" text={JSON.stringify(all, null, 2)} />
      </Section>
    </>
  );
}
