// The parts that pages are made of. All text is inserted as text: no part takes HTML.
import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import { ApiError } from './client.ts';
import { NONE, ago, fullTime, time } from './format.ts';
import { notify, useBusy } from './hooks.ts';
import { RANGES } from './ranges.ts';

type Children = { children?: ComponentChildren };

export function Page({ title, lead, actions, children }: Children & { title: ComponentChildren; lead?: ComponentChildren; actions?: ComponentChildren }) {
  const name = typeof title === 'string' ? title : null;
  useEffect(() => {
    if (name) document.title = `${name} – Turnpike`;
  }, [name]);
  return (
    <main class="page" id="main" tabIndex={-1}>
      <header class="page-head">
        <div class="page-title">
          <h1>{title}</h1>
          {lead && <p class="lead">{lead}</p>}
        </div>
        {actions && <div class="actions">{actions}</div>}
      </header>
      {children}
    </main>
  );
}

export function Section({ title, actions, children }: Children & { title: ComponentChildren; actions?: ComponentChildren }) {
  return (
    <section class="section">
      <div class="section-head">
        <h2>{title}</h2>
        {actions && <div class="actions">{actions}</div>}
      </div>
      {children}
    </section>
  );
}

export const Loading = () => <p class="loading" role="status">Loading …</p>;

/** What a value is, and the value. */
export function Stat({ name, value, note, tone }: { name: string; value: ComponentChildren; note?: ComponentChildren; tone?: Tone | undefined }) {
  return (
    <div class={`stat ${tone ?? ''}`}>
      <div class="stat-name">{name}</div>
      <div class="stat-value">{value}</div>
      {note && <div class="stat-note">{note}</div>}
    </div>
  );
}

export type Tone = 'good' | 'warn' | 'bad' | 'quiet';

export const Badge = ({ tone = 'quiet', children }: Children & { tone?: Tone }) => <span class={`badge ${tone}`}>{children}</span>;

export function Status({ code }: { code: number | null | undefined }) {
  if (!code) return <Badge>{NONE}</Badge>;
  return <Badge tone={code < 400 ? 'good' : code < 500 ? 'warn' : 'bad'}>{code}</Badge>;
}

export const Time = ({ at }: { at: string | null | undefined }) => (at ? <time dateTime={at} title={fullTime(at)}>{time(at)}</time> : <>{NONE}</>);
export const Ago = ({ at }: { at: string | null | undefined }) => (at ? <time dateTime={at} title={fullTime(at)}>{ago(at)}</time> : <>{NONE}</>);

export interface Column<T> {
  name: string;
  cell: (row: T) => ComponentChildren;
  isNumber?: boolean;
  /** For texts of any length, which are cut. */
  isLong?: boolean;
  /** Sorts, where the list is a whole one. */
  by?: (row: T) => number | string;
}

