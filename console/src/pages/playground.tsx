// A chat with one target or two side by side, streamed, with the key of the session; and the same request as curl.
import { useEffect, useRef, useState } from 'preact/hooks';
import { ApiError, type Free, get, may, stream } from '../client.ts';
import { curl, dataBase } from '../curl.ts';
import { take } from '../given.ts';
import { syntaxMark } from '../json_place.ts';
import { pieceOf, read } from '../events.ts';
import { cents, integer, milliseconds } from '../format.ts';
import { useFilters, useGet } from '../hooks.ts';
import { query } from '../ranges.ts';
import { Area, Code, Page, Problem, Section, Status, TextField } from '../ui.tsx';

interface Answer {
  status: number | null;
  text: string;
  error: Error | null;
  isRunning: boolean;
  first: number | null;
  all: number | null;
  usage: Record<string, number> | null;
  log: Free | null;
}

const NOTHING: Answer = { status: null, text: '', error: null, isRunning: false, first: null, all: null, usage: null, log: null };

/** What names a target: a saved config, or `@slug` of a provider. */
const headersOf = (target: string): Record<string, string> => (!target ? {} : target.startsWith('@') ? { provider: target } : { config: target });

export function Playground() {
  const [filters, setFilters] = useFilters();
  const isDouble = filters.two === '1';
  const [given] = useState(take);
  // Another page's request, or any other that has more than a message.
  const [raw, setRaw] = useState<string | null>(given ? JSON.stringify(given.body, null, 2) : null);
  const [system, setSystem] = useState('');
  const [text, setText] = useState('Hello');
  const [streams, setStreams] = useState(true);
  const [sides, setSides] = useState(() => [given?.target ?? filters.target ?? '', ''].map((target) => ({ target, model: String(given?.body.model ?? filters.model ?? 'gpt-4o-mini') })));
  const [answers, setAnswers] = useState<Answer[]>([NOTHING, NOTHING]);
  const aborter = useRef<AbortController | null>(null);
  useEffect(
    () => () => {
      aborter.current?.abort();
      aborter.current = null;
    },
    [],
  );
  const configs = useGet<{ data: Free[] }>(may('configs.list') ? '/v1/configs?page_size=200' : null);
  const providers = useGet<{ data: Free[] }>(may('providers.list') ? '/v1/providers?page_size=200' : null);
  if (!may('completions.write')) {
    return (
      <Page title="Playground">
        <div class="empty">
          The key you have signed in with may not send requests: it lacks the scope <code>completions.write</code>. The administrator's key of the first start is only for the control plane. <a href="/console/keys">Make a key</a> for clients, and sign in with it.
        </div>
      </Page>
    );
  }
  const shown = isDouble ? [0, 1] : [0];
  const wrong = raw === null ? null : syntaxMark(raw);
  const body = (side: number): Free => {
    const written = raw === null ? { messages: [...(system ? [{ role: 'system', content: system }] : []), { role: 'user', content: text }] } : wrong ? {} : (JSON.parse(raw) as Free);
    return { ...written, model: sides[side]?.model, stream: streams || undefined };
  };

  const ask = async (side: number, own: AbortController): Promise<void> => {
    const { signal } = own;
    // A run that another one has followed writes nothing more; one that was stopped still says that it has ended.
    const put = (change: Partial<Answer>): void => {
      if (aborter.current === own) setAnswers((all) => all.map((answer, at) => (at === side ? { ...answer, ...change } : answer)));
    };
    const begun = performance.now();
    const trace = crypto.randomUUID();
    put({ ...NOTHING, isRunning: true });
    try {
      const response = await stream('POST', `/console/chat/completions${query({ ...headersOf(sides[side]?.target ?? ''), trace_id: trace })}`, body(side), signal);
      put({ status: response.status });
      let answer = '';
      if (response.headers.get('content-type')?.startsWith('text/event-stream')) {
        await read(response, (data) => {
          for (const piece of data.map(pieceOf)) {
            if (piece.error) put({ error: new Error(piece.error) });
            if (piece.text && !answer) put({ first: performance.now() - begun });
            answer += piece.text;
            put({ text: answer, ...(piece.usage ? { usage: piece.usage } : {}) });
          }
        });
      } else {
        const whole = await response.text();
        const piece = pieceOf(whole);
        put({ text: piece.text || whole, usage: piece.usage ?? null });
      }
    } catch (why) {
      if (!signal.aborted) put({ error: why as Error, status: why instanceof ApiError && why.status > 0 ? why.status : null });
    }
    put({ isRunning: false, all: performance.now() - begun });
    if (!may('logs.view')) return;
    const log = await lookUp(trace, () => aborter.current === own);
    if (log) put({ log });
  };

  /** The log is written a moment after the request. */
  const lookUp = async (trace: string, isWanted: () => boolean): Promise<Free | null> => {
    for (let round = 0; round < 5 && isWanted(); round += 1) {
      await new Promise((resolve) => setTimeout(resolve, 400 * (round + 1)));
      const log = await get(`/v1/logs/${trace}`).catch(() => null);
      if (log) return log;
    }
    return null;
  };

  const isUnfit = raw === null ? !text : wrong !== null;
  const send = (event: Event): void => {
    event.preventDefault();
    if (isUnfit) return;
    aborter.current?.abort();
    const own = new AbortController();
    aborter.current = own;
    setAnswers([NOTHING, NOTHING]);
    shown.forEach((side) => void ask(side, own));
  };
  const isRunning = answers.some((answer) => answer.isRunning);
  const setSide = (side: number, change: Partial<{ target: string; model: string }>): void => setSides((all) => all.map((one, at) => (at === side ? { ...one, ...change } : one)));

  return (
    <Page
      title="Playground"
      lead="Sends real requests with the key you have signed in with: they cost what they cost, and are logged."
      actions={
        <span class="check">
          <input type="checkbox" id="two" checked={isDouble} onChange={(event) => setFilters({ two: event.currentTarget.checked ? '1' : '' }, true)} />
          <label for="two">Two side by side</label>
        </span>
      }
    >
      <datalist id="targets">
        {[...(configs.data?.data ?? []).map((config) => config.slug), ...(providers.data?.data ?? []).map((provider) => `@${provider.slug}`)].map((target) => (
          <option key={target} value={target} />
        ))}
      </datalist>
      <form class="section" onSubmit={send}>
        <div class="sides">
          {shown.map((side) => (
            <div class="row" key={side}>
              <TextField label={isDouble ? `Config or @provider, ${side + 1}` : 'Config or @provider'} value={sides[side]?.target ?? ''} onInput={(target) => setSide(side, { target })} list="targets" placeholder="the default" spellcheck={false} />
              <TextField label={isDouble ? `Model, ${side + 1}` : 'Model'} value={sides[side]?.model ?? ''} onInput={(model) => setSide(side, { model })} required spellcheck={false} />
            </div>
          ))}
        </div>
        {raw === null ? (
          <>
            <Area label="System prompt" value={system} onInput={setSystem} rows={2} />
            <Area label="Message" value={text} onInput={setText} rows={4} />
          </>
        ) : (
          <Area label="Body, JSON" help={wrong ? `Line ${wrong.line}: ${wrong.message}` : 'The model and whether it streams are those of the form.'} isCode rows={14} value={raw} onInput={setRaw} />
        )}
        <div class="actions">
          <button type="submit" class="primary" disabled={isUnfit}>
            Send
          </button>
          {isRunning && (
            <button type="button" onClick={() => aborter.current?.abort()}>
              Stop
            </button>
          )}
          <span class="check">
            <input type="checkbox" id="streams" checked={streams} onChange={(event) => setStreams(event.currentTarget.checked)} />
            <label for="streams">Stream</label>
          </span>
          <button type="button" class="link" onClick={() => setRaw(raw === null ? JSON.stringify({ messages: body(0).messages }, null, 2) : null)}>
            {raw === null ? 'Write the whole body' : 'Write a message only'}
          </button>
        </div>
      </form>
      <div class="sides">
        {shown.map((side) => (
          <Shown key={side} answer={answers[side] ?? NOTHING} name={isDouble ? `Response ${side + 1}` : 'Response'} />
        ))}
      </div>
      <Section title="As curl">
        {shown.map((side) => (
          <Code key={side} label={`Request ${side + 1} as curl`} text={curl(dataBase(), '/v1/chat/completions', 'POST', Object.fromEntries(Object.entries(headersOf(sides[side]?.target ?? '')).map(([name, value]) => [`x-gateway-${name}`, value])), body(side))} />
        ))}
      </Section>
    </Page>
  );
}

function Shown({ answer, name }: { answer: Answer; name: string }) {
  const log = answer.log?.metrics;
  return (
    <Section title={name}>
      <div class="card">
        <div class="answer" dir="auto" aria-live="polite" aria-busy={answer.isRunning}>
          {answer.text || <span class="muted">{answer.isRunning ? 'Waiting for the first token …' : answer.all === null ? 'Nothing was sent yet.' : ''}</span>}
        </div>
        <Problem error={answer.error} />
        {answer.all !== null && (
          <p class="help">
            {answer.status !== null && answer.status !== 200 && <><Status code={answer.status} />{answer.status === 246 && ' A guardrail failed and lets responses pass.'} </>}
            {answer.first !== null && <>First token after {milliseconds(answer.first)}. </>}
            {milliseconds(answer.all)} in all. {answer.usage && <>{integer(answer.usage.prompt_tokens)} tokens in, {integer(answer.usage.completion_tokens)} out. </>}
            {log && (
              <>
                {cents(log.cost)} at {log.virtual_key ?? log.ai_org ?? 'no provider'}. <a href={`/console/requests/${answer.log?.id}`}>The request</a>
              </>
            )}
          </p>
        )}
      </div>
    </Section>
  );
}
