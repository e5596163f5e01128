// A JSON text with the marks of the server's own check, and the difference between two texts.
import { type DiffLine, diff } from './diff.ts';
import type { Mark } from './json_place.ts';
import { Area } from './ui.tsx';

export function Editor({ label, value, onInput, marks, rows = 22 }: { label: string; value: string; onInput: (value: string) => void; marks: Mark[]; rows?: number }) {
  return (
    <>
      <Area label={label} isCode rows={rows} value={value} onInput={onInput} />
      <Marks marks={marks} text={value} />
    </>
  );
}

function Marks({ marks, text }: { marks: Mark[]; text: string }) {
  if (marks.length === 0) return null;
  const lines = text.split('\n');
  const go = (mark: Mark) => (event: Event): void => {
    const area = (event.currentTarget as Element).closest('.problem')?.parentElement?.querySelector('textarea');
    if (!area) return;
    const begin = lines.slice(0, mark.line - 1).reduce((sum, line) => sum + line.length + 1, 0);
    area.focus();
    area.setSelectionRange(begin, begin + (lines[mark.line - 1]?.length ?? 0));
    area.scrollTop = (mark.line - 4) * (area.scrollHeight / Math.max(1, lines.length));
  };
  return (
    <div class="problem" role="alert">
      <p>The gateway refuses it:</p>
      <ul>
        {marks.map((mark) => (
          <li key={mark.path + mark.message}>
            <button type="button" class="link" onClick={go(mark)}>
              Line {mark.line}
            </button>{' '}
            {mark.path && <code>{mark.path}</code>} {mark.message}
          </li>
        ))}
      </ul>
    </div>
  );
}

export function Diff({ before, after, label }: { before: string; after: string; label: string }) {
  const lines: DiffLine[] = diff(before, after);
  if (lines.every((line) => line.sign === ' ')) return <p class="muted">No difference.</p>;
  return (
    <pre class="diff code" tabIndex={0} role="region" aria-label={label}>
      {lines.map((line, index) => (
        <span key={index} class={line.sign === '+' ? 'plus' : line.sign === '-' ? 'minus' : ''}>
          {line.sign} {line.text}
        </span>
      ))}
    </pre>
  );
}

/** JSON as people write it. */
export function pretty(value: unknown): string {
  if (typeof value !== 'string') return JSON.stringify(value, null, 2);
  try {
    return JSON.stringify(JSON.parse(value), null, 2);
  } catch {
    return value;
  }
}