/** `rows`: `null` while they load, `undefined` where they could not be loaded, which a `Problem` says. */
export function Table<T>({ label, columns, rows, empty, id, order, onOrder }: { label: string; columns: Column<T>[]; rows: T[] | null | undefined; empty: ComponentChildren; id: (row: T, index: number) => string; order?: string | undefined; onOrder?: (order: string) => void }) {
  if (rows === undefined) return null;
  if (rows === null) return <Loading />;
  if (rows.length === 0) return <div class="empty">{empty}</div>;
  const [name, direction] = (order ?? '').split(':');
  const sortedBy = columns.find((column) => column.by && column.name === name);
  const shown = sortedBy?.by ? sorted(rows, sortedBy.by, direction === 'asc') : rows;
  const heading = (column: Column<T>) => {
    if (!column.by || !onOrder) return column.name;
    const next = column.name === name && direction === 'desc' ? 'asc' : 'desc';
    return (
      <button type="button" class="order" onClick={() => onOrder(`${column.name}:${next}`)}>
        {column.name}
        <span aria-hidden="true">{column.name === name ? (direction === 'asc' ? '↑' : '↓') : ''}</span>
      </button>
    );
  };
  return (
    <div class="table-box" tabIndex={0} role="region" aria-label={label}>
      <table>
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column.name} scope="col" class={column.isNumber ? 'number' : ''} aria-sort={column.name === name ? (direction === 'asc' ? 'ascending' : 'descending') : undefined}>
                {heading(column)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {shown.map((row, index) => (
            <tr key={id(row, index)}>
              {columns.map((column) => (
                <td key={column.name} class={`${column.isNumber ? 'number' : ''} ${column.isLong ? 'long' : ''}`}>
                  {column.isLong ? <div dir="auto">{column.cell(row)}</div> : column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function sorted<T>(rows: T[], by: (row: T) => number | string, isAscending: boolean): T[] {
  const sign = isAscending ? 1 : -1;
  const compare = (a: number | string, b: number | string): number => (typeof a === 'string' || typeof b === 'string' ? String(a).localeCompare(String(b)) : a - b);
  return [...rows].sort((a, b) => sign * compare(by(a), by(b)));
}

/** What to do about an error, where the gateway's own text does not say. */
const HINTS: Record<number, string> = {
  403: 'Another key may: sign out below the menu, and sign in with it. What you have written here is then gone.',
  404: 'It may have been deleted, or be of a workspace that this key does not see.',
  409: 'Load the page again to see what is there now.',
  503: 'Requests go on meanwhile. Try again in a moment; the page of this node says what does not respond.',
};

/** What went wrong, with each place of it. */
export function Problem({ error, retry }: { error: Error | null; retry?: () => void }) {
  if (!error) return null;
  const details = error instanceof ApiError ? error.details.filter((detail) => detail.message !== error.message) : [];
  return (
    <div class="problem" role="alert">
      <p>{error.message}</p>
      {details.length > 0 && (
        <ul>
          {details.map((detail) => (
            <li key={detail.path + detail.message}>
              {detail.path && <code>{detail.path}</code>} {detail.message}
            </li>
          ))}
        </ul>
      )}
      {error instanceof ApiError && HINTS[error.status] && <p class="help">{HINTS[error.status]}</p>}
      {retry && (
        <button type="button" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  );
}

export function Field({ label, help, children }: { label: string; help?: ComponentChildren; children: (id: string, help: string | undefined) => ComponentChildren }) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {children(id, help ? `${id}-help` : undefined)}
      {help && (
        <p class="help" id={`${id}-help`}>
          {help}
        </p>
      )}
    </div>
  );
}

export function TextField({ label, help, value, onInput, ...rest }: { label: string; help?: ComponentChildren; value: string; onInput: (value: string) => void; type?: string; required?: boolean; placeholder?: string; autocomplete?: string; min?: string; step?: string; autofocus?: boolean; spellcheck?: boolean; list?: string }) {
  return (
    <Field label={label} help={help}>
      {(id, described) => <input id={id} aria-describedby={described} dir="auto" value={value} onInput={(event) => onInput(event.currentTarget.value)} {...(rest as object)} />}
    </Field>
  );
}

export function Area({ label, help, value, onInput, rows = 6, isCode = false }: { label: string; help?: ComponentChildren; value: string; onInput: (value: string) => void; rows?: number; isCode?: boolean }) {
  return (
    <Field label={label} help={help}>
      {(id, described) => <textarea id={id} aria-describedby={described} dir={isCode ? 'ltr' : 'auto'} class={isCode ? 'code' : ''} rows={rows} spellcheck={!isCode} value={value} onInput={(event) => onInput(event.currentTarget.value)} />}
    </Field>
  );
}

export function Choice({ label, value, options, onChange, help }: { label: string; value: string; options: [string, string][]; onChange: (value: string) => void; help?: ComponentChildren }) {
  const all = options.some(([option]) => option === value) ? options : [...options, [value, value] as [string, string]];
  return (
    <Field label={label} help={help}>
      {(id, described) => (
        <select id={id} aria-describedby={described} value={value} onChange={(event) => onChange(event.currentTarget.value)}>
          {all.map(([option, text]) => (
            <option key={option} value={option} selected={option === value}>
              {text}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}

export const Range = ({ value, onChange }: { value: string; onChange: (value: string) => void }) => (
  <Choice label="Time" value={value} options={RANGES.map(([range, text]) => [range, `Last ${text}`])} onChange={onChange} />
);

/** A dialog of the browser: it keeps the focus, and Escape closes it, unless it `isKept`: then only what is in it does. */
export function Dialog({ title, onClose, isKept = false, children }: Children & { title: string; onClose: () => void; isKept?: boolean }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => dialog.current?.showModal(), []);
  // A browser may close it at a second Escape whatever the page says: then it is opened again.
  const closed = (): void => (isKept ? dialog.current?.showModal() : onClose());
  const stay = (event: Event): void => void (isKept && event.preventDefault());
  return (
    <dialog ref={dialog} aria-labelledby={id} onCancel={stay} onClose={closed}>
      <div class="dialog-head">
        <h2 id={id}>{title}</h2>
        {!isKept && (
          <button type="button" class="plain" aria-label="Close" onClick={() => dialog.current?.close()}>
            ×
          </button>
        )}
      </div>
      {children}
    </dialog>
  );
}

/** Asks before what cannot be undone, or changes what requests get. */
export function Confirm({ title, children, action, onConfirm, onClose }: Children & { title: string; action: string; onConfirm: () => Promise<unknown>; onClose: () => void }) {
  const [error, setError] = useState<Error | null>(null);
  const [isBusy, run] = useBusy();
  const confirm = (): Promise<void> =>
    run(async () => {
      try {
        await onConfirm();
        onClose();
      } catch (why) {
        setError(why as Error);
      }
    });
  return (
    <Dialog title={title} onClose={onClose}>
      {children}
      <Problem error={error} />
      <div class="actions end">
        <button type="button" onClick={onClose}>
          Cancel
        </button>
        <button type="button" class="danger" disabled={isBusy} onClick={confirm}>
          {action}
        </button>
      </div>
    </Dialog>
  );
}

export function Copy({ text, label = 'Copy' }: { text: string; label?: string }) {
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(text);
      notify('Copied.');
    } catch {
      notify('The browser does not let this page copy. Select the text instead.', true);
    }
  };
  return (
    <button type="button" onClick={copy}>
      {label}
    </button>
  );
}

/** A secret that is here only now. */
export function Secret({ text, onDone }: { text: string; onDone: () => void }) {
  return (
    <div class="secret">
      <p>
        <strong>Copy it now: it is never shown again.</strong>
      </p>
      <code class="secret-text">{text}</code>
      <div class="actions">
        <Copy text={text} label="Copy key" />
        <button type="button" class="primary" onClick={onDone}>
          I have it
        </button>
      </div>
    </div>
  );
}

export const Code = ({ text, label }: { text: string; label: string }) => (
  <div class="code-box">
    <pre tabIndex={0} aria-label={label} role="region">
      <code>{text}</code>
    </pre>
    <Copy text={text} />
  </div>
);

export function Pager({ page, size, total, isExact = true, onPage }: { page: number; size: number; total: number; isExact?: boolean; onPage: (page: number) => void }) {
  const last = Math.max(0, Math.ceil(total / size) - 1);
  if (last === 0 && page === 0) return null;
  return (
    <nav class="pager" aria-label="Pages">
      <button type="button" disabled={page === 0} onClick={() => onPage(page - 1)}>
        ← Newer
      </button>
      <span>
        Page {page + 1} of {isExact ? last + 1 : `${last + 1} or more`}
      </span>
      <button type="button" disabled={isExact && page >= last} onClick={() => onPage(page + 1)}>
        Older →
      </button>
    </nav>
  );
}

/** How much of a limit is used. */
export function Meter({ used, limit, text }: { used: number; limit: number; text: string }) {
  const share = limit > 0 ? Math.min(1, used / limit) : 1;
  return (
    <div class="meter">
      <meter min={0} max={1} high={0.8} value={share} aria-label={text} />
      <span>{text}</span>
    </div>
  );
}

export const Facts = ({ pairs }: { pairs: [string, ComponentChildren][] }) => (
  <dl class="facts">
    {pairs
      .filter(([, value]) => value !== null && value !== undefined && value !== '')
      .map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd dir="auto">{value}</dd>
        </div>
      ))}
  </dl>
);
