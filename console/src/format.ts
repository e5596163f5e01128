// Numbers, times and money in the reader's locale. No DOM.

const count = new Intl.NumberFormat();
const compact = new Intl.NumberFormat(undefined, { notation: 'compact', maximumFractionDigits: 1 });
const dateTime = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
const clock = new Intl.DateTimeFormat(undefined, { month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit', second: '2-digit' });
const relative = new Intl.RelativeTimeFormat(undefined, { numeric: 'auto' });

export const NONE = '–';

type Maybe = number | null | undefined;
const isNone = (value: Maybe): value is null | undefined => value === null || value === undefined || Number.isNaN(value);

export const integer = (value: Maybe): string => (isNone(value) ? NONE : count.format(value));
export const short = (value: Maybe): string => (isNone(value) ? NONE : value < 10_000 ? count.format(Math.round(value * 10) / 10) : compact.format(value));
export const percent = (value: Maybe): string => (isNone(value) ? NONE : `${count.format(Math.round(value * 100) / 100)} %`);

/** Dollars, with as many digits as a small amount needs. */
export function dollars(value: Maybe): string {
  if (isNone(value)) return NONE;
  const digits = value === 0 || Math.abs(value) >= 1 ? 2 : Math.abs(value) >= 0.01 ? 4 : 6;
  return new Intl.NumberFormat(undefined, { style: 'currency', currency: 'USD', minimumFractionDigits: 2, maximumFractionDigits: digits }).format(value);
}

/** The API's money is in cents. */
export const cents = (value: Maybe): string => (isNone(value) ? NONE : dollars(value / 100));

export function milliseconds(value: Maybe): string {
  if (isNone(value)) return NONE;
  if (value < 10) return `${count.format(Math.round(value * 100) / 100)} ms`;
  if (value < 1000) return `${count.format(Math.round(value))} ms`;
  return `${count.format(Math.round(value / 10) / 100)} s`;
}

export function bytes(value: Maybe): string {
  if (isNone(value)) return NONE;
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  let left = value;
  while (left >= 1024 && unit + 1 < units.length) {
    left /= 1024;
    unit += 1;
  }
  return `${count.format(Math.round(left * 10) / 10)} ${units[unit]}`;
}

export const time = (text: string | null | undefined): string => (text ? clock.format(new Date(text)) : NONE);
export const fullTime = (text: string | null | undefined): string => (text ? dateTime.format(new Date(text)) : NONE);

/** "in 3 days", "2 hours ago". */
export function ago(text: string | null | undefined, now: number = Date.now()): string {
  if (!text) return NONE;
  const seconds = (new Date(text).getTime() - now) / 1000;
  const steps: [Intl.RelativeTimeFormatUnit, number][] = [['day', 86400], ['hour', 3600], ['minute', 60]];
  for (const [unit, size] of steps) {
    if (Math.abs(seconds) >= size) return relative.format(Math.round(seconds / size), unit);
  }
  return relative.format(Math.round(seconds), 'second');
}

/** A value as one argument of a POSIX shell. */
export const quoted = (text: string): string => (/^[\w@%+:,./-][\w@%+=:,./-]*$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

/** A field of a CSV file. A formula of a spreadsheet is made a text: a client may have chosen its name. */
export function csvField(value: unknown): string {
  let text = value === null || value === undefined ? '' : String(value);
  if (typeof value === 'string' && /^[=+\-@\t\r]/.test(text)) text = `'${text}`;
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export const csv = (rows: unknown[][]): string => rows.map((row) => row.map(csvField).join(',')).join('\r\n') + '\r\n';
