// A form that a table of fields describes: it sends what was written or changed, and keeps it where the gateway refuses it.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { ApiError, type Free, may } from './client.ts';
import { type FieldSpec, type Input, bodyOf, inputOf, merged, shownFields, textOf } from './fields.ts';
import { useBusy, useGet } from './hooks.ts';
import { LimitFields, isSimple, limitChanges, limitInput } from './limit_form.tsx';
import { Area, Choice, Field, Problem, TextField } from './ui.tsx';

/** Those of more than a line. */
const AREAS: (string | undefined)[] = ['area', 'code', 'json', 'either', 'conditions', 'roles'];

/** Limits as the API has them: several, of tokens, hard ones. */
const RAW_LIMITS: FieldSpec[] = [
  { name: 'usage_limits', label: 'Budgets, JSON', kind: 'json', help: 'Such as {"type": "tokens", "credit_limit": 1000000, "hard": true}; of a workspace also a list. A member that is left out of one stays as it is; null takes it away.' },
  { name: 'rate_limits', label: 'Rates, JSON', kind: 'json', help: 'Such as [{"type": "tokens", "unit": "rpm", "value": 100000}].' },
];

/** What the short form has, as JSON: with the members of the one limit that it has no fields for. */
function rawLimits(before: Free | null, changes: Free): Input {
  const all = Object.entries(changes).map(([name, value]) => [name, value && { ...[before?.[name] ?? {}].flat()[0], ...value }]);
  return Object.fromEntries(RAW_LIMITS.map((field) => [field.name, textOf(field, { ...before, ...Object.fromEntries(all) })]));
}

interface FormProps {
  fields: FieldSpec[];
  /** What is changed; `null`: a new one is made. */
  before: Free | null;
  /** Whether it has `usage_limits` and `rate_limits` of its own. */
  hasLimits?: boolean | undefined;
  /** What its buttons say; `save` gets which of them it was. */
  buttons: string[];
  save: (body: Free, button: string) => Promise<unknown>;
}

export function Form({ fields: all, before, hasLimits = false, buttons, save }: FormProps) {
  const [isRaw, setRaw] = useState(hasLimits && before !== null && !isSimple(before));
  const fields = useMemo(() => shownFields(isRaw ? [...all, ...RAW_LIMITS] : all, before === null), [all, isRaw, before === null]);
  const begun = useMemo(() => inputOf(fields, before), [fields, before]);
  const limitsBegun = useMemo(() => limitInput(before ?? {}), [before]);
  const [input, setInput] = useState<Input>(begun);
  const [limits, setLimits] = useState(limitsBegun);
  const [error, setError] = useState<Error | null>(null);
  const [isBusy, run] = useBusy();
  const form = useRef<HTMLFormElement>(null);
  const shown = useRef({ input: begun, limits: limitsBegun });
  const sent = useRef<typeof shown.current | null>(null);
  useEffect(() => {
    const { current: before } = shown;
    const { current: saved } = sent;
    shown.current = { input: begun, limits: limitsBegun };
    sent.current = null;
    setInput((input) => merged(input, before.input, begun, saved?.input ?? null));
    setLimits((limits) => merged(limits, before.limits, limitsBegun, saved?.limits ?? null));
  }, [begun, limitsBegun]);
  const isChanged = JSON.stringify([input, limits]) !== JSON.stringify([begun, limitsBegun]);
  const isIdle = isBusy || (before !== null && !isChanged);
  useKept(isChanged && !isBusy);

  const send = async (button: string): Promise<void> => {
    setError(null);
    try {
      const changes = hasLimits && !isRaw ? limitChanges(limits, limitsBegun) : {};
      sent.current = { input, limits };
      await save({ ...bodyOf(fields, input, before), ...changes }, button);
      // A secret that was sent is nowhere in the page.
      setInput((now) => ({ ...now, ...Object.fromEntries(fields.filter(({ kind, name }) => kind === 'secret' && now[name] === input[name]).map(({ name }) => [name, ''])) }));
    } catch (why) {
      sent.current = null;
      setError(why as Error);
      // To the first field that is wrong.
      const wrong = why instanceof ApiError ? why.details.map((detail) => fields.findIndex((field) => detail.path.startsWith(field.name))).filter((at) => at >= 0) : [];
      if (wrong.length > 0) form.current?.querySelector<HTMLElement>(`[data-field="${Math.min(...wrong)}"] :is(input, textarea, select)`)?.focus();
    }
  };
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    if (isIdle) return;
    void run(() => send((event.submitter as HTMLButtonElement | null)?.value || (buttons[0] ?? '')));
  };
  return (
    <form class="form card" ref={form} onSubmit={submit}>
      <div class="fields">
        {fields.map((field, at) => (
          <div key={field.name} data-field={at} class={AREAS.includes(field.kind) || field.kind === 'flag' || ['name', 'description'].includes(field.name) || (field.help?.length ?? 0) > 60 ? 'whole' : ''}>
            <One field={field} value={input[field.name] ?? ''} onInput={(value) => setInput((input) => ({ ...input, [field.name]: value }))} />
          </div>
        ))}
      </div>
      {hasLimits && !isRaw && (
        <>
          <LimitFields input={limits} set={setLimits} hasExpiry={false} />
          <p>
            <button type="button" class="link" onClick={() => { setInput({ ...input, ...rawLimits(before, limitChanges(limits, limitsBegun)) }); setLimits(limitsBegun); setRaw(true); }}>
              Limits of tokens, hard or several limits
            </button>
          </p>
        </>
      )}
      <Problem error={error} />
      <div class="actions">
        {buttons.map((button, at) => (
          <button key={button} type="submit" value={button} class={at === 0 ? 'primary' : ''} disabled={isIdle}>
            {button}
          </button>
        ))}
        {isChanged && before !== null && (
          <button type="button" onClick={() => { setInput(begun); setLimits(limitsBegun); setError(null); }}>
            Undo changes
          </button>
        )}
      </div>
    </form>
  );
}

