// What a key has used of each of its limits.
import type { Free } from './client.ts';
import { ago, dollars, integer } from './format.ts';
import { Meter, Table } from './ui.tsx';

export const RATE_UNITS: [string, string][] = [['rps', 'a second'], ['rpm', 'a minute'], ['rph', 'an hour'], ['rpd', 'a day'], ['rpw', 'a week']];
export const unitOf = (name: string): string => RATE_UNITS.find(([id]) => id === name)?.[1] ?? name;

export const amount = (type: string, value: number | null): string => (value === null ? 'no limit' : type === 'cost' ? dollars(value) : integer(value));

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
    empty="No limit. Those of its workspace and of policies hold all the same."
    columns={[
      ...((usage ?? []).some((one) => one.scope) ? [{ name: 'Of', isLong: true, cell: (one: Free) => (one.scope === 'policy' ? <a href={`/console/limits/${one.kind === 'rate' ? 'rates' : 'usage'}/${one.id}`}>{one.name}</a> : `the ${one.scope}`) }] : []),
      { name: 'Limit', cell: (one) => (one.kind === 'rate' ? `${amount(one.type, one.limit)} ${one.type} ${unitOf(one.unit)}` : `${amount(one.type, one.limit)}${one.type === 'cost' ? '' : ` ${one.type}`}`) },
      { name: 'Used', cell: (one) => (one.used === null ? (one.depends_on.length ? `depends on ${one.depends_on.join(', ')}` : 'counts other workspaces') : one.limit === null ? amount(one.type, one.current_usage) : <Meter used={one.current_usage} limit={one.limit} text={amount(one.type, one.current_usage)} />) },
      { name: 'Held by requests under way', isNumber: true, cell: (one) => (one.used === null ? '–' : amount(one.type, one.reserved)) },
      { name: 'Left', isNumber: true, cell: (one) => ((one.remaining ?? null) === null ? '–' : amount(one.type, one.remaining)) },
      { name: 'Starts anew', cell: (one) => (one.used === null ? '–' : one.resets_at ? ago(one.resets_at) : 'never') },
    ]}
  />
);
