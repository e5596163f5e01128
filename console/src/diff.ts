// The lines in which two texts differ. No DOM.

export interface DiffLine {
  sign: ' ' | '+' | '-';
  text: string;
}

const MAX_CELLS = 4_000_000;

/** Lines that are common, removed and added, by the longest common subsequence. Very long texts are replaced as a whole. */
export function diff(before: string, after: string): DiffLine[] {
  const a = before.split('\n');
  const b = after.split('\n');
  if (a.length * b.length > MAX_CELLS) return [...a.map((text): DiffLine => ({ sign: '-', text })), ...b.map((text): DiffLine => ({ sign: '+', text }))];
  const width = b.length + 1;
  const lengths = new Uint32Array((a.length + 1) * width);
  const at = (i: number, j: number): number => lengths[i * width + j] ?? 0;
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) lengths[i * width + j] = a[i] === b[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
  }
  const lines: DiffLine[] = [];
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) lines.push({ sign: ' ', text: a[i++] ?? '' }) && (j += 1);
    else if (i < a.length && (j >= b.length || at(i + 1, j) >= at(i, j + 1))) lines.push({ sign: '-', text: a[i++] ?? '' });
    else lines.push({ sign: '+', text: b[j++] ?? '' });
  }
  return lines;
}
