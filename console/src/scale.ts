// Ticks of axes. No DOM.

/** Three to five round values from 0 to at least `max`. */
export function ticks(max: number): number[] {
  if (!(max > 0)) return [0, 1];
  const raw = max / 4;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((step) => step >= raw) ?? raw;
  const found: number[] = [];
  for (let at = 0; at < max + step; at += step) found.push(Number(at.toPrecision(12)));
  return found;
}

/** The places in a list of `count` at which a label stands: the first, the last, and some between, evenly. */
export function places(count: number, most: number): number[] {
  const every = Math.max(1, Math.ceil(count / Math.max(1, most)));
  return Array.from({ length: Math.ceil(count / every) }, (_, at) => at * every);
}