let kept = 0;
/** Whether nothing is lost by leaving the page, or it may be. */
export const mayLeave = (): boolean => kept === 0 || window.confirm('What you have written is not saved. Leave it?');

/** Asks before a page is left or closed on which something is written and not saved. */
export function useKept(isWritten: boolean): void {
  useLayoutEffect(() => {
    if (!isWritten) return;
    kept += 1;
    const stay = (event: Event): void => event.preventDefault();
    window.addEventListener('beforeunload', stay);
    return () => {
      kept -= 1;
      window.removeEventListener('beforeunload', stay);
    };
  }, [isWritten]);
}

function One({ field, value, onInput }: { field: FieldSpec; value: string; onInput: (value: string) => void }) {
  const { label, help, kind = 'text', from } = field;
  const isListed = from && may(from.scope);
  const found = useGet<{ data: Free[] }>(isListed ? from.path : null);
  // A text where there is nothing to choose from.
  const options = field.options ?? (isListed && !found.error ? (found.data?.data ?? []).map((row): [string, string] => [String(row[from.value]), row.name ?? row[from.value]]) : null);
  if (kind === 'choice' && options) return <Choice label={label} help={help} value={value} options={field.required && value ? options : [['', field.placeholder ?? (field.required ? 'choose one' : 'none')], ...options, ...(field.all ? [['*', field.all] as [string, string]] : [])]} onChange={onInput} />;
  if (kind === 'flag') {
    return (
      <div class="check">
        <Field label={label} help={help}>
          {(id, described) => <input id={id} type="checkbox" aria-describedby={described} checked={value === 'true'} onChange={(event) => onInput(event.currentTarget.checked ? 'true' : '')} />}
        </Field>
      </div>
    );
  }
  if (AREAS.includes(kind)) return <Area label={label} help={help} isCode={kind !== 'area'} rows={Math.max(kind === 'code' ? 10 : 3, Math.min(20, value.split('\n').length + 1))} value={value} onInput={onInput} />;
  const type = { number: 'number', time: 'datetime-local', secret: 'password' }[kind as string] ?? 'text';
  return <TextField label={label} help={help} type={type} value={value} onInput={onInput} {...(kind === 'number' ? { min: '0', step: 'any' } : {})} {...(kind === 'secret' ? { autocomplete: 'off' } : {})} required={field.required ?? false} placeholder={field.placeholder ?? ''} />;
}
