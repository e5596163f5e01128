// What a key has used of each of its limits.
import type { Free } from './client.ts';
import { ago, dollars, integer } from './format.ts';
import { Meter, Table } from './ui.tsx';

export const RATE_UNITS: [string, string][] = [['rps', 'a second'], ['rpm', 'a minute'], ['rph', 'an hour'], ['rpd', 'a day'], ['rpw', 'a week']];
export const unitOf = (name: string): string => RATE_UNITS.find(([id]) => id === name)?.[1] ?? name;

export const amount = (type: string, value: number | null): string => (value === null ? 'no limit' : type === 'cost' ? dollars(value) : integer(value));

/** Whether a bucket is that of a key: `api_key:name-model:gpt-4o`, by the order of what its policy groups by. */
export function isBucketOf(text: string, groupBy: Free[], named: string): boolean {
  const keys = groupBy.map((one) => one.key);
  const next = keys[keys.indexOf('api_key') + 1];
  const part = `-api_key:${named}`;
  return next ? `-${text}`.includes(`${part}-${next}:`) : `-${text}`.endsWith(part);
}

/** The usage that is nearest to its limit, for a list. */
export function Nearest({ usage }: { usage: Free[] | null | undefined }) {
  const limited = (usage ?? []).filter((one) => one.kind === 'usage' && one.limit !== null);
  const nearest = limited.sort((a, b) => b.current_usage / (b.limit || 1) - a.current_usage / (a.limit || 1))[0];
  if (!nearest) return <>–</>;
  return <Meter used={nearest.current_usage} limit={nearest.limit} text={`${amount(nearest.type, nearest.current_usage)} of ${amount(nearest.type, nearest.limit)}`} />;
}

export const Usage = ({ usage }: { usage: Free[] | null | undefined }) => (
  <Table
    label="Limits and what is used of them"
    rows={usage ?? []}
    id={(_, index) => String(index)}
    empty="No limit of its own. Those of its workspace and of policies hold all the same."
    columns={[
      { name: 'Limit', cell: (one) => (one.kind === 'rate' ? `${amount(one.type, one.limit)} ${one.type} ${unitOf(one.unit)}` : `${amount(one.type, one.limit)}${one.type === 'cost' ? '' : ` ${one.type}`}`) },
      { name: 'Used', cell: (one) => (one.limit === null ? amount(one.type, one.current_usage) : <Meter used={one.current_usage} limit={one.limit} text={amount(one.type, one.current_usage)} />) },
      { name: 'Held by requests under way', isNumber: true, cell: (one) => amount(one.type, one.reserved) },
      { name: 'Left', isNumber: true, cell: (one) => (one.remaining === null ? '–' : amount(one.type, one.remaining)) },
      { name: 'Starts anew', cell: (one) => (one.resets_at ? ago(one.resets_at) : 'never') },
    ]}
  />
);
