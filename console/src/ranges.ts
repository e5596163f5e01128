// Ranges of time as they stand in the URL: `24h`, or two times with a slash between them. No DOM.

export const RANGES: [string, string][] = [['15m', '15 minutes'], ['1h', 'hour'], ['24h', '24 hours'], ['7d', '7 days'], ['30d', '30 days'], ['90d', '90 days']];

const UNITS: Record<string, number> = { m: 60_000, h: 3_600_000, d: 86_400_000 };

/** The parameters of the API for a range. What cannot be read is the default. */
export function rangeParams(range: string | undefined, fallback: string, now: number = Date.now()): { time_of_generation_min: string; time_of_generation_max: string } {
  const [from, to] = rangeTimes(range, fallback, now);
  return { time_of_generation_min: new Date(from).toISOString(), time_of_generation_max: new Date(to).toISOString() };
}

export function rangeTimes(range: string | undefined, fallback: string, now: number = Date.now()): [number, number] {
  const [from, to] = (range ?? '').split('/').map((text) => new Date(text).getTime());
  if (from !== undefined && to !== undefined && from < to) return [from, to];
  const read = (text: string): number | null => {
    const found = /^(\d{1,4})([mhd])$/.exec(text);
    return found ? Number(found[1]) * (UNITS[found[2] ?? ''] ?? 0) : null;
  };
  // Rounded to the second, so that the same range is the same question.
  const end = Math.ceil(now / 1000) * 1000;
  return [end - (read(range ?? '') ?? read(fallback) ?? 86_400_000), end];
}

/** A query string of the parameters that have a value. */
export function query(params: Record<string, string | number | boolean | null | undefined>): string {
  const pairs = Object.entries(params).filter(([, value]) => value !== null && value !== undefined && value !== '');
  const text = pairs.map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(String(value))}`).join('&');
  return text ? `?${text}` : '';
}

/** When the day or month began, in the reader's zone. */
export function startOf(what: 'day' | 'month', now: Date = new Date()): string {
  return new Date(now.getFullYear(), now.getMonth(), what === 'day' ? now.getDate() : 1).toISOString();
}

/** What a sum since the month's first day will be at its end, at the same rate. */
export function projected(sum: number, now: Date = new Date()): number {
  const begin = new Date(now.getFullYear(), now.getMonth(), 1).getTime();
  const end = new Date(now.getFullYear(), now.getMonth() + 1, 1).getTime();
  return (sum * (end - begin)) / Math.max(now.getTime() - begin, 60_000);
}
