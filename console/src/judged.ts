// What pages say of sums of the log: which statuses are errors, and whether every request had a price. No DOM.

/** The statuses that count as errors, as the API's filter takes them. A stream that broke has the status with which it began. */
export const ERROR_STATUSES = Array.from({ length: 200 }, (_, at) => 400 + at).join(',');

/** How many requests had no price, by the summary of their cost; `null` while there is none. The API names the number where it is not 0. */
export const unpricedOf = (summary: Record<string, any> | null | undefined): number | null => (summary ? Number(summary.unpriced_requests ?? 0) : null);

/** What follows from that number: nothing is said of what was not summed up. */
export function priceNote(unpriced: number | null): string {
  if (unpriced === null) return '';
  return unpriced === 0 ? 'every one has a price' : 'No budget counts what they cost. prices.overlay in the settings gives prices.';
}

export const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** Which of the objects a slug means: one of the settings file before all others, then, if a workspace was named, its own before the organisation's. */
export function meant<T extends { id: string | null; slug: string; workspace_id: string | null }>(rows: T[], slug: string, isOfWorkspace: boolean): T[] {
  const same = rows.filter((row) => row.slug === slug);
  const ofFile = same.filter((row) => row.id === null);
  if (ofFile.length > 0) return ofFile;
  const own = same.filter((row) => row.workspace_id !== null);
  return isOfWorkspace && own.length > 0 ? own : same;
}
